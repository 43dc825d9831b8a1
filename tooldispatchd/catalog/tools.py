"""Declared tools, built from the configuration: types and schemas compiled, expressions checked, all problems told.

Nothing here knows how a tool is run; it says what one takes, what it gives, and how it is shown to a model.

A tool may be made of a process, whose chain may lift another tool, which may be made of a process in turn: each is
built when it is first asked for, whatever the order of the tables, and one that comes back to itself is refused.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from tooldispatchd.catalog.arguments import JSON_FEED, Feed, compile_modes, untyped_source, untyped_target
from tooldispatchd.catalog.callgraph import needs
from tooldispatchd.catalog.confinement import KEYS, problems_of
from tooldispatchd.catalog.expressions.door import Expression, ExpressionError, compile_expression
from tooldispatchd.catalog.foreignschemas import read_own
from tooldispatchd.catalog.fromschema import describe, exact_type, outline_of
from tooldispatchd.catalog.meanings import Declared, build_types, has_stream, to_schema
from tooldispatchd.catalog.morphisms import Broken, LowerError, Morphism, StageError, Work, asking, function, lower
from tooldispatchd.catalog.names import declared_name_problem
from tooldispatchd.catalog.offered import is_object, show_schema
from tooldispatchd.catalog.outputs import Output
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.processes import MAX_NESTED, Process, Processes, WiringError, checked, parse_checked
from tooldispatchd.catalog.relations import COMPATIBLE, SAME, STATED_INPUT, STATED_OUTPUT
from tooldispatchd.catalog.rest.declared import Apis, RestTool, compile_request
from tooldispatchd.catalog.rules import is_asked_about
from tooldispatchd.catalog.schemas import Both, Check, LazyCheck, SchemaError, compile_check
from tooldispatchd.catalog.servers import Binding, ServerTool, server_tool
from tooldispatchd.catalog.signatures import Signature, stated_misfit
from tooldispatchd.catalog.specs import Config, ToolSpec
from tooldispatchd.catalog.types import JSON, UNIT, Product, Record, Stream, Type, column_of, show, show_arrow

WAYS: Final = ("process", "mcp", "inline", "map", "command", "python", "rest", "native")
_PROGRAMS: Final = ("command", "python")
# What means something to tools of some ways only.
_ONLY: Final[dict[str, tuple[str, ...]]] = {
    "args": ("command",),
    **dict.fromkeys(("env", "cwd", "stop_s"), _PROGRAMS),
    "name": ("mcp",),
    **dict.fromkeys(("input_mode", "output_mode", "exit_codes"), ("command",)),
    **dict.fromkeys(("venv", "max_forks", "max_rss", "resident", "state", "options"), ("python",)),
    **dict.fromkeys(KEYS, _PROGRAMS),
    "annotations": ("rest",),
}


# Looked up once: for a thousand tools that takes as long as all else.
_DEFAULTS: Final = {field.name: field.default for field in msgspec.structs.fields(ToolSpec)}
# What a request takes that says nothing of parameters.
_NOTHING: Final = Record(())


class DeclaredTool(msgspec.Struct, frozen=True):
    """One tool of the configuration, ready to be planned and shown.

    `input_schema` and `output_schema` are what is checked; `shown_schema` is the input as a model sees it: an object
    always, so that a `wrapped` tool shows `{"input": …}`. `missing_input` is what a request without input means
    (UNSET: nothing, it is an error). `type_text` is for people: `A -> B`, with `schema` for what is given as a schema.

    `unchecked` are the keywords of its schemas that are not checked.

    `feed` and `printed` say how a `command` gets its input and gives its answer. A tool made of a process has its
    `program`, and `needs` names the tools that its chains lift. A tool of a server has `server`; where it is not
    `typed` its schemas are the server's, and those here admit everything.
    """

    name: str
    title: str | None
    description: str
    spec: ToolSpec
    input_schema: dict[str, object]
    output_schema: dict[str, object]
    shown_schema: dict[str, object]
    wrapped: bool
    input: Check
    output: Check
    missing_input: dict[str, object] | UnsetType | None
    expression: Expression | None
    type_text: str
    program: Morphism | None = None
    needs: tuple[str, ...] = ()
    server: ServerTool | None = None
    typed: bool = True
    feed: Feed = JSON_FEED
    printed: Output = Output.JSON
    signature: Signature | None = None
    rest: RestTool | None = None
    unchecked: tuple[str, ...] = ()


class _Half(msgspec.Struct, frozen=True):
    """What a tool takes, or what it gives: `type` for its expression, `wired` for a chain that lifts it."""

    schema: dict[str, object]
    check: Check
    type: Type
    text: str
    wired: Type


class _ToolBuilder:
    """Builds one tool, or collects what is wrong with it in `problems`."""

    def __init__(
        self,
        name: str,
        spec: ToolSpec,
        declared: Declared,
        *,
        processes: Processes,
        servers: Mapping[str, Binding],
        apis: Apis,
        signature: Signature | None,
        is_sound: bool,
    ) -> None:
        self._name = name
        self._spec = spec
        self._declared = declared
        self._servers = servers
        self._apis = apis
        self._processes = processes
        self._signature = signature
        # Whether its schemas are known to be such as can be compiled.
        self._is_sound = is_sound
        self.problems: list[Problem] = []
        self._unchecked: list[str] = []
        # What it takes and gives, once it is built.
        self.source: Type = JSON
        self.target: Type = JSON

    def build(self) -> DeclaredTool | None:
        """The tool; None where a problem leaves nothing to build."""
        spec = self._spec
        refused = declared_name_problem(self._name)
        if refused:
            self._refuse(refused, value=self._name)
        self._check_way()
        program = self._lowered()
        if spec.process is not None and program is None:
            return None
        if spec.python is not None and self._signature is None:
            # Why its function could not be read has been told where that was tried.
            return None
        if spec.state and self._signature is not None and not self._signature.takes_ctx:
            self._refuse("its function takes no ctx, whose state it would be", "state", value=spec.state)
        # A `map` that says no type takes any JSON, and gives what it makes.
        expression = None if self._is_typed else self._compile_map(JSON, None)
        halves = self._types(program, expression)
        if halves is None:
            return None
        source, target = halves
        self.source, self.target = source.wired, target.wired
        if program is not None:
            self._check_program(program, source.type, target.type)
        if spec.mcp is not None and not (is_object(source.schema) or source.schema == {}):
            self._refuse(f"a server's tool takes a record, and {source.text} is none", "type", value=spec.type)
        if spec.rest is not None and not is_object(source.schema):
            why = f"the parameters of a request are a record, and {source.text} is none"
            self._refuse(why, "type", value=spec.type)
            return None
        return self._made(program, expression, source, target)

    def _made(
        self, program: Morphism | None, expression: Expression | None, source: _Half, target: _Half
    ) -> DeclaredTool:
        """The tool of what it runs and of its two halves, which go together."""
        spec = self._spec
        shown, wrapped = show_schema(source.schema)
        checks = source.check, target.check
        feed, printed = JSON_FEED, Output.JSON
        if spec.command is not None:
            path: Path = ("tools", self._name)
            feed, printed, wrong = compile_modes(spec, source.type, target.type, self._declared, path)
            self.problems += wrong
        if program is not None:
            checks = self._both(source, program.source), self._both(target, program.target)
        missing: dict[str, object] | UnsetType | None = {}
        if not is_object(source.schema):
            missing = None if source.schema.get("type") == "null" else UNSET
        return DeclaredTool(
            name=self._name,
            title=spec.title,
            description=spec.description or (self._signature.description if self._signature else ""),
            spec=spec,
            input_schema=source.schema,
            output_schema=target.schema,
            shown_schema=shown,
            wrapped=wrapped,
            input=checks[0],
            output=checks[1],
            missing_input=missing,
            expression=expression or self._compile_map(source.type, target.type),
            type_text=f"{source.text} -> {target.text}",
            program=program,
            server=server_tool(self._name, spec, self._servers),
            typed=spec.mcp is None or self._is_typed,
            feed=feed,
            printed=printed,
            signature=self._signature,
            rest=self._request(source, target),
            unchecked=tuple(self._unchecked),
        )

    def _request(self, source: _Half, target: _Half) -> RestTool | None:
        """The request that it is; None for a tool of another way, and where what is wrong has been told."""
        spec = self._spec
        api = self._apis.apis.get(self._apis.of_tools.get(self._name, ""))
        if spec.rest is None or api is None:
            return None
        builder, hints, problems = compile_request(self._name, spec, api, source.schema)
        self.problems += problems
        expression = None
        if spec.rest.map is not None:
            expression = self._compile(spec.rest.map, JSON, target.type if self._is_typed else None, "rest", "map")
        return None if builder is None else RestTool(api.name, builder, spec.rest, hints, expression)

    @property
    def _is_typed(self) -> bool:
        spec = self._spec
        return not (spec.type is None and spec.input_schema is None and spec.output_schema is None)

    # --- a tool made of a process ---

    def _lowered(self) -> Morphism | None:
        """The process as a tool, at the tool's own type where the process has none."""
        spec = self._spec
        if spec.process is None:
            return None
        if self._processes.is_tool(spec.process):
            why = f"{spec.process} is a tool already, and a tool is made of a process"
            self._refuse(why, "process", value=spec.process)
            return None
        if spec.input_schema is not None or spec.output_schema is not None:
            self._refuse('a tool made of a process states its type as text, "A -> B"')
            return None
        if spec.type is not None and self._halves_of_type(spec.type) is None:
            return None
        try:
            upstream = None if spec.type is None else Stream(parse_checked(spec.type, self._declared)[0])
            return lower(self._processes.compile(spec.process, upstream, may_be_bare=True), self._declared)
        except LowerError as error:
            self._refuse(str(error), "process", value=spec.process)
        except WiringError as error:
            if not error.is_told:
                self.problems.append(error.problem(("tools", self._name, "process")))
        return None

    def _check_program(self, program: Morphism, source: Type, target: Type) -> None:
        """Whether the tool says of itself what its process does."""
        process = self._spec.process or ""
        text = self._processes.by_name[process].type_text or show_arrow(Stream(program.source), Stream(program.target))
        for side, verb, mine, its in (
            ("input", "takes", source, program.source),
            ("output", "gives", target, program.target),
        ):
            differs = COMPATIBLE.difference(mine, its, self._declared)
            if differs is not None:
                why = f"the tool {self._name} {verb} {show(mine)}, but its process {process} : {text} does not"
                allowed = f"as {side}: {show(its)}"
                self._refuse(f"{why} ({differs})", "type", value=self._spec.type, allowed=allowed)

    def _both(self, half: _Half, type_: Type) -> Check:
        """The tool's check, and its process's where that may ask for more: `json` goes with every type."""
        if SAME.holds(half.type, type_, self._declared):
            return half.check
        return Both(half.check, compile_check(to_schema(type_, self._declared)))

    def _types(self, program: Morphism | None, expression: Expression | None) -> tuple[_Half, _Half] | None:
        """What the tool states, else what it is made of; for a function both, where it allows what is stated."""
        spec, signature = self._spec, self._signature
        stated: tuple[_Half, _Half] | None = None
        if spec.type is not None:
            stated = self._halves_of_type(spec.type)
        elif self._is_typed or (signature is None and program is None and expression is None):
            stated = self._halves_of_schemas()
        elif signature is None and program is not None:
            stated = self._halves(program.source, program.target, "process")
        elif signature is None and expression is not None:
            stated = self._halves(JSON, expression.output, "map")
        if signature is None or (stated is None and self._is_typed):
            return stated
        said, given = stated or (None, None)
        source = self._half_of_function(signature.input_schema, said, "input_schema")
        target = self._half_of_function(signature.output_schema, given, "output_schema")
        return None if source is None or target is None else (source, target)

    def _refuse(self, why: str, *keys: str, value: object = UNSET, allowed: str | None = None) -> None:
        path: Path = ("tools", self._name, *keys)
        self.problems.append(Problem(path, why, value=value, allowed=allowed))

    def _check_way(self) -> None:
        spec = self._spec
        ways = [way for way in WAYS if getattr(spec, way) is not None]
        if len(ways) != 1:
            found = f"this one has {' and '.join(ways)}" if ways else "this one has none"
            self._refuse(f"a tool has exactly one way to run, {found}", allowed=", ".join((*WAYS, "builtin")))
        for key, own in _ONLY.items() if ways else ():
            is_said = getattr(spec, key) != _DEFAULTS[key] and getattr(spec, key) not in ((), {})
            if is_said and not set(own) & set(ways):
                self._refuse(f"only a tool with {' or '.join(own)} has {key}", key)
        self.problems += problems_of(spec, ("tools", self._name))

    def _halves_of_schemas(self) -> tuple[_Half, _Half] | None:
        spec = self._spec
        if spec.input_schema is None and spec.output_schema is None:
            given = _result_of_inline(spec, JSON) if spec.inline else untyped_target(spec)
            return self._halves(_NOTHING if spec.rest is not None else untyped_source(spec), given, "type")
        source = self._half_of_schema(spec.input_schema, "input_schema")
        target = self._half_of_schema(spec.output_schema, "output_schema")
        return None if source is None or target is None else (source, target)

    def _half_of_function(self, schema: dict[str, object], stated: _Half | None, key: str) -> _Half | None:
        spec = self._spec
        half = self._half_of_schema(schema, "python")
        # What may be anything states nothing.
        if half is None or stated is None or stated.schema == {}:
            return half and msgspec.structs.replace(half, text=describe(schema))
        rule, verb = (STATED_INPUT, "takes") if key == "input_schema" else (STATED_OUTPUT, "gives")
        why = stated_misfit(getattr(spec, key) or stated.type, schema, rule, self._declared)
        if why is not None:
            said = stated.text if spec.type is not None else describe(stated.schema)
            why = f"the tool {self._name} {verb} {said}, but its function {spec.python} does not ({why})"
            self._refuse(why, key if spec.type is None else "type", value=spec.type or UNSET, allowed=describe(schema))
        return msgspec.structs.replace(stated, check=Both(stated.check, half.check))

    def _half_of_schema(self, schema: dict[str, object] | None, key: str) -> _Half | None:
        if schema is None:
            is_of_request = self._spec.rest is not None and key == "input_schema"
            return self._half(_NOTHING if is_of_request else JSON, key)
        if self._is_sound:
            return _Half(schema, LazyCheck(schema), JSON, "schema", JSON)
        try:
            check = compile_check(schema)
        except SchemaError as error:
            read = read_own(schema)
            if read is None:
                self._refuse(f"cannot use this schema: {error}", key)
                return None
            check = read[1]
            self._unchecked += [f"{key} at {each}" for each in read[0].unchecked]
        exact = exact_type(schema)
        # A chain may only be told what is true of every value; an expression can use what is nearly so.
        wired = exact[0] if exact is not None and not exact[1] else JSON
        return _Half(schema, check, outline_of(schema), "schema", wired)

    def _halves_of_type(self, text: str) -> tuple[_Half, _Half] | None:
        for key in ("input_schema", "output_schema"):
            if getattr(self._spec, key) is not None:
                self._refuse(f"type and {key} exclude each other", key)
        try:
            source, target = parse_checked(text, self._declared)
        except WiringError as error:
            self.problems.append(error.problem(("tools", self._name, "type")))
            return None
        for side, verb in ((source, "takes"), (target, "gives")):
            if has_stream(side, self._declared):
                column = text.find("!") + 1 or column_of(text, show(side))
                why = f"column {column}: a tool {verb} one message at a time, and {show(side)} is or holds a stream"
                self._refuse(why, "type", value=text, allowed="the type without !")
                return None
        inline = self._spec.inline
        right = source if inline == "id" else _result_of_inline(self._spec, source)
        if inline is not None and not SAME.holds(target, right, self._declared):
            why = f"{inline} of {show(source)} gives {show(right)}, not {show(target)}"
            self._refuse(why, "type", value=text, allowed=f'"{show_arrow(source, right)}"')
        return self._halves(source, target, "type")

    def _halves(self, source: Type, target: Type, key: str) -> tuple[_Half, _Half] | None:
        taken, given = self._half(source, key), self._half(target, key)
        return None if taken is None or given is None else (taken, given)

    def _half(self, type_: Type, key: str) -> _Half | None:
        schema = to_schema(type_, self._declared)
        try:
            return _Half(schema, compile_check(schema), type_, show(type_), type_)
        except SchemaError as error:
            self._refuse(f"cannot use the type {show(type_)[:80]}: {error}", key)
            return None

    def _compile_map(self, source: Type, target: Type | None) -> Expression | None:
        return None if self._spec.map is None else self._compile(self._spec.map, source, target, "map")

    def _compile(self, text: str, source: Type, target: Type | None, *keys: str) -> Expression | None:
        try:
            return compile_expression(text, input_type=source, output_type=target, declared=self._declared)
        except ExpressionError as error:
            self._refuse(str(error), *keys, value=text)
            return None


