"""Real daemons, real agents and what is left of them, for the tests that play from end to end."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.daemon.forking import Forked, fork_daemon

ROOT: Final = Path(__file__).parent.parent.parent
MISBEHAVING: Final = ROOT / "tests" / "servers" / "misbehaving.py"
SERVE: Final = [sys.executable, "-m", "tooldispatchd", "serve"]
RUN_ID: Final = b"TOOLDISPATCHD_RUN_ID="
# A step takes milliseconds; on a machine that is busy with other tests, far more.
PATIENCE_S: Final = 20.0

Message = dict[str, Any]


def server(name: str, mode: str, *lines: str) -> str:
    """The table of a misbehaving server; `lines` are further keys."""
    args = json.dumps(["-I", "-S", str(MISBEHAVING), mode])
    return "\n".join([f"[mcp.{name}]", f"command = {json.dumps(sys.executable)}", f"args = {args}", *lines, ""])


def until(is_true: Callable[[], bool], within_s: float = PATIENCE_S) -> float:
    """Wait until `is_true`, seconds that it took; fails when `within_s` have passed."""
    began = time.monotonic()
    while not is_true():
        assert time.monotonic() < began + within_s, f"not within {within_s:g} s"
        time.sleep(0.005)
    return time.monotonic() - began


class Agent:
    """One channel, as an agent holds it."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.channel.settimeout(PATIENCE_S)
        self._answers = channel.makefile("rb")

    def say(self, *messages: Message) -> None:
        self.channel.sendall(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def call(self, call_id: str, name: str, value: object, **fields: object) -> None:
        self.say({"__port": "tool_req", "id": call_id, "name": name, "input": value, **fields})

    def hear(self) -> Message:
        """The next line; at the end of the channel `{"end": true}`."""
        heard: Message = json.loads(self._answers.readline() or b'{"end": true}')
        return heard

    def hello(self, profile: str) -> Message:
        self.say({"__port": "hello", "profile": profile})
        return self.hear()

    def ask(self, name: str, value: object, **fields: object) -> Message:
        self.call("ask", name, value, **fields)
        return self.hear()

    def end_input(self) -> None:
        self.channel.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._answers.close()
        self.channel.close()


class Daemon:
    """A daemon that runs, its socket and its log."""

    def __init__(self, process: subprocess.Popen[bytes] | Forked, path: Path, log: Path) -> None:
        self.process = process
        self.path = path
        self.log = log

    @contextmanager
    def agent(self) -> Iterator[Agent]:
        channel = socket.socket(socket.AF_UNIX)
        channel.connect(str(self.path))
        agent = Agent(channel)
        try:
            yield agent
        finally:
            agent.close()

    def logged(self, event: str) -> int:
        """How many times an event stands in the log."""
        return self.log.read_text().count(f'"{event}"')

    def run_ids(self) -> set[bytes]:
        """What its children carry in their environment; empty while it has had none."""
        return {entry for pid in children_of(self.process.pid) for entry in environment_of(pid)}

    def family(self) -> set[int]:
        """The processes that it started, grandchildren too."""
        return {pid for run_id in self.run_ids() for pid in carriers(run_id)}

    def running(self, word: str) -> set[int]:
        """Those of its family with `word` on their command line."""
        return {pid for pid in self.family() if word.encode() in words_of(pid)}


def children_of(pid: int) -> set[int]:
    found = set()
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        found |= {int(child) for child in _read(children).split()}
    return found


def environment_of(pid: int) -> set[bytes]:
    """The run id among its variables; nothing of a process that is gone, or a zombie."""
    return {entry for entry in _read(Path(f"/proc/{pid}/environ")).split(b"\0") if entry.startswith(RUN_ID)}


def words_of(pid: int) -> list[bytes]:
    return _read(Path(f"/proc/{pid}/cmdline")).split(b"\0")


def carriers(run_id: bytes) -> set[int]:
    """Every living process of the machine that carries `run_id`."""
    pids = {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    return {pid for pid in pids if run_id in environment_of(pid)}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


@contextmanager
def daemon_on(directory: Path, config: str, *words: str) -> Iterator[Daemon]:
    """A daemon with that configuration on `directory`/dispatch.sock; killed at the end where it still runs."""
    file, path, log = directory / "config.toml", directory / "dispatch.sock", directory / "log"
    file.write_text(config)
    serve = ["serve", "--config", str(file), "--listen", f"unix:{path}", *words]
    with (
        log.open("ab") as stderr,
        fork_daemon(serve, stderr.fileno()) as process,
        ready(Daemon(process, path, log)) as daemon,
    ):
        yield daemon


@contextmanager
def ready(daemon: Daemon, *, is_heard: bool = True) -> Iterator[Daemon]:
    """A daemon that was just started, when it is ready; killed at the end where it still runs.

    Where its log `is_heard` by nobody, it is ready when its socket is there.
    """
    process = daemon.process
    try:
        until(
            lambda: (
                process.poll() is not None or (daemon.logged("daemon ready") > 0 if is_heard else daemon.path.exists())
            )
        )
        assert process.poll() is None, daemon.log.read_text()
        yield daemon
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        finally:
            process.kill()


def without_places() -> dict[str, str]:
    """The environment, less what tells where configurations and sockets are."""
    told = {"TOOLDISPATCHD_SOCKET", "RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "HOME"}
    # The package is found from any working directory, installed or not.
    return {name: value for name, value in os.environ.items() if name not in told} | {"PYTHONPATH": str(ROOT)}


def warm_checkers(one: Agent, other: Agent) -> None:
    """Have both checkers started, which then stay: two large values at once."""
    for agent in (one, other):
        agent.call("large", "no such tool", [[]] * 100_000)
    for agent in (one, other):
        agent.hear()
