"""An MCP server over HTTP that goes wrong in many ways, each named by a tool or by a path; the standard library only.

    python -m tests.servers.misbehaving_http    prints two ports, its own and another origin's; ends with its input

At `/mcp` all is well until a tool is called: each tool is a way in which the answer to its own call goes wrong. The
other paths go wrong before that.
"""

import asyncio
import json
import sys
import zlib
from collections.abc import Callable

from tests.servers.http_exchange import Behaviour, Exchange, Message, Origin, serve

SESSION = "session-1"
BIG = 100_000_000
PIECE = b"x" * 1_000_000
ENDS_AFTER = 4
"""Messages that a session on `/ends` takes: the handshake, its list of tools and one call."""


def text(words: str) -> Message:
    return {"content": [{"type": "text", "text": words}]}


# --- tools -----------------------------------------------------------------------------------------------------------


async def echo(call: Exchange) -> None:
    """The one that behaves."""
    call.result(text(str(call.request.message["params"]["arguments"].get("text", ""))))


async def seen_elsewhere(call: Exchange) -> None:
    """How many requests the other origin has had."""
    assert call.origin.other is not None
    call.result(text(str(call.origin.other.requests)))


async def no_headers(_call: Exchange) -> None:
    await asyncio.sleep(3600)


async def slow_headers(call: Exchange) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n":
        call.writer.write(bytes([byte]))
        await call.writer.drain()
        await asyncio.sleep(1)


async def stall_in_body(call: Exchange) -> None:
    call.head(200, "Content-Type: application/json", "Content-Length: 1000")
    call.writer.write(b'{"jsonrpc":"2.0","id":')
    await call.writer.drain()
    await asyncio.sleep(3600)


async def stall_in_events(call: Exchange) -> None:
    call.begin_events()
    call.writer.write(b": nothing yet\n\n")
    await call.writer.drain()
    await asyncio.sleep(3600)


async def cut_in_body(call: Exchange) -> None:
    call.head(200, "Content-Type: application/json", "Content-Length: 1000")
    call.writer.write(b'{"jsonrpc":"2.0","id":')
    await call.cut()


async def cut_in_event(call: Exchange) -> None:
    call.begin_events()
    call.writer.write(b'event: message\ndata: {"jsonrpc":"2.0","id":')
    await call.cut()


async def cut_and_resumed(call: Exchange) -> None:
    call.origin.interrupted["event-1"] = call.request.message["id"]
    call.begin_events()
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "so far"}}
    call.writer.write(b"id: event-1\nretry: 10\ndata: " + json.dumps(note).encode() + b"\n\nid: event-2\ndata: {")
    await call.cut()


async def unauthorized(call: Exchange) -> None:
    call.say(401, 'WWW-Authenticate: Bearer error="invalid_token"')


async def forbidden(call: Exchange) -> None:
    call.say(403, 'WWW-Authenticate: Bearer error="insufficient_scope", scope="bees:write"')


def status(number: int, *headers: str) -> Behaviour:
    """Answers every call with it."""

    async def behave(call: Exchange) -> None:
        call.say(number, *headers, body=b"<h1>no</h1>", kind="text/html")

    return behave


async def redirect_here(call: Exchange) -> None:
    call.redirect("/mcp?moved=1")


async def redirect_elsewhere(call: Exchange) -> None:
    assert call.origin.other is not None
    call.redirect(f"http://127.0.0.1:{call.origin.other.port}/mcp")


async def redirect_in_circles(call: Exchange) -> None:
    call.redirect(call.request.path)


async def wrong_type(call: Exchange) -> None:
    call.say(200, body=b"<h1>Welcome</h1>", kind="text/html")


async def no_json(call: Exchange) -> None:
    call.say(200, body=b"Welcome")


