"""Which way an agent's bytes go: a channel of its own on two pipes, or one that shares its standard streams.

Ends are the protocol's. The agent reads no more answers, or has exited: it is gone, and the channel is closed. It
writes no more requests: the channel is half-closed, and answers still come. The daemon has ended the channel: the
agent reads the end of its answers, and a request gets a broken pipe.
"""

import os
import socket
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from tooldispatchd.runner import ends
from tooldispatchd.runner.ends import Sink, Source
from tooldispatchd.wire.messages import Bye

REQUESTS: Final = 4
ANSWERS: Final = 5
# After it the daemon ends the channel because it was asked to.
LAST_LINE: Final = msgspec.json.encode(Bye()) + b"\n"


class Wiring(Protocol):
    """The ends that a relay moves bytes between, and what an agent's exit means for them."""

    @property
    def given(self) -> dict[int, int]:
        """The agent's descriptors: its number, and ours."""

    @property
    def sources(self) -> Sequence[Source]:
        """All that is read."""

    @property
    def sinks(self) -> Sequence[Sink]:
        """All that is written."""

    @property
    def last(self) -> Sink | None:
        """What is to be written to its end after the agent's exit."""

    def start(self, said: bytes) -> None:
        """Close `given`, as the agent has them; `said` is what the daemon has told it already."""

    def finish(self) -> None:
        """The agent has exited: close the channel; what it wrote that is not for the daemon waits in `last`.

        Idempotent.
        """


class ChannelEnds:
    """The channel's two directions, and how it ended; `lost` is called where the daemon ended it unasked."""

    def __init__(self, channel: socket.socket, lost: Callable[[], None]) -> None:
        self.sink = ends.channel_sink(channel)
        self._channel = channel
        self._lost = lost
        self._is_ended = False
        self._tail = b""

    def heard(self, chunk: bytes) -> None:
        """Remember how the last line ends."""
        self._tail = (self._tail + chunk)[-len(LAST_LINE) :]

    def end(self) -> None:
        """The agent asks for no more; answers still come."""
        self._is_ended = True
        self.sink.end()

    def source_ended(self) -> None:
        """The daemon ended the channel; it was lost unless the agent had ended its requests, or said `bye`."""
        if not self._is_ended and self._tail != LAST_LINE:
            self._lost()
        self.sink.drop()

    def close(self) -> None:
        """The agent is gone; the daemon learns of it, also where it is in the middle of a line."""
        # First: a half-close before it would ask for what lies unread in the daemon's buffer to be executed.
        self._channel.close()
        self.sink.drop()


class OwnChannel:
    """Requests on the agent's descriptor 4, answers on 5; its standard streams are ours."""

    last: Sink | None = None

    def __init__(self, channel: socket.socket, lost: Callable[[], None]) -> None:
        requests, theirs_requests = ends.open_pipe()
        theirs_answers, answers = ends.open_pipe()
        self.given = {REQUESTS: theirs_requests, ANSWERS: theirs_answers}
        self._channel = ChannelEnds(channel, lost)
        self._answers = ends.pipe_sink(answers)
        self._requests = ends.pipe_source(requests, (self._channel.sink,), self._channel.sink.put)
        self._heard = ends.channel_source(channel, (self._answers,), self._hear)
        self._requests.ended = self._channel.end
        self._channel.sink.broken = self._requests.close
        self._heard.ended = self._lose
        self._answers.broken = self._leave
        self.sources = (self._requests, self._heard)
        self.sinks = (self._channel.sink, self._answers)

    def start(self, said: bytes) -> None:
        """As `Wiring.start`."""
        close_given(self.given)
        self._hear(said)

    def finish(self) -> None:
        """As `Wiring.finish`."""
        self._leave()

    def _hear(self, chunk: bytes) -> None:
        self._channel.heard(chunk)
        self._answers.put(chunk)

    def _lose(self) -> None:
        self._channel.source_ended()
        self._requests.close()
        self._answers.end()

    def _leave(self) -> None:
        self._requests.close()
        self._heard.close()
        self._channel.close()
        self._answers.drop()


def close_given(given: dict[int, int]) -> None:
    """Close our copies of an agent's descriptors, or their other ends would never see an end."""
    for fd in given.values():
        os.close(fd)
    given.clear()
