"""`initialize`: what the client offers, and what it makes of the server's answer (MCP, "Lifecycle")."""

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.providers.mcp.messages import DECODE_ERRORS

OFFERED: Final = "2025-11-25"
# To a client that calls tools they differ only in what it may ignore.
ACCEPTED: Final = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", OFFERED})

INITIALIZE: Final[dict[str, object]] = {
    "protocolVersion": OFFERED,
    "capabilities": {},
    "clientInfo": {"name": "tooldispatchd", "version": "0.1.0"},
}

# Far longer than the prefix that is made of it.
MAX_NAME_CHARS: Final = 128
# Instructions go into every session's `ready`: a page of advice, not a book.
MAX_INSTRUCTIONS_CHARS: Final = 64 * 1024


class Greeting(msgspec.Struct, frozen=True):
    """What a server said of itself; `has_tools` is whether it declared the tools capability.

    `name` is None where it gave none that can be read, which is no reason to do without it.
    """

    revision: str
    name: str | None
    has_tools: bool
    instructions: str | None


class _Capabilities(msgspec.Struct):
    tools: Raw | UnsetType = UNSET


class _Implementation(msgspec.Struct):
    name: str


class _Initialized(msgspec.Struct):
    revision: str = msgspec.field(name="protocolVersion")
    capabilities: _Capabilities = msgspec.field(default_factory=_Capabilities)
    server: Raw | UnsetType = msgspec.field(default=UNSET, name="serverInfo")
    instructions: str | None = None


_decode: Final = msgspec.json.Decoder(_Initialized).decode
_decode_server: Final = msgspec.json.Decoder(_Implementation).decode


def read_greeting(result: Raw) -> Greeting | str:
    """What the answer to `initialize` says, or why it cannot be accepted."""
    try:
        said = _decode(result)
    except DECODE_ERRORS:
        return "its answer to initialize cannot be read"
    if said.revision not in ACCEPTED:
        return f"it speaks protocol revision {said.revision[:40]!a}; known are {', '.join(sorted(ACCEPTED))}"
    tools = said.capabilities.tools
    has_tools = not isinstance(tools, UnsetType) and bytes(tools) not in {b"null", b"false"}
    instructions = said.instructions[:MAX_INSTRUCTIONS_CHARS] if said.instructions else None
    return Greeting(said.revision, _name_in(said.server), has_tools, instructions)


def _name_in(server: Raw | UnsetType) -> str | None:
    if isinstance(server, UnsetType):
        return None
    try:
        return _decode_server(server).name[:MAX_NAME_CHARS] or None
    except DECODE_ERRORS:
        return None
