"""Stream processes, built from the configuration: their types inferred and checked, each compiled to what it does.

A process without a type takes it from where it stands: `id`, `copy` and their like from the stage before, a `map` from
its expression too. So one is compiled for every type that it is used at. A chain is compiled by compiling its stages
from left to right, each at the type that the one before gives; where a type is only known as `json`, the message is
looked at when it comes. What asks for a program (`agent`) or for a tool (`lift`) is compiled to an `Invoke`.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import UNSET

from tooldispatchd.catalog import morphisms
from tooldispatchd.catalog.agentspec import AGENT_KEYS
from tooldispatchd.catalog.arguments import (
    JSON_FEED,
    TRANSCRIBED,
    Feed,
    compile_modes,
    untyped_source,
    untyped_target,
)
from tooldispatchd.catalog.callgraph import LIFT
from tooldispatchd.catalog.confinement import KEYS, problems_of
from tooldispatchd.catalog.expressions.door import (
    Expression,
    ExpressionError,
    FailedEvaluation,
    compile_expression,
    compile_predicate,
)
from tooldispatchd.catalog.meanings import (
    TYPE_WORDS,
    Declared,
    check_names,
    has_stream,
    is_stream,
    nearest_type,
    resolve,
    strip_stream,
)
from tooldispatchd.catalog.morphisms import Broken, Morphism, StageError, StreamMorphism, check_of, guarded, promised
from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.outputs import Output
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.relations import COMPATIBLE, SAME
from tooldispatchd.catalog.schemas import Check, SchemaError
from tooldispatchd.catalog.specs import Config, ProcessSpec
from tooldispatchd.catalog.types import (
    JSON,
    UNIT,
    Product,
    Stream,
    Type,
    TypeNameError,
    TypeTextError,
    column_of,
    parse_arrow,
    show,
    show_arrow,
)

Arrow = tuple[Type, Type]


class WiringError(ValueError):
    """A process that cannot be used where it stands; `path` is where in the configuration, if it is known better.

    One that `is_told` follows from a problem that has been told of something else.
    """

    def __init__(
        self,
        why: str,
        path: Path = (),
        value: object = UNSET,
        *,
        close: str | None = None,
        allowed: str | None = None,
        is_told: bool = False,
    ) -> None:
        super().__init__(why)
        self.found = Problem(path, why, value=value, allowed=allowed, nearest=close)
        self.is_told = is_told

    def problem(self, path: Path) -> Problem:
        """The same as a problem at `path`, or where it is known to stand."""
        return self.found if self.found.path else msgspec.structs.replace(self.found, path=path)


def bare(name: str) -> WiringError:
    """What is said of a binding in the base category where a stream is wanted."""
    return WiringError(f"'{name}' has bare types (base category); only stream morphisms can be wired into pipelines")


def parse_checked(text: str, declared: Declared) -> tuple[Type, Type]:
    """Input and output of `A -> B`, all names known. Raises `WiringError` with the column."""
    try:
        source, target = parse_arrow(text)
    except TypeTextError as error:
        raise WiringError(str(error), value=text, allowed='"A -> B"') from error
    try:
        check_names(source, declared)
        check_names(target, declared)
    except TypeNameError as error:
        why = f"column {column_of(text, error.name)}: {error}"
        close = nearest_type(error.name, declared)
        raise WiringError(why, value=text, close=close, allowed=None if close else TYPE_WORDS) from error
    return source, target


class _PipelineStage:
    """A process that is to be compiled at the streams `source`, or at its own type `arrow`; raises `WiringError`."""

    def __init__(self, process: "Process", declared: Declared) -> None:
        self._name = process.name
        self._spec = process.spec
        self._arrow = process.arrow
        self._is_bare = process.is_bare
        self._declared = declared

    def compile(self, upstream: Type | None) -> StreamMorphism:
        """What it does to streams of type `upstream` (None: of any, where it says no type itself)."""
        any_json = Stream(JSON)
        source, target = self._arrow or (any_json if upstream is None else upstream, None)
        made: StreamMorphism
        match self._spec.kind:
            case "id":
                made = morphisms.identity(self._name, source)
            case "discard":
                made = morphisms.discarding(self._name, source)
            case "copy":
                pairs = None if target is None or self._is_bare else resolve(target, self._declared)
                as_pairs = isinstance(pairs, Stream) and isinstance(resolve(pairs.item, self._declared), Product)
                made = morphisms.copying(self._name, source, as_pairs=as_pairs)
            case "map":
                made = self._map(source, target)
            case "filter":
                expression = self._expression(compile_predicate, self._message(source), {})
                run = checked(self._name, expression.evaluate, None)
                made = morphisms.filtering(self._name, source, lambda message: run(message) is True)
            case "agent":
                taken, given = (self._message(side) for side in self._arrow or (any_json, any_json))
                base = morphisms.asking(self._name, taken, given, is_tool=False, output=self._check(given))
                made = msgspec.structs.replace(morphisms.lift(base), name=self._name, kind="agent")
            case _:
                made = self._of_several(source)
        return made if target is None else self._promised(made, target)

    def _wrong(self, why: str, *keys: str, value: object = UNSET) -> WiringError:
        return WiringError(why, ("processes", self._name, *keys), value)

    def _promised(self, made: StreamMorphism, wanted: Type) -> StreamMorphism:
        """The stage at its declared type; what it gives is looked at where it promises less by itself."""
        if self._is_bare and not isinstance(resolve(made.target, self._declared), Stream):
            # A type of the base category as the streams that the kind gives: (A, B) as (!A, !B), `unit` as itself.
            bare = resolve(strip_stream(wanted, self._declared), self._declared)
            wanted = Product(tuple(Stream(item) for item in bare.items)) if isinstance(bare, Product) else bare
        if not COMPATIBLE.holds(made.target, wanted, self._declared):
            assert self._arrow is not None
            sides = [self._arrow[0], made.target, self._arrow[1]]
            shown = [show(strip_stream(side, self._declared) if self._is_bare else side) for side in sides]
            why = f"{self._spec.kind} of {shown[0]} gives {shown[1]}, not {shown[2]}"
            raise self._wrong(why, "type", value=self._spec.type)
        if SAME.holds(made.target, wanted, self._declared):
            return made
        return msgspec.structs.replace(promised(made, wanted, self._declared), kind=made.kind)

    def _of_several(self, source: Type) -> StreamMorphism:
        """The kinds that take several streams: `project`, `barrier` and `merge`."""
        kind, declared = self._spec.kind, self._declared
        streams = resolve(source, declared)
        if self._is_bare and isinstance(streams, Stream):
            item = resolve(streams.item, declared)
            streams = Product(tuple(Stream(part) for part in item.items)) if isinstance(item, Product) else streams
        if not isinstance(streams, Product):
            raise self._wrong(f"{kind} takes several streams, (!A, !B), and not {show(source)}")
        if kind == "project":
            place = self._spec.project or 0
            if place >= len(streams.items):
                why = f"there is no stream {place} in {show(streams)}: they are counted from 0"
                raise self._wrong(why, "project", value=place)
            return morphisms.projecting(self._name, streams, place)
        items = tuple(resolve(item, declared) for item in streams.items)
        inner = [item.item for item in items if isinstance(item, Stream)]
        if len(inner) < len(items):
            raise self._wrong(f"{kind} takes streams of messages, and not {show(source)}")
        if kind == "barrier":
            return morphisms.synchronising(self._name, streams, Stream(Product(tuple(inner))))
        first = inner[0]
        if not all(COMPATIBLE.holds(first, other, declared) for other in inner):
            raise self._wrong(f"merge takes streams of one type, and not {show(streams)}")
        made = morphisms.merging(self._name, streams, Stream(first))
        if all(SAME.holds(first, other, declared) for other in inner):
            return made
        # Of the others it is only known that they may be.
        return guarded(made, Product(tuple(Stream(first) for _ in inner)), declared)

    # --- the kinds that look at each message ---

    def _message(self, source: Type) -> Type:
        meaning = resolve(source, self._declared)
        if not isinstance(meaning, Stream):
            raise self._wrong(f"{self._spec.kind} takes one stream, and not {show(source)}")
        return meaning.item

    def _map(self, source: Type, target: Type | None) -> StreamMorphism:
        taken = self._message(source)
        wanted = None if target is None else resolve(target, self._declared)
        if wanted is not None and not isinstance(wanted, Stream):
            raise self._wrong(f"map gives one stream, and not {show(wanted)}", "type")
        given = None if wanted is None else wanted.item
        expression = self._expression(compile_expression, taken, {"output_type": given})
        run = checked(self._name, expression.evaluate, None if given is None else self._check(given))
        base = morphisms.function(self._name, taken, expression.output, run)
        return msgspec.structs.replace(morphisms.lift(base), name=self._name, kind="map")

    def _expression(
        self, compile_: Callable[..., Expression], taken: Type, wanted: dict[str, Type | None]
    ) -> Expression:
        key = self._spec.kind
        text = getattr(self._spec, key)
        try:
            return compile_(text, input_type=taken, declared=self._declared, **wanted)
        except ExpressionError as error:
            at = f" (where it takes {show(Stream(taken))})" if self._arrow is None else ""
            raise self._wrong(f"{error}{at}", key, value=text) from error

    def _check(self, type_: Type) -> Check:
        try:
            return check_of(type_, self._declared)
        except SchemaError as error:
            raise self._wrong(f"cannot use the type {show(type_)[:80]}: {error}", "type") from error


def checked(name: str, transform: Callable[[object], object], output: Check | None) -> Callable[[object], object]:
    """A function that gives `FailedEvaluation` where it has no result, as one that raises `StageError`."""

    def run(message: object) -> object:
        result = transform(message)
        if type(result) is FailedEvaluation:
            raise StageError(name, result)
        if output is not None and not output.is_valid(result):
            raise StageError(name, Broken(output, result))
        return result

    return run


# Chains within chains multiply, and all stages of a call that asks for nothing are one turn of the dispatch thread.
MAX_STAGES: Final = 128
# How often one message may stand in the result: it is of any size, and all of them are encoded.
MAX_GROWTH: Final = 16
# Each level is some frames of the interpreter's stack: when the file is read, and when a chain runs, of which each lift
# is a level too.
MAX_NESTED: Final = 16
MAX_DEPTH: Final = 2 * MAX_NESTED

# Which keys of a spec belong to which kind; `kind`, `type` and `description` to all.
_OWN: Final[Mapping[str, frozenset[str]]] = {
    "map": frozenset({"map"}),
    "filter": frozenset({"filter"}),
    "project": frozenset({"project"}),
    "plumb": frozenset({"chain"}),
    "agent": frozenset(
        {
            *("command", "args", "env", "cwd", "prompt", "model", "tools", "mcp", "options"),
            *("input_mode", "output_mode", "exit_codes", "ports", "stop_s"),
            *(*KEYS, *AGENT_KEYS),
        }
    ),
}
_NEEDED: Final = {"map": "map", "filter": "filter", "project": "project", "plumb": "chain"}
_FOR_ALL: Final = frozenset({"kind", "type", "description"})


class Process(msgspec.Struct, frozen=True):
    """One process of the configuration. `type_text` is "" where its type is taken from where it stands.

    `is_bare` says that it stands in the base category: it may be a tool, and cannot be wired. `arrow` is its type as
    streams, where it says one. `feed` and `output` say how the program of an agent gets a message and gives its result.
    """

    name: str
    spec: ProcessSpec
    type_text: str
    is_bare: bool = False
    arrow: Arrow | None = None
    feed: Feed = JSON_FEED
    output: Output = Output.JSON

    @property
    def kind(self) -> str:
        return self.spec.kind

    @property
    def chain(self) -> tuple[str, ...]:
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
        self._made: dict[tuple[str, Type | None], StreamMorphism] = {}
        self._tried: set[str] = set()
        # What is being compiled, outermost first: a chain that comes back to one of these has no end.
        self._open: list[str] = []
        for name, spec in config.processes.items():
            self._declare(name, spec)

    def check_all(self) -> None:
        """Look at every entry of a chain, and compile every process that says its own type, whether it is used or not.

        Problems are told.
        """
        for name, process in self.by_name.items():
            for place, entry in enumerate(process.chain if process.kind == "plumb" else ()):
                lifted = LIFT.fullmatch(entry)
                error = None
                if lifted is None and entry not in self._config.processes:
                    error = self._unknown(entry)
                elif lifted is not None and lifted["tool"] not in self._config.tools:
                    error = self.no_tool(lifted["tool"])
                if error is not None:
                    self._refuse(error.problem(("processes", name, "chain", place)))
        for name, process in list(self.by_name.items()):
            if process.arrow is not None:
                self._check_alone(name, process)
        # A chain that says no type of its own has been looked at where it stands, if it stands anywhere.
        for name, process in list(self.by_name.items()):
            is_seen = name in self._tried and (name, None) not in self._made
            if process.arrow is None and process.kind in {"agent", "plumb"} and not is_seen:
                self._check_alone(name, process)

    def _check_alone(self, name: str, process: Process) -> None:
        if process.kind == "agent" and not self._is_run(process):
            return  # it may be there for its profile alone
        try:
            made = self.compile(name, None, may_be_bare=True)
        except WiringError as error:
            if not error.is_told:
                self._refuse(error.problem(("processes", name)))
            return
        if not process.type_text:
            self.by_name[name] = msgspec.structs.replace(process, type_text=show_arrow(made.source, made.target))

    def compile(self, name: str, upstream: Type | None, *, may_be_bare: bool = False) -> StreamMorphism:
        """What the process does to streams of type `upstream` (None: of its own type). Raises `WiringError`.

        One that stands in the base category is refused where streams are wired, that is unless it `may_be_bare`.
        """
        process = self.by_name.get(name)
        if process is None:
            raise self._unknown(name)
        if process.is_bare and not may_be_bare:
            raise bare(name)
        self._tried.add(name)
        key = (name, upstream if process.arrow is None else None)
        if key in self._made:
            return self._made[key]
        if name in self._open:
            loop = " -> ".join([*self._open[self._open.index(name) :], name])
            raise WiringError(f"a chain cannot lead back to itself: {loop}", ("processes", name))
        if len(self._open) >= MAX_NESTED:
            raise WiringError(f"chains stand within chains at most {MAX_NESTED} deep", ("processes", name, "chain"))
        lacking = _lacking(process.spec)
        if lacking:
            raise WiringError(lacking, ("processes", name))
        if process.kind == "agent" and not self._is_run(process):
            why = 'nothing runs this agent: it has no "command", and there is no "agent_command"'
            raise WiringError(why, ("processes", name))
        self._open.append(name)
        try:
            if process.kind == "plumb":
                made = self._plumb(process, upstream)
            else:
                made = _PipelineStage(process, self._declared).compile(upstream)
        finally:
            self._open.pop()
        self._made[key] = made
        return made

    def is_tool(self, name: str) -> bool:
        return name in self._config.tools and name not in self._config.processes

    def _unknown(self, name: str) -> WiringError:
        if name in self._config.tools:
            return bare(name)
        if name in self._config.processes:
            return WiringError(f"the process {name} has a problem of its own", value=name, is_told=True)
        close = nearest(name, self._config.processes)
        return WiringError("no such process in [processes]", value=name, close=close)

    def no_tool(self, name: str) -> WiringError:
        """Why a chain cannot lift what is no tool."""
        if name in self._config.processes:
            why = f"lift takes a tool, and {name} is a process: a chain names it as it is"
            return WiringError(why, value=name, close=name)
        return WiringError("no such tool in [tools]", value=name, close=nearest(name, self._config.tools))

    def _refuse(self, problem: Problem) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    # --- what each says of itself ---

    def _declare(self, name: str, spec: ProcessSpec) -> None:
        own = _OWN.get(spec.kind, frozenset())
        for field in msgspec.structs.fields(spec):
            value = getattr(spec, field.name)
            is_said = value != field.default and value not in ((), {}, None)
            if is_said and field.name not in _FOR_ALL and field.name not in own:
                kinds = [kind for kind, keys in _OWN.items() if field.name in keys]
                why = f"a process of kind {spec.kind} has no {field.name}"
                self._refuse(Problem(("processes", name, field.name), why, allowed=f"in kind {kinds[0]} only"))
        for problem in problems_of(spec, ("processes", name)):
            self._refuse(problem)
        lacking = _lacking(spec)
        if lacking:
            self._refuse(Problem(("processes", name), lacking))
        arrow, is_bare = None, False
        if spec.type is not None:
            try:
                arrow, is_bare = self._declared_type(spec.type)
            except WiringError as error:
                self._refuse(error.problem(("processes", name, "type")))
                return
        elif (spec.input_mode, spec.output_mode) != ("json", "json") or spec.exit_codes == TRANSCRIBED:
            # A mode implies a type where none is written.
            arrow = (Stream(untyped_source(spec)), Stream(untyped_target(spec)))
        source, target = (strip_stream(side, self._declared) for side in arrow or (JSON, JSON))
        feed, output, wrong = compile_modes(spec, source, target, self._declared, ("processes", name))
        for problem in [*wrong, *_wrong_ports(spec, ("processes", name))]:
            self._refuse(problem)
        type_text = spec.type if spec.type and arrow else ""
        self.by_name[name] = Process(name, spec, type_text, is_bare, arrow, feed, output)

    def _declared_type(self, text: str) -> tuple[Arrow, bool]:
        """A type as streams, and whether it was written in the base category. Raises `WiringError`."""
        source, target = parse_checked(text, self._declared)
        streams = [is_stream(side, self._declared) for side in (source, target)]
        is_unit = [resolve(side, self._declared) == UNIT for side in (source, target)]
        for side in (source, target):
            if has_stream(strip_stream(side, self._declared), self._declared):
                raise WiringError(f"{show(side)} holds a stream within a message or a stream", value=text)
        if all(streams) and not all(is_unit):
            return (source, target), False
        # `unit` is in both categories.
        if any(flag and not unit for flag, unit in zip(streams, is_unit, strict=True)):
            one = show(source if streams[0] else target)
            why = f"{one} is a stream, and the other side is none: both sides of a process are streams, or neither is"
            raise WiringError(why, value=text)
        return (Stream(source), Stream(target)), True

    def _is_run(self, process: Process) -> bool:
        return process.spec.command is not None or self._config.agent_command is not None

    # --- chains ---

    def _plumb(self, process: Process, upstream: Type | None) -> StreamMorphism:
        arrow = process.arrow
        upstream = arrow[0] if arrow else upstream
        stages: list[StreamMorphism] = []
        for place, entry in enumerate(process.chain):
            path: Path = ("processes", process.name, "chain", place)
            try:
                lifted = LIFT.fullmatch(entry)
                stage = (
                    self.compile(entry, upstream) if lifted is None else morphisms.lift(self._lifted(lifted["tool"]))
                )
                stages.append(self._link(stage, entry, upstream))
                # Before the next: types double in every copy.
                _bound(stages)
            except WiringError as error:
                # What an entry cannot be in this place is to be mended in the chain.
                whole = self.by_name.get(entry)
                is_whole = error.found.path == ("processes", entry) and (whole is None or not _lacking(whole.spec))
                if is_whole or not error.found.path:
                    error.found = msgspec.structs.replace(error.found, path=path)
                raise
            upstream = stages[-1].target
        if arrow is None:
            return morphisms.compose(process.name, tuple(stages))
        given = stages[-1].target
        differs = COMPATIBLE.difference(given, arrow[1], self._declared)
        if differs is not None:
            why = f"the chain {show_arrow(stages[0].source, given)} does not give {show(arrow[1])}: {differs}"
            raise WiringError(why, ("processes", process.name, "type"), process.spec.type)
        if not SAME.holds(given, arrow[1], self._declared):
            stages[-1] = promised(stages[-1], arrow[1], self._declared)
        made = morphisms.compose(process.name, tuple(stages))
        return msgspec.structs.replace(made, source=arrow[0], target=arrow[1])

    def _link(self, stage: StreamMorphism, entry: str, upstream: Type | None) -> StreamMorphism:
        """The stage behind what gives `upstream`: refused where they do not meet, guarded where they may not."""
        if upstream is None or SAME.holds(upstream, stage.source, self._declared):
            return stage
        differs = COMPATIBLE.difference(upstream, stage.source, self._declared)
        if differs is not None:
            why = f"{entry} takes {show(stage.source)}, and what comes is {show(upstream)}: {differs}"
            raise WiringError(why, value=entry)
        return guarded(stage, stage.source, self._declared)


def _bound(stages: list[StreamMorphism]) -> None:
    """Refuse a chain that goes on for too long, or in which a message becomes too many."""
    if sum(stage.size for stage in stages) > MAX_STAGES:
        raise WiringError(f"a chain has at most {MAX_STAGES} stages, those of the chains within it counted too")
    if max(stage.depth for stage in stages) > MAX_DEPTH:
        raise WiringError(f"chains and tools stand within one another at most {MAX_DEPTH} deep")
    if math.prod(stage.growth for stage in stages) > MAX_GROWTH:
        raise WiringError(f"a chain copies a message at most {MAX_GROWTH} times")


def _wrong_ports(spec: ProcessSpec, path: Path) -> list[Problem]:
    """Why an agent cannot have its ports on its standard streams, where they are lines between other lines."""
    if spec.ports is None or spec.kind != "agent":
        return []
    place = (*path, "ports")
    if not spec.is_profile:
        return [Problem(place, "only an agent that names tools or mcp has ports", value=spec.ports)]
    if spec.input_mode == "text":
        return [Problem(place, "a text has no end where stdin stays open", allowed='input_mode = "json"')]
    return []


def _lacking(spec: ProcessSpec) -> str | None:
    """What a process of its kind must say and this one does not."""
    needed = _NEEDED.get(spec.kind)
    if needed is None or getattr(spec, needed) is not None:
        return None
    return f'a process of kind {spec.kind} needs "{needed}"'


def unrun_agents(config: Config) -> list[str]:
    """A warning for each agent that nothing runs and that is there for no profile either."""
    if config.agent_command is not None:
        return []
    return [
        f"processes.{name}: nothing runs this agent: it has no command, and there is no agent_command"
        for name, spec in config.processes.items()
        if spec.kind == "agent" and spec.command is None and not spec.is_profile
    ]
