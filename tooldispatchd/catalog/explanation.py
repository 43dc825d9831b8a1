"""What was understood of a configuration, in lines for a person: types, tools, processes, servers, APIs, profiles.

Pure. Stable and in the file's order. It shows what a thing is and how it runs, and nothing that may be a secret: of a
command its program, of a URL all but its query, of a request's the origin alone; never arguments, an environment,
headers, a prompt or a description's text.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from tooldispatchd.catalog.agentspec import AgentSpec
from tooldispatchd.catalog.arguments import TRANSCRIBED, Moded
from tooldispatchd.catalog.caching import keeps_s_of
from tooldispatchd.catalog.callgraph import default_call_s
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.confinedspec import ConfinedSpec
from tooldispatchd.catalog.confinement import Means, confinement_of, is_counted, size_of
from tooldispatchd.catalog.enforcement import FOR_FUNCTIONS, MEANS, Enforceable, Enforced, enforce
from tooldispatchd.catalog.fromschema import describe
from tooldispatchd.catalog.globs import NameList
from tooldispatchd.catalog.hookspec import HookKind, tool_of, tools_of
from tooldispatchd.catalog.policy import PolicyTable
from tooldispatchd.catalog.policyspec import QueueSpec, SizedSpec
from tooldispatchd.catalog.problems import Path
from tooldispatchd.catalog.processes import Process
from tooldispatchd.catalog.rest.declared import RestApi, RestTool, kinds_shown_to
from tooldispatchd.catalog.restspecs import RestApiSpec
from tooldispatchd.catalog.servers import Binding, credential_kinds, without_query
from tooldispatchd.catalog.speckinds import WORKSPACE
from tooldispatchd.catalog.specs import InputMode, LimitsSpec, McpSpec, OutputMode, ProfileSpec, ToolSpec
from tooldispatchd.catalog.tools import DeclaredTool

# Two lines of a terminal: enough to know an expression or a type again.
MAX_TEXT: Final = 160
# A table that a person wrote has fewer; a document has a thousand.
MAX_USERS: Final = 20

_INDENT: Final = "    "
_OVERFLOWS: Final = {"store": "stored, and read back by a handle", "truncate": "cut", "error": "a fault"}


def explain(catalog: Catalog, where: Callable[[Path], str] | None = None) -> list[str]:
    """The lines, without line feeds; what is further said of a thing is indented by four spaces.

    `where` says in which file and line the table at a path was written; each thing's first line ends with it.
    """
    explanation = _Explanation(catalog, where)
    # What hooks run is said of them.
    asked = frozenset(tools_of(catalog.config.hooks))
    return [
        *explanation.types(),
        *(line for name, queue in catalog.config.queues.items() for line in queue_lines(name, queue)),
        *explanation.hooks(),
        *(line for name in catalog.tools if name not in asked for line in explanation.tool(name)),
        *explanation.processes(),
        *(line for name in catalog.servers for line in explanation.server(name)),
        *explanation.apis(),
        *explanation.described(),
        *explanation.profiles(),
    ]


def explain_tool(catalog: Catalog, name: str, where: Callable[[Path], str] | None = None) -> list[str]:
    """As `explain`, of one tool as agents name it: its own lines, else those of its server."""
    explanation = _Explanation(catalog, where)
    if name in catalog.tools:
        return [*explanation.tool(name)]
    prefix = name.rpartition(":")[0]
    servers = [server for server, binding in catalog.servers.items() if prefix and binding.prefix == prefix]
    return [line for server in servers[:1] for line in explanation.server(server)]


class _Explanation:
    """One catalog, with the users of each process and server in it."""

    def __init__(self, catalog: Catalog, where: Callable[[Path], str] | None) -> None:
        self._catalog = catalog
        self._where = where
        self._config = catalog.config
        self._users_of_processes = _users_of_processes(catalog)
        self._users_of_servers = _users_of_servers(catalog)

    def types(self) -> Iterator[str]:
        for name, text in self._config.types.items():
            yield f"type {name} = {_cut(text)}{self._at('types', name)}"

    def tool(self, name: str) -> Iterator[str]:
        tool = self._catalog.tools[name]
        spec = tool.spec
        shown_type = _cut(tool.type_text) if tool.typed else "as its server says"
        if tool.typed and (spec.input_schema is not None or spec.output_schema is not None):
            # As near as a type can say it.
            given = [spec.input_schema, spec.output_schema]
            shown_type = " -> ".join("json" if schema is None else describe(schema) for schema in given)
        yield f"tool {name} : {shown_type}{self._at('tools', name)}"
        if spec.aliases:
            yield f"{_INDENT}also called: {', '.join(spec.aliases)}"
        yield f"{_INDENT}runs: {self._way(tool)}"
        if spec.command is not None or spec.python is not None:
            yield from _indented(program_lines(spec, self._catalog.enforceable))
        default_s = default_call_s(name, self._config)
        yield from _indented(() if tool.rest is None else _request_lines(tool.rest))
        limits = (spec.call_s, self._limit_of_peer(tool), default_s)
        yield f"{_INDENT}limit: {next(limit for limit in limits if limit is not None):g} s"
        yield from _indented(policy_lines(spec))
        if spec.mode is not None:
            yield f"{_INDENT}{'each call' if spec.mode == 'background' else 'a call that asks for it'} is a job"
        callers = [each for each, profile in self._catalog.profiles.items() if name in profile.tools]
        if spec.expose is False:
            yield f"{_INDENT}not offered: it is there for chains only"
        elif spec.expose == "named" and not callers:
            yield f"{_INDENT}offered to nobody: only a profile or an agent that names it is offered it"
        else:
            yield f"{_INDENT}offered to{': ' + ', '.join(callers) if callers else ' nobody: no profile names it'}"
        if tool.needs:
            yield f"{_INDENT}its chains lift: {', '.join(tool.needs)}"
        said = [key for key in ("title", "hint", "doc") if getattr(spec, key)]
        if said:
            yield f"{_INDENT}has: {', '.join(said)}"

    def hooks(self) -> Iterator[str]:
        """What is asked about calls, and about which."""
        own = frozenset(tools_of(self._config.hooks))
        for name, hook in self._config.hooks.items():
            yield f"hook {name}{self._at('hooks', name)}"
            for kind in (kind for kind in HookKind if hook.runs(kind) is not None):
                yield f"{_INDENT}{kind}: {self._way(self._catalog.tools[tool_of(name, kind)])}"
            asked = [each for each in NameList(hook.tools).of(self._catalog.tools) if each not in own]
            more = "" if asked else ", of declared tools about none"
            yield f"{_INDENT}about calls of: {_cut(', '.join(hook.tools))}{more}"
            if hook.names:
                yield f"{_INDENT}may have called instead: {_cut(', '.join(hook.names))}"
            failing = "goes on" if hook.on_failure == "allow" else "is refused"
            yield f"{_INDENT}limit: {hook.call_s:g} s; where it fails the call {failing}"
            yield from _indented(bound_lines(hook, enforce(confinement_of(hook), self._catalog.enforceable)))

    def processes(self) -> Iterator[str]:
        for name, process in self._catalog.processes.items():
            shown_type = f" : {_cut(process.type_text)}" if process.type_text else ""
            yield f"process {name}{shown_type}{self._at('processes', name)}"
            if not process.type_text:
                yield f"{_INDENT}its type is taken from where it stands"
            yield f"{_INDENT}runs: {self._stages(process)}"
            if process.kind == "agent":
                yield from _indented(program_lines(process.spec, self._catalog.enforceable))
                depth = self._config.limits.agent_depth
                channel = f"as profile {name}, on a channel of its own (limits.agent_depth is {depth})"
                if process.spec.is_profile:
                    yield f"{_INDENT}calls {f'tools: {channel}' if depth else 'no tools: limits.agent_depth is 0'}"
            if process.is_bare:
                yield f"{_INDENT}in the base category: it may be made a tool, and cannot be wired"
            yield f"{_INDENT}{_used_by(self._users_of_processes.get(name, ()))}"

    def server(self, name: str) -> Iterator[str]:
        binding = self._catalog.servers[name]
        # Those that stand where they are used have no table of their own.
        yield f"server {name}{self._at('mcp', name) if name in self._config.mcp else ''}"
        spec = binding.spec
        if binding.prefix is None:
            yield f"{_INDENT}prefix: by the server's own name"
        else:
            yield f'{_INDENT}prefix: "{binding.prefix}"{"" if binding.prefix else ", its tools have their names alone"}'
        reached = f"at {_cut(without_query(spec.url or ''))}"
        yield f"{_INDENT}runs: {reached if spec.command is None else f'program {_program((spec.command,))}'}"
        revision = "as the server speaks it" if spec.protocol == "auto" else spec.protocol
        over = {"http": ", over Streamable HTTP", "sse": ", over HTTP+SSE"}.get(spec.transport, "")
        yield f"{_INDENT}protocol: {revision}{over}"
        number = "one for all agents" if spec.shared else "one for each agent"
        begin = "from the first call" if spec.lazy else "from the start"
        end = ", anew after each end" if spec.restart == "backoff" else ""
        yield f"{_INDENT}connections: {number}, {begin}{end}"
        yield from (f"{_INDENT}{line}" for line in _stated(binding, self._config.limits))
        yield from _indented(policy_lines(spec))
        if spec.command is not None:
            yield from _indented(kept_lines(spec, self._catalog.enforceable))
        if spec.url is not None:
            yield f"{_INDENT}credentials: {', '.join(credential_kinds(spec)) or 'none'}"
        if not spec.enabled:
            left_out = self._catalog.servers[name].left_out
            yield f"{_INDENT}{'not enabled' if left_out is None else f'left out: {left_out}'}"
        yield f"{_INDENT}{_used_by(self._users_of_servers.get(name, ()))}"

    def apis(self) -> Iterator[str]:
        """The APIs of HTTP, those that a tool's URL alone names too."""
        for name, api in self._catalog.apis.items():
            yield f"api {name}{self._at('rest', name) if name in self._config.rest else ''}"
            yield from _indented(_api_lines(api, self._config.limits))
            yield from _indented(policy_lines(api.spec))
            users = [
                f"tool {each}" for each, tool in self._catalog.tools.items() if tool.rest and tool.rest.api == name
            ]
            yield f"{_INDENT}{_used_by(users)}"

    def described(self) -> Iterator[str]:
        """What documents of OpenAPI say, and is no tool."""
        for name, api in self._catalog.described.items():
            yield f"openapi {name} : {len(api.tools)} tools{self._at('openapi', name)}"
            # They are not cut: the reason stands at the end.
            yield from _indented(f"left out: {line}" for line in api.left_out)

    def profiles(self) -> Iterator[str]:
        """What a profile has that its tools and servers do not tell already."""
        for (_, name), spec in self._config.profile_tables().items():
            lines = [*_profile_lines(spec)]
            if lines:
                yield f"profile {name}"
                yield from (f"{_INDENT}{line}" for line in lines)

    def _at(self, section: str, name: str) -> str:
        """Where its table was written."""
        return f" ({self._where((section, name))})" if self._where is not None else ""

    def _limit_of_peer(self, tool: DeclaredTool) -> float | None:
        """The limit of the server, or of the API, that a tool is at; None where it says none."""
        if tool.rest is not None:
            return self._catalog.apis[tool.rest.api].spec.call_s
        return None if tool.server is None else self._catalog.servers[tool.server.binding].spec.call_s

    def _way(self, tool: DeclaredTool) -> str:
        spec = tool.spec
        if tool.rest is not None:
            return f"{tool.rest.builder.method} request to the API {tool.rest.api}"
        if spec.process is not None:
            return f"process {spec.process} ({self._stages(self._catalog.processes[spec.process])})"
        if tool.server is not None:
            return f"tool {tool.server.tool} of server {tool.server.binding}"
        if spec.native is not None:
            return f"run by the model's provider: {', '.join(spec.native)}"
        if spec.inline is not None:
            return f"inline {spec.inline}"
        if spec.map is not None:
            return f"map: {_cut(spec.map)}"
        if spec.python is not None:
            return f"Python function {spec.python}{', in workers that live on' if _has_workers(spec) else ''}"
        return f"program {_program(spec.command)}"

    def _stages(self, process: Process) -> str:
        """What a process does: its kind, and what belongs to it."""
        spec = process.spec
        match spec.kind:
            case "agent" if spec.command is not None:
                return f"agent: {_program(spec.command)}"
            case "agent" if self._config.agent_command is not None:
                return f"agent: {_program(self._config.agent_command)}, the agent_command"
            case "agent":
                nothing = "so no tool can be made of it; it has no command, and there is no agent_command"
                return f"agent: by nothing, {nothing}"
            case "plumb":
                return f"chain {' -> '.join(process.chain)}"
            case "map":
                return f"map: {_cut(spec.map or '')}"
            case "filter":
                return f"filter: {_cut(spec.filter or '')}"
            case "project":
                return f"project: {spec.project}"
            case _:
                return spec.kind