async def large_with_length(call: Exchange) -> None:
    call.head(200, "Content-Type: application/json", f"Content-Length: {BIG}")
    for _ in range(BIG // len(PIECE)):
        call.writer.write(PIECE)
        await call.writer.drain()


async def large_in_chunks(call: Exchange) -> None:
    call.head(200, "Content-Type: application/json", "Transfer-Encoding: chunked")
    for _ in range(BIG // len(PIECE)):
        call.writer.write(b"%x\r\n%b\r\n" % (len(PIECE), PIECE))
        await call.writer.drain()
    call.writer.write(b"0\r\n\r\n")


async def large_event(call: Exchange) -> None:
    call.begin_events()
    call.writer.write(b"data: ")
    for _ in range(BIG // len(PIECE)):
        call.writer.write(PIECE)
        await call.writer.drain()
    call.writer.write(b"\n\n")
    await call.cut()


async def bomb(call: Exchange) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    zeros = bytes(1_000_000)
    body = b"".join(packer.compress(zeros) for _ in range(200)) + packer.flush()
    call.say(200, "Content-Encoding: gzip", body=body)


async def wrong_session(call: Exchange) -> None:
    call.result(text("answered"), "Mcp-Session-Id: of-another")


async def wrong_id(call: Exchange) -> None:
    call.result(text("for another"), number=987_654)


async def batch(call: Exchange) -> None:
    note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
    call.say(200, body=b"[%b,%b]" % (note.encode(), call.message(text("one of a batch"))))


async def null_result(call: Exchange) -> None:
    call.result(None)


TOOLS: dict[str, Behaviour] = {
    each.__name__: each
    for each in (
        echo,
        seen_elsewhere,
        no_headers,
        slow_headers,
        stall_in_body,
        stall_in_events,
        cut_in_body,
        cut_in_event,
        cut_and_resumed,
        unauthorized,
        forbidden,
        redirect_here,
        redirect_elsewhere,
        redirect_in_circles,
        wrong_type,
        no_json,
        large_with_length,
        large_in_chunks,
        large_event,
        bomb,
        wrong_session,
        wrong_id,
        batch,
        null_result,
    )
} | {
    "internal": status(500),
    "bad_gateway": status(502),
    "overloaded": status(503, "Retry-After: 2"),
    "too_many": status(429, "Retry-After: 1"),
    "not_found": status(410),
}


# --- paths -----------------------------------------------------------------------------------------------------------


async def well(exchange: Exchange) -> None:
    """A server with sessions, of the revision before the stateless one."""
    message = exchange.request.message
    if exchange.request.method == "GET":
        await resume(exchange)
    elif exchange.request.method == "DELETE":
        exchange.say(200)
    elif "id" not in message or "method" not in message:
        exchange.say(202)
    elif message["method"] == "initialize":
        exchange.result(greeting(), f"Mcp-Session-Id: {SESSION}")
    elif exchange.request.headers.get("mcp-session-id") != SESSION:
        exchange.error(400, -32000, "Bad Request: No valid session ID provided")
    elif message["method"] == "tools/list":
        exchange.result({"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]})
    elif "moved" in exchange.request.path:
        exchange.result(text("answered where it was sent"))
    else:
        await TOOLS[message["params"]["name"]](exchange)


async def resume(exchange: Exchange) -> None:
    """The rest of a stream that was cut; there is no other stream."""
    number = exchange.origin.interrupted.pop(exchange.request.headers.get("last-event-id", ""), None)
    if number is None:
        exchange.say(405)
        return
    exchange.begin_events()
    exchange.writer.write(b"id: event-3\ndata: " + exchange.message(text("resumed"), number=number) + b"\n\n")
    await exchange.cut()


def greeting() -> Message:
    return {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "misbehaving", "version": "1"},
    }


def refusing_discovery(refuse: Callable[[Exchange], None]) -> Behaviour:
    """As `well`, but for the question what it speaks."""

    async def behave(exchange: Exchange) -> None:
        if exchange.request.message.get("method") == "server/discover":
            refuse(exchange)
        else:
            await well(exchange)

    return behave


async def ends(exchange: Exchange) -> None:
    """Forgets its session after a few messages."""
    sessions = exchange.origin.sessions
    if exchange.request.message.get("method") == "initialize":
        sessions[SESSION] = 0
    if exchange.request.headers.get("mcp-session-id") == SESSION and exchange.request.method == "POST":
        sessions[SESSION] += 1
        if sessions[SESSION] >= ENDS_AFTER:
            exchange.error(404, -32001, "Session not found")
            return
    await well(exchange)


async def silent(_exchange: Exchange) -> None:
    """Answers nothing at all."""
    await asyncio.sleep(3600)


UNSUPPORTED = {"supported": ["2025-11-25", "2025-06-18"], "requested": "2026-07-28"}
PATHS: dict[str, Behaviour] = {
    "/mcp": well,
    "/ends": ends,
    "/silent": silent,
    "/discover-404": refusing_discovery(lambda exchange: exchange.say(404, body=b"Not Found", kind="text/plain")),
    "/discover-400": refusing_discovery(lambda exchange: exchange.say(400, body=b"what?", kind="text/plain")),
    "/discover-405": refusing_discovery(lambda exchange: exchange.say(405)),
    "/discover-method": refusing_discovery(lambda exchange: exchange.error(200, -32601, "Method not found")),
    "/discover-params": refusing_discovery(lambda exchange: exchange.error(200, -32602, "Invalid request parameters")),
    "/discover-older": refusing_discovery(
        lambda exchange: exchange.error(400, -32022, "Unsupported protocol version", UNSUPPORTED)
    ),
    "/discover-newer": refusing_discovery(
        lambda exchange: exchange.error(
            400, -32022, "Unsupported protocol version", {"supported": ["2099-01-01"], "requested": "2026-07-28"}
        )
    ),
    "/all-401": status(401),
    "/all-403": status(403),
    "/all-500": status(500),
}


async def main() -> None:
    origin, other = Origin(), Origin()
    origin.other = other
    await serve(origin, PATHS)
    await serve(other, PATHS)
    print(origin.port, other.port, flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
