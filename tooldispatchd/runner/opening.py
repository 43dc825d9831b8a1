"""Open an agent's session before the agent starts: send its `hello`, and read `ready`."""

import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from tooldispatchd.client.reach import PING
from tooldispatchd.client.silence import START_S
from tooldispatchd.runner.ends import READ_BYTES
from tooldispatchd.runner.signals import Signals
from tooldispatchd.wire.messages import Hello, ReadyLine

# After this long a person is told what is being waited for.
SLOW_S: Final = 3.0
# A thousand tools with the largest schemas that a daemon with its default limits takes.
MAX_OPENING_BYTES: Final = 256 * 1024 * 1024


class OpeningError(Exception):
    """The session cannot be opened: the daemon has gone, or is silent."""


class RefusedError(Exception):
    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code


class StoppedError(Exception):
    """A signal that ends a program came before the agent had started."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number


class _Port(msgspec.Struct):
    port: str = msgspec.field(name="__port")


class _Fault(msgspec.Struct):
    error: str
    detail: str


_decode_port: Final = msgspec.json.Decoder(_Port).decode
_decode_ready: Final = msgspec.json.Decoder(ReadyLine).decode
_decode_fault: Final = msgspec.json.Decoder(_Fault).decode


def see_alive(channel: socket.socket, signals: Signals, within_s: float) -> None:
    """Send a ping and wait for any answer, the channel's end included.

    Raises `OpeningError` if none comes, and `StoppedError`.
    """
    channel.setblocking(False)  # noqa: FBT003  # the standard library's own signature
    with suppress(BrokenPipeError, ConnectionResetError):
        channel.send(PING)
    with suppress(ConnectionResetError):
        _receive(channel, signals, within_s)


def open_session(
    channel: socket.socket, hello: Hello, signals: Signals, is_slow: Callable[[], None]
) -> tuple[ReadyLine, bytes]:
    """Send `hello`; the daemon's `ready`, and all its other bytes, which are for the agent.

    `is_slow` is called if that takes more than `SLOW_S`. Raises `RefusedError`, `OpeningError` and `StoppedError`. The
    channel is non-blocking afterwards.
    """
    try:
        channel.settimeout(START_S)
        # A daemon that refuses the connection has closed it already; its reason can still be read.
        with suppress(BrokenPipeError, ConnectionResetError):
            # Short enough for any socket's buffer.
            channel.sendall(msgspec.json.encode(hello) + b"\n")
        channel.setblocking(False)  # noqa: FBT003  # the standard library's own signature
        if not _await(channel, signals, SLOW_S):
            is_slow()
        said = bytearray()
        others = b""
        until = time.monotonic() + START_S
        while True:
            chunk = _receive(channel, signals, until - time.monotonic())
            if not chunk:
                raise OpeningError("the daemon closed the channel")
            said += chunk
            if len(said) + len(others) > MAX_OPENING_BYTES:
                raise OpeningError("the daemon said too much before the session was open")
            # Splitting what has been searched before would be quadratic in a long line.
            if b"\n" not in chunk:
                continue
            *lines, rest = bytes(said).split(b"\n")
            said = bytearray(rest)
            for number, line in enumerate(lines):
                ready = _read(line)
                if ready is not None:
                    return ready, others + b"".join(each + b"\n" for each in lines[number + 1 :]) + rest
                others += line + b"\n"
    except OSError as error:
        raise OpeningError(f"cannot speak with the daemon: {error.strerror or error}") from error


def _receive(channel: socket.socket, signals: Signals, within_s: float) -> bytes:
    """The next bytes; b"" at the end of the channel."""
    if not _await(channel, signals, within_s):
        raise OpeningError(f"the daemon did not answer within {within_s:.3g} s")
    return channel.recv(READ_BYTES)


def _await(channel: socket.socket, signals: Signals, within_s: float) -> bool:
    """Whether the channel is readable in time; its end counts."""
    until = time.monotonic() + within_s
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    poll.register(signals.fd, select.POLLIN)
    while True:
        ready = dict(poll.poll(max(0.0, until - time.monotonic()) * 1000))
        if signals.fd in ready and (number := signals.take_ending()) is not None:
            raise StoppedError(number)
        if channel.fileno() in ready:
            return True
        # A signal that does not end us has woken the poll before its time.
        if time.monotonic() >= until:
            return False


def _read(line: bytes) -> ReadyLine | None:
    """The `ready` line; None for any other, and `RefusedError` for a refusal."""
    try:
        port = _decode_port(line).port
        if port == "ready":
            return _decode_ready(line)
        if port == "fault":
            fault = _decode_fault(line)
            raise RefusedError(fault.error, fault.detail)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise OpeningError("the daemon sent a line that is not of the protocol") from error
    return None
