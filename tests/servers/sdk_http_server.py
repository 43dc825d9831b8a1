"""The official SDK's server behind HTTP, on a free port that it prints: Streamable HTTP at `/mcp`, or `/sse`.

`poll` closes its stream before it is done, so that the client must ask for the rest. `linger` notes whether it was
cancelled.
"""

import socket
import sys
from pathlib import Path

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.types import JSONRPCMessage

server = MCPServer("sdk-server")


class Store(EventStore):
    """Keeps every event for ever."""

    def __init__(self) -> None:
        self.events: list[tuple[StreamId, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        stream_id, _ = self.events[int(last_event_id) - 1]
        for number, (of, message) in enumerate(self.events, 1):
            if of == stream_id and message is not None and number > int(last_event_id):
                await send_callback(EventMessage(message, str(number)))
        return stream_id


@server.tool(structured_output=False)
def say(words: str) -> str:
    """Say it again."""
    return words


@server.tool(structured_output=False)
async def poll(context: Context) -> str:
    """Answer only to who comes back."""
    await context.report_progress(1, 2)
    await context.close_sse_stream()
    await context.report_progress(2, 2)
    return "back"


@server.tool(structured_output=False)
async def linger(directory: str) -> str:
    """Note in a directory that it has begun, and that it was cancelled."""
    (Path(directory) / "began").touch()
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        (Path(directory) / "cancelled").touch()
        raise
    return "done"


def main() -> None:
    app = server.streamable_http_app(event_store=Store(), retry_interval=10)
    if sys.argv[1] == "pair":
        app = server.sse_app()
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
