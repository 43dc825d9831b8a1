"""What passes between an agent that asks for it and its servers beyond their tools (protocol/extensions/servers.md).

A request `SERVER!METHOD` is a call like any other, of a tool that stands for this one method. Which servers pass is
said once, by `passes`.
"""

from typing import Final

from tooldispatchd.agent.setup import Setup
from tooldispatchd.catalog.profiles import Profile, ServerUse
from tooldispatchd.catalog.schemas import compile_check
from tooldispatchd.catalog.specs import McpSpec
from tooldispatchd.providers.mcp.server import McpTool, Result
from tooldispatchd.providers.mcp.subscription import SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE

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
    "skills/list": _ANYTHING,
    "skills/get": _ANYTHING,
    "resources/directory/read": _ANYTHING,
    SET_LEVEL: _LEVEL,
}
METHODS: Final = {
    method: McpTool(name=method, input_schema=schema, input=compile_check(schema), result=Result.WHOLE, method=method)
    for method, schema in _INPUTS.items()
}
# They change what others who share a server are told.
OF_ONE: Final = frozenset({SUBSCRIBE, UNSUBSCRIBE, SET_LEVEL})


def passes(spec: McpSpec, use: ServerUse | None, setup: Setup, profile: Profile) -> bool:
    """Whether the agents of `profile`, which may be a narrowed one, may speak with the server beyond its tools.

    Who narrows its tools, and does not say that its resources are to be had, would not want them to be; a `spec` cannot
    say that.
    """
    if use is None or use not in setup.catalog.profiles[profile.name].servers:
        return False
    if spec.mcp_resources is not None:
        return spec.mcp_resources
    if use.only is not None:
        return False
    said = setup.offers_resources(profile.name)
    if said is not None:
        return said
    return not (use.within or use.without or spec.deny or spec.tools is not None or spec.allow is not None)
