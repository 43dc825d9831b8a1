"""Before an agent starts, and where it stands in a terminal."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

import pytest

from tests.daemon.spawned import PATIENCE_S, daemon_on
from tests.runner.running import CONFIG, PYTHON, RUN, environment, heard, leftovers, running

# Takes its stdin for the terminal of its session, then becomes what it is told.
ON_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
# The signals are blocked and waited for: a handler of Python's that a signal just misses does not end a `pause`.
COUNTS = """
import os, signal
awaited = signal.SIGINT, signal.SIGTERM
signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
os.write(1, b"ready\\n")
count = 0
while signal.sigwait(awaited) == signal.SIGINT:
    count += 1
    os.write(1, b"interrupted\\n")
os.write(1, b"counted %d\\n" % count)
"""


@contextmanager
def silent_daemon(directory: Path) -> Iterator[socket.socket]:
    """A listening socket at `directory`/s, and nobody who answers."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(directory / "s"))
        listening.listen()
        listening.settimeout(PATIENCE_S)
        yield listening


def accepted(listening: socket.socket) -> socket.socket:
    """The agent's channel; the one before it sees whether anybody is there."""
    probe, _ = listening.accept()
    with probe:
        probe.settimeout(PATIENCE_S)
        assert probe.recv(4096) == b'{"__port":"ping"}\n'
        probe.sendall(b'{"__port":"pong"}\n')
    channel, _ = listening.accept()
    return channel


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "USR1"])
def test_a_signal_ends_us_while_a_daemon_says_nothing_at_all(tmp_path: Path, name: str) -> None:
    with silent_daemon(tmp_path) as listening, running(tmp_path, "--socket", "s", "--", "true") as process:
        probe, _ = listening.accept()
        with probe:
            probe.settimeout(PATIENCE_S)
            assert probe.recv(4096) == b'{"__port":"ping"}\n'
            process.send_signal(signal.Signals[f"SIG{name}"])
            assert process.wait(PATIENCE_S) == 128 + signal.Signals[f"SIG{name}"]


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "USR1"])
def test_a_signal_before_the_agent_starts_ends_us_and_no_agent_is_started(tmp_path: Path, name: str) -> None:
    with silent_daemon(tmp_path) as listening, running(tmp_path, "--socket", "s", "--", "echo", "started") as process:
        channel = accepted(listening)
        with channel:
            channel.settimeout(PATIENCE_S)
            assert channel.recv(4096).startswith(b'{"__port":"hello"')
            process.send_signal(signal.Signals[f"SIG{name}"])
            assert process.wait(PATIENCE_S) == 128 + signal.Signals[f"SIG{name}"]
        assert process.stdout is not None
        assert process.stdout.read() == b""
    assert leftovers(tmp_path) == []


def test_lines_before_ready_and_after_it_are_the_agents(tmp_path: Path) -> None:
    ready = b'{"__port":"ready","profile":"p","protocol":1,"tools":[],"warnings":["slow"]}\n'
    words = ["--socket", "s", "--", "cat", "/dev/fd/5"]
    with silent_daemon(tmp_path) as listening, running(tmp_path, *words) as process:
        channel = accepted(listening)
        with channel:
            assert channel.recv(4096).endswith(b"\n")
            channel.sendall(
                b'{"__port":"ask","id":"1"}\n' + ready + b'{"__port":"tools_changed","tools":[]}\n{"__port"'
            )
            channel.sendall(b':"x"}\n')
        assert process.stdout is not None
        assert process.stderr is not None
        said = process.stdout.read()
        assert said == b'{"__port":"ask","id":"1"}\n{"__port":"tools_changed","tools":[]}\n{"__port":"x"}\n'
        assert process.stderr.read().startswith(b"tooldispatchd: warning: slow\n")


def test_a_daemon_that_turns_us_away_without_hearing_us_is_heard(tmp_path: Path) -> None:
    with silent_daemon(tmp_path) as listening, running(tmp_path, "--socket", "s", "--", "true") as process:
        channel = accepted(listening)
        channel.sendall(b'{"__port":"fault","error":"too_many","category":"unavailable","detail":"no room"}\n')
        channel.close()
        assert process.wait(PATIENCE_S) == 1
        assert process.stderr is not None
        assert process.stderr.read() == b"tooldispatchd: too_many: no room\n"


def test_a_daemon_that_goes_before_it_is_ready_cannot_be_reached(tmp_path: Path) -> None:
    with silent_daemon(tmp_path) as listening, running(tmp_path, "--socket", "s", "--", "true") as process:
        channel = accepted(listening)
        channel.close()
        assert process.wait(PATIENCE_S) == 3


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"__port":"ready"}', b'{"__port":"fault"}', b"\xff"])
def test_a_daemon_that_speaks_another_protocol_cannot_be_used(tmp_path: Path, line: bytes) -> None:
    with silent_daemon(tmp_path) as listening, running(tmp_path, "--socket", "s", "--", "true") as process:
        channel = accepted(listening)
        with channel:
            channel.sendall(line + b"\n")
            assert process.wait(PATIENCE_S) == 3


@contextmanager
def on_terminal(directory: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], FileIO]]:
    """An agent that runs on a terminal of its own, and our end of that; its runner is killed where it still runs."""
    master, slave = os.openpty()
    with (
        FileIO(master, "r+") as ours,
        subprocess.Popen(
            [*PYTHON, ON_TERMINAL, *RUN, *words],
            stdin=slave,
            stdout=subprocess.PIPE,
            env=environment(directory),
            start_new_session=True,
        ) as process,
    ):
        os.close(slave)
        try:
            yield process, ours
        finally:
            process.kill()


def test_a_key_of_the_terminal_reaches_the_agent_once(tmp_path: Path) -> None:
    with (
        daemon_on(tmp_path, CONFIG) as daemon,
        on_terminal(tmp_path, "--socket", str(daemon.path), "--", *PYTHON, COUNTS) as (process, terminal),
    ):
        assert heard(process) == b"ready\n"
        terminal.write(b"\x03")
        assert heard(process) == b"interrupted\n"
        process.terminate()
        assert heard(process) == b"counted 1\n"
        assert process.wait(PATIENCE_S) == 0


def test_a_terminal_that_is_closed_ends_the_agent_and_us(tmp_path: Path) -> None:
    words = ["sh", "-c", "echo ready; cat <&5"]
    with (
        daemon_on(tmp_path, CONFIG) as daemon,
        on_terminal(tmp_path, "--socket", str(daemon.path), "--", *words) as (process, terminal),
    ):
        assert heard(process) == b"ready\n"
        terminal.close()
        assert process.wait(PATIENCE_S) == 128 + signal.SIGHUP
    assert leftovers(tmp_path) == []
