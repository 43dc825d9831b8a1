"""The least that an MCP client can do, one request at a time: over stdio, and over Streamable HTTP."""

import itertools
import os
import select
import socket
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec

from benchmarks.harness import BenchmarkError

REVISION: Final = "2025-11-25"
HELLO: Final = {
    "protocolVersion": REVISION,
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}
# Many times what any contender needs, busy machine and all.
PATIENCE_S: Final = 60.0


class Head(msgspec.Struct):
    """What tells an answer from a notification."""

    id: int | None = None
    result: msgspec.Raw = msgspec.Raw(b"")


decode = msgspec.json.Decoder(Head).decode
encode = msgspec.json.Encoder().encode


class Client(Protocol):
    """One client that is connected."""

    def ask(self, method: str, params: object) -> bytes:
        """The result of a request; raise BenchmarkError where it is refused."""

    def tell(self, method: str) -> None:
        """One notification."""

    def close(self) -> None:
        """Leave."""


class StdioClient:
    """The client of a server, or of a bridge, that it starts itself."""

    def __init__(self, words: Sequence[str], environ: Mapping[str, str] = os.environ) -> None:
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ
        )
        self._ids = itertools.count(1)

    def ask(self, method: str, params: object) -> bytes:
        """As `Client` says."""
        return self.answer(self.send(method, params))

    def send(self, method: str, params: object) -> int:
        """Make a request whose answer is waited for later."""
        number = next(self._ids)
        self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def answer(self, number: int) -> bytes:
        """The result of that request, whatever else is said before it."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if (head := decode(line)).id == number:
                return result(head, line)
        raise BenchmarkError(f"{self._process.args!r} closed its output")

    def tell(self, method: str) -> None:
        """As `Client` says."""
        self._write({"jsonrpc": "2.0", "method": method})

    def _write(self, message: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(encode(message) + b"\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Leave, as the specification has it: end its input, and wait."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class HttpClient:
    """The client of one session over one connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname, parts.port)
        self._connect()
        self._ids = itertools.count(1)
        self._head = (
            f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\n"
        ).encode()

    def ask(self, method: str, params: object) -> bytes:
        """As `Client` says; the answer of `initialize` names the session."""
        number = next(self._ids)
        head, body = self._post({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        if method == "initialize":
            names = {name.lower(): value for name, value in (line.split(b": ", 1) for line in head.split(b"\r\n")[1:])}
            session = names[b"mcp-session-id"]
            self._head += b"Mcp-Session-Id: %b\r\nMCP-Protocol-Version: %b\r\n" % (session, REVISION.encode())
        for line in body.split(b"\n"):
            text = line.removeprefix(b"data: ")
            if text.startswith(b"{") and (found := decode(text)).id == number:
                return result(found, text)
        raise BenchmarkError(f"{method} was answered {head + body!r}")

    def tell(self, method: str) -> None:
        """As `Client` says."""
        self._post({"jsonrpc": "2.0", "method": method})

    def _post(self, message: object) -> tuple[bytes, bytes]:
        """The head and the body of the answer; over a new connection where an idle one was closed."""
        if select.select([self._socket], [], [], 0)[0]:
            self._socket.close()
            self._connect()
        sent = encode(message)
        self._socket.sendall(self._head + b"Content-Length: %d\r\n\r\n" % len(sent) + sent)
        heard = b""
        while chunk := self._socket.recv(65536):
            heard += chunk
            head, is_whole, body = heard.partition(b"\r\n\r\n")
            if is_whole and has_ended(head.lower(), body):
                return head, body
        raise BenchmarkError(f"the connection ended after {heard!r}")

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address, PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        """Leave without a word, as many clients do."""
        self._socket.close()


def has_ended(head: bytes, body: bytes) -> bool:
    """Whether an answer with that head has all of its body."""
    if b"transfer-encoding: chunked" in head:
        return body.endswith(b"0\r\n\r\n")
    _before, _name, length = head.partition(b"content-length: ")
    return len(body) >= int(length.partition(b"\r")[0] or 0)


def result(head: Head, line: bytes) -> bytes:
    if not head.result:
        raise BenchmarkError(f"a request was answered {line[:400]!r}")
    return bytes(head.result)


def greet(client: Client) -> None:
    """The handshake."""
    client.ask("initialize", HELLO)
    client.tell("notifications/initialized")
