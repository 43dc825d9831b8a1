"""The poll loop between an agent and its channel, until the agent has exited.

A source is read only while its sinks have room, so that memory is bounded however slow a reader is. The agent's exit
ends its channel even if other processes still hold its descriptors; none of its requests is executed after that.
"""

import math
import select
from collections.abc import Mapping, Sequence
from typing import Final

from tooldispatchd.client.duplex import MAX_POLL_MS
from tooldispatchd.runner.ends import Sink, Source
from tooldispatchd.runner.signals import Signals, comes_from_terminal
from tooldispatchd.runner.spawn import AgentProcess

GONE: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Relay:
    """Moves bytes between sources and sinks; `wiring` connects them."""

    def __init__(self, sources: Sequence[Source], sinks: Sequence[Sink], signals: Signals) -> None:
        self._sources = sources
        self._sinks = sinks
        self._signals = signals

    def run(self, agent: AgentProcess) -> None:
        """Move bytes until the agent has exited, and pass signals on to it."""
        while True:
            ready = self._wait(agent.pidfd)
            if self._signals.fd in ready:
                for number in self._signals.take():
                    if not comes_from_terminal(number):
                        agent.signal(number)
            # Before anything is moved: requests that an agent wrote just before it exited are not sent.
            if agent.pidfd in ready:
                return
            move(ready, self._sources, self._sinks)

    def _wait(self, pidfd: int) -> dict[int, int]:
        return wait((pidfd, self._signals.fd), self._sources, self._sinks)


def wait(
    fds: Sequence[int], sources: Sequence[Source], sinks: Sequence[Sink], within_s: float = math.inf
) -> dict[int, int]:
    """What is ready of `fds`, and of the ends as far as they want anything; {} where nothing was within the time."""
    wanted = dict.fromkeys(fds, select.POLLIN)
    # A descriptor without wanted events is left out: poll would report its hangup again and again.
    ends: list[Source | Sink] = [*sources, *sinks]
    for end in ends:
        if (events := end.events) is not None:
            wanted[end.fd] = wanted.get(end.fd, 0) | events
    poll = select.poll()
    for fd, events in wanted.items():
        poll.register(fd, events)
    return dict(poll.poll(None if within_s == math.inf else min(max(0.0, within_s) * 1000, MAX_POLL_MS)))


def move(ready: Mapping[int, int], sources: Sequence[Source], sinks: Sequence[Sink]) -> None:
    """Read from the sources that are ready, and write to the sinks that are."""
    for source in sources:
        # `events` again: a source before this one may have filled its sink, or closed it.
        if ready.get(source.fd, 0) & (select.POLLIN | GONE) and source.events is not None:
            source.pull()
    for sink in sinks:
        told = ready.get(sink.fd, 0)
        if sink.has_unsent and told & (select.POLLOUT | GONE):
            sink.flush()
        elif sink.events is not None and told & GONE:
            sink.fail()


def flush(sink: Sink, signals: Signals) -> bool:
    """Write out one sink, however long its reader takes; false if a signal ends that."""
    while sink.has_unsent:
        ready = wait((signals.fd,), (), (sink,))
        if signals.fd in ready and signals.take_ending() is not None:
            return False
        move(ready, (), (sink,))
    return True