def _result_of_inline(spec: ToolSpec, source: Type) -> Type:
    """What an inline tool gives for what it takes; json for every other tool."""
    if spec.inline == "copy":
        return Product((source, source))
    return UNIT if spec.inline == "discard" else JSON


Transform = Callable[[object], object]


_TRANSFORMS: Final[dict[str, Transform]] = {
    "id": lambda value: value,
    "copy": lambda value: [value, value],
    "discard": lambda _value: None,
}


def compile_transform(spec: ToolSpec, expression: Expression | None) -> Transform:
    """The function of an `inline` or `map` tool; it gives the result, or why an expression gave none."""
    if expression is not None:
        return expression.evaluate
    assert spec.inline is not None
    return _TRANSFORMS[spec.inline]


# --- the tables ---


def build_tools(
    config: Config,
    servers: Mapping[str, Binding],
    signatures: Mapping[str, Signature],
    apis: Apis,
    sound: frozenset[str] = frozenset(),
) -> tuple[dict[str, DeclaredTool], dict[str, Process], list[Problem]]:
    """The tools without a problem and the processes by name, and every problem of types, processes and tools.

    `signatures` are those of tools that are functions, by tool; of one that has none here the problem has been told.
    `sound` are tools whose schemas are known to be such as can be compiled.
    """
    declared, problems = build_types(config.types)
    table = _Table(config, declared, servers=servers, signatures=signatures, apis=apis, sound=sound)
    tools = {name: built[0] for name in config.tools if (built := table.build(name)) is not None}
    table.processes.check_all()
    # What a process is told alone it is told again where it is used.
    told = {(problem.path, problem.why): problem for problem in (*problems, *table.processes.problems, *table.problems)}
    tools = {name: msgspec.structs.replace(tool, needs=needs(name, config)) for name, tool in tools.items()}
    processes = table.processes.by_name
    # They know each other: both, with all the tools, would stay until a collection.
    del table.processes
    return tools, processes, list(told.values())


