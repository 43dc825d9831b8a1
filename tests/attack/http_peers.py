"""Hostile MCP clients over HTTP on a Unix socket: peers of one kind, as in `benchmarks.peers.hostile_peers`.

python -m tests.attack.http_peers SOCKET KIND CHANNELS
"""

import sys
from collections.abc import Callable
from typing import Final

from benchmarks.peers.hostile_peers import LINE_BYTES, NEVER, Run, play, pump, rows, slow

REVISION: Final = b"2026-07-28"
META: Final = (
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"%b","io.modelcontextprotocol/clientCapabilities":{}}'
    % REVISION
)
# With what is around it a body is still served.
LARGE_BYTES: Final = LINE_BYTES - 1024


def post(body: bytes, *headers: bytes, length: bytes | None = None) -> bytes:
    """One request; without `length` it has the body's own."""
    framing = b"Content-Length: %d" % len(body) if length is None else length
    lines = (b"POST /mcp HTTP/1.1", b"Host: localhost", b"Content-Type: application/json", *headers, framing)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def asking(method: bytes, params: bytes = b"", *, name: bytes | None = None, id_: bytes = b"1") -> bytes:
    """One request that needs no session."""
    body = b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":{%b%b}}' % (id_, method, params, META)
    named = [] if name is None else [b"Mcp-Name: " + name]
    return post(body, b"MCP-Protocol-Version: " + REVISION, b"Mcp-Method: " + method, *named)


def calling(value: bytes, tool: bytes = b"echo") -> bytes:
    """One call of a tool."""
    return asking(b"tools/call", b'"name":"%b","arguments":%b,' % (tool, value), name=tool)


def sent(request: bytes) -> Callable[[], Run]:
    """The same without end; answers are read."""
    return lambda: pump(request)


def chunks(chunk: bytes) -> bytes:
    """A body of the longest size in chunks like this one."""
    number = LARGE_BYTES // len(chunk)
    return post(chunk * number + b"0\r\n\r\n", length=b"Transfer-Encoding: chunked")


KINDS: Final[dict[str, Callable[[], Run]]] = {
    "lists over HTTP": sent(asking(b"tools/list") * 100),
    "refused": sent(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n" * 1000),
    "no HTTP": sent(b"\x00" * 1_000_000),
    "two lengths": sent(post(b"0\r\n\r\n" + asking(b"tools/list"), b"Transfer-Encoding: chunked")),
    "many headers": lambda: pump(post(b"{}", *[b"a:"] * 3500)),
    "ids of 8 MiB over HTTP": lambda: pump(asking(b"tools/list", id_=b'"%b"' % (b"x" * LARGE_BYTES))),
    "names of 8 MiB": lambda: pump(asking(b"tools/call", b'"name":"%b",' % (b"x" * LARGE_BYTES))),
    "cursors of 8 MiB": lambda: pump(asking(b"tools/list", b'"cursor":"%b",' % (b"A" * LARGE_BYTES))),
    "states of 8 MiB": lambda: pump(asking(b"tools/call", b'"requestState":"%b",' % (b"A" * LARGE_BYTES))),
    "small lists over HTTP": lambda: pump(calling(b'{"input":%b}' % rows(b"[]", LARGE_BYTES))),
    "depth": lambda: pump(calling(b"[" * (LARGE_BYTES // 2) + b"]" * (LARGE_BYTES // 2))),
    "batches": lambda: pump(post(rows(b"{}", LARGE_BYTES), b"MCP-Protocol-Version: " + REVISION)),
    "chunks of one byte": lambda: pump(chunks(b"1\r\n \r\n")),
    "chunks with much beside them": lambda: pump(chunks(b"1;%b\r\n \r\n" % (b"a" * 200))),
    "answers that nobody reads over HTTP": lambda: slow(calling(b'{"size":60000000}', b"letters"), read_every_s=NEVER),
    "sleeps over HTTP": lambda: slow(calling(b'{"input":60}', b"sleep"), read_every_s=NEVER),
}

if __name__ == "__main__":
    play(KINDS, *sys.argv[1:])
