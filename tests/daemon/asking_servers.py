"""MCP servers over HTTP and WebSocket that ask without end and take no answer, each in threads of the test."""

import base64
import hashlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

ECHO: Final = {"name": "echo", "description": "Say it again.", "inputSchema": {"type": "object"}}
# As long as an id may be that is given back.
PING: Final = json.dumps({"jsonrpc": "2.0", "id": "i" * 500, "method": "ping"}).encode()
EVENTS: Final = b"data: " + PING + b"\n\n"
# What holds no line feed and never ends.
HALF: Final = b"x" * 65_536


def result_of(method: str) -> dict[str, Any]:
    if method == "initialize":
        greeting = {"name": "asking", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": greeting}
    return {"tools": [ECHO]}


class Asking(BaseHTTPRequestHandler):
    """All is well but for what `floods` names: the answer to a call, or the stream of the server's own messages."""

    protocol_version = "HTTP/1.1"
    floods = ""
    piece = EVENTS

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = message.get("method")
        if method is None:
            # An answer to what was asked here: it is read, and the next one has to wait for ever.
            self.rfile.read(1)
        elif "id" not in message:
            self._say(202, b"", "text/plain")
        elif method == "tools/call":
            self._flood()
        elif method in {"initialize", "tools/list"}:
            said = {"jsonrpc": "2.0", "id": message["id"], "result": result_of(method)}
            self._say(200, json.dumps(said).encode(), "application/json")
        else:
            said = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "No"}}
            self._say(200, json.dumps(said).encode(), "application/json")

    def do_GET(self) -> None:
        if self.floods == "stream":
            self._flood()
        else:
            self._say(405, b"", "text/plain")

    def _say(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _flood(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.close_connection = True
        with suppress(OSError):
            while True:
                self.wfile.write(self.piece)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def asking_over_http(floods: str) -> Iterator[str]:
    """A server that asks without end in its answer to a call ("call") or on its own stream ("stream"); its URL."""
    with _serving(type("Flooding", (Asking,), {"floods": floods})) as port:
        yield f"http://127.0.0.1:{port}/mcp"


@contextmanager
def half_saying_over_http() -> Iterator[str]:
    """A server that answers a call with an event that never ends; its URL."""
    with _serving(type("HalfSaying", (Asking,), {"piece": b"data: " + HALF[:-6]})) as port:
        yield f"http://127.0.0.1:{port}/mcp"


@contextmanager
def _serving(handler: type[Asking]) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.block_on_close = False
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def asking_over_websocket() -> Iterator[str]:
    """A server that asks without end once it is open, and reads nothing any more; its URL."""
    listening = socket.create_server(("127.0.0.1", 0))
    accepting = threading.Thread(target=_accept, args=(listening,), daemon=True)
    accepting.start()
    try:
        yield f"ws://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        # Closed alone, the thread would wait on, and after a signal at whatever has the descriptor's number by then.
        listening.shutdown(socket.SHUT_RDWR)
        accepting.join()
        listening.close()


def _accept(listening: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=_speak, args=(connection,), daemon=True).start()


def _speak(connection: socket.socket) -> None:
    with connection, suppress(OSError, ValueError, IndexError), connection.makefile("rb") as said:
        head = {}
        while line := said.readline().strip():
            name, _, value = line.partition(b": ")
            head[name.lower()] = value
        accept = base64.b64encode(
            hashlib.sha1(head[b"sec-websocket-key"] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
        )
        connection.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Protocol: mcp\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        is_listed = False
        while not is_listed:
            message = json.loads(_read_frame(said.read))
            if "id" in message:
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": result_of(message["method"])}
                connection.sendall(_frame(json.dumps(answer).encode()))
                is_listed = message["method"] == "tools/list"
        flood = _frame(PING) * 100
        while True:
            connection.sendall(flood)


def _frame(payload: bytes) -> bytes:
    size = bytes([len(payload)]) if len(payload) < 126 else b"\x7e" + struct.pack(">H", len(payload))
    return b"\x81" + size + payload


def _read_frame(read: Callable[[int], bytes]) -> bytes:
    size = read(2)[1] & 0x7F
    if size == 126:
        size = struct.unpack(">H", read(2))[0]
    mask = read(4)
    return bytes(byte ^ mask[index % 4] for index, byte in enumerate(read(size)))
