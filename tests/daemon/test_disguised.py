"""What a program that is shut in has started ends with its call, whatever that has done to its environment."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.spawned import Agent, Daemon, daemon_on, until
from tests.forked.sandbox.confined import need
from tests.processes import sleepers

# No other process on the machine sleeps for so long.
LONG = 2_000_000 + os.getpid()
UP = "echo up > $TOOLDISPATCHD_SCRATCH/up"
HIDE = f"setsid sh -c '{UP}; exec sleep {LONG}'"
WAIT = "while ! test -s $TOOLDISPATCHD_SCRATCH/up; do :; done"
MARKS = "TOOLDISPATCHD_SCRATCH=$TOOLDISPATCHD_SCRATCH"
FORGED = f"{MARKS} TOOLDISPATCHD_RUN_ID=$TOOLDISPATCHD_RUN_ID TOOLDISPATCHD_CHILD=$n"


def tool(name: str, script: str) -> str:
    return f"[tools.{name}]\ncommand = ['/bin/sh', '-c', '''{script}''']\nwrite = []\n"


CONFIG = (
    tool("wipes", f"(env -i {MARKS} {HIDE} &); {WAIT}; echo 1")
    + tool("forges", f"for n in 1 2 3 4 5 6 7 8 9; do (env -i {FORGED} {HIDE} &); done; {WAIT}; echo 1")
    + tool("hides", f"env -i {MARKS} {HIDE} & sleep {LONG}")
    + tool("keeps", f"({HIDE} &); {WAIT}; sleep 0.5; pgrep -f 'sleep {LONG}' > /dev/null; echo $?")
    + "[tools.lasts]\ncommand = ['sleep', '1000']\n"
)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    need("seccomp")
    with daemon_on(tmp_path, CONFIG) as daemon:
        yield daemon


@pytest.fixture
def agent(daemon: Daemon) -> Iterator[Agent]:
    with daemon.agent() as agent:
        yield agent


def test_an_orphan_without_an_environment_ends(agent: Agent) -> None:
    assert agent.ask("wipes", {})["content"] == "1"
    until(lambda: not sleepers(LONG))


def test_an_orphan_with_the_mark_of_another_child_ends(agent: Agent) -> None:
    agent.call("long", "lasts", {})
    assert agent.ask("forges", {})["content"] == "1"
    until(lambda: not sleepers(LONG))


def test_an_orphan_of_a_living_child_lives_as_long(agent: Agent) -> None:
    assert agent.ask("keeps", {})["content"] == "0"
    until(lambda: not sleepers(LONG))


def test_what_hides_below_a_child_ends_with_a_killed_daemon(daemon: Daemon, agent: Agent) -> None:
    agent.call("1", "hides", {})
    until(lambda: len(sleepers(LONG)) == 2)
    daemon.process.kill()
    until(lambda: not sleepers(LONG))
