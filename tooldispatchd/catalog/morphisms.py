"""Tools and processes as what they do: morphisms, `lift` between them, and `lower`, where it can be. Pure.

    base category      Morphism        one message in, exactly one out       A -> B
    streams            StreamMorphism  streams in, streams out              !A -> !B

`lift` runs a tool over every message of a stream. `lower` makes a tool of a process: it feeds one message and takes the
one result, so `lower(lift(f))` is `f`; the converse does not hold. Only total kinds can be lowered, and that a process
kept to it is seen at each run as well. Where a type promises too little, `guarded` and `promised` look at each message.

What streams hold at one moment is a `Bundle`. Nothing here waits: a morphism is a generator that yields an `Invoke` for
what must be run elsewhere, is sent the result, and returns its own; and None where it has worked for a while and others
may have their turn. It raises `StageError` where a stage fails.
"""

import math
from collections.abc import Callable, Generator, Iterable
from typing import Final, cast

import msgspec

from tooldispatchd.catalog.meanings import Declared, resolve, strip_stream, to_schema
from tooldispatchd.catalog.schemas import Check, compile_check
from tooldispatchd.catalog.types import UNIT, Product, Stream, Type

# Streams double in each `copy` that is merged again.
MAX_MESSAGES: Final = 64
# A program of so few stages gives its result at once: each may evaluate an expression, of which one costs 1 ms at
# most. One with more of them pauses between two stages, and after so many messages of one.
MAX_NOW: Final = 4
MESSAGES_A_TURN: Final = 4

_NOT_ONE: Final = "it gave {} for one: a tool gives exactly one"

TOTAL: Final = frozenset({"id", "map", "copy", "discard", "agent", "plumb", "lift"})
"""The kinds of process that give exactly one message for each that they take, and so can be lowered."""

Bundle = list[object] | tuple["Bundle", ...]
"""The messages of a stream, in order; of a product of streams a tuple; of `unit` an empty one."""


class Invoke(msgspec.Struct, frozen=True):
    """Run something on one message: the agent process of this name, or the tool where `is_tool`."""

    name: str
    value: object
    is_tool: bool = False


Work = Generator[Invoke | None, object, object]
"""A run of a morphism: it is sent the result of each `Invoke`; to throw a `StageError` into it ends it with that."""
Flow = Generator[Invoke | None, object, Bundle]


class Broken(msgspec.Struct, frozen=True):
    """A message that is not of the type that it should be: `check` says why it is not.

    `is_input` where the stage was given it, and did not make it.
    """

    check: Check
    value: object
    is_input: bool = False


class StageError(Exception):
    """A stage that failed: `stage` is its name, `position` where it stands in the outermost chain, from 1.

    A cause is a sentence, a `Broken` value, or whatever the caller sent for an `Invoke` that failed.
    """

    def __init__(self, stage: str, cause: object) -> None:
        super().__init__(f"{stage}: {cause}")
        self.stage = stage
        self.cause = cause
        self.position: int | None = None


class Odd(list[object]):
    """A stream that does not hold exactly one message, and the first `stage` after which it did not.

    `position` is that stage's in the outermost chain, from 1.
    """

    def __init__(self, held: Iterable[object], stage: str, position: int) -> None:
        super().__init__(held)
        self.stage = stage
        self.position = position


class LowerError(ValueError):
    """A process that cannot be made a tool."""


class Morphism(msgspec.Struct, frozen=True):
    """A tool as a function: `apply(message)` gives the run. `is_now` says that it asks for nothing and is soon done.

    `size` counts the stages in it, `depth` the chains and tools within one another, `growth` how often a message may
    stand in what comes of it.
    """

    name: str
    source: Type
    target: Type
    apply: Callable[[object], Work]
    is_now: bool = True
    size: int = 1
    growth: int = 1
    depth: int = 1


class StreamMorphism(msgspec.Struct, frozen=True):
    """A process as a function: `feed(bundle)` gives the run; the rest as in a `Morphism`."""

    name: str
    kind: str
    source: Type
    target: Type
    feed: Callable[[Bundle], Flow]
    is_now: bool = True
    size: int = 1
    growth: int = 1
    depth: int = 1


def lift(tool: Morphism) -> StreamMorphism:
    """The tool over every message of a stream, in order."""

    def feed(bundle: Bundle) -> Flow:
        given: list[object] = []
        for place, message in enumerate(bundle, 1):
            given.append((yield from tool.apply(message)))
            if place % MESSAGES_A_TURN == 0:
                yield None
        return given

    types = Stream(tool.source), Stream(tool.target)
    made = StreamMorphism(f"lift({tool.name})", "lift", *types, feed, tool.is_now, tool.size)
    return msgspec.structs.replace(made, growth=tool.growth, depth=tool.depth + 1)