def _profile_lines(spec: AgentSpec) -> Iterator[str]:
    # Those of an agent process are its own program's.
    bounds = list(bound_lines(spec)) if isinstance(spec, ProfileSpec) else []
    if bounds:
        yield "for all programs that its agents call:"
        yield from (f"{_INDENT}{line}" for line in bounds)
    if spec.roots:
        yield f"roots: {', '.join(map(_cut, spec.roots))}"
    if spec.workspace is not None:
        yield f"workspace: {_cut(spec.workspace)}{', made where it is missing' if spec.make else ''}"
    if spec.workspaces:
        yield f"workspace of a hello: in {', '.join(map(_cut, spec.workspaces))}"
    if spec.deny:
        yield f"offers never: {_cut(', '.join(spec.deny))}"
    if spec.separator != ":":
        yield f"tools of servers are shown as: server{spec.separator}tool"
    if spec.resolve == "lenient":
        yield "a tool is also called by the last part of its name"
    if spec.order is not None:
        yield f"calls run: {spec.order}"
    if spec.queue is not None:
        yield f"calls wait in: queue {spec.queue}"
    yield from size_lines(spec)
    yield from _budget_lines(spec)
    yield from rule_lines(spec)
    if spec.mcp_resources is False:
        yield "offers no resources and prompts"
    elif spec.mcp_resources:
        yield "offers: the resources and prompts of its servers"


