"""How an agent's bytes move: over a channel of its own on two pipes, or over its standard streams.

    OwnChannel       agent's 4 ─▶ the channel ─▶ agent's 5
    SharedStreams    agent's stdout ─▶ Splitter ─▶ the channel, and our stdout
                     the channel, and our stdin ─▶ Merger ─▶ agent's stdin

Ends follow the protocol. If the agent stops reading answers, or exits, the channel is closed. If it stops writing
requests, the channel is half-closed, and answers still come. If the daemon ends the channel, the agent reads the end of
its answers, and its next request gets a broken pipe.
"""

import array
import fcntl
import os
import socket
import termios
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from tooldispatchd.client.reach import ANSWERS_FD, REQUESTS_FD
from tooldispatchd.runner import ends
from tooldispatchd.runner.lines import Merger, Voice
from tooldispatchd.wire.messages import Bye
from tooldispatchd.wire.splitting import LineRoute, Splitter

STDIN: Final = 0
STDOUT: Final = 1
# The daemon's last line on a channel that it was asked to end.
LAST_LINE: Final = msgspec.json.encode(Bye()) + b"\n"


class ChannelEnds:
    """The channel's two directions, and how it ended; `lost` is called if the daemon ended it unasked."""

    def __init__(self, channel: socket.socket, lost: Callable[[], None]) -> None:
        self.sink = ends.channel_sink(channel)
        self._channel = channel
        self._lost = lost
        self._is_ended = False
        self._tail = b""

    def heard(self, chunk: bytes) -> None:
        """Note what the daemon wrote: its last line says whether it ended the channel as it was asked."""
        self._tail = (self._tail + chunk)[-len(LAST_LINE) :]

    def end(self) -> None:
        """End the requests; answers still come."""
        self._is_ended = True
        self.sink.end()

    def source_ended(self) -> None:
        """Note that the daemon ended the channel: it is lost unless the agent had ended its requests or said `bye`."""
        if not self._is_ended and self._tail != LAST_LINE:
            self._lost()
        self.sink.drop()

    def close(self) -> None:
        """Close the channel, so that the daemon cancels the agent's calls; also in the middle of a line."""
        # Before the sink: its half-close would let the daemon execute the requests that it has not read yet.
        self._channel.close()
        self.sink.drop()


class OwnChannel:
    """Requests on the agent's descriptor 4, answers on 5; its standard streams are ours.

    `given` are the agent's descriptors: its number for each, and ours.
    """

    last = None

    def __init__(self, channel: socket.socket, lost: Callable[[], None]) -> None:
        requests, theirs_requests = ends.open_pipe()
        theirs_answers, answers = ends.open_pipe()
        self.given = {REQUESTS_FD: theirs_requests, ANSWERS_FD: theirs_answers}
        self._channel = ChannelEnds(channel, lost)
        self._answers = ends.pipe_sink(answers)
        self._requests = ends.pipe_source(requests, (self._channel.sink,), self._channel.sink.put)
        self._heard = ends.channel_source(channel, (self._answers,), self._hear)
        self._requests.ended = self._channel.end
        self._channel.sink.broken = self._requests.close
        self._heard.ended = self._lose
        self._answers.broken = self.finish
        self.sources = (self._requests, self._heard)
        self.sinks = (self._channel.sink, self._answers)

    def start(self, said: bytes) -> None:
        """Close `given`, which the agent has inherited; `said` is what the daemon has already written to it."""
        close_given(self.given)
        self._hear(said)

    def finish(self) -> None:
        """Close the channel of an agent that has exited, or reads no more. Idempotent."""
        self._requests.close()
        self._heard.close()
        self._channel.close()
        self._answers.drop()

    def _hear(self, chunk: bytes) -> None:
        self._channel.heard(chunk)
        self._answers.put(chunk)

    def _lose(self) -> None:
        self._channel.source_ended()
        self._requests.close()
        self._answers.end()


