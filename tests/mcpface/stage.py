"""A face between a client and a daemon that are both played by the test: what is said is JSON on both sides."""

import json
from typing import Any

from tooldispatchd.mcpface.clientside import Said
from tooldispatchd.mcpface.face import Face

READY: dict[str, Any] = {
    "__port": "ready",
    "agent": "mcp",
    "profile": "default",
    "protocol": 1,
    "tools": [
        {
            "name": "same",
            "title": "The same",
            "description": "Give it back.",
            "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": True},
        },
        {"name": "look", "description": "Look.", "inputSchema": {"type": "object"}},
    ],
    "warnings": [],
    "capabilities": {"value": True},
    "limits": {"line": 100_000, "in_flight": 256},
    "instructions": "Be kind.",
}


class Stage:
    """Plays both sides of a face."""

    def __init__(self) -> None:
        self.face = Face(profile="web", token="secret", now=0.0)
        self.said: list[Said] = []
        self.last_ticket = 0
        self._ids = 0
        self._early: list[dict[str, Any]] = []

    def client(self, message: object, now: float = 0.0) -> int:
        """Say something as the client; bytes as they are. Returns the ticket."""
        return self.face.take_client(message if isinstance(message, bytes) else json.dumps(message).encode(), now)

    def request(self, method: str, params: object = None, now: float = 0.0) -> int:
        """Make a request; its id is its number, from 1."""
        self._ids += 1
        said = {"jsonrpc": "2.0", "id": self._ids, "method": method}
        return self.client(said if params is None else {**said, "params": params}, now)

    def stateless(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        offer: dict[str, Any] | None = None,
        now: float = 0.0,
    ) -> int:
        """Make a request of the stateless revision."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": offer or {},
        }
        self.last_ticket = self.request(method, {**(params or {}), "_meta": meta}, now)
        return self.last_ticket

    def stateless_call(self, offer: dict[str, Any], **ready: Any) -> dict[str, Any]:
        """Call a tool without a handshake; returns its line."""
        self.stateless("tools/call", {"name": "look"}, offer)
        self.ready(**ready)
        return self.lines()[-1]

    def notify(self, method: str, params: object = None) -> int:
        """Say a notification."""
        said = {"jsonrpc": "2.0", "method": method}
        return self.client(said if params is None else {**said, "params": params})

    def daemon(self, port: str, now: float = 0.0, **fields: object) -> None:
        """Say a line as the daemon."""
        self.face.take_daemon(json.dumps({"__port": port, "agent": "mcp", **fields}).encode(), now)

    def answer(self, line: dict[str, Any], content: str, **fields: object) -> None:
        """Answer a call."""
        self.daemon("tool_resp", **{"id": line["id"], "content": content, "is_error": False, **fields})

    def ready(self, **fields: object) -> None:
        """Open the session that was asked for."""
        line = {**READY, "id": self.lines()[-1]["id"], **fields}
        self.face.take_daemon(json.dumps(line).encode(), 0.0)

    def open(self, revision: str = "2025-11-25", offer: dict[str, Any] | None = None, **ready: Any) -> dict[str, Any]:
        """Shake hands; returns the answer to `initialize`."""
        self.request("initialize", {"protocolVersion": revision, "capabilities": offer or {}})
        self.ready(**ready)
        self.notify("notifications/initialized")
        answer, *self._early = self.told()
        return answer

    def told_early(self) -> list[dict[str, Any]]:
        """What the client was told right after the handshake."""
        return self._early

    def lines(self) -> list[dict[str, Any]]:
        """What the daemon was told since this was asked last."""
        lines = [json.loads(line) for line in self.face.to_daemon]
        assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in self.face.to_daemon)
        self.face.to_daemon.clear()
        return lines

    def told(self) -> list[dict[str, Any]]:
        """What the client was told since this was asked last."""
        said = list(self.face.to_client)
        self.face.to_client.clear()
        self.said.extend(said)
        return [json.loads(one.message) for one in said if one.message]
