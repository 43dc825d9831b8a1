"""Agents of the soak: many on a few channels, or each on a socket of its own.

    python -m benchmarks.peers.soak_agents SOCKET COUNTERS NAME CHANNELS AGENTS MCP SEED

CHANNELS channels with AGENTS named agents each, or with their own session alone where AGENTS is 0; the first MCP agents
have an MCP server. They work until stdin ends, then wait for what they are owed, and exit 0.
"""

import heapq
import itertools
import random
import select
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.peers.soak_agent import Agent, Line, decode_line, encode
from benchmarks.peers.soak_tally import Count, Counters

OWED_S: Final = 40.0
"""How long the end waits for answers; the longest tool takes two seconds, and the rest is a busy machine."""
CHANNEL_LIFE_S: Final = (10.0, 60.0)
SAMPLES: Final = 5


class Channel:
    """One connection, opened again whenever it has ended."""

    def __init__(self, load: "Load", number: int, agents: int, mcp: int) -> None:
        self.load = load
        self.number = number
        self.is_usable = False
        self.out = bytearray()
        self.tail = b""
        names: list[str | None] = [f"agent-{each}" for each in range(agents)]
        names = names or [None]
        self.agents: dict[str | None, Agent] = {
            name: Agent(load, self, name, has_mcp=each < mcp) for each, name in enumerate(names)
        }
        self.open()
        if agents:
            load.later(load.rng.uniform(*CHANNEL_LIFE_S), self.end_somehow)

    def open(self) -> None:
        """Connect, and open every session."""
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(self.load.path)
        self.socket.setblocking(False)
        self.out.clear()
        self.tail = b""
        self.is_usable = True
        self.load.register(self)
        for agent in self.agents.values():
            agent.greet()

    def say(self, message: dict[str, object]) -> None:
        """Keep one line for the end of the turn."""
        self.out += encode(message) + b"\n"
        self.load.dirty.add(self)

    def flush(self) -> None:
        """Send what the kernel takes."""
        if self.out and self.socket.fileno() >= 0:
            try:
                taken = self.socket.send(self.out)
            except BlockingIOError:
                taken = 0
            del self.out[:taken]
            if self.out:
                self.load.dirty.add(self)

    def end_somehow(self) -> None:
        """End a channel with all its agents, and once more later."""
        if not self.load.is_ending:
            if self.is_usable:
                self.load.rng.choice((self.close, self.half_close))()
            self.load.later(self.load.rng.uniform(*CHANNEL_LIFE_S), self.end_somehow)

    def close(self) -> None:
        """Close with whatever is unread and in flight."""
        self.load.counters.add(Count.CLOSED)
        self._end(Count.VOID)
        self.open()

    def half_close(self) -> None:
        """Ask no more: every answer must still come, and then the end."""
        self.flush()
        if self.out:
            return
        self.load.counters.add(Count.HALF_CLOSED)
        self.is_usable = False
        self.socket.shutdown(socket.SHUT_WR)

    def _end(self, count: Count) -> None:
        self.is_usable = False
        self.load.forget(self)
        self.socket.close()
        for agent in self.agents.values():
            agent.forget(count)

    def ready(self) -> None:
        """Read what is there."""
        try:
            chunk = self.socket.recv(1 << 18)
        except BlockingIOError:
            return
        *lines, self.tail = (self.tail + chunk).split(b"\n")
        for line in lines:
            self.heard(decode_line(line))
        if not chunk:
            self.ended()

    def ended(self) -> None:
        """The daemon has closed: it may, after a half-close and after the own session's bye."""
        own = self.agents.get(None)
        if self.is_usable and not (own is not None and own.is_leaving):
            self.load.counters.add(Count.WRONG)
            self.load.tell(f"closed: channel {self.number}")
        self._end(Count.LOST)
        if not self.load.is_ending:
            self.open()

    def heard(self, line: Line) -> None:
        """One line of the daemon."""
        agent = self.agents.get(line.agent)
        if agent is None:
            self.load.counters.add(Count.CROSSED)
            self.load.tell(f"crossed: no agent of channel {self.number} for {line}")
        elif line.port == "tool_resp":
            agent.answered(line)
        elif line.port == "bye" and agent.is_leaving:
            # Everything that it was owed came before.
            agent.forget(Count.LOST)
            if agent.name is not None and self.is_usable and not self.load.is_ending:
                agent.greet()
        elif line.port != "ready":
            self.load.counters.add(Count.WRONG)
            self.load.tell(f"wrong: {agent.who} {line}")


class Load:
    """All channels of this process, what is due, and one epoll set."""

    def __init__(self, path: str, counters: Counters, name: str, seed: int) -> None:
        self.path = path
        self.counters = counters
        self.name = name
        self.rng = random.Random(seed)
        self.is_ending = False
        self.dirty: set[Channel] = set()
        self._told = 0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._epoll = select.epoll()
        self._epoll.register(0, select.EPOLLIN)
        self._channels: dict[int, Channel] = {}

    def later(self, pause_s: float, action: Callable[[], None]) -> None:
        """Call `action` when so long has passed."""
        heapq.heappush(self._due, (time.monotonic() + pause_s, next(self._order), action))

    def register(self, channel: Channel) -> None:
        """Read from a channel."""
        self._channels[channel.socket.fileno()] = channel
        self._epoll.register(channel.socket.fileno(), select.EPOLLIN)

    def forget(self, channel: Channel) -> None:
        """Read from it no more."""
        self._epoll.unregister(channel.socket.fileno())
        del self._channels[channel.socket.fileno()]

    def tell(self, text: str) -> None:
        """Say what was wrong, the first few times."""
        if self._told < SAMPLES:
            self._told += 1
            print(text[:600], file=sys.stderr, flush=True)

    def turn(self) -> None:
        """Do what is due, then serve what has come."""
        while self._due and self._due[0][0] <= time.monotonic():
            heapq.heappop(self._due)[2]()
        self._flush()
        pause_s = self._due[0][0] - time.monotonic() if self._due else 0.1
        for fd, _mask in self._epoll.poll(max(0.0, min(0.1, pause_s))):
            if fd == 0:
                self.is_ending = True
                self._epoll.unregister(0)
            elif fd in self._channels:
                self._channels[fd].ready()
        self._flush()

    def _flush(self) -> None:
        dirty, self.dirty = self.dirty, set()
        for channel in dirty:
            channel.flush()

    @property
    def owed(self) -> int:
        """Answers that have not come."""
        return sum(len(agent.live) for channel in self._channels.values() for agent in channel.agents.values())

    def run(self) -> None:
        """Work until stdin ends, then wait for what is owed."""
        while not self.is_ending:
            self.turn()
        until = time.monotonic() + OWED_S
        while self.owed and time.monotonic() < until:
            self.turn()
        # A second answer would come now.
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            self.turn()
        for channel in list(self._channels.values()):
            for agent in channel.agents.values():
                agent.forget(Count.LOST)


def main() -> None:
    path, counters, name, channels, agents, mcp, seed = sys.argv[1:]
    load = Load(path, Counters(Path(counters)), name, int(seed))
    opened = []
    for number in range(int(channels)):
        # Without names the channels themselves are the agents.
        has_mcp = int(mcp) if number == 0 and int(agents) else int(not int(agents) and number < int(mcp))
        opened.append(Channel(load, number, int(agents), has_mcp))
    load.run()


if __name__ == "__main__":
    main()
