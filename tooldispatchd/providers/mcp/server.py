"""What the connection is told of its server, and what it learns of the server's tools; both as values."""

from enum import Enum

import msgspec
from msgspec import Raw

from tooldispatchd.catalog.schemas import Check


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """One MCP server as a session uses it.

    `name` is the binding's. `whitelist` holds the only tools wanted, each of which must be offered; `declared` those
    that are wanted besides, because declared tools are made of them; `deny` those never wanted. `handshake_s` bounds
    all from spawn to the list of tools, `call_s` one call, `max_line_bytes` one line of the server: an answer of
    `max_content_bytes` and its envelope. A server that is being stopped has `polite_s` to end after its input closed,
    and `term_s` after SIGTERM.
    """

    name: str
    argv: tuple[str, ...]
    max_line_bytes: int
    max_content_bytes: int
    env: dict[str, str] = {}
    cwd: str | None = None
    whitelist: tuple[str, ...] | None = None
    declared: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    handshake_s: float = 30.0
    call_s: float = 60.0
    polite_s: float = 2.0
    term_s: float = 2.0


class Result(Enum):
    """Where a tool's result is read, and by what it is checked."""

    LISTED = "by the output schema that the server lists, if any"
    TYPED = "by the type that the configuration declares: also a text may hold the value, as JSON"
    TEXT = "the same for the type `string`: a text may be the value itself"


class McpTool(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """One tool that a server offers, by the server's own name; connections to equal servers share it.

    `output` is None where the tool declares no output schema, which only a `LISTED` one may. `annotations` are the
    server's own words about the tool: hints, not promises. `rendered` is for who shows it: what it looks like in a
    form, by the form and the name.
    """

    name: str
    title: str | None
    description: str
    input_schema: dict[str, object]
    output_schema: dict[str, object] | None
    annotations: Raw | None
    input: Check
    output: Check | None
    result: Result = Result.LISTED
    rendered: dict[tuple[str, str], tuple[Raw, tuple[str, ...]]] = {}
