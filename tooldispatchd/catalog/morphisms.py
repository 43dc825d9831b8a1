"""Tools and processes as what they do: morphisms, `lift` between them, and `lower`, where it can be. Pure.

    base category      Morphism        one message in, exactly one out       A -> B
    streams            StreamMorphism  streams in, streams out              !A -> !B

`lift` runs a tool over every message of a stream. `lower` makes a tool of a process: it feeds one message and takes the
one result, so `lower(lift(f))` is `f`; the converse does not hold. Only total kinds can be lowered, and that a process
kept to it is seen at each run as well.

What streams hold at one moment is a `Bundle`. Nothing here waits: a morphism is a generator that yields an `Ask` for
what must be run elsewhere, is sent the result, and returns its own. It raises `StageError` where a stage fails.
"""

from collections.abc import Callable, Generator
from typing import Final, cast

import msgspec

from tooldispatchd.catalog.meanings import Declared, resolve
from tooldispatchd.catalog.schemas import Check
from tooldispatchd.catalog.types import UNIT, Product, Stream, Type

# Streams double in each `copy` that is merged again, and one call is one turn of the dispatch thread.
MAX_MESSAGES: Final = 64

_NOT_ONE: Final = "it gave {} for one: a tool gives exactly one"

TOTAL: Final = frozenset({"id", "map", "copy", "discard", "agent", "plumb", "lift"})
"""The kinds of process that give exactly one message for each that they take, and so can be lowered."""

Bundle = list[object] | tuple["Bundle", ...]
"""The messages of a stream, in order; of a product of streams a tuple; of `unit` an empty one."""


class Ask(msgspec.Struct, frozen=True):
    """Run something on one message: the agent process of this name, or the tool where `is_tool`."""

    name: str
    value: object
    is_tool: bool = False


Work = Generator[Ask, object, object]
"""A run of a morphism: it is sent the result of each `Ask`; to throw a `StageError` into it ends it with that."""
Flow = Generator[Ask, object, Bundle]


class Broken(msgspec.Struct, frozen=True):
    """A message that is not of the type that it should be: `check` says why it is not.

    `is_input` where the stage was given it, and did not make it.
    """

    check: Check
    value: object
    is_input: bool = False


class StageError(Exception):
    """A stage that failed: `stage` is its name, `position` where it stands in the outermost chain, from 1.

    A cause is a sentence, a `Broken` value, or whatever the caller sent for an `Ask` that failed.
    """

    def __init__(self, stage: str, cause: object) -> None:
        super().__init__(f"{stage}: {cause}")
        self.stage = stage
        self.cause = cause
        self.position: int | None = None


class Nothing(list[object]):
    """A stream without a message, and the first `stage` that gave none, at `position` of the outermost chain."""

    def __init__(self, stage: str) -> None:
        super().__init__()
        self.stage = stage
        self.position: int | None = None


class LowerError(ValueError):
    """A process that cannot be made a tool."""


class Morphism(msgspec.Struct, frozen=True):
    """A tool as a function: `apply(message)` gives the run. `is_now` says that it asks for nothing."""

    name: str
    source: Type
    target: Type
    apply: Callable[[object], Work]
    is_now: bool = True


class StreamMorphism(msgspec.Struct, frozen=True):
    """A process as a function: `feed(bundle)` gives the run. `size` counts the stages in it."""

    name: str
    kind: str
    source: Type
    target: Type
    feed: Callable[[Bundle], Flow]
    is_now: bool = True
    size: int = 1


def lift(tool: Morphism) -> StreamMorphism:
    """The tool over every message of a stream, in order."""

    def feed(bundle: Bundle) -> Flow:
        given: list[object] = []
        for message in bundle:
            given.append((yield from tool.apply(message)))  # noqa: PERF401  # a comprehension cannot yield
        return given

    name = f"lift({tool.name})"
    return StreamMorphism(name, "lift", Stream(tool.source), Stream(tool.target), feed, tool.is_now)


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

    return Morphism(process.name, _bare(source, declared), _bare(target, declared), apply, process.is_now)


def compose(name: str, stages: tuple[StreamMorphism, ...]) -> StreamMorphism:
    """One stage after the other; at least one."""

    def feed(bundle: Bundle) -> Flow:
        nothing: Nothing | None = None
        for position, stage in enumerate(stages, 1):
            try:
                bundle = yield from stage.feed(bundle)
                if len(bundle) > 1:
                    bound(bundle, stage.name)
            except StageError as error:
                error.position = position
                raise
            if nothing is None and not bundle and isinstance(bundle, list):
                nothing = bundle if isinstance(bundle, Nothing) else Nothing(stage.name)
                nothing.position = position
        return bundle if bundle or nothing is None else nothing

    is_now = all(stage.is_now for stage in stages)
    size = sum(stage.size for stage in stages)
    return StreamMorphism(name, "plumb", stages[0].source, stages[-1].target, feed, is_now, size)


def run_now(work: Work) -> object:
    """What a morphism that asks for nothing gives. Raises `StageError`, and `RuntimeError` where it asks."""
    try:
        asked = next(work)
    except StopIteration as end:
        return end.value
    raise RuntimeError(f"a morphism that gives its result at once asked for {asked.name}")


def function(name: str, source: Type, target: Type, run: Callable[[object], object]) -> Morphism:
    """A plain function as a morphism; it may raise `StageError`."""

    def apply(message: object) -> Work:
        yield from ()
        return run(message)

    return Morphism(name, source, target, apply)


def asking(name: str, source: Type, target: Type, *, is_tool: bool, output: Check | None) -> Morphism:
    """A morphism that is run elsewhere; its result is looked at where `output` is given."""

    def apply(message: object) -> Work:
        result = yield Ask(name, message, is_tool)
        if output is not None and not output.is_valid(result):
            raise StageError(name, Broken(output, result))
        return result

    return Morphism(name, source, target, apply, is_now=False)


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
        return transform(name, "copy", source, pairs, lambda bundle: [[message, message] for message in bundle])
    return transform(name, "copy", source, Product((source, source)), lambda bundle: (bundle, bundle))


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
    if isinstance(bundle, Nothing):
        error = StageError(bundle.stage, _NOT_ONE.format("no message"))
        error.position = bundle.position
        raise error
    found = f"{len(bundle)} messages" if bundle else "no message"
    raise StageError(name, _NOT_ONE.format(found))


def _bare(type_: Type, declared: Declared) -> Type:
    meaning = resolve(type_, declared)
    if isinstance(meaning, Product):
        return Product(tuple(_bare(item, declared) for item in meaning.items))
    return meaning.item if isinstance(meaning, Stream) else meaning