def lower(process: StreamMorphism, declared: Declared) -> Morphism:
    """The process as a tool: one message in, its one result out. Raises `LowerError` where it is not total."""
    if process.kind not in TOTAL:
        raise LowerError(f"cannot lower {process.kind} to a tool (not total)")
    source, target = process.source, process.target
    takes_one = isinstance(resolve(source, declared), Stream)
    gives_one = isinstance(resolve(target, declared), Stream)

    def apply(message: object) -> Work:
        given = yield from process.feed([message] if takes_one else _pour(source, message, declared))
        if gives_one and len(given) == 1:
            return given[0]
        return _take(target, given, process.name, declared)

    types = strip_stream(source, declared), strip_stream(target, declared)
    return Morphism(process.name, *types, apply, process.is_now, process.size, process.growth, process.depth)


def compose(name: str, stages: tuple[StreamMorphism, ...]) -> StreamMorphism:
    """One stage after the other; at least one."""

    def feed(bundle: Bundle) -> Flow:
        odd: Odd | None = None
        for position, stage in enumerate(stages, 1):
            try:
                bundle = yield from stage.feed(bundle)
                bound(bundle, stage.name)
            except StageError as error:
                error.position = position
                raise
            if isinstance(bundle, list):
                if len(bundle) == 1:
                    odd = None
                elif odd is not None:
                    # An earlier stage is to blame.
                    bundle = odd = Odd(bundle, odd.stage, odd.position)
                else:
                    # This one is, or the one within it.
                    blamed = bundle.stage if isinstance(bundle, Odd) else stage.name
                    bundle = odd = Odd(bundle, blamed, position)
            yield None
        return bundle

    size = sum(stage.size for stage in stages)
    is_now = size <= MAX_NOW and all(stage.is_now for stage in stages)
    growth = math.prod(stage.growth for stage in stages)
    depth = 1 + max(stage.depth for stage in stages)
    return StreamMorphism(name, "plumb", stages[0].source, stages[-1].target, feed, is_now, size, growth, depth)


def run_now(work: Work) -> object:
    """What a morphism that asks for nothing gives. Raises `StageError`, and `RuntimeError` where it asks."""
    try:
        while (asked := next(work)) is None:
            pass
    except StopIteration as end:
        return end.value
    raise RuntimeError(f"a morphism that gives its result at once asked for {asked.name}")


def function(name: str, source: Type, target: Type, run: Callable[[object], object], *, growth: int = 1) -> Morphism:
    """A plain function as a morphism; it may raise `StageError`."""

    def apply(message: object) -> Work:
        yield from ()
        return run(message)

    return Morphism(name, source, target, apply, growth=growth)


def asking(name: str, source: Type, target: Type, *, is_tool: bool, output: Check | None, depth: int = 1) -> Morphism:
    """A morphism that is run elsewhere; its result is looked at where `output` is given."""

    def apply(message: object) -> Work:
        result = yield Invoke(name, message, is_tool)
        if output is not None and not output.is_valid(result):
            raise StageError(name, Broken(output, result))
        return result

    return Morphism(name, source, target, apply, is_now=False, depth=depth)


def check_of(type_: Type, declared: Declared) -> Check:
    """The check of a message's type. Raises `SchemaError`."""
    return compile_check(to_schema(type_, declared))


def transform(name: str, kind: str, source: Type, target: Type, change: Callable[[Bundle], Bundle]) -> StreamMorphism:
    """A process that is a plain function of what its streams hold."""

    def feed(bundle: Bundle) -> Flow:
        yield from ()
        return change(bundle)

    return StreamMorphism(name, kind, source, target, feed)


def identity(name: str, source: Type) -> StreamMorphism:
    """`id: X -> X`."""
    return transform(name, "id", source, source, lambda bundle: bundle)


def copying(name: str, source: Type, *, as_pairs: bool = False) -> StreamMorphism:
    """`copy: X -> (X, X)`; `as_pairs` is `!A -> !(A, A)`."""
    if as_pairs and isinstance(source, Stream):
        item = source.item
        pairs = Stream(Product((item, item)))
        made = transform(name, "copy", source, pairs, lambda bundle: [[message, message] for message in bundle])
    else:
        made = transform(name, "copy", source, Product((source, source)), lambda bundle: (bundle, bundle))
    return msgspec.structs.replace(made, growth=2)


