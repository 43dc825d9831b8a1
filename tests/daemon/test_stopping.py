"""A call that is ended early: what its program may still do and say, and that nothing of it is left."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.spawned import PATIENCE_S, Agent, Daemon, Message
from tests.daemon.traces import daemon_in, on_a_busy_machine, open_directory, settled
from tests.forked.sandbox.confined import abilities, lack_of

UP: Final = """printf half; echo '{"__port":"tool_update","message":"up"}' >&3"""
# Each waits in short steps: a shell runs its trap when the program that it waits for has ended.
SCRIPTS: Final = {
    "answers": f"trap 'printf saved; exit 0' TERM; {UP}; while :; do sleep 0.05; done",
    "ignores": f"trap '' TERM; {UP}; while :; do sleep 0.05; done",
    "forks": (
        "(trap '' TERM; while :; do sleep 0.05; done) & setsid sh -c 'trap \"\" TERM; sleep 1000' & "
        f"trap 'printf saved; exit 0' TERM; {UP}; while :; do sleep 0.05; done"
    ),
}
# Of a program that answers it is never over, and of one that does not it is soon.
STOP_S: Final = {"answers": 30, "ignores": 0.5, "forks": 30}
KEYS: Final = {
    "plain": "",
    "landlock": 'write = []\nsandbox = "landlock"\n',
    "bubblewrap": 'write = []\nsandbox = "bubblewrap"\n',
}


def able(way: str) -> bool:
    if way not in {"landlock", "bubblewrap"}:
        return True
    return lack_of(getattr(abilities(), way), "write") is None


WAYS: Final = [way for way in (*KEYS, "agent") if able(way)]


def tool(name: str, script: str, keys: str, stop_s: float) -> str:
    command = json.dumps(["/bin/sh", "-c", script])
    return f"[tools.{name}]\ncommand = {command}\n{keys}stop_s = {stop_s}\n"


def agent(name: str, script: str, stop_s: float) -> str:
    command = json.dumps(["/bin/sh", "-c", script])
    process = f'[processes.{name}]\nkind = "agent"\ntype = "!json -> !json"\ncommand = {command}\nstop_s = {stop_s}\n'
    return f'{process}[tools.{name}]\nprocess = "{name}"\n'


CONFIG: Final = (
    "[daemon]\ngrace_s = 0.2\n"
    + "".join(
        agent(f"{way}_{name}", script, STOP_S[name])
        if way == "agent"
        else tool(f"{way}_{name}", script, KEYS[way], STOP_S[name])
        for way in WAYS
        for name, script in SCRIPTS.items()
    )
    + tool("long", SCRIPTS["ignores"], "", 60)
    + tool("at_once", SCRIPTS["answers"], "", 0)
    + agent("of_itself", SCRIPTS["answers"], 2)
    + """
[processes.chained]
kind = "plumb"
chain = ["of_itself"]
[tools.chained]
process = "chained"
"""
)


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    with open_directory() as directory:
        yield directory


@pytest.fixture(scope="module")
def daemon(directory: Path) -> Iterator[Daemon]:
    with daemon_in(directory, CONFIG) as daemon:
        # What it keeps from then on: launchers, guardians.
        for way in WAYS:
            with daemon.agent() as agent:
                assert stopped(agent, f"{way}_answers")["error"] == "cancelled"
        yield daemon


def begun(agent: Agent, name: str, **fields: object) -> None:
    """Call a tool, and wait until its program is up."""
    agent.say({"__port": "hello", "updates": True})
    assert agent.hear()["__port"] == "ready"
    agent.call("1", name, None, **fields)
    assert agent.hear()["message"] == "up"


def fault(agent: Agent) -> Message:
    heard = agent.hear()
    assert heard["__port"] == "tool_resp", heard
    told: Message = json.loads(heard["content"])
    return told


def stopped(agent: Agent, name: str) -> Message:
    """What a call that is cancelled is answered with."""
    begun(agent, name)
    agent.say({"__port": "tool_cancel", "id": "1"})
    return fault(agent)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "said"), [("answers", "halfsaved"), ("ignores", "half"), ("forks", "halfsaved")])
def test_a_program_is_asked_to_end_and_then_killed(
    daemon: Daemon, directory: Path, way: str, name: str, said: str
) -> None:
    before = settled(daemon, directory)
    with daemon.agent() as agent:
        began = time.monotonic()
        told = stopped(agent, f"{way}_{name}")
        assert (told["error"], told["stdout_tail"]) == ("cancelled", said)
        assert time.monotonic() - began < on_a_busy_machine(PATIENCE_S)
    assert settled(daemon, directory) == before


def test_at_a_deadline_it_is_asked_too(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        begun(agent, "plain_answers", deadline_ms=3000)
        told = fault(agent)
        assert (told["error"], told["limit_ms"], told["stdout_tail"]) == ("timeout", 3000, "halfsaved")


@pytest.mark.parametrize("first", [{"id": "1"}, {"all": True}])
@pytest.mark.parametrize("second", [{"id": "1"}, {"all": True}])
def test_a_second_cancel_leaves_no_time(daemon: Daemon, first: Message, second: Message) -> None:
    with daemon.agent() as agent:
        begun(agent, "long")
        agent.say(*({"__port": "tool_cancel", **which} for which in (first, second)))
        began = time.monotonic()
        assert fault(agent)["error"] == "cancelled"
        assert time.monotonic() - began < PATIENCE_S


def test_without_time_it_is_killed_and_its_output_told(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        assert stopped(agent, "at_once")["stdout_tail"] == "half"


def test_in_a_chain_the_program_that_runs_is_asked(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        told = stopped(agent, "chained")
        assert (told["error"], told["stdout_tail"]) == ("cancelled", "halfsaved")


def test_when_its_agent_leaves_it_is_asked_and_nothing_is_left(daemon: Daemon, directory: Path) -> None:
    before = settled(daemon, directory)
    with daemon.agent() as agent:
        begun(agent, "plain_forks")
    assert settled(daemon, directory) == before


@pytest.mark.parametrize("name", ["long", "agent_ignores"])
def test_the_end_of_a_daemon_is_not_held_up(name: str) -> None:
    with open_directory() as directory, daemon_in(directory, CONFIG) as daemon, daemon.agent() as agent:
        begun(agent, name)
        began = time.monotonic()
        os.kill(daemon.process.pid, signal.SIGTERM)
        assert fault(agent)["error"] == "draining"
        assert daemon.process.wait(timeout=PATIENCE_S) == 0
        assert time.monotonic() - began < on_a_busy_machine(6.2)