class _Table:
    def __init__(
        self,
        config: Config,
        declared: Declared,
        *,
        servers: Mapping[str, Binding],
        signatures: Mapping[str, Signature],
        apis: Apis,
        sound: frozenset[str],
    ) -> None:
        self.problems: list[Problem] = []
        self.processes = Processes(config, declared, self._lifted)
        self._config = config
        self._declared = declared
        self._servers = servers
        self._apis = apis
        self._signatures = signatures
        self._sound = sound
        self._built: dict[str, tuple[DeclaredTool, Morphism] | None] = {}
        self._open: list[str] = []

    def build(self, name: str) -> tuple[DeclaredTool, Morphism] | None:
        """The tool, and as it is lifted; None where it has a problem, which is told."""
        if name not in self._built:
            self._open.append(name)
            builder = _ToolBuilder(
                name,
                self._config.tools[name],
                self._declared,
                processes=self.processes,
                servers=self._servers,
                apis=self._apis,
                signature=self._signatures.get(name),
                is_sound=name in self._sound,
            )
            tool = builder.build()
            self._open.pop()
            self.problems += builder.problems
            self._built[name] = (
                None
                if tool is None or builder.problems
                else (tool, _morphism(tool, builder, is_asked=is_asked_about(name, self._config)))
            )
        return self._built[name]

    def _lifted(self, name: str) -> Morphism:
        if name in self._open:
            loop = " -> ".join([*self._open[self._open.index(name) :], name])
            raise WiringError(f"a tool cannot lead back to itself: {loop}", value=name)
        if len(self._open) > MAX_NESTED:
            raise WiringError(f"tools lift tools at most {MAX_NESTED} deep", value=name)
        if name not in self._config.tools:
            raise self.processes.no_tool(name)
        if self._config.tools[name].native is not None:
            raise WiringError(f"a model's provider runs {name} itself, and no chain can lift it", value=name)
        built = self.build(name)
        if built is None:
            raise WiringError(f"the tool {name} has a problem of its own", value=name, is_told=True)
        return built[1]


