"""A server as it is configured, and as it is found: its tools, its offer and its faults; all of it values."""

from enum import Enum

import msgspec
from msgspec import Raw

from tooldispatchd.catalog.globs import named_by
from tooldispatchd.catalog.schemas import Check
from tooldispatchd.catalog.traits import hints_in
from tooldispatchd.forked.policy import Policy
from tooldispatchd.http.reach import Reach
from tooldispatchd.wire.faults import Code, Fault


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """One MCP server as a session uses it: exactly one of `argv` (with `env` and `cwd`) and `reach`.

    `name` is the binding's. `whitelist` holds the only tools wanted, each of which must be offered, `allow` the only
    ones of them; `declared` those that are wanted besides, because declared tools are made of them; `deny` those never
    wanted, by any spelling of a name, also behind one of `prefixes`. The three lists may hold patterns. `handshake_s`
    bounds all from spawn to the list of tools, `call_s` one call, `max_line_bytes` one message of the server: an answer
    of `max_content_bytes` and its envelope. A server that is being stopped has `polite_s` to end after its input
    closed, and `term_s` after SIGTERM. `protocol` is a revision or `auto`, `transport` the form of HTTP or `auto`. A
    call over `call_s` is the connection's end only if `dies_of_timeouts`. `resources` is whether resources and prompts
    are offered as tools; `traced`, whether each message is logged; `told`, whether each call says whose it is. `policy`
    is what its child is started under, and `held` the device and inode of the directory that it starts in, where that
    is a workspace. With `warns_of_outputs` an answer is given that breaks the output schema which the server itself
    lists. With `max_call_s` progress begins `call_s` anew, for so long in all. Whether it `repairs` says what inputs
    its tools take.
    """

    name: str
    max_line_bytes: int
    max_content_bytes: int
    argv: tuple[str, ...] = ()
    reach: Reach | None = None
    transport: str = "auto"
    env: dict[str, str] = {}
    cwd: str | None = None
    held: tuple[int, int] | None = None
    whitelist: tuple[str, ...] | None = None
    allow: tuple[str, ...] | None = None
    declared: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    protocol: str = "auto"
    handshake_s: float = 30.0
    call_s: float = 60.0
    max_call_s: float | None = None
    dies_of_timeouts: bool = True
    polite_s: float = 2.0
    term_s: float = 2.0
    resources: bool = False
    traced: bool = False
    told: bool = False
    warns_of_outputs: bool = False
    repairs: bool = True
    policy: Policy | None = None


class Result(Enum):
    """Where a tool's result is read, and by what it is checked."""

    LISTED = "by the output schema that the server lists, if any"
    TYPED = "by the type that the configuration declares: also a text may hold the value, as JSON"
    TEXT = "the same for the type `string`: a text may be the value itself"
    WHOLE = "not at all: the result is the answer as it is, and a JSON-RPC error is the server's own"


class McpTool(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """One tool that a server offers, by the server's own name; connections to equal servers share it.

    `output` is None where the tool declares no output schema, which only a `LISTED` one may. `annotations` are the
    server's own words about the tool: hints, not promises; `icons` and `meta` (`_meta`) are for clients that
    show it. `rendered` caches what it looks like in a form, by the form
    and the name.
    """

    name: str
    title: str | None = None
    description: str = ""
    input_schema: dict[str, object]
    output_schema: dict[str, object] | None = None
    annotations: Raw | None = None
    icons: Raw | None = None
    meta: Raw | None = None
    input: Check
    output: Check | None = None
    result: Result = Result.LISTED
    method: str = "tools/call"
    """The request that a call of it is; for any but `tools/call` the arguments are the request's parameters."""
    params: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """HTTP headers that repeat some of its arguments, and where each lies in them (revision 2026-07-28)."""
    unchecked: str = ""
    """What of its schemas is not checked, as a phrase; empty where all of it is."""
    rendered: dict[tuple[str, str], tuple[Raw, tuple[str, ...]]] = {}

    @property
    def hints(self) -> tuple[str, ...]:
        """What its server says of it, as `catalog.traits` has it."""
        return hints_in(self.annotations)


class ServerOffer(msgspec.Struct, frozen=True, kw_only=True):
    """All that a server offers, as it said when it was last asked.

    `tools` by the server's own names, as far as they are wanted and can be used; `listed` the names of all that it has,
    and `left_out` why some of those cannot be used; `warnings` tell of them and of others. `said_name` is what the
    server calls itself, `instructions` its advice. `missing` is the first whitelisted tool that it lacks. The list is
    good for `ttl_s` seconds; 0 where the server does not say. `capabilities` are the server's own, as far as they say
    what it has besides tools.
    """

    tools: dict[str, McpTool] = {}
    listed: tuple[str, ...] = ()
    left_out: dict[str, str] = {}
    said_name: str | None = None
    instructions: str | None = None
    warnings: tuple[str, ...] = ()
    missing: str | None = None
    ttl_s: float = 0.0
    capabilities: Raw = Raw(b"{}")

    def tool(self, name: str) -> McpTool | None:
        """Find a tool by its name or an escape of it; None for none."""
        return self.tools.get(name) or self.tools.get(named_by(name, self.tools) or "")

    def why_missing(self, tool: str) -> str:
        """Write the reason why a tool is not offered, as the end of a sentence; empty for none."""
        why = self.left_out.get(tool)
        return "" if why is None else f": {tool} is left out: {why}"


# --- faults, of which each `why` is a phrase that follows the server's name -------------------------------------------


def unavailable(server: Server, why: str, extras: dict[str, object] | None = None) -> Fault:
    """The server has not begun what it was asked; another try makes sense."""
    shown = {"server": server.name, "reason": why, **(extras or {})}
    return Fault(Code.SERVER_UNAVAILABLE, f"server {server.name} is not available: {why}", shown)


def call_failed(server: Server, why: str, extras: dict[str, object] | None = None) -> Fault:
    """The request reached the server and went wrong there."""
    shown = {"server": server.name, "reason": why, **(extras or {})}
    return Fault(Code.TOOL_FAILED, f"the call failed at server {server.name}: {why}", shown)


def too_large(server: Server) -> Fault:
    """The answer was over the bound on one answer."""
    detail = f"the answer is larger than {server.max_content_bytes} bytes"
    return Fault(Code.TOOL_FAILED, detail, {"server": server.name, "limit": "content_bytes"})
