"""An agent with a channel of its own, to its end and to the daemon's."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.spawned import PATIENCE_S, Daemon, children_of, daemon_on, until, words_of
from tests.processes import is_running
from tests.runner.running import (
    CONFIG,
    PYTHON,
    finish,
    heard,
    leftovers,
    open_fds,
    private_daemon,
    resident_bytes,
    running,
    until_gone,
)

MIB = 1024 * 1024
FOREVER = '{"id":"1","name":"forever","input":1}'
# Says that it runs, then waits for the end of its answers, and tells of it.
UNTIL_THE_END = "echo $$; cat <&5 >/dev/null; echo ended; exit 6"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("relay"), CONFIG) as daemon:
        yield daemon


@pytest.fixture
def on(daemon: Daemon) -> list[str]:
    return ["--socket", str(daemon.path), "--"]


def test_an_agent_has_its_channel_and_its_standard_streams_and_nothing_else_of_ours(
    tmp_path: Path, on: list[str]
) -> None:
    ended = finish(tmp_path, *on, *PYTHON, "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))")
    # The third is the one that it looks with.
    assert ended.stdout == b"[0, 1, 2, 3, 4, 5]\n"


def test_the_channel_is_found_by_the_client(tmp_path: Path, on: list[str]) -> None:
    code = "from tooldispatchd.client.blocking import inherit; c = inherit(); print(c.call('echo', [1]).content)"
    assert finish(tmp_path, *on, PYTHON[0], "-c", code).stdout == b"[1]\n"


def test_an_agent_that_writes_no_more_still_gets_its_answers_and_their_end(tmp_path: Path, on: list[str]) -> None:
    script = 'echo \'{"id":"1","name":"echo","input":1}\' >&4; exec 4>&-; cat <&5; exit 3'
    ended = finish(tmp_path, *on, "sh", "-c", script)
    assert ended.stdout == b'{"id":"1","content":"1","is_error":false}\n'
    assert (ended.returncode, ended.stderr) == (3, b"")


def test_an_agent_that_says_goodbye_gets_the_end_of_its_answers(tmp_path: Path, on: list[str]) -> None:
    ended = finish(tmp_path, *on, "sh", "-c", 'echo \'{"__port":"bye"}\' >&4; cat <&5')
    assert (ended.stdout, ended.stderr) == (b'{"__port":"bye"}\n', b"")


def test_an_agent_that_reads_no_more_is_gone(tmp_path: Path, on: list[str], daemon: Daemon) -> None:
    with running(tmp_path, *on, "sh", "-c", f"echo '{FOREVER}' >&4; read go; exec 5<&-; read go; exit 4") as process:
        assert process.stdin is not None
        until(lambda: bool(daemon.running("86399")))
        process.stdin.write(b"go\n")
        process.stdin.flush()
        until(lambda: not daemon.running("86399"))
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert process.wait(PATIENCE_S) == 4


def test_a_grandchild_that_holds_everything_does_not_keep_the_agent_alive(
    tmp_path: Path, on: list[str], daemon: Daemon
) -> None:
    # The agent ends when its call runs; what it leaves behind holds both pipes and the standard streams.
    script = f"echo '{FOREVER}' >&4; sleep 1000 & echo $!; read go; exit 4"
    with running(tmp_path, *on, "sh", "-c", script) as process:
        assert process.stdin is not None
        grandchild = int(heard(process))
        until(lambda: bool(daemon.running("86399")))
        process.stdin.write(b"go\n")
        process.stdin.flush()
        try:
            assert process.wait(PATIENCE_S) == 4
            until(lambda: not daemon.running("86399"))
            assert is_running(grandchild)
            assert leftovers(tmp_path) == []
        finally:
            os.kill(grandchild, signal.SIGKILL)


def test_what_an_agent_asked_for_before_it_exited_ends_with_it(tmp_path: Path, on: list[str], daemon: Daemon) -> None:
    assert finish(tmp_path, *on, "sh", "-c", f"echo '{FOREVER}' >&4; exit 5").returncode == 5
    until(lambda: not daemon.running("86399"))


@pytest.mark.parametrize("name", ["TERM", "HUP", "USR1", "USR2", "INT", "QUIT", "WINCH", "CONT"])
def test_a_signal_is_passed_on_and_the_agent_waited_for(tmp_path: Path, on: list[str], name: str) -> None:
    # Waited for, not handled: a handler of Python's that a signal just misses does not end a `pause`.
    code = (
        "import signal, sys\n"
        f"awaited = [signal.SIG{name}]\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, awaited)\n"
        "print('ready', flush=True)\n"
        "signal.sigwait(awaited)\n"
        "sys.exit(44)"
    )
    with running(tmp_path, *on, *PYTHON, code) as process:
        assert heard(process) == b"ready\n"
        process.send_signal(signal.Signals[f"SIG{name}"])
        assert process.wait(PATIENCE_S) == 44
    assert leftovers(tmp_path) == []


def test_an_agent_that_does_not_heed_a_signal_is_waited_for(tmp_path: Path, on: list[str]) -> None:
    with running(tmp_path, *on, "sh", "-c", "trap 'echo heard' TERM; echo ready; read go; read go; exit 8") as process:
        assert process.stdin is not None
        assert heard(process) == b"ready\n"
        process.terminate()
        assert heard(process) == b"heard\n"
        process.stdin.write(b"go\ngo\n")
        process.stdin.flush()
        assert process.wait(PATIENCE_S) == 8


def test_a_signal_that_was_ignored_stays_ignored(tmp_path: Path, daemon: Daemon) -> None:
    code = "import signal; print(signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGTERM))"
    run = f'trap "" HUP; exec {PYTHON[0]} -m tooldispatchd run --socket {daemon.path} -- {PYTHON[0]} -c "{code}"'
    ended = subprocess.run(["sh", "-c", run], capture_output=True, timeout=PATIENCE_S, check=False)
    assert ended.stdout == b"1 0\n"


def test_the_death_of_the_daemon_is_the_end_of_the_answers_and_not_of_the_agent(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(CONFIG)
    with running(tmp_path, "--config", "c.toml", "--", "sh", "-c", UNTIL_THE_END) as process:
        heard(process)
        os.kill(private_daemon(process.pid), signal.SIGKILL)
        assert heard(process) == b"ended\n"
        assert process.wait(PATIENCE_S) == 6
        assert process.stderr is not None
        assert b"the daemon has ended the channel" in process.stderr.read()
    assert leftovers(tmp_path) == []


def test_the_death_of_the_runner_is_the_end_of_the_answers_and_of_a_private_daemon(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(CONFIG)
    with running(tmp_path, "--config", "c.toml", "--", "sh", "-c", f"echo '{FOREVER}' >&4; {UNTIL_THE_END}") as process:
        agent = int(heard(process))
        daemon = private_daemon(process.pid)
        until(lambda: any(b"86399" in words_of(pid) for pid in children_of(daemon)))
        (call,) = [pid for pid in children_of(daemon) if b"86399" in words_of(pid)]
        process.kill()
        assert heard(process) == b"ended\n"
        until_gone(agent)
        until_gone(daemon)
        until_gone(call)


def test_the_death_of_the_agent_is_the_end_of_a_private_daemon(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(CONFIG)
    with running(tmp_path, "--config", "c.toml", "--", "sh", "-c", UNTIL_THE_END) as process:
        agent = int(heard(process))
        daemon = private_daemon(process.pid)
        os.kill(agent, signal.SIGKILL)
        assert process.wait(PATIENCE_S) == 137
        assert not is_running(daemon)
    assert leftovers(tmp_path) == []


ECHOES = """
import json, os, select, sys, threading
total, size = int(sys.argv[1]), int(sys.argv[2])
def ask():
    with open(4, "wb") as requests:
        for number in range(total):
            requests.write(json.dumps({"id": str(number), "name": "echo", "input": "x" * size}).encode() + b"\\n")
