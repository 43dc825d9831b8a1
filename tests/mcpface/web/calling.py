"""A daemon with places for MCP clients, and clients that say what they like."""

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.daemon.spawned import PATIENCE_S, Daemon, daemon_on, until

TOKEN: Final = "a-token-of-the-tests"
CONFIG: Final = f"""
[tools.echo]
type = "string -> string"
inline = "id"
[tools.nap]
input_schema = {{ type = "object" }}
output_schema = {{}}
command = ["sh", "-c", "sleep 30; echo 1"]
[tools.steps]
input_schema = {{ type = "object" }}
output_schema = {{}}
command = ["sh", "-c", "echo $UP >&3; sleep 0.5; echo 1"]
env = {{ UP = '{{"__port":"tool_update","progress":1}}' }}
[agents.default]
tools = ["echo", "nap", "steps"]
[agents.safe]
tools = ["echo"]
token = "{TOKEN}"
[agents.other]
tools = ["echo"]
token = "another-token"
[agents.ours]
tools = ["echo"]
uid = 0
"""
ACCEPT: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
BEARER: Final = {"Authorization": f"Bearer {TOKEN}"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Answered:
    """What came back."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.getheaders()}
        self.body = answer.read()

    @property
    def message(self) -> dict[str, Any]:
        """The only message, or the last of the events."""
        text = self.body
        if self.headers["content-type"] == "text/event-stream":
            text = [line for line in text.split(b"\n") if line.startswith(b"data: ")][-1][6:]
        said: dict[str, Any] = json.loads(text)
        return said


class Caller:
    """A client at one place."""

    def __init__(self, port: int, **headers: str) -> None:
        self.port = port
        self.headers = ACCEPT | headers

    def send(self, method: str, body: bytes = b"", *, path: str = "/mcp", **headers: str) -> Answered:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body or None, self.headers | given)
            return Answered(connection.getresponse())
        finally:
            connection.close()

    def ask(self, method: str, params: object = None, **headers: str) -> Answered:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        return self.send("POST", json.dumps(message).encode(), **headers)

    def initialize(self) -> Answered:
        """Open a session, and use it from now on."""
        info = {"name": "tests", "version": "1"}
        answered = self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
        if "mcp-session-id" in answered.headers:
            self.headers = self.headers | {"Mcp-Session-Id": answered.headers["mcp-session-id"]}
        return answered

    def call(self, tool: str, arguments: object, **params: object) -> Answered:
        return self.ask("tools/call", {"name": tool, "arguments": arguments, **params})


@contextmanager
def web_daemon(directory: Path, query: str = "profile=default", config: str = CONFIG) -> Iterator[tuple[Daemon, int]]:
    """A daemon with a place for HTTP on a port of its own, once that is served."""
    port = free_port()
    with daemon_on(directory, config, "--listen", f"http://127.0.0.1:{port}/mcp?{query}") as daemon:
        until(lambda: Caller(port).send("OPTIONS").status == 403)
        yield daemon, port


def web_process(daemon: Daemon) -> int:
    """The number of the process that serves HTTP."""
    (pid,) = daemon.running("tooldispatchd.mcpface.web")
    return pid


@contextmanager
def raw(port: int, *pieces: bytes) -> Iterator[socket.socket]:
    """A connection on which these bytes have been sent."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        for piece in pieces:
            connection.sendall(piece)
        yield connection
