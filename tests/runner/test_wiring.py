"""An agent whose tool channel shares its standard streams."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.spawned import PATIENCE_S, Daemon, daemon_on, until
from tests.runner.running import CONFIG, PYTHON, RUN, environment, feed, finish, heard, private_daemon, resident_bytes
from tests.runner.running import running as run_agent

MIB = 1024 * 1024
ASK = '{"__port":"tool_req","id":"1","name":"echo","input":7}'
ANSWER = b'{"__port":"tool_resp","id":"1","content":"7","is_error":false}\n'


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("shared"), CONFIG) as daemon:
        yield daemon


@pytest.fixture
def on(daemon: Daemon) -> list[str]:
    return ["--mux", "--socket", str(daemon.path), "--"]


def test_requests_go_to_the_daemon_and_everything_else_past_it(tmp_path: Path, on: list[str]) -> None:
    script = (
        f"""printf 'prompt> \\n{{"__port":"log"}}\\n'; echo '{ASK}'; read -r answer; echo "got $answer"; printf end"""
    )
    ended = finish(tmp_path, *on, "sh", "-c", script)
    assert ended.stdout == b'prompt> \n{"__port":"log"}\ngot ' + ANSWER + b"end"
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_the_short_form_is_no_request_here(tmp_path: Path, on: list[str]) -> None:
    short = '{"id":"1","name":"echo","input":7}'
    assert finish(tmp_path, *on, "echo", short).stdout == short.encode() + b"\n"


def test_named_agents_are_opened_and_called(tmp_path: Path, on: list[str]) -> None:
    request = ASK.replace("{", '{"agent":"a",')
    hello = '{"__port":"hello","agent":"a"}'
    script = f"""echo '{hello}'; read -r ready; echo '{request}'; read -r answer; echo "got $answer" """
    answer = b'got {"__port":"tool_resp","id":"1","content":"7","is_error":false,"agent":"a"}\n'
    assert finish(tmp_path, *on, "sh", "-c", script).stdout == answer


def test_lines_of_our_stdin_come_between_the_daemons(tmp_path: Path, on: list[str]) -> None:
    script = f'read -r a; echo \'{ASK}\'; read -r b; read -r c; printf \'%s\\n\' "$a" "$b" "$c" | sort'
    ended = feed(tmp_path, b"first\nlast", *on, "sh", "-c", script)
    assert set(ended.stdout.splitlines()) == {b"first", b"last", ANSWER.strip()}


def test_the_end_of_our_stdin_is_not_the_end_of_the_channel(tmp_path: Path, on: list[str]) -> None:
    script = f"read -r line; echo '{ASK}'; read -r answer; echo \"$line $answer\""
    assert feed(tmp_path, b"only\n", *on, "sh", "-c", script).stdout == b"only " + ANSWER


def test_an_agent_that_writes_no_more_still_gets_its_answers(tmp_path: Path, on: list[str]) -> None:
    script = f"echo '{ASK}'; exec 1>&-; cat >&2"
    assert finish(tmp_path, *on, "sh", "-c", script).stderr == ANSWER


def test_a_megabyte_that_an_agent_wrote_before_it_exited_arrives(tmp_path: Path, on: list[str]) -> None:
    code = (
        "import os, fcntl; fcntl.fcntl(1, 1031, 1 << 20); os.write(1, b'x' * 999_999 + b'\\n' + b'last'); os._exit(3)"
    )
    ended = finish(tmp_path, *on, *PYTHON, code)
    assert (ended.returncode, len(ended.stdout), ended.stdout[-5:]) == (3, 1_000_004, b"\nlast")


def test_what_a_grandchild_goes_on_writing_keeps_nobody(tmp_path: Path, on: list[str]) -> None:
    ended = finish(tmp_path, *on, "sh", "-c", "yes & echo started; exit 4")
    assert ended.returncode == 4
    assert b"started\n" in ended.stdout


def test_a_request_of_an_agent_that_has_exited_is_dropped(tmp_path: Path, on: list[str], daemon: Daemon) -> None:
    forever = '{"__port":"tool_req","id":"1","name":"forever","input":1}'
    ended = finish(tmp_path, *on, "sh", "-c", f"echo '{forever}'; printf '%s' '{forever}'; exit 5")
    assert (ended.returncode, ended.stdout) == (5, b"")
    until(lambda: not daemon.running("86399"))


def test_the_death_of_the_daemon_leaves_the_other_lines(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(CONFIG)
    words = ["--mux", "--config", "c.toml", "--", "sh", "-c", 'echo ready; read -r line; echo "got $line"; cat; exit 6']
    with run_agent(tmp_path, *words) as process:
        assert heard(process) == b"ready\n"
        os.kill(private_daemon(process.pid), signal.SIGKILL)
        assert process.stderr is not None
        said = process.stderr.readline()
        # Anybody may read that file, which is told first.
        while b"others may read this file" in said:
            said = process.stderr.readline()
        assert b"the daemon has ended the channel" in said
        assert process.stdin is not None
        process.stdin.write(b"a line\n")
        process.stdin.close()
        assert heard(process) == b"got a line\n"
        # Nobody speaks to it any more: that is an end that it reads.
        assert process.wait(PATIENCE_S) == 6


def test_nobody_who_reads_our_stdout_is_nobody_who_reads_the_agents(tmp_path: Path, on: list[str]) -> None:
    run = [*RUN, *on, "yes"]
    with subprocess.Popen(run, stdout=subprocess.PIPE, env=environment(tmp_path), stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 128 + signal.SIGPIPE


ECHOES = """
import json, sys, threading
total, size = int(sys.argv[1]), int(sys.argv[2])
def ask():
    for number in range(total):
        request = {"__port": "tool_req", "id": str(number), "name": "echo", "input": "x" * size}
        sys.stdout.write(json.dumps(request) + "\\\\n" + "past " * 20 + "\\\\n")
    sys.stdout.flush()
