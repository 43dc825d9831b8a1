"""A server written with the official SDK, of whichever generation the interpreter has: 1.x or 2.x.

sdk_any.py stdio
sdk_any.py http|sse [json] [stateless]      prints its port; ends with its input
"""

import asyncio
import importlib
import socket
import sys
from typing import Any


def made(words: list[str]) -> tuple[Any, Any]:
    """The server, and its ASGI application where it is to listen."""
    options = {"json_response": "json" in words, "stateless_http": "stateless" in words}
    try:
        server = importlib.import_module("mcp.server.mcpserver").MCPServer("sdk")
    except ModuleNotFoundError:
        server = importlib.import_module("mcp.server.fastmcp").FastMCP("sdk", **options)
        return server, server.sse_app() if "sse" in words else server.streamable_http_app()
    return server, server.sse_app() if "sse" in words else server.streamable_http_app(**options)


server, application = made(sys.argv[1:])


@server.tool()  # type: ignore[untyped-decorator]  # the SDK may be of either generation
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(structured_output=False)  # type: ignore[untyped-decorator]
async def say(words: str, after_s: float = 0) -> str:
    """Say it again."""
    await asyncio.sleep(after_s)
    return words


@server.tool(structured_output=False)  # type: ignore[untyped-decorator]
def fail(why: str) -> str:
    """Fail, for the reason given."""
    raise ValueError(why)


async def listen() -> None:
    uvicorn = importlib.import_module("uvicorn")
    config = uvicorn.Config(application, log_level="error", timeout_graceful_shutdown=1)
    listener = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as opened:
        # Whoever connects before it serves waits in the backlog.
        print(opened.getsockname()[1], flush=True)
        serving = asyncio.create_task(listener.serve(sockets=[opened]))
        await asyncio.to_thread(sys.stdin.read)
        listener.should_exit = True
        await serving


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run()
    else:
        asyncio.run(listen())
