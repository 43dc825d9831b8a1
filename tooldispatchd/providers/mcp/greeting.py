"""A server's description of itself: its answers to `initialize` (MCP, "Lifecycle") and `server/discover` (2026-07-28).

The `instructions` of servers for their users are put together here for `ready`.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.providers.mcp.messages import decoded
from tooldispatchd.wire.version import VERSION

OFFERED: Final = "2025-11-25"
# To a client that calls tools they differ only in what it may ignore.
ACCEPTED: Final = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", OFFERED})
# The newest last.
MODERN: Final = ("2026-07-28",)

# The same as in HTTP requests, so that a server's access log and its own tell of one client.
CLIENT: Final[dict[str, object]] = {"name": "tooldispatchd", "version": VERSION}

# Far longer than the prefix that is made of it.
MAX_NAME_CHARS: Final = 128
# Instructions go into every session's `ready`: a page of advice, not a book.
MAX_INSTRUCTIONS_CHARS: Final = 64 * 1024
# All servers' instructions together, which go from there into a system prompt.
MAX_INSTRUCTIONS_BYTES: Final = 64 * 1024
# A few yes or no; what is longer counts as saying nothing of itself.
MAX_CAPABILITY_BYTES: Final = 4 * 1024
# What is quoted of a foreign list of revisions.
MAX_REVISIONS: Final = 8
MAX_REVISION_CHARS: Final = 40

# A result that says nothing of its kind is whole, as were all before there were kinds.
_COMPLETE: Final = frozenset({b'"complete"', b"null"})
_NO: Final = frozenset({b"null", b"false"})

UI: Final = "io.modelcontextprotocol/ui"
SKILLS: Final = "io.modelcontextprotocol/skills"
# Those that need nothing of the daemon but to pass.
EXTENSIONS: Final = (UI, SKILLS)


class Greeting(msgspec.Struct, frozen=True):
    """A server's description of itself; `has_…` is whether it declared that capability.

    `name` is None where it gave none that can be read, which is no reason to do without it. `tools_list_changed` is
    whether it tells when its list of tools changes. `capabilities` are its own, cut to what it has besides tools.
    """

    revision: str
    name: str | None
    has_tools: bool
    instructions: str | None
    has_resources: bool = False
    has_prompts: bool = False
    tools_list_changed: bool = False
    capabilities: Raw = Raw(b"{}")


class _Capabilities(msgspec.Struct):
    tools: Raw | UnsetType = UNSET
    resources: Raw | UnsetType = UNSET
    prompts: Raw | UnsetType = UNSET
    logging: Raw | UnsetType = UNSET
    completions: Raw | UnsetType = UNSET
    extensions: Raw | UnsetType = UNSET


class _ToolsCapability(msgspec.Struct):
    list_changed: bool = msgspec.field(default=False, name="listChanged")


class _Implementation(msgspec.Struct):
    name: str


class _Initialized(msgspec.Struct):
    revision: str = msgspec.field(name="protocolVersion")
    capabilities: Raw | UnsetType = UNSET
    server: Raw | UnsetType = msgspec.field(default=UNSET, name="serverInfo")
    instructions: Raw | UnsetType = UNSET


class _Discovered(msgspec.Struct):
    revisions: list[str] = msgspec.field(name="supportedVersions")
    capabilities: Raw | UnsetType = UNSET
    instructions: Raw | UnsetType = UNSET
    kind: Raw | UnsetType = msgspec.field(default=UNSET, name="resultType")
    meta: Raw | UnsetType = msgspec.field(default=UNSET, name="_meta")


class _Meta(msgspec.Struct):
    server: Raw | UnsetType = msgspec.field(default=UNSET, name="io.modelcontextprotocol/serverInfo")


class _Supported(msgspec.Struct):
    revisions: list[str] = msgspec.field(name="supported")


class _Unsupported(msgspec.Struct):
    data: _Supported


_decode: Final = msgspec.json.Decoder(_Initialized).decode
_decode_discovered: Final = msgspec.json.Decoder(_Discovered).decode
_decode_unsupported: Final = msgspec.json.Decoder(_Unsupported).decode
_decode_capabilities: Final = msgspec.json.Decoder(_Capabilities).decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_decode_tools: Final = msgspec.json.Decoder(_ToolsCapability).decode
_decode_object: Final = msgspec.json.Decoder(dict[str, object]).decode
_decode_server: Final = msgspec.json.Decoder(_Implementation).decode
_decode_meta: Final = msgspec.json.Decoder(_Meta).decode


def read_greeting(result: Raw, accepted: frozenset[str] = ACCEPTED) -> Greeting | str:
    """Read the answer to `initialize`: the greeting, or why it cannot be accepted."""
    said = decoded(_decode, result)
    if said is None:
        return "its answer to initialize cannot be read"
    if said.revision not in accepted:
        return f"it speaks protocol revision {quoted([said.revision])}; {known(accepted)}"
    return _greeting(said.revision, said.server, said.capabilities, said.instructions)


def read_discovery(result: Raw) -> Greeting | list[str] | None:
    """Read the answer to `server/discover`.

    The revisions that the server speaks, where none of them is a modern one known here; None for what cannot be read,
    or is no complete result.
    """
    said = decoded(_decode_discovered, result)
    if said is None or not is_complete(said.kind):
        return None
    revision = next((each for each in reversed(MODERN) if each in said.revisions), None)
    if revision is None:
        return said.revisions
    meta = decoded(_decode_meta, said.meta)
    return _greeting(revision, UNSET if meta is None else meta.server, said.capabilities, said.instructions)


def read_supported(error: Raw) -> list[str] | None:
    """The revisions that an `UNSUPPORTED_REVISION` error names; None where they cannot be read."""
    said = decoded(_decode_unsupported, error)
    return None if said is None else said.data.revisions


def is_complete(kind: Raw | UnsetType) -> bool:
    """Whether a result of this `resultType` is whole (2026-07-28); one without is."""
    return isinstance(kind, UnsetType) or bytes(kind) in _COMPLETE


def quoted(revisions: list[str]) -> str:
    """Revisions that a server named, as they may stand in a sentence."""
    shown = [f"{each[:MAX_REVISION_CHARS]!a}" for each in revisions[:MAX_REVISIONS]]
    return ", ".join(shown) + (", …" if len(revisions) > MAX_REVISIONS else "")


def known(accepted: frozenset[str]) -> str:
    """The half of a sentence that says which revisions would have been accepted."""
    return f"{'known are' if len(accepted) > 1 else 'wanted is'} {', '.join(sorted(accepted))}"


def _greeting(revision: str, server: Raw | UnsetType, said: Raw | UnsetType, advice: Raw | UnsetType) -> Greeting:
    """Make a greeting of its optional members; an unreadable one is left out."""
    named, instructions = decoded(_decode_server, server), decoded(_decode_text, advice)
    capabilities = decoded(_decode_capabilities, said) or _Capabilities()
    tools = decoded(_decode_tools, capabilities.tools)
    return Greeting(
        revision,
        named.name[:MAX_NAME_CHARS] or None if named is not None else None,
        has_tools=_has(capabilities.tools),
        instructions=instructions[:MAX_INSTRUCTIONS_CHARS] if instructions else None,
        has_resources=_has(capabilities.resources),
        has_prompts=_has(capabilities.prompts),
        tools_list_changed=tools is not None and tools.list_changed,
        capabilities=_besides_tools(capabilities),
    )


def _besides_tools(said: _Capabilities) -> Raw:
    """What the server has besides tools, as an object of objects."""
    members = {"resources": said.resources, "prompts": said.prompts}
    members |= {"completions": said.completions, "logging": said.logging}
    kept: dict[str, object] = {
        name: decoded(_decode_object, value, MAX_CAPABILITY_BYTES) or {}
        for name, value in members.items()
        if _has(value)
    }
    said_of = decoded(_decode_object, said.extensions, MAX_CAPABILITY_BYTES) or {}
    extensions = {name: value for name in EXTENSIONS if isinstance(value := said_of.get(name), dict)}
    if extensions:
        kept["extensions"] = extensions
    return _shared(msgspec.json.encode(kept))


@lru_cache(maxsize=256)
def _shared(text: bytes) -> Raw:
    """One object for all connections to servers that have the same: few differ."""
    return Raw(text)


def _has(capability: Raw | UnsetType) -> bool:
    return not isinstance(capability, UnsetType) and bytes(capability) not in _NO


def instructions_text(pairs: Iterable[tuple[str, str]]) -> str:
    """The instructions of all servers as one text for `ready`: (prefix, text) each under a heading, "" without any.

    Control characters but newlines and tabs are left out. All together are at most `MAX_INSTRUCTIONS_BYTES` in UTF-8;
    each server has an equal share of that, so that none drowns the others.
    """
    said = [(prefix, text) for prefix, text in pairs if text.strip()]
    parts: list[str] = []
    for prefix, text in said:
        max_bytes = MAX_INSTRUCTIONS_BYTES // len(said)
        kept = "".join(each for each in text[:max_bytes] if each.isprintable() or each in "\n\t")
        # The blank line between two parts is in each part's share.
        parts.append(_cut(f"# {prefix or 'Tools without a prefix'}\n{kept.strip()}", max_bytes - 2))
    return _cut("\n\n".join(parts), MAX_INSTRUCTIONS_BYTES)


def _cut(text: str, max_bytes: int) -> str:
    encoded = text.encode()
    return text if len(encoded) <= max_bytes else encoded[: max(max_bytes, 0)].decode(errors="ignore")