def discarding(name: str, source: Type) -> StreamMorphism:
    """`discard: X -> unit`."""
    return transform(name, "discard", source, UNIT, lambda _bundle: ())


def filtering(name: str, source: Type, keeps: Callable[[object], bool]) -> StreamMorphism:
    """`filter: !A -> !A`."""
    return transform(name, "filter", source, source, lambda bundle: [message for message in bundle if keeps(message)])


def merging(name: str, source: Type, target: Type) -> StreamMorphism:
    """`merge: (!A, !A) -> !A`: one stream's messages after the other's."""

    def change(bundle: Bundle) -> Bundle:
        return [message for stream in bundle for message in cast("list[object]", stream)]

    return transform(name, "merge", source, target, change)


def synchronising(name: str, source: Type, target: Type) -> StreamMorphism:
    """`barrier: (!A, !B) -> !(A, B)`: the first of each, then the second; what has no partner waits for ever."""

    def change(bundle: Bundle) -> Bundle:
        streams = [cast("list[object]", stream) for stream in bundle]
        return [list(together) for together in zip(*streams, strict=False)]

    return transform(name, "barrier", source, target, change)


def projecting(name: str, source: Product, place: int) -> StreamMorphism:
    """`project: (X, Y, …) -> the one at place`; the others are let go."""
    return transform(name, "project", source, source.items[place], lambda bundle: cast("Bundle", bundle[place]))


def bound(bundle: Bundle, stage: str) -> None:
    """Raise `StageError` where a stage gave more messages than one call may have on their way."""
    if count(bundle) > MAX_MESSAGES:
        raise StageError(stage, f"more than {MAX_MESSAGES} messages of one call are on their way")


def count(bundle: Bundle) -> int:
    """How many messages there are."""
    return len(bundle) if isinstance(bundle, list) else sum(count(part) for part in bundle)


def guarded(stage: StreamMorphism, source: Type, declared: Declared) -> StreamMorphism:
    """The stage, which looks at each message before it takes any: whether it is of `source`."""
    look = _looker(stage.name, source, declared, is_input=True)

    def feed(bundle: Bundle) -> Flow:
        look(bundle)
        return (yield from stage.feed(bundle))

    return msgspec.structs.replace(stage, feed=feed)


def promised(stage: StreamMorphism, target: Type, declared: Declared) -> StreamMorphism:
    """The stage, which looks at each message that it gives; `target` is what it gives."""
    look = _looker(stage.name, target, declared, is_input=False)

    def feed(bundle: Bundle) -> Flow:
        given = yield from stage.feed(bundle)
        look(given)
        return given

    return msgspec.structs.replace(stage, feed=feed, target=target)


def _looker(name: str, type_: Type, declared: Declared, *, is_input: bool) -> Callable[[Bundle], None]:
    """A function that raises `StageError` where streams of a type hold a message that is not of it."""
    meaning = resolve(type_, declared)
    if isinstance(meaning, Product):
        lookers = [_looker(name, item, declared, is_input=is_input) for item in meaning.items]

        def look_into(bundle: Bundle) -> None:
            for look, part in zip(lookers, cast("tuple[Bundle, ...]", bundle), strict=True):
                look(part)

        return look_into
    if not isinstance(meaning, Stream):
        return lambda _bundle: None
    check = check_of(meaning.item, declared)

    def look_at(bundle: Bundle) -> None:
        for message in bundle:
            if not check.is_valid(message):
                raise StageError(name, Broken(check, message, is_input))

    return look_at


def _pour(type_: Type, message: object, declared: Declared) -> Bundle:
    """One message as what streams of the type hold; of a product of streams one for each."""
    meaning = resolve(type_, declared)
    if isinstance(meaning, Product):
        parts = cast("list[object]", message)
        return tuple(_pour(item, part, declared) for item, part in zip(meaning.items, parts, strict=True))
    return [message] if isinstance(meaning, Stream) else ()


def _take(type_: Type, bundle: Bundle, name: str, declared: Declared) -> object:
    """The one message of each stream. Raises `StageError` where there is none, or more than one."""
    meaning = resolve(type_, declared)
    if isinstance(meaning, Product):
        parts = zip(meaning.items, cast("tuple[Bundle, ...]", bundle), strict=True)
        return [_take(item, part, name, declared) for item, part in parts]
    if not isinstance(meaning, Stream):
        return None
    if len(bundle) == 1:
        return bundle[0]
    found = f"{len(bundle)} messages" if bundle else "no message"
    error = StageError(bundle.stage if isinstance(bundle, Odd) else name, _NOT_ONE.format(found))
    error.position = bundle.position if isinstance(bundle, Odd) else None
    raise error