class SharedStreams:
    """A tool channel on the agent's standard streams, beside everything else that it reads and writes (`--mux`).

    `given` is as in `OwnChannel`; `last` is the sink that must be written to its end after the agent's exit. Raises
    OSError if our own stdin or stdout is not open.
    """

    def __init__(self, channel: socket.socket, lost: Callable[[], None]) -> None:
        self._channel = ChannelEnds(channel, lost)
        self._merger = Merger()
        self._splitter = Splitter()
        self.last = ends.standard_sink(STDOUT)
        theirs_stdin, to_agent = ends.open_pipe()
        from_agent, theirs_stdout = ends.open_pipe()
        self.given = {STDIN: theirs_stdin, STDOUT: theirs_stdout}
        self._to_agent = ends.pipe_sink(to_agent)
        self._from_agent = ends.pipe_source(from_agent, (self._channel.sink, self.last), self._split)
        self._heard = ends.channel_source(channel, (self._to_agent,), self._hear)
        self._stdin = ends.standard_source(STDIN, (self._to_agent,), partial(self._merge, Voice.STDIN))
        self.sources = (self._from_agent, self._heard, self._stdin)
        self.sinks = (self._channel.sink, self.last, self._to_agent)
        self._heard.accepts = partial(self._merger.accepts, Voice.DAEMON)
        self._stdin.accepts = partial(self._merger.accepts, Voice.STDIN)
        self._from_agent.ended = self._end_requests
        self._heard.ended = self._lose
        self._stdin.ended = partial(self._end_voice, Voice.STDIN)
        self._to_agent.broken = self._leave
        self.last.broken = self._break

    def start(self, said: bytes) -> None:
        """As in `OwnChannel`."""
        close_given(self.given)
        self._hear(said)

    def finish(self) -> None:
        """Close the channel of an agent that has exited. Idempotent.

        What the agent wrote before is still read; requests in it are dropped, and the rest waits in `last`.
        """
        self._leave()
        if self._from_agent.is_open:
            # Only what is there now: a process that the agent left behind may write for ever.
            unread = array.array("i", [0])
            fcntl.ioctl(self._from_agent.fd, termios.FIONREAD, unread)
            with suppress(BlockingIOError):
                while unread[0] > 0 and (chunk := os.read(self._from_agent.fd, unread[0])):
                    unread[0] -= len(chunk)
                    self._split(chunk)
            self._end_requests()
            self._from_agent.close()
        self._to_agent.drop()

    # --- what comes ---

    def _split(self, chunk: bytes) -> None:
        self._pass_on(self._splitter.split(chunk))

    def _hear(self, chunk: bytes) -> None:
        self._channel.heard(chunk)
        self._merge(Voice.DAEMON, chunk)

    def _merge(self, voice: Voice, chunk: bytes) -> None:
        self._to_agent.put(self._merger.merge(voice, chunk))

    def _pass_on(self, pieces: list[tuple[LineRoute, bytes]]) -> None:
        for way, piece in pieces:
            (self._channel.sink if way is LineRoute.DAEMON else self.last).put(piece)

    # --- what ends ---

    def _end_requests(self) -> None:
        self._pass_on(self._splitter.end())
        self._channel.end()

    def _lose(self) -> None:
        self._channel.source_ended()
        self._end_voice(Voice.DAEMON)

    def _end_voice(self, voice: Voice) -> None:
        self._to_agent.put(self._merger.end(voice))
        if not self._heard.is_open and not self._stdin.is_open:
            self._to_agent.end()

    def _leave(self) -> None:
        """The agent reads no more; its output to others still goes on."""
        self._heard.close()
        self._stdin.close()
        self._channel.close()

    def _break(self) -> None:
        """Our stdout has no reader any more: close the agent's, so that it gets a broken pipe too."""
        self._from_agent.close()
        self._channel.end()


def close_given(given: dict[int, int]) -> None:
    """Close our copies of an agent's descriptors; open, they would hide the agent's end from us. Idempotent."""
    for fd in given.values():
        os.close(fd)
    given.clear()