def _budget_lines(spec: AgentSpec) -> Iterator[str]:
    for name, budget in (("budget", spec.budget), ("budget of a turn", spec.turn_budget)):
        if budget is not None:
            said = ((budget.calls, "calls"), (budget.bytes, "bytes"), (budget.tokens, "tokens"))
            yield f"{name}: {', '.join(f'{count:,} {what}' for count, what in said if count is not None)}"


def policy_lines(spec: PolicyTable) -> Iterator[str]:
    """What calls wait for, and what is done where they fail, as far as one table says it."""
    if spec.queue is not None:
        yield f"waits in: queue {spec.queue}"
    if spec.priority is not None:
        yield f"priority: {spec.priority}"
    if spec.exclusive is not None:
        shared = ", which it only looks at" if isinstance(spec, ToolSpec) and spec.read_only else ""
        yield f"has for itself: {spec.exclusive}{shared}"
    if not isinstance(spec, RestApiSpec):
        yield from _cache_lines(spec)
    if spec.idempotent:
        which = f" of {_cut(', '.join(spec.idempotent))}" if isinstance(spec.idempotent, tuple) else ""
        which = " that may be sent twice" if isinstance(spec, RestApiSpec) else which
        yield f"tried again: calls{which} that could not be done"
    if spec.breaker is not None:
        yield f"rests after failures: {spec.breaker}"
    if spec.redact:
        yield "masked in its answers: known secrets"
    if not isinstance(spec, RestApiSpec):
        yield from size_lines(spec)
        yield from rule_lines(spec)


