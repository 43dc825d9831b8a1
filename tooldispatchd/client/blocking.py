"""A small blocking client: one channel, one session, one call at a time."""

import socket
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.wire.lines import LineCutter, LongLine
from tooldispatchd.wire.messages import Bye, Hello, Pong, Ready, ToolReq, ToolResp, Tools, ToolsReq

READ_BYTES: Final = 65_536
# The largest answer that a daemon with its default limits gives, in JSON: a quote or a newline takes two bytes.
MAX_LINE_BYTES: Final = 2 * 64 * 1024 * 1024 + 1024

_encode: Final = msgspec.json.Encoder().encode


class FaultSaid(msgspec.Struct, tag_field="__port", tag="fault"):
    """A `fault` line, as a client reads it; its extras are in `fields`."""

    error: str
    category: str
    detail: str
    id: str | None = None
    fields: dict[str, object] = {}


LineT = TypeVar("LineT")
Line = Ready | ToolResp | Tools | Pong | Bye | FaultSaid


class _Port(msgspec.Struct):
    port: str = msgspec.field(name="__port")


_PORTS: Final = {"ready", "tool_resp", "tools", "pong", "bye", "fault"}
_decode_port: Final = msgspec.json.Decoder(_Port).decode
_decode: Final = msgspec.json.Decoder(Line).decode


class ClientError(Exception):
    """The daemon cannot be reached, or the channel ended before an answer."""


class FaultError(Exception):
    """The daemon refused what was asked; `code`, `category` and `fields` are the fault's."""

    def __init__(self, said: FaultSaid) -> None:
        super().__init__(f"{said.error}: {said.detail}")
        self.code = said.error
        self.category = said.category
        self.fields = said.fields


class Client:
    """A channel to the daemon, through any pair of functions that move bytes."""

    def __init__(
        self, receive: Callable[[int], bytes], send: Callable[[bytes], object], close: Callable[[], object]
    ) -> None:
        self._receive = receive
        self._send = send
        self._close = close
        self._cutter = LineCutter(MAX_LINE_BYTES)
        self._lines: list[bytes | LongLine] = []
        self._calls = 0

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def hello(self, profile: str | None = None) -> Ready:
        """Open the session; raises `FaultError` where it is refused."""
        self._say(Hello(profile=profile))
        return self._await(Ready)

    def tools(self) -> Tools:
        """The tools of the session."""
        self._say(ToolsReq())
        return self._await(Tools)

    def call(self, name: str, value: Raw | UnsetType = UNSET) -> ToolResp:
        """Call a tool with the JSON in `value` and wait for its answer, which may say `is_error`."""
        self._calls += 1
        call_id = str(self._calls)
        self._say(ToolReq(id=call_id, name=name, input=value))
        while True:
            answer = self._await(ToolResp)
            if answer.id == call_id:
                return answer

    def close(self) -> None:
        """Close the channel; the daemon cancels what still runs."""
        self._close()

    def _say(self, message: Hello | ToolsReq | ToolReq) -> None:
        try:
            self._send(_encode(message) + b"\n")
        except OSError as error:
            raise ClientError(f"cannot write to the daemon: {error.strerror}") from error

    def _await(self, kind: type[LineT]) -> LineT:
        """The next line of that kind; other lines that may come unasked are passed over."""
        while True:
            line = self._read()
            if isinstance(line, kind):
                return line
            if isinstance(line, FaultSaid):
                raise FaultError(line)

    def _read(self) -> Line | None:
        """The next line; None for one that is of no interest."""
        while not self._lines:
            try:
                chunk = self._receive(READ_BYTES)
            except OSError as error:
                raise ClientError(f"cannot read from the daemon: {error.strerror}") from error
            if not chunk:
                raise ClientError("the daemon closed the channel")
            self._lines = self._cutter.cut(chunk)
        line = self._lines.pop(0)
        if isinstance(line, LongLine):
            raise ClientError("the daemon sent a line that is too long")
        try:
            port = _decode_port(line).port
            if port not in _PORTS:
                return None  # a port of a later version is nothing to an earlier client
            said: Line = _decode(line)
            if isinstance(said, FaultSaid):
                said.fields = msgspec.json.decode(line, type=dict[str, object])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ClientError("the daemon sent a line that is not of the protocol") from error
        return said


def connect(path: str) -> Client:
    """A channel through the daemon's Unix socket; raises `ClientError` where nobody answers there."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        channel.connect(path)
    except OSError as error:
        channel.close()
        raise ClientError(f"cannot reach the daemon at {path}: {error.strerror or error}") from error
    return Client(channel.recv, channel.sendall, channel.close)
