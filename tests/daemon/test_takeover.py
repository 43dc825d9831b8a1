"""Daemons that follow one another without a gap: no connection is refused, no answer is lost, nothing is left."""

import os
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.activated import Manager, handing, served
from tests.daemon.spawned import PATIENCE_S, SERVE, Agent, Daemon, ready, until, without_places

CONFIG: Final = """
[tools.echo]
type = "string -> string"
inline = "id"
[daemon]
grace_s = 5
"""
# No other may take over a daemon with it.
WITH_ADMINISTRATORS: Final = """
[agents.default]
tools = ["echo"]
[agents.ops]
admin = true
token = "secret of ops"
"""
ECHOED: Final = '"hi"'
PAUSE_S: Final = 0.002


ENVIRONMENT: Final = without_places() | {"TOOLDISPATCHD_TOKEN": "secret of ops"}


def serving(directory: Path, *words: str) -> list[str]:
    return [*SERVE, "--config", str(directory / "config.toml"), *words]


@contextmanager
def started(directory: Path, *words: str, number: int) -> Iterator[Daemon]:
    """A daemon that is ready, with a log of its own."""
    command, log = serving(directory, *words), directory / f"log{number}"
    with (
        log.open("wb") as stderr,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=stderr, env=ENVIRONMENT) as process,
        ready(Daemon(process, directory / "s", log)) as daemon,
    ):
        yield daemon


class Clients:
    """Two threads that connect, say hello, call a tool and close, without end; and what has become of it."""

    def __init__(self, directory: Path, port: int) -> None:
        self.told: Counter[str] = Counter()
        self._path = str(directory / "s")
        self._port = port
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(each,)) for each in (self._ask, self._post)]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, once: Callable[[], str]) -> None:
        # Others need the processor too.
        while not self._is_over.wait(PAUSE_S):
            try:
                told = once()
            except OSError as error:
                told = type(error).__name__
            self.told[told] += 1

    def _ask(self) -> str:
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(self._path)
            agent = Agent(channel)
            said = agent.hello("default")
            if said["__port"] != "ready":
                return str(said)
            answer = agent.ask("echo", "hi")
            agent.close()
            return str(answer.get("content", answer))

    def _post(self) -> str:
        with socket.create_connection(("127.0.0.1", self._port), PATIENCE_S) as channel:
            channel.sendall(b"GET /mcp HTTP/1.1\r\nHost: localhost:%d\r\nConnection: close\r\n\r\n" % self._port)
            return channel.makefile("rb").readline().decode().strip()


@contextmanager
def connected(directory: Path) -> Iterator[Agent]:
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(str(directory / "s"))
    agent = Agent(channel)
    try:
        yield agent
    finally:
        agent.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def sockets_of(daemon: Daemon) -> int:
    """How many descriptors of sockets and locks it has."""
    entries = Path(f"/proc/{daemon.process.pid}/fd").iterdir()
    return sum(1 for entry in entries if str(entry.readlink()).startswith(("socket:", f"{daemon.path}")))


def test_nobody_notices_that_a_daemon_is_taken_over_five_times(tmp_path: Path) -> None:
    port = free_port()
    config = tmp_path / "config.toml"
    config.write_text(CONFIG)
    words = ("--listen", f"unix:{tmp_path}/s", "--listen", f"http://127.0.0.1:{port}/mcp")
    with ExitStack() as stack:
        old = stack.enter_context(started(tmp_path, *words, number=0))
        sockets = sockets_of(old)
        with Clients(tmp_path, port) as clients:
            for number in range(1, 5):
                config.write_text(CONFIG if number < 4 else CONFIG + WITH_ADMINISTRATORS)
                new = stack.enter_context(started(tmp_path, *words, "--take-over", number=number))
                assert old.process.wait(PATIENCE_S) == 0
                old = new
            with connected(tmp_path) as agent:
                agent.hello("default")
                with pytest.raises(subprocess.CalledProcessError, match="exit status 3"):
                    subprocess.run(serving(tmp_path, *words, "--take-over"), env=ENVIRONMENT, check=True, timeout=20)
                new = stack.enter_context(started(tmp_path, *words, "--take-over", "ops", number=5))
                # For its grace the old one serves whom it has.
                assert agent.ask("echo", "hi")["content"] == ECHOED
        old.process.kill()
        with connected(tmp_path) as agent:
            assert agent.ask("echo", "hi")["content"] == ECHOED
        until(lambda: sockets_of(new) == sockets)
        new.process.terminate()
        assert new.process.wait(PATIENCE_S) == 0
    assert set(clients.told) == {ECHOED, "HTTP/1.1 400"}
    assert list(tmp_path.glob("s*")) == []


class Store(Manager):
    """A manager that keeps descriptors by their names."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.kept: dict[str, int] = {}

    def hear(self) -> list[str]:
        message, fds, _flags, _address = socket.recv_fds(self.socket, 4096, 1)
        words = message.decode().split("\n")
        name = next((word.removeprefix("FDNAME=") for word in words if word.startswith("FDNAME=")), "")
        if "FDSTORE=1" in words:
            assert "FDPOLL=0" in words
            self.kept[name] = fds[0]
        elif "FDSTOREREMOVE=1" in words:
            os.close(self.kept.pop(name))
        return words

    def restarted(self, directory: Path, *words: str) -> AbstractContextManager[Daemon]:
        """A daemon that is given what was kept, and has said that it is ready."""
        variables = {"NOTIFY_SOCKET": self.address, "FDSTORE": "16"}
        if self.kept:
            variables |= handing(len(self.kept), ":".join(self.kept))
        return served(directory, list(self.kept.values()), variables, *words)


def test_connections_wait_in_the_managers_store_until_the_next_daemon(tmp_path: Path) -> None:
    manager = Store(f"{tmp_path}/notify")
    listen = ("--listen", f"unix:{tmp_path}/s", "--listen", f"unix:@takeover-{os.getpid()}")
    with manager.restarted(tmp_path, *listen) as daemon:
        manager.hear_of("READY=1")
        assert len(manager.kept) == 3
        daemon.process.terminate()
        assert daemon.process.wait(PATIENCE_S) == 0
    # Nobody runs, and nobody is refused.
    with connected(tmp_path) as agent:
        agent.call("1", "echo", "hi")
        with manager.restarted(tmp_path, *listen[:2]) as daemon:
            manager.hear_of("READY=1")
            assert agent.hear()["content"] == ECHOED
            # The abstract one is no place any more.
            assert len(manager.kept) == 2
            daemon.process.terminate()
    # A place that is gone leaves no file.
    with manager.restarted(tmp_path, "--listen", f"unix:{tmp_path}/t") as daemon:
        until(lambda: not list(tmp_path.glob("s*")))
        daemon.process.kill()
    for fd in manager.kept.values():
        os.close(fd)
    manager.socket.close()