def _morphism(tool: DeclaredTool, builder: _ToolBuilder, *, is_asked: bool) -> Morphism:
    """A tool as it is lifted: what goes in and comes out is looked at as it would be if it were called.

    One that waits is asked for, so that it has its own limit; and one that `is_asked`, with the steps of its calls.
    """
    source, target, spec = builder.source, builder.target, tool.spec
    ways = (spec.mcp, spec.command, spec.python, spec.rest, spec.native)
    if not is_asked and tool.program is not None and tool.program.is_now:
        inner = msgspec.structs.replace(tool.program, name=tool.name, source=source, target=target)
    elif is_asked or tool.program is not None or any(way is not None for way in ways):
        if not tool.typed:
            source = target = JSON
        depth = 1 if tool.program is None else tool.program.depth
        inner = asking(tool.name, source, target, is_tool=True, output=None, depth=depth)
    else:
        run = checked(tool.name, compile_transform(spec, tool.expression), None)
        inner = function(tool.name, source, target, run, growth=2 if spec.inline == "copy" else 1)

    def apply(message: object) -> Work:
        if not tool.input.is_valid(message):
            raise StageError(tool.name, Broken(tool.input, message, is_input=True))
        result = yield from inner.apply(message)
        if not tool.output.is_valid(result):
            raise StageError(tool.name, Broken(tool.output, result))
        return result

    return msgspec.structs.replace(inner, apply=apply)
