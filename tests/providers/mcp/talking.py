"""A server's requests, and what was sent back."""

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.providers.mcp.asking import (
    AgentSide,
    ServerRequests,
)
from tooldispatchd.providers.mcp.messages import Incoming, Outgoing
from tooldispatchd.providers.mcp.server import Server

SERVER = Server(name="docs", argv=("docs",), max_line_bytes=10_000, max_content_bytes=100, call_s=7.0)
SAMPLING = "sampling/createMessage"
ELICITATION = "elicitation/create"
QUESTION = b'{"message":"Which day?"}'


class Log:
    """Keeps the events that are logged."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def debug(self, event: str, **_fields: object) -> None:
        self.events.append(event)

    info = warning = error = debug


class Talk:
    """A server's side of an `ServerRequests`; `answers` are the messages that it got."""

    def __init__(self, agent: AgentSide, server: Server = SERVER) -> None:
        self.answers: list[dict[str, object]] = []
        self.log = Log()
        self.asked = ServerRequests(server, agent, self.log, send=self._send)

    def _send(self, message: Outgoing) -> None:
        assert message.method is None
        assert message.line.index(b"\n") == len(message.line) - 1
        self.answers.append(msgspec.json.decode(message.line))

    def request(self, method: str, params: bytes | None = QUESTION, *, id_: str | float | None = 1) -> None:
        self.asked.take_request(Incoming(id=id_, method=method, params=as_raw(params)))

    def notify(self, method: str, params: bytes | None = None) -> None:
        self.asked.take_notification(Incoming(method=method, params=as_raw(params)))


def as_raw(params: bytes | None) -> Raw | UnsetType:
    return UNSET if params is None else Raw(params)


def result(value: object, id_: object = 1) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id_, "result": value}


def error(code: int, message: str, id_: object = 1) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message}}


# --- what is answered at once ---
