"""Daemons as a service manager starts them, and the manager's ear, for the tests of what both tell each other."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.daemon.spawned import PATIENCE_S, SERVE, Agent, Daemon, ready, until

CONFIG: Final = """
[tools.echo]
type = "string -> string"
inline = "id"
[tools.environment]
command = ["sh", "-c", "cat >/dev/null; env | grep -c -E 'NOTIFY|WATCHDOG|LISTEN'; true"]
[tools.until_told]
command = ["sh", "-c", "cat >/dev/null; until [ -e DIRECTORY/told ]; do sleep 0.01; done; echo 1"]
[agents.default]
tools = ["echo", "environment", "until_told"]
[agents.narrow]
tools = []
"""
# As a manager starts a service: the sockets from 3 on, and variables that name this very process.
LAUNCH: Final = """
import fcntl, json, os, sys
fds, assignments, words = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]
high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in fds]
for number, fd in enumerate(high, 3):
    os.dup2(fd, number)
for name, value in assignments.items():
    os.environ[name] = value.replace("$$", str(os.getpid()))
os.execv(words[0], words)
"""


class SilentLog:
    """No log."""

    def incident(self, event: str, error: BaseException) -> str:
        raise error


class Manager:
    """The service manager's ear."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        self.socket.settimeout(PATIENCE_S)

    def hear(self) -> list[str]:
        return self.socket.recv(4096).decode().split("\n")

    def hear_of(self, word: str) -> list[str]:
        """The next message with that assignment in it."""
        while True:
            message = self.hear()
            if word in message:
                return message

    @property
    def has_heard(self) -> bool:
        self.socket.setblocking(False)
        try:
            return bool(self.socket.recv(4096))
        except BlockingIOError:
            return False
        finally:
            self.socket.settimeout(PATIENCE_S)


@contextmanager
def listening_on(*paths: Path | str) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        sockets = []
        for path in paths:
            sockets.append(stack.enter_context(socket.socket(socket.AF_UNIX)))
            sockets[-1].bind(str(path))
            sockets[-1].listen()
        yield sockets


def numbers(handed: Sequence[socket.socket | int]) -> list[int]:
    return [each if isinstance(each, int) else each.fileno() for each in handed]


def launch(
    directory: Path, handed: Sequence[socket.socket | int], assignments: dict[str, str], *words: str
) -> list[str]:
    """The command line of a daemon that is handed these sockets."""
    (directory / "config.toml").write_text(CONFIG.replace("DIRECTORY", str(directory)))
    serve = [*SERVE, "--config", str(directory / "config.toml"), *words]
    return [sys.executable, "-I", "-S", "-c", LAUNCH, json.dumps(numbers(handed)), json.dumps(assignments), *serve]


@contextmanager
def served(
    directory: Path, handed: Sequence[socket.socket | int], assignments: dict[str, str], *words: str
) -> Iterator[Daemon]:
    command = launch(directory, handed, assignments, *words)
    log, fds = directory / "log", numbers(handed)
    with (
        log.open("ab") as stderr,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=stderr, pass_fds=fds) as process,
        ready(Daemon(process, directory / "s", log)) as daemon,
    ):
        yield daemon


def refusal(
    directory: Path, handed: Sequence[socket.socket | int], assignments: dict[str, str], *words: str
) -> tuple[int, str]:
    """The exit code and the complaint of a daemon that cannot start."""
    ended = subprocess.run(
        launch(directory, handed, assignments, *words),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        pass_fds=numbers(handed),
        timeout=PATIENCE_S,
        check=False,
    )
    return ended.returncode, ended.stderr


def handing(count: int, names: str | None = None) -> dict[str, str]:
    assignments = {"LISTEN_PID": "$$", "LISTEN_FDS": str(count)}
    return assignments if names is None else assignments | {"LISTEN_FDNAMES": names}


def agent_on(path: Path | str) -> Agent:
    channel = socket.socket(socket.AF_UNIX)
    until(lambda: is_connected(channel, path))
    return Agent(channel)


def is_connected(channel: socket.socket, path: Path | str) -> bool:
    """Whether who made the socket listens on it already: its file is there before that."""
    try:
        channel.connect(str(path))
    except ConnectionRefusedError:
        return False
    return True