threading.Thread(target=ask).start()
with open(5, "rb") as answers:
    lengths = [len(json.loads(answers.readline())["content"]) for _ in range(total)]
    print(sum(lengths), len(answers.read()))
"""


def test_many_times_what_is_buffered_goes_there_and_back(tmp_path: Path, on: list[str]) -> None:
    ended = finish(tmp_path, *on, *PYTHON, ECHOES, "32", str(MIB // 4 - 2))
    assert ended.stdout == f"{8 * MIB} 0\n".encode()


# Writes until nothing moves any more, then waits to be told to read.
FLOODS = """
import json, os, select, sys
line = json.dumps({"__port": "ping", "t": "x" * 100_000}).encode() + b"\\n"
os.set_blocking(4, False)
poll = select.poll()
poll.register(4, select.POLLOUT)
written = 0
while poll.poll(300):
    at = written % len(line)
    written += os.write(4, line[at:at + 4096])
print(written, flush=True)
sys.stdin.readline()
os.set_blocking(4, True)
answered = written // len(line)
with open(5, "rb") as answers:
    print(sum(len(answers.readline()) for _ in range(answered)) // answered)
"""


def test_an_agent_that_reads_nothing_is_made_to_wait_and_loses_nothing(tmp_path: Path, on: list[str]) -> None:
    with running(tmp_path, *on, *PYTHON, FLOODS) as process:
        assert process.stdin is not None
        written = int(heard(process))
        # Two buffers of a mebibyte in each of us and the daemon, and what the kernel holds.
        assert written < 16 * MIB
        assert resident_bytes(process.pid) < 64 * MIB
        process.stdin.write(b"read\n")
        process.stdin.flush()
        answer = len(json.dumps({"__port": "pong", "t": "x" * 100_000}, separators=(",", ":"))) + 1
        assert heard(process) == f"{answer}\n".encode()
        assert process.wait(PATIENCE_S) == 0


def test_an_agent_that_has_ended_leaves_no_descriptor_in_a_running_daemon(
    tmp_path: Path, on: list[str], daemon: Daemon
) -> None:
    finish(tmp_path, *on, "true")
    before = open_fds(daemon.process.pid)
    finish(tmp_path, *on, "sh", "-c", "exit 1")
    until(lambda: open_fds(daemon.process.pid) == before)
