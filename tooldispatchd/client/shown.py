"""Tools in the form of a model's provider, for an agent that asks for one.

In the plain form tools are decoded into `ToolView`s; in any other form each is a dict, which can be handed to that
provider's SDK as it is.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeVar, get_args

import msgspec
from msgspec import Raw, UnsetType

from tooldispatchd.wire.messages import (
    PassingServer,
    Ready,
    ReadyLine,
    Tools,
    ToolsChanged,
    ToolsChangedLine,
    ToolsLine,
    ToolView,
)

Plain = Literal["plain", "text"]
"""The forms whose entries are `ToolView`s; `text` has a `prompt` for models without tool calling beside them."""
Form = Literal["anthropic", "openai", "openai_responses", "google", "mcp"]
"""The forms of a provider; `openai` is that of chat completions."""

PLAIN: Final = "plain"

Entry = dict[str, object]
"""One tool in the form that was asked for."""

Switches = Mapping[str, bool]
"""Which tags, or tools, are on and which are off."""

OnToolsChanged = Callable[[list[ToolView]], object]
OnShownChanged = Callable[[list[Entry]], object]


class ShownReady(msgspec.Struct, frozen=True):
    """As `Ready`, for a provider's form; `warnings` also name what that form cannot express."""

    profile: str
    protocol: int
    tools: list[Entry]
    warnings: list[str]
    agent: str | None = None
    instructions: str | None = None
    capabilities: dict[str, bool] = {}
    limits: dict[str, int] = {}
    servers: list[PassingServer] = []


class ShownTools(msgspec.Struct, frozen=True):
    """As `Tools`, for a provider's form."""

    tools: list[Entry]
    agent: str | None = None


class ShownToolsChanged(msgspec.Struct, frozen=True):
    """As `ToolsChanged`, for a provider's form."""

    tools: list[Entry]
    agent: str | None = None


ReadT = TypeVar("ReadT")
# Made once: to build a decoder takes longer than to decode a list of tools.
_decode_view: Final = msgspec.json.Decoder(ToolView).decode
_decode_entry: Final = msgspec.json.Decoder(Entry).decode
_decode_server: Final = msgspec.json.Decoder(PassingServer).decode
_decode_has: Final = msgspec.json.Decoder(dict[str, bool]).decode
_decode_limits: Final = msgspec.json.Decoder(dict[str, int]).decode


def switched(fields: Mapping[str, object], tags: Switches | None, tools: Switches | None) -> dict[str, object]:
    """The fields of a `hello` with what was switched since it was said."""
    before = fields.get("select")
    kept = before if isinstance(before, dict) else {}
    now = {"tags": tags, "tools": tools}
    return {**fields, "select": {key: {**(kept.get(key) or {}), **(said or {})} for key, said in now.items()}}


def is_plain(form: object) -> bool:
    """Whether the tools come as `ToolView`s: in the form that `hello` or `tools` asks for, or in none."""
    return form is None or form in get_args(Plain)


def read_ready(line: ReadyLine, *, shown: bool) -> Ready | ShownReady:
    """The line with its tools decoded, `shown` in a provider's form. Raises what msgspec raises."""
    # A daemon of an earlier version says neither.
    has = {} if isinstance(line.capabilities, UnsetType) else _decode_has(line.capabilities)
    limits = {} if isinstance(line.limits, UnsetType) else _decode_limits(line.limits)
    servers = [] if isinstance(line.servers, UnsetType) else _each(_decode_server, line.servers)
    if shown:
        entries = _each(_decode_entry, line.tools)
        told = line.profile, line.protocol, entries, line.warnings
        return ShownReady(*told, line.agent, line.instructions, has, limits, servers)
    views = _each(_decode_view, line.tools)
    return Ready(
        line.profile,
        line.protocol,
        views,
        line.warnings,
        has,
        limits,
        line.agent,
        line.instructions,
        line.id,
        line.prompt,
        servers,
    )


def read_tools(line: ToolsLine, *, shown: bool) -> Tools | ShownTools:
    """As `read_ready`."""
    if shown:
        return ShownTools(_each(_decode_entry, line.tools), line.agent)
    return Tools(_each(_decode_view, line.tools), line.agent, prompt=line.prompt)


def read_changed(line: ToolsChangedLine, *, shown: bool) -> ToolsChanged | ShownToolsChanged:
    """As `read_ready`."""
    if shown:
        return ShownToolsChanged(_each(_decode_entry, line.tools), line.agent)
    return ToolsChanged(_each(_decode_view, line.tools), line.agent)


def _each(decode: Callable[[Raw], ReadT], tools: list[Raw]) -> list[ReadT]:
    return [decode(tool) for tool in tools]