threading.Thread(target=ask).start()
found = dict(answers=0, lines=0)
while found["answers"] < total:
    line = sys.stdin.readline()
    found["answers" if line.startswith('{"__port"') else "lines"] += 1
print(found["answers"], flush=True)
""".replace("\\\\", "\\")


def test_many_times_what_is_buffered_goes_there_and_back_beside_other_lines(tmp_path: Path, on: list[str]) -> None:
    ended = feed(tmp_path, b"a line of ours\n" * 100_000, *on, *PYTHON, ECHOES, "8", str(MIB))
    lines = ended.stdout.splitlines()
    assert lines.count(b"past " * 20) == 8
    assert sorted(set(lines)) == [b"8", b"past " * 20]


def test_an_agent_whose_stdout_nobody_reads_is_made_to_wait(tmp_path: Path, on: list[str]) -> None:
    code = (
        "import os, select, sys\n"
        "os.set_blocking(1, False)\n"
        "poll = select.poll(); poll.register(1, select.POLLOUT); written = 0\n"
        "while poll.poll(300): written += os.write(1, b'y\\n' * 2048)\n"
        "print(written, file=sys.stderr, flush=True)\n"
    )
    with run_agent(tmp_path, *on, *PYTHON, code) as process:
        assert process.stderr is not None
        written = int(process.stderr.readline())
        assert written < 4 * MIB
        assert resident_bytes(process.pid) < 64 * MIB
        assert process.stdout is not None
        # The agent has exited by now; all that it wrote arrives.
        assert len(process.stdout.read()) == written
        assert process.wait(PATIENCE_S) == 0


# Asks, tells the answer on stderr and the rest on stdout.
BOTH = f"echo '{ASK}'; read -r answer; echo \"$answer\" >&2; echo done"


def on_streams(tmp_path: Path, on: list[str], stdin: int, stdout: int) -> subprocess.CompletedProcess[bytes]:
    """Run an agent on these standard streams."""
    return subprocess.run(
        [*RUN, *on, "sh", "-c", BOTH],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
        timeout=PATIENCE_S,
        check=False,
    )


def test_our_standard_streams_may_be_files_in_use(tmp_path: Path, on: list[str]) -> None:
    (tmp_path / "in").write_bytes(b"read\n")
    with (tmp_path / "in").open("rb", buffering=0) as stdin, (tmp_path / "out").open("wb", buffering=0) as stdout:
        stdin.readline()
        stdout.write(b"before\n")
        assert on_streams(tmp_path, on, stdin.fileno(), stdout.fileno()).stderr == ANSWER
    assert (tmp_path / "out").read_bytes() == b"before\ndone\n"


def test_our_standard_streams_may_be_nothing(tmp_path: Path, on: list[str]) -> None:
    assert on_streams(tmp_path, on, subprocess.DEVNULL, subprocess.DEVNULL).stderr == ANSWER


def test_our_standard_streams_may_be_a_socket_which_is_left_as_it_was(tmp_path: Path, on: list[str]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert on_streams(tmp_path, on, theirs.fileno(), theirs.fileno()).stderr == ANSWER
        assert ours.recv(100) == b"done\n"
        assert os.get_blocking(theirs.fileno())


def test_our_standard_streams_may_be_a_terminal_which_is_left_as_it_was(tmp_path: Path, on: list[str]) -> None:
    master, slave = os.openpty()
    assert on_streams(tmp_path, on, slave, slave).stderr == ANSWER
    assert os.read(master, 100) == b"done\r\n"
    assert os.get_blocking(slave)
    os.close(slave)
    os.close(master)


def test_a_stdin_that_is_closed_is_told(tmp_path: Path, on: list[str]) -> None:
    words = ["sh", "-c", 'exec "$@" <&-', "sh", *RUN, *on, "true"]
    ended = subprocess.run(words, capture_output=True, env=environment(tmp_path), timeout=PATIENCE_S, check=False)
    assert (ended.returncode, ended.stderr) == (1, b"tooldispatchd: cannot run the agent: Bad file descriptor\n")
