"""What passes between an agent that asks for it and its servers beyond their tools (protocol/extensions/servers.md).

A request `SERVER!METHOD` is a call like any other, of a tool that stands for this one method: no tool's own name has a
`!`. Which servers pass is said once, by `passes`.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.agent.calls.agentcall import AgentCall
from tooldispatchd.agent.calls.call import Call
from tooldispatchd.agent.calls.checking import Reader
from tooldispatchd.agent.calls.plans import McpPlan
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.tools.servers import SessionServer
from tooldispatchd.calls.content import AS_JSON
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.schemas import compile_check
from tooldispatchd.providers.mcp.keeper import ServerHandle
from tooldispatchd.providers.mcp.server import McpTool, Result
from tooldispatchd.providers.mcp.subscription import SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ContentKind

SIGN: Final = "!"

_ANYTHING: Final[dict[str, object]] = {"type": "object"}
_URI: Final[dict[str, object]] = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}
# RFC 5424's, which MCP has.
_LEVELS: Final = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
_LEVEL: Final[dict[str, object]] = {
    "type": "object",
    "properties": {"level": {"enum": _LEVELS}},
    "required": ["level"],
}
_INPUTS: Final = {
    "resources/list": _ANYTHING,
    "resources/templates/list": _ANYTHING,
    "resources/read": _ANYTHING,
    SUBSCRIBE: _URI,
    UNSUBSCRIBE: _URI,
    "prompts/list": _ANYTHING,
    "prompts/get": _ANYTHING,
    "completion/complete": _ANYTHING,
    SET_LEVEL: _LEVEL,
}
METHODS: Final = {
    method: McpTool(name=method, input_schema=schema, input=compile_check(schema), result=Result.WHOLE, method=method)
    for method, schema in _INPUTS.items()
}
# They change what others who share a server are told.
OF_ONE: Final = frozenset({SUBSCRIBE, UNSUBSCRIBE, SET_LEVEL})


def passes(server: SessionServer, runtime: Runtime, profile: Profile) -> bool:
    """Whether the agents of `profile`, which may be a narrowed one, may speak with the server beyond its tools.

    Who narrows its tools, and does not say that its resources are to be had, would not want them to be; a `spec` cannot
    say that.
    """
    spec, use = server.binding.spec, server.use
    if use is None or use not in runtime.setup.catalog.profiles[profile.name].servers:
        return False
    said = spec.mcp_resources
    if said is None:
        said = runtime.setup.offers_resources(profile.name)
        if said and use.only is not None:
            said = None
    if said is not None:
        return said
    return not (use.only is not None or use.within or spec.deny or spec.tools is not None or spec.allow is not None)


def entries(servers: Iterable[SessionServer]) -> list[Raw]:
    """Those of the servers that are up, as `ready` lists them."""
    return [
        Raw(
            msgspec.json.encode(
                {"server": each.name, "prefix": each.prefix, "capabilities": each.kept.offer.capabilities}
            )
        )
        for each in servers
        if each.is_settled and each.kept is not None and each.fault is None
    ]


def find_method(runtime: Runtime, server: SessionServer, method: str) -> "PassingPlan | Fault | None":
    """The plan of a request of that method to a server that is settled and passes; None for an unknown method."""
    tool = METHODS.get(method)
    if tool is None:
        return None
    name = f"{server.name}{SIGN}{method}"
    if server.binding.spec.shared and method in OF_ONE:
        detail = f"server {server.name} is shared: {method} would be everybody's"
        return Fault(Code.NOT_ALLOWED, detail, {"source": name})
    if server.kept is None or server.fault is not None:
        return server.fault
    return PassingPlan(runtime, server.kept, tool, name)


class PassingPlan(McpPlan):
    """A request that goes to the server as it is, and comes back so, in whichever kind its session has its answers."""

    __slots__ = ()

    def __init__(self, runtime: Runtime, kept: ServerHandle, tool: McpTool, name: str) -> None:
        read = Reader(tool.input, missing={}, wrapped=False)
        super().__init__(runtime, kept, tool, offered=Offered(name=name, input_schema=tool.input_schema), read=read)

    def start(self, call: Call) -> None:
        """Send the request, the answer to which is JSON: parts of it, or a text for a model, nobody could read."""
        call.wanted = AS_JSON
        if isinstance(call, AgentCall) and call.asked_kind is not None:
            call.asked_kind = ContentKind.JSON
        super().start(call)
