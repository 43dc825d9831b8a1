"""The configuration as values: what each table and key means, its type and its default.

`daemon.configuration` parses a TOML file into `Config`; past that, values are typed and trusted. Every limit states
where its number comes from.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

KIB: Final = 1024
MIB: Final = 1024 * KIB

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Count = Annotated[int, Meta(ge=1)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*$", max_length=128)]
Words = Annotated[tuple[str, ...], Meta(min_length=1)]


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the configuration: immutable, and an unknown key is an error."""


class DaemonSpec(Spec, frozen=True):
    """`[daemon]`: where agents come in, and how long running calls have at the end."""

    listen: tuple[str, ...] = ()
    grace_s: Annotated[float, Meta(ge=0, le=3600)] = 10.0


class LimitsSpec(Spec, frozen=True):
    """`[limits]`: every bound that a site may want to move."""

    call_s: Seconds = 60.0
    """One call, from its start to its answer; what MCP clients commonly use."""
    handshake_s: Seconds = 30.0
    """One MCP server, from spawn to its list of tools; package runners that install first need most of it."""
    max_line_bytes: Annotated[int, Meta(ge=4 * KIB)] = 8 * MIB
    """One line of an agent; a document or an image in base64 fits."""
    max_content_bytes: Annotated[int, Meta(ge=4 * KIB)] = 64 * MIB
    """One answer of a tool, and one line of an MCP server; far more than a model can read."""
    in_flight: Count = 256
    """Calls of one agent that run at once."""
    waiting: Count = 1024
    """Calls of one agent that wait for a place; more get `queue_full`."""
    processes: Count | None = None
    """Children of `command` tools at once in the whole daemon; by default four a core."""
    mcp_opening: Count = 16
    """MCP servers that start at once in the whole daemon; each is a burst of CPU."""
    out_buffer_bytes: Annotated[int, Meta(ge=4 * KIB)] = 1 * MIB
    """Answers that lie unread in one channel before its reading stops."""
    stalled_s: Seconds = 120.0
    """How long a channel over that bound may go without one successful write before it is dropped."""
    buffered_bytes: Annotated[int, Meta(ge=1 * MIB)] = 256 * MIB
    """Answers that lie unread in all channels together; more get `too_many`."""
    connections: Count = 20_000
    """Channels at once."""


class McpSpec(Spec, frozen=True):
    """`[mcp.NAME]`: an MCP server that the daemon starts for each agent that uses it."""

    command: Annotated[str, Meta(min_length=1)]
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    tools: tuple[str, ...] | None = None
    """Whitelist; a tool that it names and the server lacks refuses the session."""
    deny: tuple[str, ...] = ()
    prefix: Annotated[str, Meta(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,31})?$")] | None = None
    """What stands before the colon in its tools' names; by default the binding's name, and "" offers raw names."""
    handshake_s: Seconds | None = None
    call_s: Seconds | None = None


class ToolSpec(Spec, frozen=True):
    """`[tools.NAME]`: one declared tool; exactly one of `inline`, `map` and `command` says how it runs."""

    type: str | None = None
    input_schema: dict[str, object] | None = None
    output_schema: dict[str, object] | None = None
    title: str | None = None
    description: str = ""
    call_s: Seconds | None = None
    inline: Literal["id", "copy", "discard"] | None = None
    map: str | None = None
    command: Words | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None


class ProfileSpec(Spec, frozen=True):
    """`[agents.NAME]`: what an agent under this profile may call."""

    tools: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()


class Config(Spec, frozen=True):
    """A whole configuration file."""

    daemon: DaemonSpec = DaemonSpec()
    limits: LimitsSpec = LimitsSpec()
    types: dict[str, str] = {}
    mcp: dict[str, McpSpec] = {}
    tools: dict[str, ToolSpec] = {}
    agents: dict[str, ProfileSpec] = {}
