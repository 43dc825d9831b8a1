"""Revision 2026-07-28: there is no handshake, so each request says which revision it is of and what the client can do.

It says so in `params._meta`, and over HTTP in headers too, which must say the same (MCP 2026-07-28, "Versioning",
"Streamable HTTP").
"""

from typing import Final

import msgspec

from tooldispatchd.providers.mcp.greeting import CLIENT
from tooldispatchd.providers.mcp.headers import METHOD, NAME, VERSION, encode_value, name_in, param_headers
from tooldispatchd.providers.mcp.messages import CALL, Outgoing, call_of, call_params, notification_line
from tooldispatchd.providers.mcp.server import McpTool
from tooldispatchd.wire.lines import Text

_PREFIX: Final = "io.modelcontextprotocol/"

_encode: Final = msgspec.json.Encoder().encode


class Modern:
    """The `Dialect` of a revision without a handshake; `capabilities` are the client's, as in `initialize` before."""

    __slots__ = ("_open", "_stamp", "revision")

    is_modern: bool = True

    def __init__(self, revision: str, capabilities: dict[str, object]) -> None:
        self.revision = revision
        said = {
            f"{_PREFIX}protocolVersion": revision,
            f"{_PREFIX}clientInfo": CLIENT,
            f"{_PREFIX}clientCapabilities": capabilities,
            # Without it a server tells nothing of what it logs.
            f"{_PREFIX}logLevel": "info",
        }
        # Encoded once: nearly every request says the very same.
        self._open = b'"_meta":' + _encode(said)[:-1]
        self._stamp = b"," + self._open + b"}"

    def request(self, number: int, method: str, params: dict[str, object]) -> Outgoing:
        """A request other than a tool's call; what `params` has in `_meta` stands beside what each request says."""
        meta = params.get("_meta")
        body = _encode({key: value for key, value in params.items() if key != "_meta"})
        members = (body[1:-1] + self._with(meta if isinstance(meta, dict) else None)).removeprefix(b",")
        line = b'{"jsonrpc":"2.0","id":%d,"method":"%s","params":{%s}}\n' % (number, method.encode(), members)
        return Outgoing(line, method, number, name_in(method, params))

    def call(
        self,
        number: int,
        tool: McpTool,
        arguments: Text,
        *,
        meta: dict[str, object] | None = None,
        answered: dict[str, object] | None = None,
    ) -> Outgoing:
        """A call of `tool` with `arguments`, a compact JSON object; `answered` are further members of `params`."""
        if tool.method != CALL:
            return self.request(number, tool.method, call_params(arguments, meta, answered))
        more = self._with(meta)
        if answered:
            more = b"," + _encode(answered)[1:-1] + more
        return call_of(number, tool.name, arguments, more, tool.params)

    def notification(self, method: str, params: dict[str, object] | None = None) -> Outgoing:
        """A notification."""
        return Outgoing(notification_line(method, params), method)

    def headers(self, message: Outgoing) -> list[tuple[str, str]]:
        """The revision, the method, what it is about, and those arguments that the tool wants to be seen outside."""
        headers = [(VERSION, self.revision)]
        if message.method is not None:
            headers.append((METHOD, message.method))
        if message.name is not None:
            headers.append((NAME, encode_value(message.name)))
        headers += param_headers(message.params, message.arguments)
        return headers

    def _with(self, meta: dict[str, object] | None) -> bytes:
        """`_meta` as the last member of `params`, with a comma in front."""
        if not meta:
            return self._stamp
        return b",%s,%s}" % (self._open, _encode(meta)[1:-1])
