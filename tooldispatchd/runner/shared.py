"""An agent whose tool channel shares its standard streams with everything else that it reads and writes.

agent's stdout ─▶ Splitter ─▶ the channel, and our stdout
the channel, and our stdin ─▶ Merger ─▶ agent's stdin
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

from tooldispatchd.runner import ends
from tooldispatchd.runner.ends import Sink, Source
from tooldispatchd.runner.lines import LineRoute, Merger, Splitter, Voice
from tooldispatchd.runner.wiring import ChannelEnds, close_given

STDIN: Final = 0
STDOUT: Final = 1


class SharedStreams:
    """A `Wiring` for `--mux`; raises OSError where our own stdin or stdout is not open."""

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
        self._wire()
        self.sources: tuple[Source, ...] = (self._from_agent, self._heard, self._stdin)
        self.sinks: tuple[Sink, ...] = (self._channel.sink, self.last, self._to_agent)

    def _wire(self) -> None:
        self._heard.accepts = partial(self._merger.accepts, Voice.DAEMON)
        self._stdin.accepts = partial(self._merger.accepts, Voice.STDIN)
        self._from_agent.ended = self._end_requests
        self._heard.ended = self._lose
        self._stdin.ended = partial(self._end_voice, Voice.STDIN)
        self._to_agent.broken = self._leave
        self.last.broken = self._break

    def start(self, said: bytes) -> None:
        """As `Wiring.start`."""
        close_given(self.given)
        self._hear(said)

    def finish(self) -> None:
        """As `Wiring.finish`: what the agent wrote is still read, less its requests, which go nowhere any more."""
        self._leave()
        if self._from_agent.is_open:
            # No more than was there when it had exited: what it left behind may go on writing for ever.
            left = _count_unread(self._from_agent.fd)
            with suppress(BlockingIOError):
                while left > 0 and (chunk := os.read(self._from_agent.fd, left)):
                    left -= len(chunk)
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
        """Nobody reads answers any more; the agent may still have something to say to others."""
        self._heard.close()
        self._stdin.close()
        self._channel.close()

    def _break(self) -> None:
        """Nobody reads our stdout any more; the agent learns it as if it were its own."""
        self._from_agent.close()
        self._channel.end()


def _count_unread(fd: int) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return count[0]
