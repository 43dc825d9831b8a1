"""Stream processes, built from the configuration: their types inferred and checked, each compiled to what it does.

A process without a type takes it from where it stands: `id`, `copy` and their like from the stage before, a `map` from
its expression too. So one is compiled for every type that it is used at. A chain is compiled by compiling its stages
from left to right, each at the type that the one before gives; where a type is only known as `json`, the message is
looked at when it comes. What asks for a program (`agent`) or for a tool (`lift`) is compiled to an `Ask`.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from tooldispatchd.catalog import morphisms
from tooldispatchd.catalog.celsource import ExpressionError
from tooldispatchd.catalog.compatible import compatible, difference
from tooldispatchd.catalog.expressions import Expression, compile_expression, compile_predicate
from tooldispatchd.catalog.meanings import Declared, is_stream, resolve, same, strip_stream
from tooldispatchd.catalog.morphisms import Morphism, StreamMorphism
from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.schemas import Check, SchemaError
from tooldispatchd.catalog.specs import Config, ProcessSpec
from tooldispatchd.catalog.types import (
    JSON,
    UNIT,
    Product,
    Stream,
    Type,
    show,
    show_arrow,
)
from tooldispatchd.catalog.wiring import LIFT, WiringError, bare, check_of, checked, guarded, parse_checked

# Chains within chains multiply, and all stages of a call that asks for nothing are one turn of the dispatch thread.
MAX_STAGES: Final = 128

# Which keys of a spec belong to which kind; `kind`, `type` and `description` to all.
_OWN: Final[Mapping[str, frozenset[str]]] = {
    "map": frozenset({"map"}),
    "filter": frozenset({"filter"}),
    "project": frozenset({"project"}),
    "plumb": frozenset({"chain"}),
    "agent": frozenset({"command", "args", "env", "cwd", "prompt", "model", "tools", "mcp", "options"}),
}
_NEEDED: Final = {"map": "map", "filter": "filter", "project": "project", "plumb": "chain"}
_FOR_ALL: Final = frozenset({"kind", "type", "description"})


class Process(msgspec.Struct, frozen=True):
    """One process of the configuration. `type_text` is "" where its type is taken from where it stands.

    `is_bare` says that it stands in the base category: it may be a tool, and cannot be wired. `arrow` is its type as
    streams, where it says one.
    """

    name: str
    spec: ProcessSpec
    type_text: str
    is_bare: bool = False
    arrow: tuple[Type, Type] | None = None

    @property
    def kind(self) -> str:
        """Its kind, as the configuration names it."""
        return self.spec.kind

    @property
    def chain(self) -> tuple[str, ...]:
        """The entries of a `plumb`, in order."""
        return self.spec.chain or ()


Lifted = Callable[[str], Morphism]
"""The tool of a name, to be lifted. Raises `WiringError`."""


class Processes:
    """The processes of one configuration. `problems` holds what is wrong with each by itself, in the file's order."""

    def __init__(self, config: Config, declared: Declared, lifted: Lifted) -> None:
        self.problems: list[Problem] = []
        self.by_name: dict[str, Process] = {}
        self._config = config
        self._declared = declared
        self._lifted = lifted
        self._types: dict[str, tuple[Type, Type]] = {}
        self._made: dict[tuple[str, Type | None], StreamMorphism] = {}
        # What is being compiled, outermost first: a chain that comes back to one of these has no end.
        self._open: list[str] = []
        for name, spec in config.processes.items():
            self._declare(name, spec)

    def check_all(self) -> None:
        """Compile every process that says its own type, whether it is used or not; problems are told."""
        for name, process in list(self.by_name.items()):
            try:
                # An agent that nothing runs may be there for its profile alone.
                if process.kind == "agent" and not self._is_run(process):
                    continue
                if process.arrow or process.kind in {"agent", "plumb"}:
                    made = self.compile(name, None, may_be_bare=True)
                    if not process.type_text:
                        shown = show_arrow(made.source, made.target)
                        self.by_name[name] = msgspec.structs.replace(process, type_text=shown)
            except WiringError as error:
                self._refuse(error.problem(("processes", name)))

    def compile(self, name: str, upstream: Type | None, *, may_be_bare: bool = False) -> StreamMorphism:
        """What the process does to streams of type `upstream` (None: of its own type). Raises `WiringError`.

        One that stands in the base category is refused where streams are wired, that is unless it `may_be_bare`.
        """
        process = self.by_name.get(name)
        if process is None:
            raise self._unknown(name)
        if process.is_bare and not may_be_bare:
            raise bare(name)
        key = (name, None if name in self._types else upstream)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._compile(process, upstream)
        return made

    def _unknown(self, name: str) -> WiringError:
        if name in self._config.tools:
            return bare(name)
        close = nearest(name, self._config.processes)
        return WiringError("no such process in [processes]", value=name, close=close)

    def _refuse(self, problem: Problem) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    # --- what each says of itself ---

    def _declare(self, name: str, spec: ProcessSpec) -> None:
        self._check_keys(name, spec)
        is_bare = False
        if spec.type is not None:
            try:
                is_bare = self._declare_type(name, spec.type)
            except WiringError as error:
                self._refuse(error.problem(("processes", name, "type")))
                return
        arrow = self._types.get(name)
        self.by_name[name] = Process(name, spec, spec.type if spec.type and arrow else "", is_bare, arrow)

    def _check_keys(self, name: str, spec: ProcessSpec) -> None:
        own = _OWN.get(spec.kind, frozenset())
        for field in msgspec.structs.fields(spec):
            value = getattr(spec, field.name)
            if field.name in _FOR_ALL or field.name in own or value == field.default:
                continue
            if value not in ((), {}, None):
                kinds = [kind for kind, keys in _OWN.items() if field.name in keys]
                why = f"a process of kind {spec.kind} has no {field.name}"
                self._refuse(Problem(("processes", name, field.name), why, allowed=f"in kind {kinds[0]} only"))
        lacking = _lacking(spec)
        if lacking:
            self._refuse(Problem(("processes", name), lacking))

    def _declare_type(self, name: str, text: str) -> bool:
        """Note the type as streams; whether it was written in the base category."""
        source, target = parse_checked(text, self._declared)
        streams = [is_stream(side, self._declared) for side in (source, target)]
        is_unit = [resolve(side, self._declared) == UNIT for side in (source, target)]
        if all(streams) and not all(is_unit):
            self._types[name] = (source, target)
            return False
        # `unit` is in both categories.
        if any(flag and not unit for flag, unit in zip(streams, is_unit, strict=True)):
            one = show(source if streams[0] else target)
            why = f"{one} is a stream, and the other side is none: both sides of a process are streams, or neither is"
            raise WiringError(why, value=text)
        self._types[name] = (Stream(source), Stream(target))
        return True

    # --- compiling ---

    def _compile(self, process: Process, upstream: Type | None) -> StreamMorphism:
        name = process.name
        if name in self._open:
            loop = " -> ".join([*self._open[self._open.index(name) :], name])
            raise WiringError(f"a chain cannot lead back to itself: {loop}", ("processes", name))
        self._open.append(name)
        try:
            made = self._of_kind(process, upstream)
        finally:
            self._open.pop()
        if made.size > MAX_STAGES:
            why = f"a chain has at most {MAX_STAGES} stages, those of the chains within it counted too"
            raise WiringError(why, ("processes", name, "chain"))
        return made

    def _of_kind(self, process: Process, upstream: Type | None) -> StreamMorphism:
        lacking = _lacking(process.spec)
        if lacking:
            raise WiringError(lacking, ("processes", process.name))
        arrow = self._types.get(process.name)
        source = arrow[0] if arrow else upstream if upstream is not None else Stream(JSON)
        target = arrow[1] if arrow else None
        match process.kind:
            case "agent":
                return self._agent(process, source if arrow else Stream(JSON), target or Stream(JSON))
            case "plumb":
                return self._plumb(process, arrow)
            case "map":
                return self._map(process, source, target)
            case "filter":
                made = self._filter(process, source)
            case _:
                made = self._structural(process, source, target)
        self._check_target(process, made.target, target)
        return made

    def _check_target(self, process: Process, made: Type, wanted: Type | None) -> None:
        if wanted is None or compatible(made, wanted, self._declared):
            return
        sides = [self._types[process.name][0], made, wanted]
        if process.is_bare:
            sides = [strip_stream(side, self._declared) for side in sides]
            if compatible(sides[1], sides[2], self._declared):
                return
        shown = [show(side) for side in sides]
        why = f"{process.kind} of {shown[0]} gives {shown[1]}, not {shown[2]}"
        raise WiringError(why, ("processes", process.name, "type"), process.spec.type)

    def _structural(self, process: Process, source: Type, target: Type | None) -> StreamMorphism:
        """The kinds that move messages and do not look at them."""
        name, kind = process.name, process.kind
        if kind == "id":
            return morphisms.identity(name, source)
        if kind == "discard":
            return morphisms.discarding(name, source)
        if kind == "copy":
            pairs = None if target is None or process.is_bare else resolve(target, self._declared)
            as_pairs = isinstance(pairs, Stream) and isinstance(resolve(pairs.item, self._declared), Product)
            return morphisms.copying(name, source, as_pairs=as_pairs)
        streams = resolve(source, self._declared)
        if process.is_bare and isinstance(streams, Stream):
            item = resolve(streams.item, self._declared)
            streams = Product(tuple(Stream(part) for part in item.items)) if isinstance(item, Product) else streams
        if not isinstance(streams, Product):
            raise WiringError(f"{kind} takes several streams, (!A, !B), and not {show(source)}", ("processes", name))
        if kind == "project":
            place = process.spec.project or 0
            if place >= len(streams.items):
                why = f"there is no stream {place} in {show(streams)}: they are counted from 0"
                raise WiringError(why, ("processes", name, "project"), place)
            return morphisms.projecting(name, streams, place)
        items = tuple(resolve(item, self._declared) for item in streams.items)
        if not all(isinstance(item, Stream) for item in items):
            raise WiringError(f"{kind} takes streams of messages, and not {show(source)}", ("processes", name))
        inner = [item.item for item in items if isinstance(item, Stream)]
        if kind == "barrier":
            return morphisms.synchronising(name, streams, Stream(Product(tuple(inner))))
        for other in inner[1:]:
            if not compatible(inner[0], other, self._declared):
                why = f"merge takes streams of one type, and not {show(source)}"
                raise WiringError(why, ("processes", name))
        return morphisms.merging(name, streams, items[0])

    def _message(self, process: Process, source: Type) -> Type:
        meaning = resolve(source, self._declared)
        if not isinstance(meaning, Stream):
            raise WiringError(f"{process.kind} takes one stream, and not {show(source)}", ("processes", process.name))
        return meaning.item

    def _map(self, process: Process, source: Type, target: Type | None) -> StreamMorphism:
        taken = self._message(process, source)
        wanted = None if target is None else resolve(target, self._declared)
        if wanted is not None and not isinstance(wanted, Stream):
            raise WiringError(f"map gives one stream, and not {show(wanted)}", ("processes", process.name, "type"))
        assert process.spec.map is not None
        expression = self._expression(process, "map", compile_expression, taken, wanted and wanted.item)
        run = checked(process.name, expression.evaluate, None if wanted is None else self._check(wanted.item, process))
        base = morphisms.function(process.name, taken, expression.output, run)
        return msgspec.structs.replace(morphisms.lift(base), name=process.name, kind="map")

    def _filter(self, process: Process, source: Type) -> StreamMorphism:
        taken = self._message(process, source)
        assert process.spec.filter is not None
        expression = self._expression(process, "filter", compile_predicate, taken, None)
        run = checked(process.name, expression.evaluate, None)
        return morphisms.filtering(process.name, source, lambda message: run(message) is True)

    def _expression(
        self, process: Process, key: str, compile_: Callable[..., Expression], taken: Type, given: Type | None
    ) -> Expression:
        text = getattr(process.spec, key)
        wanted = {} if key == "filter" else {"output_type": given}
        try:
            return compile_(text, input_type=taken, declared=self._declared, **wanted)
        except ExpressionError as error:
            at = "" if process.name in self._types else f" (where it takes {show(Stream(taken))})"
            raise WiringError(f"{error}{at}", ("processes", process.name, key), text) from error

    def _agent(self, process: Process, source: Type, target: Type) -> StreamMorphism:
        taken, given = self._message(process, source), self._message(process, target)
        if not self._is_run(process):
            why = 'nothing runs this agent: it has no "command", and there is no "agent_command"'
            raise WiringError(why, ("processes", process.name))
        output = self._check(given, process)
        base = morphisms.asking(process.name, taken, given, is_tool=False, output=output)
        return msgspec.structs.replace(morphisms.lift(base), name=process.name, kind="agent")

    def _is_run(self, process: Process) -> bool:
        """Whether there is a program for an agent."""
        return process.spec.command is not None or self._config.agent_command is not None

    # --- chains ---

    def _plumb(self, process: Process, arrow: tuple[Type, Type] | None) -> StreamMorphism:
        entries = process.chain
        upstream = arrow[0] if arrow else None
        stages: list[StreamMorphism] = []
        for place, entry in enumerate(entries):
            path: Path = ("processes", process.name, "chain", place)
            try:
                stage = self._link(self._stage(entry, upstream), entry, upstream)
            except WiringError as error:
                raise self._placed(error, entry, path) from error
            stages.append(stage)
            upstream = stage.target
        made = morphisms.compose(process.name, tuple(stages))
        if arrow is None:
            return made
        if not compatible(made.target, arrow[1], self._declared):
            why = f"the chain {show_arrow(made.source, made.target)} does not give {show(arrow[1])}"
            why = self._explained(why, made.target, arrow[1])
            raise WiringError(why, ("processes", process.name, "type"), process.spec.type)
        return self._promised(process, made, arrow)

    def _placed(self, error: WiringError, entry: str, path: Path) -> WiringError:
        """The error where it is to be mended: what an entry cannot be in this place is the chain's."""
        process = self.by_name.get(entry)
        is_whole = error.path == ("processes", entry) and (process is None or not _lacking(process.spec))
        where = path if error.path is None or is_whole else error.path
        return WiringError(error.why, where, error.value, close=error.close, allowed=error.allowed)

    def _promised(self, process: Process, made: StreamMorphism, arrow: tuple[Type, Type]) -> StreamMorphism:
        """A chain at its declared type; what it gives is looked at where its last stage promises less."""
        if not same(made.target, arrow[1], self._declared):
            final = guarded(morphisms.identity(process.name, arrow[1]), arrow[1], self._declared)
            made = morphisms.compose(process.name, (made, final))
        return msgspec.structs.replace(made, source=arrow[0], target=arrow[1])

    def _stage(self, entry: str, upstream: Type | None) -> StreamMorphism:
        lifted = LIFT.fullmatch(entry)
        if lifted is not None:
            return morphisms.lift(self._lifted(lifted["tool"]))
        return self.compile(entry, upstream)

    def _link(self, stage: StreamMorphism, entry: str, upstream: Type | None) -> StreamMorphism:
        """The stage behind what gives `upstream`: refused where they do not meet, guarded where they may not."""
        if upstream is None or same(upstream, stage.source, self._declared):
            return stage
        if not compatible(upstream, stage.source, self._declared):
            why = f"{entry} takes {show(stage.source)}, and what comes is {show(upstream)}"
            raise WiringError(self._explained(why, upstream, stage.source), value=entry)
        return guarded(stage, stage.source, self._declared)

    def _explained(self, why: str, left: Type, right: Type) -> str:
        found = difference(left, right, self._declared)
        return f"{why}: {found}" if found else why

    def _check(self, type_: Type, process: Process) -> Check:
        try:
            return check_of(type_, self._declared)
        except SchemaError as error:
            why = f"cannot use the type {show(type_)[:80]}: {error}"
            raise WiringError(why, ("processes", process.name, "type")) from error


def _lacking(spec: ProcessSpec) -> str | None:
    """What a process of its kind must say and this one does not."""
    needed = _NEEDED.get(spec.kind)
    if needed is None or getattr(spec, needed) is not None:
        return None
    return f'a process of kind {spec.kind} needs "{needed}"'
