"""Daemons and commands for tests of what they do: each is forked from one process that has imported what it needs.

That takes a tenth of the processor time of a daemon's start, and a third of a command's.

    test ── words, directory, environment, stderr ──▶ tests.daemon.preloaded ── fork ──▶ a daemon, the test's own child

Tests of the start itself, of what is imported, and of variables that the interpreter reads, start `SERVE` themselves.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_ROOT: Final = Path(__file__).parent.parent.parent
# An environment, for the most part.
MAX_REQUEST_BYTES: Final = 1 << 17


class Forked:
    """A process of the test's that it did not start itself, as `subprocess.Popen` has it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code. Raises `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            ended = os.pidfd_open(self.pid)
            try:
                select.select([ended], [], [], timeout)
            finally:
                os.close(ended)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("a daemon", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal to it, where it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Have it end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wait()


class _Preloaded:
    """The process that daemons are forked from, once there is one."""

    channel: socket.socket | None = None


@contextmanager
def preloaded() -> Iterator[None]:
    """Have the process that daemons are forked from, as long as the block."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = [sys.executable, "-m", "tests.daemon.preloaded", str(theirs.fileno())]
    with ours, subprocess.Popen(words, cwd=_ROOT, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]):
        theirs.close()
        _Preloaded.channel = ours
        try:
            yield
        finally:
            _Preloaded.channel = None
            ours.close()


def fork_daemon(
    words: Sequence[str],
    stderr: int | None = None,
    *,
    stdin: int | None = None,
    stdout: int | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] = os.environ,
) -> Forked:
    """`tooldispatchd` with these words on these descriptors; those that are not named lead nowhere."""
    with Path(os.devnull).open("r+b", buffering=0) as nowhere:
        descriptors = [nowhere.fileno() if each is None else each for each in (stdin, stdout, stderr)]
        return _fork(words, descriptors, cwd, env)


def run_forked(
    *words: str, stdin: bytes = b"", cwd: Path | None = None, env: Mapping[str, str] = os.environ, timeout: float = 20
) -> subprocess.CompletedProcess[str]:
    """`tooldispatchd` with these words, on pipes, to its end; as `subprocess.run`."""
    (reading, feeding), (hearing, writing), (overhearing, complaining) = os.pipe(), os.pipe(), os.pipe()
    try:
        child = _fork(words, [reading, writing, complaining], cwd, env)
    finally:
        for theirs in (reading, writing, complaining):
            os.close(theirs)
    with (
        ThreadPoolExecutor(3) as threads,
        os.fdopen(hearing, encoding="utf-8", newline="") as out,
        os.fdopen(overhearing, encoding="utf-8", newline="") as err,
    ):
        threads.submit(_feed, feeding, stdin)
        heard, overheard = threads.submit(out.read), threads.submit(err.read)
        try:
            code = child.wait(timeout)
        finally:
            child.kill()
        return subprocess.CompletedProcess([*words], code, heard.result(timeout), overheard.result(timeout))


def _feed(descriptor: int, data: bytes) -> None:
    # It may have ended without having read all.
    with suppress(BrokenPipeError), os.fdopen(descriptor, "wb", buffering=0) as feeding:
        while data:
            data = data[feeding.write(data) :]


def _fork(words: Sequence[str], descriptors: list[int], cwd: Path | None, env: Mapping[str, str]) -> Forked:
    channel = _Preloaded.channel
    assert channel is not None, "daemons are forked while the fixture `forking` of tests/conftest.py is there"
    request = json.dumps({"words": [*words], "cwd": str(cwd or Path.cwd()), "env": {**env}}).encode()
    assert len(request) < MAX_REQUEST_BYTES
    socket.send_fds(channel, [request], descriptors)
    return Forked(int(channel.recv(64)))