def size_lines(spec: SizedSpec) -> Iterator[str]:
    """How much of an answer a model gets, as far as one table says it."""
    if spec.max_output is not None or spec.overflow is not None:
        most = "by default" if spec.max_output is None else f"over {spec.max_output:,} bytes"
        yield f"answers that are too long, {most}: {_OVERFLOWS[spec.overflow or 'store']}"


def rule_lines(spec: ToolSpec | McpSpec | AgentSpec) -> Iterator[str]:
    """Which calls go on, and which somebody is asked about."""
    if spec.when is not None:
        rules = [spec.when] if isinstance(spec.when, str) else [each.rule for each in spec.when]
        yield from (f"only where: {_cut(rule)}" for rule in rules)
    if spec.approve is not None:
        yield f"somebody is asked: {_cut(spec.approve)}"
    if isinstance(spec, AgentSpec) and spec.approver:
        yield "asked whether calls of others may run" if spec.approver is True else f"asks: profile {spec.approver}"


def _cache_lines(spec: ToolSpec | McpSpec) -> Iterator[str]:
    """For how long which answers are given again, and to whom."""
    times = spec.cache.items() if isinstance(spec.cache, dict) else [("", spec.cache)]
    said = [f"{f'{name} ' if name else ''}{_shown_time(kept)}" for name, kept in times if kept is not None]
    whom = ", to whoever asks" if spec.cache_scope == "shared" else ""
    if said:
        yield f"answers are given again: {_cut(', '.join(said))}{whom}"
    if spec.single_flight:
        yield "equal calls under way are one"


