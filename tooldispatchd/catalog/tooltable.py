"""The `[tools]` and `[processes]` tables: every tool and process built, whatever order they name one another in.

A tool may be made of a process, whose chain may lift another tool, which may be made of a process in turn: each is
built when it is first asked for, and one that comes back to itself is refused.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from tooldispatchd.catalog.callgraph import needs
from tooldispatchd.catalog.meanings import Declared, build_types
from tooldispatchd.catalog.morphisms import Broken, Morphism, StageError, Work, asking, function
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.processes import MAX_NESTED, Process, Processes
from tooldispatchd.catalog.servers import Binding
from tooldispatchd.catalog.signatures import Signature
from tooldispatchd.catalog.specs import Config
from tooldispatchd.catalog.tools import DeclaredTool, ToolBuilder, compile_transform
from tooldispatchd.catalog.types import JSON
from tooldispatchd.catalog.wiring import WiringError, checked

_NO_SIGNATURES: Final[Mapping[str, Signature]] = MappingProxyType({})


def build_tools(
    config: Config, servers: Mapping[str, Binding], signatures: Mapping[str, Signature] = _NO_SIGNATURES
) -> tuple[dict[str, DeclaredTool], dict[str, Process], list[Problem]]:
    """The tools without a problem and the processes by name, and every problem of types, processes and tools.

    `signatures` are those of tools that are functions, by tool; of one that has none here the problem has been told.
    """
    declared, problems = build_types(config.types)
    table = _Table(config, declared, servers, signatures)
    tools = {name: tool for name in config.tools if (tool := table.tool(name)) is not None}
    table.processes.check_all()
    # What a process is told alone it is told again where it is used.
    told = {(problem.path, problem.why): problem for problem in (*problems, *table.processes.problems, *table.problems)}
    tools = {name: msgspec.structs.replace(tool, needs=needs(name, config)) for name, tool in tools.items()}
    return tools, table.processes.by_name, list(told.values())


class _Table:
    def __init__(
        self, config: Config, declared: Declared, servers: Mapping[str, Binding], signatures: Mapping[str, Signature]
    ) -> None:
        self.problems: list[Problem] = []
        self.processes = Processes(config, declared, self._lifted)
        self._config = config
        self._declared = declared
        self._servers = servers
        self._signatures = signatures
        self._built: dict[str, tuple[DeclaredTool, Morphism] | None] = {}
        self._open: list[str] = []

    def tool(self, name: str) -> DeclaredTool | None:
        """The tool; None where it has a problem, which is told."""
        built = self._build(name)
        return None if built is None else built[0]

    def _build(self, name: str) -> tuple[DeclaredTool, Morphism] | None:
        if name not in self._built:
            self._open.append(name)
            spec = self._config.tools[name]
            builder = ToolBuilder(
                name,
                spec,
                self._declared,
                processes=self.processes,
                servers=self._servers,
                signature=self._signatures.get(name),
            )
            tool = builder.build()
            self._open.pop()
            self.problems += builder.problems
            is_fine = tool is not None and not builder.problems
            self._built[name] = (tool, _morphism(tool, builder)) if is_fine and tool is not None else None
        return self._built[name]

    def _lifted(self, name: str) -> Morphism:
        if name in self._open:
            loop = " -> ".join([*self._open[self._open.index(name) :], name])
            raise WiringError(f"a tool cannot lead back to itself: {loop}", value=name)
        if len(self._open) > MAX_NESTED:
            raise WiringError(f"tools lift tools at most {MAX_NESTED} deep", value=name)
        if name not in self._config.tools:
            raise self.processes.no_tool(name)
        built = self._build(name)
        if built is None:
            raise WiringError(f"the tool {name} has a problem of its own", value=name, is_told=True)
        return built[1]


def _morphism(tool: DeclaredTool, builder: ToolBuilder) -> Morphism:
    """A tool as it is lifted: what goes in and comes out is looked at as it would be if it were called.

    One that waits is asked for, so that it has its own limit.
    """
    source, target = builder.source, builder.target
    if tool.program is not None and tool.program.is_now:
        return _looking(msgspec.structs.replace(tool.program, name=tool.name, source=source, target=target), tool)
    spec = tool.spec
    if tool.program is not None or any(way is not None for way in (spec.mcp, spec.command, spec.python)):
        if not tool.typed:
            source = target = JSON
        depth = 1 if tool.program is None else tool.program.depth
        return _looking(asking(tool.name, source, target, is_tool=True, output=None, depth=depth), tool)
    run = checked(tool.name, compile_transform(tool.spec, tool.expression), None)
    return _looking(function(tool.name, source, target, run, growth=2 if tool.spec.inline == "copy" else 1), tool)


def _looking(morphism: Morphism, tool: DeclaredTool) -> Morphism:
    def apply(message: object) -> Work:
        if not tool.input.is_valid(message):
            raise StageError(tool.name, Broken(tool.input, message, is_input=True))
        result = yield from morphism.apply(message)
        if not tool.output.is_valid(result):
            raise StageError(tool.name, Broken(tool.output, result))
        return result

    return msgspec.structs.replace(morphism, apply=apply)
