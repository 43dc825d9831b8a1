"""What one agent holds, and what dies: places, descriptors, and the daemon's own processes."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import combinations
from typing import Final

import pytest

from tests.attack.stage import IS_FULL, daemon_to_attack
from tests.daemon.spawned import Daemon, until, words_of
from tests.daemon.traces import family, left_of, on_a_busy_machine
from tests.processes import is_running

# A server starts in a tenth of that, and a machine may be busy with other tests; those that hang do so for far longer.
OPENS_S: Final = 5.0
DESCRIPTORS: Final = 400
LEFT_S: Final = 5.0
OWN: Final = 7
"""Processes of the daemon's own, itself included, once it has had calls of all kinds."""
CALLS: Final = {"sleep": 60, "bounded": 60, "pause": {"seconds": 60}}


# Each promise has a test of its own too: in tests/daemon and tests/children.
pytestmark = pytest.mark.skipif(not IS_FULL, reason="it is for `make attack`: it takes minutes")


def test_one_agents_servers_that_hang_do_not_keep_another_from_opening_its_own() -> None:
    with daemon_to_attack() as (daemon, _directory), daemon.agent() as hostile, daemon.agent() as good:
        hostile.say({"__port": "hello", "profile": "all_hanging"})
        until(lambda: len(daemon.running("hanging")) > 1)
        began = time.monotonic()
        assert good.hello("echo")["warnings"] == []
        assert time.monotonic() - began < on_a_busy_machine(OPENS_S)
        assert good.ask("echo:echo", {"text": "hi"})["content"] == "hi"


def test_idle_connections_leave_descriptors_for_programs() -> None:
    bounded = ["sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh"]
    with daemon_to_attack(*bounded) as (daemon, _directory), daemon.agent() as good, ExitStack() as idle:
        assert good.ask("cat", "before")["content"] == '"before"'
        for _ in range(2 * DESCRIPTORS):
            # One that is turned away may be gone before it has come.
            with suppress(ConnectionError):
                idle.enter_context(daemon.agent())
        for tool in ("echo", "cat", "letters"):
            answer = good.ask(tool, {"size": 1} if tool == "letters" else "beside them")
            assert not answer["is_error"], answer["content"]
        with daemon.agent() as held:
            held.call("1", "sleep", 60)
            assert good.ask("cat", "again")["content"] == '"again"'


@contextmanager
def at_work() -> Iterator[tuple[Daemon, list[int], set[int]]]:
    """A daemon with calls of all kinds underway; its own processes, itself the first, and those of its calls."""
    with daemon_to_attack() as (daemon, _directory), ExitStack() as agents:
        own = family(daemon)
        for tool, value in CALLS.items():
            for number in range(2):
                agents.enter_context(daemon.agent()).call(str(number), tool, value)
        agents.enter_context(daemon.agent()).say({"__port": "hello", "profile": "hanging"})
        until(lambda: len(family(daemon) - own) > 2 * len(CALLS))
        yield daemon, [daemon.process.pid, *sorted(own)], family(daemon) - own


@pytest.mark.parametrize("pair", list(combinations(range(OWN), 2)), ids=str)
def test_any_two_processes_of_the_daemon_that_are_killed_at_once_leave_nothing(pair: tuple[int, int]) -> None:
    with at_work() as (daemon, own, calls):
        assert len(own) == OWN
        # By their order, which is that of their start.
        killed = [own[number] for number in pair]
        names = [b" ".join(words_of(pid))[-60:].decode() for pid in killed]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in killed:
                os.kill(pid, number)
        if daemon.process.pid not in killed:
            with daemon.agent() as agent:
                assert agent.ask("echo", "still")["content"] == '"still"', names
            daemon.process.terminate()
        daemon.process.wait(20)
        living = left_of(lambda: [pid for pid in {*own, *calls} if is_running(pid)], within_s=on_a_busy_machine(LEFT_S))
        survivors = [f"{b' '.join(words_of(pid)).decode()} after {names}" for pid in living]
        for pid in living:
            os.kill(pid, signal.SIGKILL)
        assert survivors == []
