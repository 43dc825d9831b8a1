"""The daemon's own processes: no tool hides among them, and no two of them killed at once leave anything behind."""

import itertools
import json
import os
import signal
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.spawned import Daemon, carriers, children_of, daemon_on, until, words_of
from tests.processes import is_running

# It tries to be in the daemon's group, wipes the environment, and leaves a hundred children that end later.
HIDING: Final = """
import os, sys

def hide(daemon: int) -> bool:
    for _ in range(100):
        if os.fork() == 0:
            try:
                os.setpgid(0, os.getpgid(daemon))
            except OSError:
                os.setsid()
            os.execve("/bin/sleep", ["sleep", "0.5"], {})
    return True

if __name__ == "__main__":
    print("true" if hide(int(sys.argv[1])) else "")
"""
BOUNDS: Final = {"free": "", "bounded": "files = 1000", "shut_in": "network = false"}


def test_what_a_tool_hides_in_the_daemons_own_group_is_reaped(tmp_path: Path) -> None:
    program = tmp_path / "hiding.py"
    program.write_text(HIDING)
    programs = [
        f"""
[tools.{name}]
type = "{{daemon: int}} -> bool"
command = {json.dumps([sys.executable, "-I", "-S", str(program)])}
args = ["${{daemon}}"]
input_mode = "args"
{bound}
"""
        for name, bound in BOUNDS.items()
    ]
    config = "".join([*programs, '[tools.function]\npython = "hiding:hide"\n'])
    with daemon_on(tmp_path, config) as daemon, daemon.agent() as agent:
        for name in (*BOUNDS, "function"):
            assert agent.ask(name, {"daemon": daemon.process.pid})["content"] == "true"
        until(lambda: not hidden(daemon))


def hidden(daemon: Daemon) -> set[int]:
    """Its children that sleep, or have ended and show no words."""
    return {pid for pid in children_of(daemon.process.pid) if words_of(pid)[0] in {b"", b"sleep"}}


# Ends of each kind, of a program and of a function.
ENDS: Final = """
[tools.bounded]
command = ["echo", "1"]
files = 1000
[tools.failing]
command = ["false"]
files = 1000
[tools.endless]
command = ["sleep", "1000"]
files = 1000
call_s = 0.5
[tools.function]
python = "ends:give"
[tools.raising]
python = "ends:fail"
[tools.hanging]
python = "ends:hang"
call_s = 0.5
"""
GIVE: Final = """
import time

def give() -> int:
    return 1

def fail() -> int:
    return 1 // 0

def hang() -> int:
    time.sleep(1000)
"""


def test_a_call_is_answered_when_its_process_has_been_reaped(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(GIVE)
    with daemon_on(tmp_path, ENDS) as daemon, daemon.agent() as agent:
        for name in ("bounded", "failing", "endless", "function", "raising", "hanging"):
            for _ in range(2):
                agent.ask(name, {})
                assert [children_of(pid) for pid in forkers(daemon)] in ([set()], [set(), set()]), name


# A call of each way that a program is started in, none of which ends by itself.
STUCK: Final = """
[tools.direct]
command = ["sleep", "1001"]
[tools.bounded]
command = ["sleep", "1002"]
files = 1000
[tools.shut_in]
command = ["sleep", "1003"]
network = false
[tools.function]
python = "stuck:stay"
"""
STAY: Final = """
import subprocess

def stay() -> bool:
    subprocess.run(["sleep", "1004"])
    return True
"""
OWN: Final = ("daemon", "first guardian", "second guardian", "launcher", "other launcher", "warm parent")
GONE_S: Final = 10.0


@pytest.mark.parametrize("killed", list(itertools.combinations(OWN, 2)), ids=" and ".join)
def test_any_two_of_the_daemons_own_processes_killed_at_once_leave_nothing(
    tmp_path: Path, killed: tuple[str, str]
) -> None:
    (tmp_path / "stuck.py").write_text(STAY)
    with daemon_on(tmp_path, STUCK) as daemon, daemon.agent() as agent:
        for number, name in enumerate(("direct", "bounded", "shut_in", "function")):
            agent.call(name, name, {})
            until(lambda: bool(daemon.running(f"{1001 + number}")))  # noqa: B023  # called at once
        (run_id,) = daemon.run_ids()
        own = dict(zip(OWN, [daemon.process.pid, *with_word(daemon, b"sweep.py"), *forkers(daemon)], strict=True))
        everybody = carriers(run_id)
        assert len(everybody) >= 8
        for name in killed:
            os.kill(own[name], signal.SIGKILL)
        if "daemon" not in killed:
            # It has what was killed replaced, or does without; then it is killed as well. What was killed may be seen
            # for a moment more, and must not be taken for its replacement.
            until(lambda: not is_running(own[killed[0]]) and not is_running(own[killed[1]]))
            until(lambda: len(with_word(daemon, b"sweep.py")) == 2)
            daemon.process.kill()
        daemon.process.wait()
        until(lambda: not any(is_running(pid) for pid in everybody) and not carriers(run_id), within_s=GONE_S)


def with_word(daemon: Daemon, word: bytes) -> list[int]:
    """Its children with a word on their command line, the oldest first."""
    return sorted(pid for pid in children_of(daemon.process.pid) if any(word in each for each in words_of(pid)))


def forkers(daemon: Daemon) -> list[int]:
    return [*with_word(daemon, b"launcher"), *with_word(daemon, b"warm")]
