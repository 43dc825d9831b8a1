"""The least of HTTP/1.1 that a test's server needs: requests read whole, answers written piece by piece."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

Message = dict[str, Any]

REASONS = {200: "OK", 202: "Accepted", 307: "Temporary Redirect", 401: "Unauthorized", 403: "Forbidden"}


class Request(NamedTuple):
    """One HTTP request; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    message: Message


class Exchange:
    """One request, and the ways to answer it."""

    def __init__(self, request: Request, writer: asyncio.StreamWriter, origin: "Origin") -> None:
        self.request = request
        self.writer = writer
        self.origin = origin

    def head(self, status: int, *headers: str) -> None:
        """The first lines of an answer; a body may follow."""
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Odd')}", *headers, "", ""]
        self.writer.write("\r\n".join(lines).encode())

    def say(self, status: int, *headers: str, body: bytes = b"", kind: str = "application/json") -> None:
        """A whole answer."""
        self.head(status, f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers)
        self.writer.write(body)

    def result(self, result: object, *headers: str, number: object = None) -> None:
        """A JSON-RPC result as one JSON body."""
        self.say(200, *headers, body=self.message(result, number=number))

    def error(self, status: int, code: int, words: str, data: object = None) -> None:
        """A JSON-RPC error under an HTTP status."""
        error = {"code": code, "message": words} | ({} if data is None else {"data": data})
        message = {"jsonrpc": "2.0", "id": self.request.message.get("id"), "error": error}
        self.say(status, body=json.dumps(message).encode())

    def message(self, result: object, *, number: object = None) -> bytes:
        """A JSON-RPC result as bytes."""
        id_ = self.request.message.get("id") if number is None else number
        return json.dumps({"jsonrpc": "2.0", "id": id_, "result": result}).encode()

    def begin_events(self) -> None:
        """A stream of events that ends with the TCP connection."""
        self.head(200, "Content-Type: text/event-stream", "Connection: close")

    def redirect(self, place: str) -> None:
        """The same request, please, but there."""
        self.say(307, f"Location: {place}")

    async def cut(self) -> None:
        """End the TCP connection after what was written."""
        await self.writer.drain()
        self.writer.close()


class Origin:
    """What one port has seen."""

    def __init__(self) -> None:
        self.port = 0
        self.other: Origin | None = None
        self.requests = 0
        self.sessions: dict[str, int] = {}
        self.interrupted: dict[str, object] = {}
        """Calls whose stream was cut, by the id of the last event that they were sent."""


Behaviour = Callable[[Exchange], Awaitable[None]]


async def read(reader: asyncio.StreamReader) -> Request:
    """The next request; raises `IncompleteReadError` at the end."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _version = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _colon, value in (line.partition(":") for line in head[1:])}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, path, headers, json.loads(body) if body else {})


async def serve(origin: Origin, paths: dict[str, Behaviour]) -> asyncio.Server:
    """Listen on a free port; each of `paths` has its way to answer."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await read(reader)
                origin.requests += 1
                await paths[request.path.partition("?")[0]](Exchange(request, writer, origin))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    origin.port = server.sockets[0].getsockname()[1]
    return server
