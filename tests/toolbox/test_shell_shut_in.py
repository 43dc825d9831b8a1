"""`bash` and `python` as agents call them: in a fork of a warm parent, shut in by Landlock."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.spawned import Agent, Daemon, daemon_on, until
from tests.processes import sleepers

# No other process on the machine sleeps for so long.
LONG = 3_000_000 + os.getpid()
CONFIG = """
[toolbox.shell]
session = true
env = {{ PATH = "{hidden}:/usr/bin:/bin" }}
[agents.default]
toolboxes = ["shell"]
workspace = "{workspace}"
"""


def laid_out(directory: Path) -> Path:
    """With the workspace, and a file beside it."""
    (directory / "workspace").mkdir()
    (directory / "outside.txt").write_text("secret\n")
    (directory / "hidden").mkdir()
    shim = directory / "hidden" / "cat"
    shim.write_text("#!/bin/sh\nexit 3\n")
    shim.chmod(0o755)
    return directory


def config_of(directory: Path) -> str:
    return CONFIG.format(workspace=directory / "workspace", hidden=directory / "hidden")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return laid_out(tmp_path_factory.mktemp("shell"))


@pytest.fixture(scope="module")
def daemon(directory: Path) -> Iterator[Daemon]:
    with daemon_on(directory, config_of(directory)) as daemon:
        yield daemon


@pytest.fixture
def agent(daemon: Daemon) -> Iterator[Agent]:
    with daemon.agent() as agent:
        assert agent.hello("default")["__port"] == "ready"
        yield agent


def told(agent: Agent, command: str, **fields: object) -> str:
    answer: str = json.loads(agent.ask("bash", {"command": command, **fields})["content"])
    return answer


def coded(agent: Agent, code: str) -> str:
    answer: str = json.loads(agent.ask("python", {"code": code})["content"])
    return answer


def test_it_may_do_what_the_sandbox_allows_and_nothing_else(agent: Agent, directory: Path) -> None:
    assert told(agent, "echo x > here && cat here") == "x\nexit code 0"
    assert told(agent, "cat ../outside.txt") == "cat: ../outside.txt: Permission denied\nexit code 1"
    assert told(agent, "echo x > ../outside.txt").endswith("\nexit code 1")
    assert told(agent, "exec 3<>/dev/tcp/127.0.0.1/9").endswith("Permission denied\nexit code 1")
    assert (directory / "outside.txt").read_text() == "secret\n"


def test_a_program_is_found_behind_one_that_may_not_be_run(agent: Agent, directory: Path) -> None:
    told(agent, "echo x > here")
    assert told(agent, "cat here; echo $PATH") == "x\n/usr/bin:/bin\nexit code 0"
    assert (directory / "hidden" / "cat").exists()


def test_the_state_of_a_shell_lives_on_in_its_session_alone(agent: Agent, daemon: Daemon, directory: Path) -> None:
    told(agent, "mkdir in; cd in; export A=1")
    assert told(agent, "echo $A; pwd") == f"1\n{directory}/workspace/in\nexit code 0"
    with daemon.agent() as other:
        other.hello("default")
        assert told(other, "echo ${A-none}; pwd") == f"none\n{directory}/workspace\nexit code 0"


def test_programs_of_a_shell_that_lives_on_are_known_to_be_of_their_call(agent: Agent) -> None:
    first, second = (told(agent, 'echo "$TOOLDISPATCHD_CHILD"').partition("\n")[0] for _ in range(2))
    assert int(first) < int(second)


def test_variables_live_on_in_a_sandbox(agent: Agent, directory: Path) -> None:
    (directory / "workspace" / "mine.py").write_text("value = 7\n")
    coded(agent, "import mine\ndef f(): return mine.value")
    assert coded(agent, "f()") == "7\nexit code 0"
    assert "PermissionError" in coded(agent, "open('../outside.txt')")


def test_a_shell_that_is_shut_in_has_a_home_of_its_own(agent: Agent) -> None:
    assert told(agent, 'test "$HOME" = "$TMPDIR" && touch ~/here') == "exit code 0"
    assert told(agent, "git init -q repository && git -C repository status --short") == "exit code 0"


@pytest.mark.parametrize("start", ["", "setsid", "env -i /usr/bin/setsid"])
def test_nothing_of_a_call_is_left_when_it_is_answered(agent: Agent, start: str) -> None:
    told(agent, f"{start} sleep {LONG} & :")
    assert not sleepers(LONG)


def test_a_call_that_is_cancelled_tells_what_was_written(agent: Agent, directory: Path) -> None:
    agent.call("c1", "bash", {"command": "echo early; touch begun; sleep 1000"})
    until((directory / "workspace" / "begun").exists)
    agent.say({"__port": "tool_cancel", "id": "c1"})
    fault = json.loads(agent.hear()["content"])
    assert fault["error"] == "cancelled"
    assert fault["stdout_tail"].startswith('"early\\nstopped after ')


def test_a_job_holds_up_no_other_command_and_begins_where_the_last_one_ended(agent: Agent) -> None:
    told(agent, "mkdir -p a; cd a; export A=1")
    job = json.loads(agent.ask("bash", {"command": "cd /; A=2; sleep 1000", "background": True})["content"])["job"]
    assert told(agent, "echo $A; basename $PWD; export A=3") == "1\na\nexit code 0"
    agent.ask("job_stop", {"job": job})
    job = json.loads(agent.ask("bash", {"command": "cd /; echo $A; export A=2", "background": True})["content"])["job"]
    assert json.loads(agent.ask("job_wait", {"job": job})["content"])["content"] == '"3\\nexit code 0"'
    assert told(agent, "echo $A; basename $PWD") == "3\na\nexit code 0"


def test_nothing_survives_a_daemon_that_is_killed(tmp_path: Path) -> None:
    directory = laid_out(tmp_path)
    with daemon_on(directory, config_of(directory)) as daemon, daemon.agent() as agent:
        agent.call("c1", "bash", {"command": f"setsid sleep {LONG} & sleep {LONG} & wait"})
        until(lambda: len(sleepers(LONG)) == 2)
        daemon.process.kill()
        until(lambda: not sleepers(LONG))
