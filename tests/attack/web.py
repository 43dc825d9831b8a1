"""MCP servers over HTTP and WebSocket that ask without end: prints its port, and ends with its input.

`/post` asks on the stream that answers a call, `/get` on the stream that a client opens by itself, `/ws` on a
WebSocket; `/half_events` has lines there that never become an event. None of them reads what it is told in
return. `/http_echo` and `/ws_echo` answer all calls.
"""

import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

import msgspec
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Request, TextMessage

from tests.servers.misbehaving import ECHO, Message

PING: Final = '{"jsonrpc":"2.0","id":"p","method":"ping"}'
EVENTS: Final = f"data: {PING}\n\n".encode() * 1000
HALF_EVENTS: Final = b"event: x\n" * 8000
STREAM: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def reply_to(message: Message, *, answers: bool) -> bytes | None:
    """The answer to what is asked; None to a call unless it `answers` that too, empty to a notification."""
    results = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "web", "version": "1"},
        },
        "tools/list": {"tools": [ECHO]},
        "tools/call": {"content": []},
    }
    method = message.get("method", "")
    if method == "tools/call" and not answers:
        return None
    if "id" not in message or method not in results:
        return b""
    return msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], "result": results[method]})


def read(peer: socket.socket) -> tuple[bytes, bytes]:
    """The head of a request and its body; raises `ConnectionError` at the end."""
    buffered = b""

    def until(is_whole: Callable[[], bool]) -> None:
        nonlocal buffered
        while not is_whole():
            chunk = peer.recv(65_536)
            if not chunk:
                raise ConnectionResetError
            buffered += chunk

    until(lambda: b"\r\n\r\n" in buffered)
    head, _, _rest = buffered.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    until(lambda: len(buffered) >= len(head) + 4 + length)
    return head, buffered[len(head) + 4 :]


def serve(peer: socket.socket) -> None:
    """One connection."""
    with suppress(ConnectionError), peer:
        while True:
            head, body = read(peer)
            method, path, _ = head.split(b" ", 2)
            if path.startswith(b"/ws"):
                web_socket(peer, head + b"\r\n\r\n", answers=path.endswith(b"echo"))
            if method == b"GET":
                if path == b"/post":
                    peer.sendall(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n")
                    continue
                ask(peer, STREAM, HALF_EVENTS if path == b"/half_events" else EVENTS)
            if method != b"POST":
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                continue
            reply = reply_to(msgspec.json.decode(body), answers=path.endswith(b"echo"))
            if reply is None:
                ask(peer, STREAM, EVENTS if path == b"/post" else b"")
            status = b"200 OK" if reply else b"202 Accepted"
            kind = b"Content-Type: application/json\r\nMcp-Session-Id: one\r\n"
            peer.sendall(b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, kind, len(reply), reply))


def ask(peer: socket.socket, head: bytes, said: bytes) -> NoReturn:
    """Until the client has had enough."""
    peer.sendall(head)
    while said:
        peer.sendall(said)
    while True:
        threading.Event().wait()


def web_socket(peer: socket.socket, head: bytes, *, answers: bool) -> None:
    """The handshake as it should be, then frames without end, unless it `answers`."""
    connection = WSConnection(ConnectionType.SERVER)
    heard, said = head, ""
    while True:
        connection.receive_data(heard)
        for event in connection.events():
            if isinstance(event, Request):
                peer.sendall(connection.send(AcceptConnection(subprotocol="mcp")))
            elif isinstance(event, TextMessage):
                said += event.data
                if not event.message_finished:
                    continue
                reply = reply_to(msgspec.json.decode(said), answers=answers)
                said = ""
                if reply is None:
                    ask(peer, b"", connection.send(TextMessage(data=PING)) * 1000)
                elif reply:
                    peer.sendall(connection.send(TextMessage(data=reply.decode())))
            elif isinstance(event, CloseConnection):
                raise ConnectionResetError
        heard = peer.recv(65_536)
        if not heard:
            raise ConnectionResetError


def main() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        print(listener.getsockname()[1], flush=True)
        # Its threads are not waited for.
        threading.Thread(target=accept, args=[listener], daemon=True).start()
        sys.stdin.read()


def accept(listener: socket.socket) -> None:
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=serve, args=[peer], daemon=True).start()


if __name__ == "__main__":
    main()
