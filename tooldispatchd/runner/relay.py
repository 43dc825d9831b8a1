"""The poll loop between an agent and its channel, until the agent has exited.

A source is read only while its sinks have room, so that memory is bounded however slow a reader is. The agent's exit
ends its channel even if other processes still hold its descriptors; none of its requests is executed after that.
"""

import select
from collections.abc import Sequence
from typing import Final

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
            for source in self._sources:
                # `events` again: a source before this one may have filled its sink, or closed it.
                if ready.get(source.fd, 0) & (select.POLLIN | GONE) and source.events is not None:
                    source.pull()
            for sink in self._sinks:
                told = ready.get(sink.fd, 0)
                if sink.has_unsent and told & (select.POLLOUT | GONE):
                    sink.flush()
                elif sink.events is not None and told & GONE:
                    sink.fail()

    def flush(self, sink: Sink) -> bool:
        """Write out one sink, however long its reader takes; false if a signal ends that."""
        while sink.has_unsent:
            poll = select.poll()
            poll.register(sink.fd, select.POLLOUT)
            poll.register(self._signals.fd, select.POLLIN)
            ready = dict(poll.poll())
            if self._signals.fd in ready and self._signals.take_ending() is not None:
                return False
            if sink.fd in ready:
                sink.flush()
        return True

    def _wait(self, pidfd: int) -> dict[int, int]:
        wanted = {pidfd: select.POLLIN, self._signals.fd: select.POLLIN}
        # A descriptor without wanted events is left out: poll would report its hangup again and again.
        ends: list[Source | Sink] = [*self._sources, *self._sinks]
        for end in ends:
            if (events := end.events) is not None:
                wanted[end.fd] = wanted.get(end.fd, 0) | events
        poll = select.poll()
        for fd, events in wanted.items():
            poll.register(fd, events)
        return dict(poll.poll())
