"""Servers that die and hang under many agents: each call is answered once, and agents of other servers go on."""

import json
import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import trio

from tests.daemon.spawned import MISBEHAVING, PATIENCE_S, Daemon, Message, daemon_on, until
from tests.real.installed import binding

AGENTS: Final = 50 if "SOAK" in os.environ else 24
"""More in `make soak`: each has a server of its own."""
WINDOW: Final = 4
"""Calls of one agent that are under way at once."""
CALLS: Final = 120
"""Of an agent whose server is struck; the others go on for as long as there is one."""
STRUCK_AFTER: Final = 10
"""Answers that every agent has had before the first server is struck."""


def echo(name: str) -> tuple[str, ...]:
    """A server that behaves; its last word is to find it by."""
    return (sys.executable, "-I", "-S", str(MISBEHAVING), "echo", name)


def config(*lines: str) -> str:
    """Two servers, and a profile with each; `lines` are further keys of the one that is struck."""
    tables = binding("struck", echo("struck"), *lines) + binding("spared", echo("spared"))
    return tables + '[agents.struck]\nmcp = ["struck"]\n[agents.spared]\nmcp = ["spared"]\n'


class Channel:
    """A channel as trio's: messages out, messages in, one at a time."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._lines: deque[bytes] = deque()
        self._tail = b""

    async def say(self, message: object) -> None:
        await self._stream.send_all(json.dumps(message).encode() + b"\n")

    async def hear(self) -> Message:
        while not self._lines:
            chunk = await self._stream.receive_some()
            assert chunk, "the daemon closed the channel"
            *lines, self._tail = (self._tail + chunk).split(b"\n")
            self._lines.extend(lines)
        heard: Message = json.loads(self._lines.popleft())
        return heard


class Agent:
    """One agent on a channel of its own, which counts every answer that it is given."""

    def __init__(self, profile: str) -> None:
        self.profile = profile
        self.asked = 0
        self.answered: Counter[str] = Counter()
        self.wrong: list[Message] = []
        """Answers that are neither right nor a fault."""
        self.faults: Counter[str] = Counter()
        self.is_at_it = trio.Event()

    async def play(self, path: Path, wants_more: Callable[[int], bool]) -> None:
        """Call for as long as `wants_more` of the number of calls asked; leave once all are answered."""
        async with await trio.open_unix_socket(str(path)) as stream:
            channel = Channel(stream)
            await channel.say({"__port": "hello", "profile": self.profile})
            assert (await channel.hear())["warnings"] == []
            for _ in range(WINDOW):
                await self._ask(channel)
            while self.answered.total() < self.asked:
                self._take(await channel.hear())
                if wants_more(self.asked):
                    await self._ask(channel)
            await channel.say({"__port": "bye"})
            # An answer that stands before this would be one too many.
            assert (await channel.hear())["__port"] == "bye"

    async def _ask(self, channel: Channel) -> None:
        self.asked += 1
        value = {"text": f"bee {self.asked}", "sleep_s": 0.005}
        name = f"{self.profile}:echo"
        await channel.say({"__port": "tool_req", "id": str(self.asked), "name": name, "input": value})

    def _take(self, answer: Message) -> None:
        self.answered[answer["id"]] += 1
        if answer.get("fault"):
            self.faults[json.loads(answer["content"])["error"]] += 1
        elif answer["content"] != f"bee {answer['id']}":
            self.wrong.append(answer)
        if self.answered.total() == STRUCK_AFTER:
            self.is_at_it.set()


async def play(daemon: Daemon, strikes: list[signal.Signals]) -> tuple[list[Agent], list[Agent]]:
    """All agents at once; when all are at it, each server of the first half gets one of `strikes`, in turn.

    Those of the second half go on until the last one of the first has left.
    """
    struck, spared = ([Agent(profile) for _ in range(AGENTS // 2)] for profile in ("struck", "spared"))
    ended = trio.Event()
    with trio.fail_after(3 * PATIENCE_S):
        async with trio.open_nursery() as others:
            for agent in spared:
                others.start_soon(agent.play, daemon.path, lambda _asked: not ended.is_set())
            async with trio.open_nursery() as nursery:
                for agent in struck:
                    nursery.start_soon(agent.play, daemon.path, lambda asked: asked < CALLS)
                for agent in (*struck, *spared):
                    await agent.is_at_it.wait()
                for number, pid in enumerate(sorted(daemon.running("struck"))):
                    os.kill(pid, strikes[number % len(strikes)])
            ended.set()
    return struck, spared


@pytest.mark.parametrize(
    ("strikes", "lines", "faults"),
    [
        pytest.param([signal.SIGKILL], [], {"connection_dead"}, id="killed"),
        pytest.param([signal.SIGKILL], ["shared = true"], {"connection_dead"}, id="one for all, killed"),
        pytest.param(
            [signal.SIGKILL, signal.SIGSTOP], ["call_s = 1"], {"connection_dead", "timeout"}, id="killed and stopped"
        ),
    ],
)
async def test_every_call_is_answered_once_while_servers_fail(
    tmp_path: Path, strikes: list[signal.Signals], lines: list[str], faults: set[str]
) -> None:
    with daemon_on(tmp_path, config(*lines)) as daemon:
        struck, spared = await play(daemon, strikes)
        everyone = [*struck, *spared]
        assert [agent.asked for agent in struck] == [CALLS] * len(struck)
        assert all(set(agent.answered.values()) == {1} for agent in everyone)
        assert all(len(agent.answered) == agent.asked for agent in everyone)
        assert [agent.wrong for agent in everyone if agent.wrong] == []
        assert {fault for agent in struck for fault in agent.faults} == faults
        assert all(agent.faults for agent in struck)
        assert [agent.faults for agent in spared if agent.faults] == []
        # All sessions have ended: only the guardian stays.
        until(lambda: len(daemon.family()) <= 1)
    assert daemon.logged("incident") == 0
