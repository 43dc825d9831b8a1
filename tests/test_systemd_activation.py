"""The daemon under a service manager: sockets that it is handed, what it tells, and what its children never see."""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.spawned import PATIENCE_S, ROOT, SERVE, Agent, children_of, until
from tests.systemd_tools import install_systemd_tools

# A tool that shows what it was given: its environment, and what it has open.
SHOW: Final = """\
import json, os, sys
open_ones = [int(name) for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)]
json.dump({"environment": sorted(os.environ), "descriptors": sorted(open_ones)}, sys.stdout)
"""
CONFIG: Final = f"""\
[tools.echo]
inline = "id"
type = "string -> string"
[tools.show]
command = {json.dumps([sys.executable, "-I", "-S", "-c", SHOW])}
[agents.default]
tools = ["echo", "show"]
[agents.reader]
tools = ["echo"]
"""
MANAGERS: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")
# Time for the daemon to ping well within it on a busy machine, and for the test to see some pings.
WATCHDOG_S: Final = 0.8


@pytest.fixture(scope="module", autouse=True)
def _systemd_tools() -> None:
    install_systemd_tools()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.toml"
    file.write_text(CONFIG)
    return file


@contextmanager
def activated(
    config: Path, *sockets: Path, names: tuple[str, ...] = (), **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon that starts, behind `sockets`, with the first connection; `names` are those of the descriptors."""
    listening = [f"--listen={path}" for path in sockets]
    named = [f"--fdname={':'.join(names)}"] if names else []
    # The program gets these variables, those of the protocol, and hardly any other.
    given = [f"--setenv={name}={value}" for name, value in {"PYTHONPATH": str(ROOT), **variables}.items()]
    serve = [*SERVE, "--config", str(config), "--listen", "systemd"]
    words = ["systemd-socket-activate", *listening, *named, *given, *serve]
    with (
        (config.parent / "log").open("ab") as log,
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=log) as daemon,
    ):
        try:
            until(lambda: all(map(Path.exists, sockets)))
            yield daemon
        finally:
            daemon.kill()


@contextmanager
def agent_on(path: Path) -> Iterator[Agent]:
    with socket.socket(socket.AF_UNIX) as channel:
        # The name is there a moment before anybody listens.
        until(lambda: channel.connect_ex(str(path)) == 0)
        agent = Agent(channel)
        try:
            yield agent
        finally:
            agent.close()


class Manager:
    """What a service manager hears: the datagrams of its notification socket, each with the time it came at."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(PATIENCE_S)
        self._heard: list[tuple[float, str]] = []

    def hear(self, assignment: str) -> tuple[float, str]:
        """Wait for an assignment that starts so; when it came (monotonic seconds), and the whole of it."""
        while True:
            for position, (at, line) in enumerate(self._heard):
                if line.startswith(assignment):
                    del self._heard[: position + 1]
                    return at, line
            lines = self._socket.recv(65_536).decode().splitlines()
            self._heard += [(time.monotonic(), line) for line in lines]

    def hear_together(self) -> set[str]:
        """The assignments of the next datagram."""
        return set(self._socket.recv(65_536).decode().splitlines())

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    listening = Manager(tmp_path / "notify.sock")
    yield listening
    listening.close()


@contextmanager
def supervised(config: Path, manager: Manager, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon of `Type=notify`, on a socket of its own; the shell tells it its own number, as the manager would."""
    serve = [*SERVE, "--config", str(config), "--listen", f"unix:{config.parent / 'own.sock'}"]
    words = ["sh", "-c", 'WATCHDOG_PID=$$ exec "$@"', "sh", *serve]
    told = {"NOTIFY_SOCKET": str(manager.path), "PYTHONPATH": str(ROOT), **variables}
    with (
        (config.parent / "log").open("ab") as log,
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=log, env=os.environ | told) as daemon,
    ):
        try:
            yield daemon
        finally:
            daemon.kill()


def test_the_first_agent_starts_the_daemon_and_is_answered(config: Path, tmp_path: Path, nothing_left: None) -> None:
    path = tmp_path / "dispatch.sock"
    with activated(config, path) as daemon, agent_on(path) as agent:
        assert agent.ask("echo", "hello")["content"] == '"hello"'
        agent.close()
        daemon.terminate()
        assert daemon.wait(PATIENCE_S) == 0
        # It is the manager's: who connects now waits for the next daemon.
        assert path.is_socket()


def test_a_socket_that_is_named_for_a_profile_opens_that_profile(config: Path, tmp_path: Path) -> None:
    plain, reader = tmp_path / "plain.sock", tmp_path / "reader.sock"
    names = ("tooldispatchd.socket", "reader")
    with activated(config, plain, reader, names=names), agent_on(reader) as bound, agent_on(plain) as free:
        bound.say({"__port": "hello"})
        ready = bound.hear()
        assert (ready["profile"], "echo" in str(ready["tools"])) == ("reader", True)
        assert json.loads(bound.ask("show", None)["content"])["error"] in {"not_allowed", "unknown_tool"}
        free.say({"__port": "hello"})
        assert free.hear()["profile"] == "default"


def test_a_socket_that_is_named_for_a_profile_admits_no_other(config: Path, tmp_path: Path) -> None:
    path = tmp_path / "reader.sock"
    with activated(config, path, names=("reader",)), agent_on(path) as agent:
        assert agent.hello("default")["error"] == "not_authenticated"


def test_a_socket_with_a_name_that_is_no_profile_stops_the_start(config: Path, tmp_path: Path) -> None:
    path = tmp_path / "dispatch.sock"
    with activated(config, path, names=("raeder",)) as daemon, agent_on(path):
        assert daemon.wait(PATIENCE_S) in {2, 3}
    assert "raeder" in (tmp_path / "log").read_text()


def test_without_a_manager_there_are_no_sockets_to_listen_on(config: Path) -> None:
    words = [*SERVE, "--config", str(config), "--listen", "systemd"]
    environment = {name: value for name, value in os.environ.items() if name not in MANAGERS}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, "systemd" in done.stderr) == (3, True)


def test_the_manager_is_told_that_the_daemon_is_ready_and_which_process_it_is(config: Path, manager: Manager) -> None:
    with supervised(config, manager) as daemon:
        told = manager.hear_together()
        assert {"READY=1", f"MAINPID={daemon.pid}"} <= told
        assert [line for line in told if line.startswith("STATUS=") and len(line) > len("STATUS=")] != []
        # Ready means that an agent can connect, and not that it soon will.
        with agent_on(config.parent / "own.sock") as agent:
            assert agent.ask("echo", "hello")["content"] == '"hello"'


def test_the_watchdog_is_fed_at_half_of_its_time(config: Path, manager: Manager) -> None:
    with supervised(config, manager, WATCHDOG_USEC=str(round(WATCHDOG_S * 1e6))):
        manager.hear("READY=1")
        pings = [manager.hear("WATCHDOG=1")[0] for _ in range(4)]
        gaps = [later - earlier for earlier, later in itertools.pairwise(pings)]
        assert max(gaps) < WATCHDOG_S
        assert sum(gaps) / len(gaps) == pytest.approx(WATCHDOG_S / 2, rel=0.3)


def test_the_manager_is_told_that_the_daemon_stops(config: Path, manager: Manager) -> None:
    with supervised(config, manager) as daemon:
        manager.hear("READY=1")
        daemon.send_signal(signal.SIGTERM)
        manager.hear("STOPPING=1")
        assert daemon.wait(PATIENCE_S) == 0


def test_a_tool_sees_nothing_of_the_manager(config: Path, manager: Manager, tmp_path: Path) -> None:
    path = tmp_path / "dispatch.sock"
    variables = {"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "30000000"}
    with activated(config, path, names=("default",), **variables) as daemon, agent_on(path) as agent:
        shown = json.loads(agent.ask("show", None)["content"])
        assert set(MANAGERS) & set(shown["environment"]) == set()
        # What a manager hands over starts at 3.
        assert shown["descriptors"] == [0, 1, 2]
        # The guardians are children too.
        for pid in children_of(daemon.pid):
            entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            assert {entry.partition(b"=")[0].decode() for entry in entries} & set(MANAGERS) == set()
