"""An MCP server over HTTP, as well-behaved as one can be: it keeps what it was asked, and who asked it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

SCHEMA: Final = {"type": "object", "properties": {"text": {"type": "string"}}}


class HttpMcp:
    """`seen` are the requests: HTTP method, MCP method, headers by lower-case names."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: Final[list[tuple[str, str, dict[str, str]]]] = []

    def count(self, method: str) -> int:
        return sum(method in each[:2] for each in self.seen)


@contextmanager
def http_mcp(*tools: str, answer: object) -> Iterator[HttpMcp]:
    """A server with these tools, each of which says `answer`; it listens on the loopback while this is entered."""
    found = HttpMcp()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._note(message["method"])
            if "id" not in message:
                self._send(202, b"")
                return
            said: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
            match message["method"]:
                case "initialize":
                    about = {"serverInfo": {"name": "ldc", "version": "1"}, "capabilities": {"tools": {}}}
                    said["result"] = {"protocolVersion": "2025-03-26", **about}
                case "tools/list":
                    said["result"] = {"tools": [{"name": name, "inputSchema": SCHEMA} for name in tools]}
                case "tools/call":
                    said["result"] = {"content": [{"type": "text", "text": json.dumps(answer)}]}
                case _:
                    said["error"] = {"code": -32601, "message": "Method not found"}
            self._send(200, json.dumps(said).encode())

        def do_GET(self) -> None:
            self._note("")
            self._send(405, b"")

        def do_DELETE(self) -> None:
            self._note("")
            self._send(200, b"")

        def _note(self, method: str) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.seen.append((self.command, method, headers))

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.send_header("mcp-session-id", "session-1")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        found.url = f"http://127.0.0.1:{server.server_port}/ldc/mcp"
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
