"""How messages are written, which is all that differs between the protocol's revisions once one of them is agreed.

`Legacy` is every revision with a handshake (2024-11-05 to 2025-11-25): what `initialize` settled holds for all that
follows. `Modern` is the stateless one (2026-07-28): each request says in `params._meta` which revision it is of and
what the client can do, and over HTTP in headers too, which must say the same ("Versioning", "Streamable HTTP").
"""

from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.providers.mcp.greeting import CLIENT
from tooldispatchd.providers.mcp.headers import METHOD, NAME, VERSION, encode_value, name_in
from tooldispatchd.providers.mcp.messages import Outgoing
from tooldispatchd.providers.mcp.server import McpTool
from tooldispatchd.wire.lines import Text, framed

_encode: Final = msgspec.json.Encoder().encode
_decode_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


class Dialect:
    """How messages are written for one server. `revision` is "" until `initialize` is answered."""

    __slots__ = ("revision",)

    is_modern: bool = False
    """Whether there is no session: each request says all that it needs, and a closed response is a cancelled call."""

    def __init__(self, revision: str) -> None:
        self.revision = revision

    def request(
        self, number: int, method: str, params: dict[str, object], *, meta: dict[str, object] | None = None
    ) -> Outgoing:
        """A request other than a tool's call."""
        members = (_encode(params)[1:-1] + self._with(meta)).removeprefix(b",")
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
        """A call of `tool` with `arguments`, a compact JSON object.

        `answered` are further members of `params`, and `meta` is what the server is to know beside the arguments (MCP,
        "General fields": `_meta`). Where the arguments are a bytearray it becomes the line, of which they are a part
        then.
        """
        if tool.method != "tools/call":
            params: dict[str, object] = {**_decode_members(arguments), **(answered or {})}
            # What an agent calls so is not passed on: that is between this client and the server.
            params.pop("_meta", None)
            # With the arguments, as of any call: it may have to be sent once more.
            return msgspec.structs.replace(self.request(number, tool.method, params, meta=meta), arguments=arguments)
        more = self._with(meta)
        if answered:
            more = b"," + _encode(answered)[1:-1] + more
        head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%b,"arguments":' % (
            number,
            _encode(tool.name),
        )
        size = len(arguments)
        line = framed(head, arguments, more + b"}}\n")
        if isinstance(line, bytearray):
            arguments = memoryview(line)[len(head) : len(head) + size]
        return Outgoing(line, tool.method, number, tool.name, arguments, tool.params)

    def notification(self, method: str, params: dict[str, object] | None = None) -> Outgoing:
        message: dict[str, object] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        return Outgoing(_encode(message) + b"\n", method)

    def headers(self, message: Outgoing) -> list[tuple[str, str]]:
        """The HTTP headers that the revision asks for with this message, besides those of HTTP itself."""
        raise NotImplementedError

    def _with(self, meta: dict[str, object] | None) -> bytes:
        """`_meta` as the last member of `params`, with a comma in front; empty where there is nothing to say."""
        raise NotImplementedError


# The revisions before knew no such header.
_WITH_HEADER: Final = frozenset({"2025-06-18", "2025-11-25"})


class Legacy(Dialect):
    """A revision with a handshake."""

    __slots__ = ("_headers",)

    def __init__(self, revision: str = "") -> None:
        super().__init__(revision)
        self._headers = [(VERSION, revision)] if revision in _WITH_HEADER else []

    def headers(self, message: Outgoing) -> list[tuple[str, str]]:
        """The negotiated revision on everything but `initialize` (2025-06-18 and 2025-11-25, "Transports")."""
        return [] if message.method == "initialize" else list(self._headers)

    def _with(self, meta: dict[str, object] | None) -> bytes:
        return b"" if meta is None else b',"_meta":' + _encode(meta)


_PREFIX: Final = "io.modelcontextprotocol/"


class Modern(Dialect):
    """A revision without a handshake; `capabilities` are the client's, as in `initialize` before."""

    __slots__ = ("_open", "_said", "_stamp")

    is_modern = True

    def __init__(self, revision: str, capabilities: dict[str, object]) -> None:
        super().__init__(revision)
        self._said: dict[str, object] = {
            f"{_PREFIX}protocolVersion": revision,
            f"{_PREFIX}clientInfo": CLIENT,
            f"{_PREFIX}clientCapabilities": capabilities,
        }
        # Without a level a server tells nothing of what it logs.
        self.log_from("info")

    def log_from(self, level: str) -> None:
        """Ask for log messages of this level and those above it, from the next request on."""
        # Encoded once: nearly every request says the very same.
        self._open = b'"_meta":' + _encode({**self._said, f"{_PREFIX}logLevel": level})[:-1]
        self._stamp = b"," + self._open + b"}"

    def headers(self, message: Outgoing) -> list[tuple[str, str]]:
        """The revision, the method, and what it is about; those that repeat arguments are added where it is sent."""
        headers = [(VERSION, self.revision)]
        if message.method is not None:
            headers.append((METHOD, message.method))
        if message.name is not None:
            headers.append((NAME, encode_value(message.name)))
        return headers

    def _with(self, meta: dict[str, object] | None) -> bytes:
        if not meta:
            return self._stamp
        return b",%s,%s}" % (self._open, _encode(meta)[1:-1])
