"""An MCP server over stdio whose tools try what a program may be kept from, and say what came of it.

The standard library only; each tool is a function of the call's arguments, and an error of the system is its answer.
"""

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Arguments = dict[str, Any]


def read(arguments: Arguments) -> str:
    return Path(arguments["path"]).read_text(encoding="utf-8")


def write(arguments: Arguments) -> str:
    Path(arguments["path"]).write_text("written", encoding="utf-8")
    return "written"


def grow(arguments: Arguments) -> str:
    Path(arguments["path"]).write_bytes(bytes(arguments["bytes"]))
    return "grown"


def connect(arguments: Arguments) -> str:
    with socket.create_connection(("127.0.0.1", arguments["port"]), timeout=5):
        return "connected"


def allocate(arguments: Arguments) -> str:
    return str(len(b"x" * arguments["bytes"]))


def burn(_arguments: Arguments) -> str:
    while True:
        pass


def fork(arguments: Arguments) -> str:
    """As many children as that, which live as long as the server does."""
    for _ in range(arguments["children"]):
        if os.fork() == 0:
            os.read(0, 1)
            os._exit(0)
    return "forked"


def about(_arguments: Arguments) -> str:
    names = ("TMPDIR", "HOME", "TOOLDISPATCHD_SCRATCH")
    said = {"uid": os.getuid(), "nice": os.nice(0), "cwd": str(Path.cwd()), **{n: os.environ.get(n) for n in names}}
    return json.dumps(said)


TOOLS: dict[str, Callable[[Arguments], str]] = {
    each.__name__: each for each in (read, write, grow, connect, allocate, burn, fork, about)
}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The whole response to a request."""
    head = {"jsonrpc": "2.0", "id": request["id"]}
    match request["method"]:
        case "initialize":
            said = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            return {**head, "result": {**said, "serverInfo": {"name": "attacking", "version": "1"}}}
        case "tools/list":
            tools = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in TOOLS]
            return {**head, "result": {"tools": tools}}
        case "tools/call":
            call = request["params"]
            try:
                text = TOOLS[call["name"]](call["arguments"])
            except OSError as error:
                text = f"refused: {error.strerror or error}"
            return {**head, "result": {"content": [{"type": "text", "text": text}]}}
    return {**head, "error": {"code": -32601, "message": "No"}}


if __name__ == "__main__":
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message:
            os.write(1, json.dumps(answer(message)).encode() + b"\n")
