"""An MCP client over HTTP that behaves, beside hostile ones: how long its calls took, and what web processes had."""

import http.client
import json
import os
import socket
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests.daemon.spawned import PATIENCE_S, Daemon

TOKEN: Final = "a long random text that nobody knows"
MIB: Final = 1024 * 1024
WEB: Final = "tooldispatchd.mcpface.web"
HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "Authorization": f"Bearer {TOKEN}",
}
INFO: Final = {"name": "honest", "version": "1"}


class ClientSeen(NamedTuple):
    """What the client saw."""

    calls: int
    p99_ms: float
    failed: list[str]
    memory_bytes: int

    def wrongs(self, worst_ms: float, worst_bytes: int) -> dict[str, bool]:
        """Each promise to it in words, and whether it was broken."""
        return {
            f"an MCP client was not served: {self.failed[:1]}": bool(self.failed),
            f"p99 of an MCP client's calls was {self.p99_ms:.0f} ms": self.p99_ms > worst_ms,
            f"the web processes had {self.memory_bytes // MIB} MiB": self.memory_bytes > worst_bytes,
        }

    def __str__(self) -> str:
        return f"client {self.calls} calls, p99 {self.p99_ms:.0f} ms, web {self.memory_bytes // MIB} MiB {self.failed}"


class HonestClient:
    """It has a session of its own at a place on a Unix socket."""

    def __init__(self, path: Path, daemon: Daemon) -> None:
        self._webs = daemon.running(WEB)
        self._connection = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
        self._connection.sock = socket.socket(socket.AF_UNIX)
        self._connection.sock.settimeout(PATIENCE_S)
        self._connection.sock.connect(str(path))
        self._key: dict[str, str] = {}
        self._took: list[float] = []
        self._failed: list[str] = []
        self._peak = 0
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
        head, _ = self._ask("POST", {"method": "initialize", "params": params})
        self._key = {"Mcp-Session-Id": head.getheader("Mcp-Session-Id", "")}

    def call(self) -> None:
        """One call, unless one has failed."""
        self._peak = max(self._peak, sum(map(resident_bytes, self._webs)))
        if self._failed:
            return
        start = time.perf_counter()
        try:
            head, body = self._ask(
                "POST", {"method": "tools/call", "params": {"name": "echo", "arguments": {"input": 7}}}
            )
        except OSError as error:
            self._failed.append(repr(error))
            return
        self._took.append(time.perf_counter() - start)
        if head.status != 200 or b'"text":"7"' not in body:
            self._failed.append(f"{head.status} {body[:100]!r}")

    def leave(self) -> ClientSeen:
        """End the session; what was seen."""
        if not self._failed:
            self._ask("DELETE")
        self._connection.close()
        took = sorted(self._took) or [float("inf")]
        return ClientSeen(len(self._took), took[int(len(took) * 0.99)] * 1000, self._failed, self._peak)

    def _ask(self, method: str, message: dict[str, object] | None = None) -> tuple[http.client.HTTPResponse, bytes]:
        body = None if message is None else json.dumps({"jsonrpc": "2.0", "id": 1, **message})
        self._connection.request(method, "/mcp", body, HEADERS | self._key)
        answer = self._connection.getresponse()
        return answer, answer.read()


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
