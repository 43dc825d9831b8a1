"""Nothing that a command of the shell does to itself and its parents outlasts its limit or its call."""

import json
import os
import time
from collections.abc import Iterator

import pytest

from tests.daemon.spawned import Agent, daemon_on, until
from tests.forked.sandbox.confined import need
from tests.processes import sleepers
from tooldispatchd.config.toolboxes import memory_of_machine
from tooldispatchd.forked.sandbox import attendant

CONFIG = """
[limits]
processes = 1
[toolbox.shell]
[agents.default]
toolboxes = ["shell"]
workspace = "{workspace}"
"""
# No other process on the machine sleeps for so long.
LONG = 1_000_000 + os.getpid()


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    need("seccomp", "user_namespaces")
    directory = tmp_path_factory.mktemp("held")
    (directory / "workspace").mkdir()
    config = CONFIG.format(workspace=directory / "workspace")
    with daemon_on(directory, config) as daemon, daemon.agent() as agent:
        assert agent.hello("default")["__port"] == "ready"
        yield agent


def told(agent: Agent, command: str, **fields: object) -> str:
    answer: str = json.loads(agent.ask("bash", {"command": command, **fields})["content"])
    return answer


def test_a_command_cannot_stop_or_end_what_keeps_its_limit(agent: Agent) -> None:
    began = time.monotonic()
    command = f"for n in $PPID 1; do kill -STOP $n; kill -9 $n; done 2>/dev/null; kill -STOP $$; sleep {LONG}"
    assert "its timeout_s" in told(agent, command, timeout_s=1)
    assert time.monotonic() - began < 10
    until(lambda: not sleepers(LONG))


def test_what_has_hidden_itself_ends_with_its_call(agent: Agent) -> None:
    hidden = f"env -i TOOLDISPATCHD_CHILD=1 setsid sh -c 'echo up > up; exec sleep {LONG}' &"
    assert told(agent, f": > up; {hidden} while ! test -s up; do sleep 0.01; done") == "exit code 0"
    until(lambda: not sleepers(LONG))


def test_what_ignores_a_polite_end_and_has_lost_its_parent_is_ended(agent: Agent) -> None:
    deaf = f"(trap '' TERM; (setsid env -i sh -c 'echo up > up; sleep {LONG}; sleep {LONG}' &))"
    assert told(agent, f": > up; {deaf}; while ! test -s up; do sleep 0.01; done") == "exit code 0"
    until(lambda: not sleepers(LONG))


def test_an_orphan_may_clean_up_when_its_call_ends(agent: Agent) -> None:
    polite = "bash -c 'trap \"echo bye > bye; exit\" TERM; echo up > up; while :; do sleep 0.01; done'"
    polite = f"(setsid env -i {polite} &)"
    assert told(agent, f"rm -f bye; : > up; {polite}; while ! test -s up; do sleep 0.01; done") == "exit code 0"
    assert told(agent, "cat bye") == "bye\nexit code 0"


def test_without_an_attendant_there_are_no_orphans_of_its() -> None:
    assert not attendant.signal_orphans(0, but_of=0)


def test_jobs_hold_no_place_of_other_commands_and_are_bounded_for_an_agent(agent: Agent) -> None:
    answers = [agent.ask("bash", {"command": f"sleep {LONG}", "background": True})["content"] for _ in range(5)]
    jobs = [json.loads(answer)["job"] for answer in answers]
    until(lambda: len(sleepers(LONG)) == 4)
    assert told(agent, "echo now") == "now\nexit code 0"
    agent.ask("job_stop", {"job": jobs[0]})
    until(lambda: len(sleepers(LONG)) == 4)
    for job in jobs[1:]:
        agent.ask("job_stop", {"job": job})
    until(lambda: not sleepers(LONG))


def test_a_command_has_a_quarter_of_the_memory_unless_its_table_says_more(agent: Agent) -> None:
    answer = told(agent, f"exec python3 -c 'bytearray({memory_of_machine() // 3})'")
    assert "MemoryError" in answer or "SIGKILL" in answer
