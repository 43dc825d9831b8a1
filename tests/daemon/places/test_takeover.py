"""Daemons that follow one another without a gap: no connection is refused, no answer is lost, nothing is left."""

import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from tests.daemon.activated import Manager, handing, served
from tests.daemon.forking import fork_daemon
from tests.daemon.spawned import PATIENCE_S, Agent, Daemon, ready, until, without_places
from tests.mcpface.web.calling import Caller, free_port

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
    return ["serve", "--config", str(directory / "config.toml"), *words]


@contextmanager
def started(directory: Path, *words: str, number: int) -> Iterator[Daemon]:
    """A daemon that is ready, with a log of its own."""
    log = directory / f"log{number}"
    with (
        log.open("wb") as stderr,
        fork_daemon(serving(directory, *words), stderr.fileno(), env=ENVIRONMENT) as process,
        ready(Daemon(process, directory / "s", log)) as daemon,
    ):
        yield daemon


class Clients:
    """A thread that comes again and again, without end; and what has become of it."""

    def __init__(self, come: Callable[[], str]) -> None:
        self.told: Counter[str] = Counter()
        self._come = come
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Clients":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        # Others need the processor too.
        while not self._is_over.wait(PAUSE_S):
            try:
                told = self._come()
            except OSError as error:
                told = type(error).__name__
            self.told[told] += 1


def call_once(directory: Path) -> str:
    """Connect, say hello, call a tool and close."""
    with connected(directory) as agent:
        said = agent.hello("default")
        return str(agent.ask("echo", "hi").get("content") if said["__port"] == "ready" else said)


def open_once(port: int) -> str:
    """Open a session over HTTP."""
    client = Caller(port)
    opened = client.initialize()
    # It may be another daemon's by now.
    client.send("DELETE")
    return f"HTTP {opened.status}"


@contextmanager
def connected(directory: Path) -> Iterator[Agent]:
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(str(directory / "s"))
    agent = Agent(channel)
    try:
        yield agent
    finally:
        agent.close()


def sockets_of(daemon: Daemon) -> int:
    """How many descriptors of sockets and locks it has."""
    links = [_link(entry) for entry in Path(f"/proc/{daemon.process.pid}/fd").iterdir()]
    return sum(1 for link in links if link.startswith(("socket:", str(daemon.path))))


def _link(entry: Path) -> str:
    try:
        return str(entry.readlink())
    except FileNotFoundError:
        # Closed meanwhile.
        return ""


def test_nobody_notices_that_a_daemon_is_taken_over_five_times(tmp_path: Path) -> None:
    port = free_port()
    config = tmp_path / "config.toml"
    config.write_text(CONFIG)
    unix = ("--listen", f"unix:{tmp_path}/s")
    both = (*unix, "--listen", f"http://127.0.0.1:{port}/mcp")
    with ExitStack() as stack:
        old = stack.enter_context(started(tmp_path, *both, number=0))
        sockets = sockets_of(old)
        with Clients(partial(call_once, tmp_path)) as calling:
            with Clients(partial(open_once, port)) as opening:
                for number in (1, 2):
                    new = stack.enter_context(started(tmp_path, *both, "--take-over", number=number))
                    assert old.process.wait(PATIENCE_S) == 0
                    old = new
            until(lambda: sockets_of(old) == sockets)
            # One that has fewer places, and one whose administrators are others.
            for number, more in ((3, ""), (4, WITH_ADMINISTRATORS)):
                config.write_text(CONFIG + more)
                new = stack.enter_context(started(tmp_path, *unix, "--take-over", number=number))
                assert old.process.wait(PATIENCE_S) == 0
                old = new
            agent = stack.enter_context(connected(tmp_path))
            agent.hello("default")
            with (tmp_path / "log").open("wb") as log:
                refused = fork_daemon(serving(tmp_path, *unix, "--take-over"), log.fileno(), env=ENVIRONMENT)
            assert refused.wait(PATIENCE_S) == 3
            assert "not_allowed" in (tmp_path / "log").read_text()
            new = stack.enter_context(started(tmp_path, *unix, "--take-over", "ops", number=5))
            # For its grace the old one serves whom it has.
            assert agent.ask("echo", "hi")["content"] == ECHOED
        old.process.kill()
        old.process.wait(PATIENCE_S)
        assert call_once(tmp_path) == ECHOED
        new.process.terminate()
        assert new.process.wait(PATIENCE_S) == 0
    assert (set(calling.told), set(opening.told)) == ({ECHOED}, {"HTTP 200"})
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
