"""The relay between an MCP client, on stdin and stdout, and the daemon: one poll around a `Face`.

    stdin ─▶ lines ─▶ Face ─▶ the daemon's channel
    stdout ◀──────── Face ◀── lines ◀─┘

Stdin is read while both sinks have room, the channel while stdout has: memory is bounded however slow a reader is. When
stdin has ended, what is open is answered before the channel is half-closed, and a daemon that is silent is pinged, and
given up when it stays so. A client that has gone, or a signal, closes the channel at once, by which the daemon cancels
its calls.
"""

import os.path
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tooldispatchd.client.reach import CONNECT_S, PING, find_socket
from tooldispatchd.client.silence import Doubt, Silence
from tooldispatchd.mcpface.face import Face
from tooldispatchd.mcpface.jsonrpc import INVALID_REQUEST, UNREADABLE, error_json, read_message
from tooldispatchd.runner.daemons import (
    UNREACHABLE,
    UnreachableError,
    end_private,
    reach_running,
    start_private,
    tell,
)
from tooldispatchd.runner.ends import Source, channel_sink, channel_source, standard_sink, standard_source
from tooldispatchd.runner.relay import flush, move, wait
from tooldispatchd.runner.signals import Signals
from tooldispatchd.wire.lines import LineCutter, LongLine

if TYPE_CHECKING:
    # Imported where it is used: with a running daemon nothing is started.
    import subprocess

STDIN: Final = 0
STDOUT: Final = 1
# What a shell gives for a signal's end, beside the signal's number.
SIGNALLED: Final = 128
# The face refuses what is over the daemon's own bound; this is only for what could not even be held to be refused.
MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
# An answer has its content as text, and once more as parts; in JSON each may be twice as long as it is.
MAX_LINE_BYTES: Final = 4 * 64 * 1024 * 1024
# A request that is open for as long as its client wants to hear of changes; it does not keep us from leaving.
LISTEN: Final = b"subscriptions/listen"
INITIALIZE: Final = b"initialize"
ADVICE: Final = '"tooldispatchd serve" starts a daemon, --socket and --config name another one'


class StdioRelay:
    """Moves lines between stdin, stdout and a daemon's channel, until `code`, the exit code, is there.

    `why_lost` is asked why the channel has ended unasked; it is told whether the daemon had ever said anything. The
    daemon's `silence` counts once the client has left.
    """

    def __init__(self, face: Face, channel: socket.socket, why_lost: Callable[[bool], str], silence: Silence) -> None:
        self.code: int | None = None
        self._face = face
        self._why_lost = why_lost
        self._silence = silence
        self._open: set[int] = set()
        self._listening: set[int] = set()
        self._is_greeted = self._is_started = self._is_lost = False
        self._has_ended_input = self._has_ended_requests = False
        self._from_client = LineCutter(MAX_MESSAGE_BYTES)
        self._from_daemon = LineCutter(MAX_LINE_BYTES)
        self._stdout = standard_sink(STDOUT, is_watched=True)
        self._channel = channel_sink(channel)
        self._stdin = standard_source(STDIN, (self._stdout, self._channel), self._hear_client)
        # Not the channel's own sink: a daemon that does not read until it is read would never be.
        self._answers = channel_source(channel, (self._stdout,), self._hear_daemon)
        self._stdout.broken = self._lose_client
        self._stdin.ended = self._end_input
        self._answers.ended = self._end_channel

    def run(self, signals: Signals) -> int:
        """Move lines until the client, the daemon or a signal ends it; the exit code."""
        sources: tuple[Source, ...] = (self._answers, self._stdin)
        sinks = (self._stdout, self._channel)
        while self.code is None:
            wake_at = min(self._face.wake_at, self._silence.due)
            ready = wait((signals.fd,), sources, sinks, wake_at - time.monotonic())
            if signals.fd in ready and (number := signals.take_ending()) is not None:
                return SIGNALLED + number
            move(ready, sources, sinks)
            if self._face.wake_at <= time.monotonic():
                self._face.wake(time.monotonic())
                self._pass_on()
            self._doubt(time.monotonic())
        return self.code if flush(self._stdout, signals) else SIGNALLED + signal.SIGTERM

    def lose(self, why: str) -> None:
        """Answer all that is open, and leave: there is no daemon any more.

        A client that could not even begin is first told so: most show what `initialize` is answered, and nothing else.
        """
        tell(why)
        self._is_lost = True
        self._face.lost(why)
        self._answers.close()
        self._channel.drop()
        if self._is_started or self._is_greeted or self._has_ended_input:
            self.code = UNREACHABLE
        self._pass_on()

    # --- what comes ---

    def _hear_client(self, chunk: bytes) -> None:
        for line in self._from_client.cut(chunk):
            if isinstance(line, LongLine):
                why = f"the message is longer than {MAX_MESSAGE_BYTES} bytes"
                self._stdout.put(error_json(None, INVALID_REQUEST, why) + b"\n")
            elif line.strip():
                self._take(bytes(line))
        self._pass_on()

    def _take(self, message: bytes) -> None:
        ticket = self._face.take_client(message, time.monotonic())
        self._open.add(ticket)
        if _is_request(message, LISTEN):
            self._listening.add(ticket)
        elif not self._is_greeted and _is_request(message, INITIALIZE):
            self._is_greeted = True
            if self._is_lost:
                self.code = UNREACHABLE

    def _hear_daemon(self, chunk: bytes) -> None:
        self._is_started = True
        self._silence.heard(time.monotonic())
        for line in self._from_daemon.cut(chunk):
            if isinstance(line, LongLine):
                self.lose(f"the daemon sent a line of more than {MAX_LINE_BYTES} bytes")
                return
            self._face.take_daemon(bytes(line), time.monotonic())
        self._pass_on()

    def _pass_on(self) -> None:
        """Queue what the face says; once nothing is open after stdin's end, end the requests too."""
        for each in self._face.to_client:
            if each.message:
                self._stdout.put(each.message + b"\n")
            if each.is_last and each.ticket is not None:
                self._open.discard(each.ticket)
                self._listening.discard(each.ticket)
        for line in self._face.to_daemon:
            self._channel.put(line)
        for warning in self._face.to_log:
            tell(f"warning: {warning}")
        self._face.to_client.clear()
        self._face.to_daemon.clear()
        self._face.to_log.clear()
        if self._has_ended_input and not self._open and not self._has_ended_requests:
            self._has_ended_requests = True
            self._channel.end()
            self._silence.await_end(time.monotonic())
        elif self._face.is_over and not self._is_lost:
            self.lose("the daemon has ended the session")

    # --- what ends ---

    def _end_input(self) -> None:
        # A last line without a line feed, in which the client may have been killed, is whole where it is JSON.
        if self._from_client.has_partial:
            self._hear_client(b"\n")
        self._has_ended_input = True
        self._face.end_client()
        for ticket in self._listening:
            self._face.abandon(ticket)
        self._open -= self._listening
        if self._is_lost:
            self.code = UNREACHABLE
        self._silence.begin(time.monotonic())
        self._pass_on()

    def _doubt(self, now: float) -> None:
        if (doubt := self._silence.doubt(now)) is Doubt.NONE:
            return
        if self._answers.events is None:
            # It is not listened to while our client is slow to read.
            self._silence.begin(now)
        elif doubt is Doubt.GIVE_UP:
            self.lose(self._silence.why)
        else:
            # After the end of the requests this is dropped: then it has but to close the channel.
            self._channel.put(PING)

    def _end_channel(self) -> None:
        if self._has_ended_requests:
            self.code = 0
        elif self.code is None:
            self.lose(self._why_lost(self._is_started))

    def _lose_client(self) -> None:
        self.code = SIGNALLED + signal.SIGPIPE