def _shown_time(kept: int | str) -> str:
    seconds = keeps_s_of(kept)
    return f"for {seconds:g} s" if seconds else "never"


def queue_lines(name: str, spec: QueueSpec) -> Iterator[str]:
    """A queue, and its bounds."""
    bounds = (("at once", spec.concurrent), ("of one agent at once", spec.per_agent))
    said = [f"{count:,} {what}" for what, count in bounds if count is not None]
    said += [] if spec.rate is None else [spec.rate]
    yield f"queue {name}: {', '.join(said)}; {spec.waiting:,} may wait"


def _users_of_processes(catalog: Catalog) -> dict[str, list[str]]:
    """The tools and the chains that each process is used by."""
    users: dict[str, list[str]] = {}
    for name, tool in catalog.tools.items():
        if tool.spec.process is not None:
            users.setdefault(tool.spec.process, []).append(f"tool {name}")
    for name, process in catalog.processes.items():
        for entry in dict.fromkeys(process.chain):
            users.setdefault(entry, []).append(f"process {name}")
    return users


def _users_of_servers(catalog: Catalog) -> dict[str, list[str]]:
    """The tools and the profiles that each server is used by."""
    users: dict[str, list[str]] = {}
    for name, tool in catalog.tools.items():
        if tool.server is not None:
            users.setdefault(tool.server.binding, []).append(f"tool {name}")
    for name, profile in catalog.profiles.items():
        for use in profile.servers:
            lists = [", ".join(names) for names in (use.only, *use.within) if names is not None]
            only = f" ({' within '.join(lists)} only)" if lists else ""
            users.setdefault(use.server, []).append(f"profile {name}{only}")
    return users


def _used_by(users: Sequence[str]) -> str:
    more = f", and {len(users) - MAX_USERS} more" if len(users) > MAX_USERS else ""
    return f"used by: {', '.join(users[:MAX_USERS])}{more}" if users else "not used"


def _stated(binding: Binding, limits: LimitsSpec) -> Iterator[str]:
    """How long it may take; what it offers and whether it is traced, where the table says something of it."""
    spec = binding.spec
    if spec.tools is not None or spec.allow is not None:
        denied = binding.denials
        kept = ", ".join(
            name for name in (spec.tools if spec.allow is None else spec.allow) or () if not denied.admits(name)
        )
        yield f"offers: {_cut(kept)} only" if kept else "offers: nothing"
    elif spec.deny or spec.mcp_resources:
        but = f" but {_cut(', '.join(spec.deny))}" if spec.deny else ""
        yield f"offers: all{but}{', its resources and prompts' if spec.mcp_resources else ''}"
    if spec.mcp_resources is False:
        yield "offers no resources and prompts"
    start_s, call_s = spec.handshake_s or limits.handshake_s, spec.call_s or limits.call_s
    end = ", which then is cancelled alone" if spec.on_timeout == "cancel" or spec.shared else ""
    yield f"limits: {start_s:g} s to start, {call_s:g} s a call{end}"
    if spec.reset_timeout_on_progress:
        yield f"progress: begins the limit of a call anew, up to {spec.max_call_s:g} s in all"
    if spec.output_check == "warn":
        yield "answers that break their schema: given, with a warning"
    if spec.cwd == WORKSPACE:
        yield "works in: the session's workspace"
    if spec.meta:
        yield "told in _meta: whose call it is"
    if spec.trace:
        yield "logged: each message's kind, number and size"


def _request_lines(tool: RestTool) -> Iterator[str]:
    """How the answer of a request is read."""
    spec = tool.spec
    if spec.pick is not None:
        yield f"answer: what stands at {spec.pick or 'its root'}"
    if spec.map is not None:
        yield f"answer: by the expression {spec.map}"
    if spec.paginate is not None:
        yield f"pages: by {spec.paginate.by}, at most {spec.paginate.max_pages}, as one list"
    if spec.stream is not None:
        yield f"stream: {spec.stream.format}, whose tokens are told as they come"


def _api_lines(api: RestApi, limits: LimitsSpec) -> Iterator[str]:
    """Where an API is, and how the daemon is known there."""
    yield f"at: {api.origin}"
    yield f"credentials: {', '.join(kinds_shown_to(api)) or 'none'}"
    yield f"limits: {api.spec.call_s or limits.call_s:g} s a call, {api.spec.max_bytes:,} bytes an answer"
    if api.spec.hosts:
        yield f"redirects: within its origin, and to {len(api.spec.hosts)} of its hosts"


