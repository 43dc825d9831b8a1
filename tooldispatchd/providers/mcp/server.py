"""What the connection is told of its server, and what it learns of the server's tools; both as values."""

import msgspec
from msgspec import Raw

from tooldispatchd.catalog.schemas import Check


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """One MCP server as a session uses it.

    `name` is the binding's, `prefix` what stands before the colon in its tools' names. `whitelist` holds the only
    tools wanted, each of which must be offered; `deny` those never wanted. `handshake_s` bounds all from spawn to the
    list of tools, `call_s` one call, `max_line_bytes` one line of the server: an answer of `max_content_bytes` and its
    envelope. A server that is being stopped has `polite_s` to end after its input closed, and `term_s` after SIGTERM.
    """

    name: str
    prefix: str
    argv: tuple[str, ...]
    max_line_bytes: int
    max_content_bytes: int
    env: dict[str, str] = {}
    cwd: str | None = None
    whitelist: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    handshake_s: float = 30.0
    call_s: float = 60.0
    polite_s: float = 2.0
    term_s: float = 2.0


class McpTool(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """One tool that a server offers, by the server's own name; connections to equal servers share it.

    `output` is None where the tool declares no output schema. `annotations` are the server's own words about the tool:
    hints, not promises.
    """

    name: str
    title: str | None
    description: str
    input_schema: dict[str, object]
    output_schema: dict[str, object] | None
    annotations: Raw | None
    input: Check
    output: Check | None