def relay_stdio(
    face: Face,
    environ: Mapping[str, str],
    *,
    address: str | None,
    config: str | None,
    standing: Sequence[str],
    timeout_s: float,
) -> int:
    """Serve the client on stdin and stdout with the daemon that is told, or found; the exit code.

    Where nothing is told and none listens, the first of the `standing` configurations that is there has a private one.
    Raises OSError if stdin or stdout is not open.
    """
    with Signals() as signals:
        private: subprocess.Popen[bytes] | None = None
        channel = None
        refusal = ""
        try:
            if config is None:
                channel = reach_running(address, environ, min(timeout_s, CONNECT_S))
                config = next(filter(os.path.isfile, standing), None) if channel is None else None
            if config is not None:
                channel, private = start_private(config, environ)
            elif channel is None:
                refusal = _nowhere(environ, standing)
        except UnreachableError as error:
            refusal = f"{error}; {ADVICE}"
        except OSError as error:
            refusal = f"cannot start a private daemon: {error.strerror or error}"
        if channel is None:
            # An end at once, as of a daemon that died before it said a word.
            channel, nobody = socket.socketpair()
            nobody.close()

        def why_lost(is_started: bool) -> str:  # noqa: FBT001  # asked in one place
            if private is None:
                return refusal or f"the daemon at {address or find_socket(environ)} has ended the channel"
            code = end_private(private, signals)
            return f"the private daemon ended with code {code}" if is_started else _advice(config, code)

        channel.setblocking(False)  # noqa: FBT003  # the standard library's own signature
        try:
            with channel:
                silence = Silence(timeout_s, is_starting=private is not None)
                return StdioRelay(face, channel, why_lost, silence).run(signals)
        finally:
            if private is not None and private.returncode is None:
                end_private(private, signals)


def _advice(config: str | None, code: int) -> str:
    """What to do about a private daemon that did not start; its own reason stands on stderr."""
    return f'the daemon cannot start with {config} (exit code {code}): "tooldispatchd check --config {config}" says why'


def _nowhere(environ: Mapping[str, str], standing: Sequence[str]) -> str:
    looked = f"no daemon listens at {find_socket(environ)}, and there is no configuration at {' or '.join(standing)}"
    return f"{looked}; {ADVICE}"


def _is_request(message: bytes, method: bytes) -> bool:
    """Whether it is a message of that method; a long one is searched before it is read."""
    if method not in message:
        return False
    try:
        return read_message(message).method == method.decode()
    except UNREADABLE:
        return False