def _program(command: tuple[str, ...] | None) -> str:
    """The name of a program: what was written after it, in one text with it by mistake, may be a secret."""
    words = (command[0] if command else "").split()
    return _cut(words[0].rpartition("/")[2]) if words else "?"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    """Lines that are not cut: of what a sandbox lets in everything is worth knowing."""
    return (_INDENT + " ".join(line.split()) for line in lines)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_TEXT else f"{line[:MAX_TEXT]}…"


# --- what is said of a program: how it is spoken to, what it keeps to, how it is shut in ---

_INPUTS: Final[dict[InputMode, str]] = {
    "json": "a line of JSON on stdin",
    "text": "text on stdin",
    "args": "in its arguments",
    "env": "in variables",
}
_OUTPUTS: Final[dict[OutputMode, str]] = {
    "json": "one JSON value",
    "text": "text",
    "lines": "lines",
    "blocks": "typed parts",
}

_SIZES: Final = ("memory", "file_size", "output_bytes")
_BOUNDS: Final = ("cpu_s", "memory", "processes", "files", "file_size", "output_bytes", "nice", "user", "group")
_UNITS: Final = (("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10))


def program_lines(spec: Moded, by: Enforceable) -> Iterator[str]:
    """Those of a tool or process that runs a program or a function, on a machine that can enforce what `by` says."""
    if (spec.input_mode, spec.output_mode) != ("json", "json"):
        printed = _OUTPUTS.get(spec.output_mode, f"one file, {spec.output_mode}")
        yield f"input: {_INPUTS[spec.input_mode]}; answer: {printed}"
    if spec.exit_codes == TRANSCRIBED:
        yield "answer: stdout, stderr and the exit code, whatever that is"
    elif spec.exit_codes is not None:
        yield f"answer with exit code {', '.join(map(str, spec.exit_codes))}"
    if spec.stop_s:
        yield f"ended early: told so, and killed {spec.stop_s:g} s later"
    if spec.cwd == WORKSPACE:
        yield "works in: the session's workspace"
    means = MEANS
    if isinstance(spec, ToolSpec) and spec.python is not None:
        means = FOR_FUNCTIONS
        if spec.state:
            yield f"keeps a state in each session{'' if spec.state is True else f', under {spec.state}'}"
        replaced = "a worker" if _has_workers(spec) else "its warm parent"
        yield f"{replaced} is replaced after {spec.max_forks} calls, or at {_size(size_of(spec.max_rss))}"
    yield from kept_lines(spec, by, means)


def _has_workers(spec: ToolSpec) -> bool:
    return spec.resident and not is_counted(spec)


def kept_lines(spec: ConfinedSpec, by: Enforceable, means: tuple[Means, ...] = MEANS) -> Iterator[str]:
    """What one table lets its program use and see, and by which means it can be shut in."""
    lines = list(bound_lines(spec, enforce(confinement_of(spec), by, means)))
    yield from lines or ["bounds: none; not shut in"]


def bound_lines(spec: ConfinedSpec, enforced: Enforced | None = None) -> Iterator[str]:
    """What one table lets programs use and see; with `enforced` also by which means, and what the machine lacks."""
    asked = confinement_of(spec)
    amounts: dict[str, int | None] = {key: getattr(asked, key) for key in _BOUNDS}
    bounds = ", ".join(
        f"{key} {_size(amount) if key in _SIZES else amount}" for key, amount in amounts.items() if amount is not None
    )
    if bounds:
        yield f"bounds: {bounds}"
    if asked.is_sandboxed:
        walls = [] if asked.network else ["no network"]
        walls += [f"reads only {_places(asked.read)}"] if asked.read is not None else []
        walls += [f"changes only {_places(asked.write)}"] if asked.write is not None else []
        means = None if enforced is None else enforced.means
        yield f"shut in: {', '.join(walls)}{f'; by {means}' if means else ''}"
    if asked.sandbox is not None:
        yield f"sandbox: {asked.sandbox}"
    if enforced is not None and enforced.lacking:
        yield f"not enforced on this machine: {', '.join(enforced.lacking)}"


def _size(amount: int) -> str:
    """As a configuration writes it."""
    return next((f"{amount // size}{unit}" for unit, size in _UNITS if amount and amount % size == 0), str(amount))


def _places(paths: tuple[str, ...]) -> str:
    return " and ".join(paths) if paths else "what every program may"
