"""Servers written with the official SDK, of whichever generation the interpreter has: 1.x or 2.x.

sdk_any.py stdio
sdk_any.py MODE…      a server for each of http, sse, http,json, http,stateless; prints their ports; ends with its input
"""

import asyncio
import importlib
import socket
import sys
from contextlib import ExitStack
from typing import Any


def made(mode: str) -> tuple[Any, Any]:
    """A server, and its ASGI application where it is to listen."""
    words = mode.split(",")
    options = {"json_response": "json" in words, "stateless_http": "stateless" in words}
    try:
        server = importlib.import_module("mcp.server.mcpserver").MCPServer("sdk")
    except ModuleNotFoundError:
        server, options = importlib.import_module("mcp.server.fastmcp").FastMCP("sdk", **options), {}
    server.tool()(add)
    server.tool(structured_output=False)(say)
    server.tool(structured_output=False)(fail)
    return server, server.sse_app() if "sse" in words else server.streamable_http_app(**options)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def say(words: str, after_s: float = 0) -> str:
    """Say it again."""
    await asyncio.sleep(after_s)
    return words


def fail(why: str) -> str:
    """Fail, for the reason given."""
    raise ValueError(why)


async def listen(modes: list[str]) -> None:
    uvicorn = importlib.import_module("uvicorn")
    with ExitStack() as stack:
        listeners, serving = [], []
        for mode in modes:
            config = uvicorn.Config(made(mode)[1], log_level="error", timeout_graceful_shutdown=1)
            listeners.append(uvicorn.Server(config))
            # Whoever connects before it serves waits in the backlog.
            opened = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            serving.append(asyncio.create_task(listeners[-1].serve(sockets=[opened])))
            print(opened.getsockname()[1], end=" ")
        print(flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for listener in listeners:
            listener.should_exit = True
        await asyncio.gather(*serving)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        made("stdio")[0].run()
    else:
        asyncio.run(listen(sys.argv[1:]))
