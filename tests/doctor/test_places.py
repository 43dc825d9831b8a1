"""Whether a place to listen could be bound, and who is there already."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tooldispatchd.config.listen_values import parse_places
from tooldispatchd.doctor.diagnosis import Diagnosis, Health
from tooldispatchd.doctor.places import examine_place

LISTENER = """\
import socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen(5)
print(flush=True)
while True:
    peer, _ = listening.accept()
    if peer.recv(100) and sys.argv[2]:
        peer.sendall(sys.argv[2].encode())
    else:
        peer.recv(1)
"""


def examined(where: str) -> Diagnosis:
    places, problems = parse_places((where,), {"default": None})
    assert not problems
    return examine_place(places[0], {})


@contextmanager
def listener(path: Path, answer: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that listens there, and answers whatever it is asked with the same."""
    words = [sys.executable, "-S", "-c", LISTENER, str(path), answer]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def test_a_path_where_nothing_is_is_free(tmp_path: Path) -> None:
    found = examined(f"unix:{tmp_path}/d.sock")
    assert (found.health, found.said) == (Health.FINE, "free")
    assert list(tmp_path.iterdir()) == []


def test_a_stale_socket_is_free_and_stays_until_the_start(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "d.sock"))
    found = examined(f"unix:{tmp_path}/d.sock")
    assert (found.health, found.said) == (Health.FINE, "free: the stale socket there is replaced at the start")
    assert (tmp_path / "d.sock").exists()


def test_a_daemon_that_answers_is_told_with_its_pid(tmp_path: Path) -> None:
    with listener(tmp_path / "d.sock", '{"__port":"pong"}\n') as process:
        found = examined(f"unix:{tmp_path}/d.sock")
    assert found.health is Health.FINE
    assert found.facts == {"pid": process.pid}


def test_another_program_that_listens_there_is_wrong(tmp_path: Path) -> None:
    with listener(tmp_path / "d.sock", "220 mail\n"):
        found = examined(f"unix:{tmp_path}/d.sock")
    assert found.health is Health.WRONG
    assert "is no daemon of this kind" in found.said


def test_a_daemon_that_is_stopped_is_told_to_go_on(tmp_path: Path) -> None:
    with listener(tmp_path / "d.sock", "") as process:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        found = examined(f"unix:{tmp_path}/d.sock")
    assert found.said == f"the process that listens there (pid {process.pid}) is stopped (SIGSTOP)"
    assert found.advice == f"kill -CONT {process.pid}"


@pytest.mark.parametrize(
    ("path", "mode", "said"),
    [
        ("nowhere/d.sock", 0o755, "there is no directory"),
        ("file", 0o755, "something that is no socket stands there"),
        ("d.sock", 0o777, "anyone may write its directory, and put a socket in its place"),
    ],
)
def test_a_path_that_cannot_be_bound_is_wrong(path: str, mode: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    tmp_path.chmod(mode)
    found = examined(f"unix:{tmp_path}/{path}")
    assert found.health is Health.WRONG
    assert found.said.startswith(said)
    assert found.advice


def test_a_port_of_the_daemon_that_answers_is_no_stranger(tmp_path: Path) -> None:
    with socket.socket() as taken, socket.socket(socket.AF_UNIX) as ours:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ours.bind(str(tmp_path / "d.sock"))
        ours.listen()
        port = f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"
        places, _ = parse_places((f"unix:{tmp_path}/d.sock", port), {"default": None})
        found = examine_place(places[1], {}, places)
    assert (found.health, found.facts) == (Health.FINE, {"pid": os.getpid()})


def test_a_port_is_free_or_taken_or_no_port_of_this_machine() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        taken.listen()
        assert examined(f"http://127.0.0.1:{port}/mcp").health is Health.WARNING
    assert examined(f"http://127.0.0.1:{port}/mcp").said == "free"
    assert examined("http://192.0.2.1:8080/mcp").said == "this machine has no such address"
