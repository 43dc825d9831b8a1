"""Real agents under `tooldispatchd run`, and what is left of them."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.daemon.spawned import PATIENCE_S, children_of, until, without_places, words_of
from tests.processes import is_running

RUN: Final = [sys.executable, "-m", "tooldispatchd", "run"]
PYTHON: Final = [sys.executable, "-I", "-S", "-c"]
CONFIG: Final = """
[tools.echo]
type = "json -> json"
inline = "id"
[tools.forever]
type = "json -> json"
command = ["sleep", "86399"]
call_s = 1000
[tools.guarded]
type = "json -> json"
inline = "id"
[agents.default]
tools = ["echo", "forever"]
[agents.closed]
tools = ["guarded"]
token = "open sesame"
"""
# The end of a test that hangs: what is large through a machine that is busy with other tests take long, and may.
HANG_S: Final = 10 * PATIENCE_S


def environment(directory: Path, **more: str) -> dict[str, str]:
    """What an agent's runner finds: nothing of the machine's, and a place of the test's for what is temporary."""
    return without_places() | {"TMPDIR": str(directory)} | more


def leftovers(directory: Path) -> list[str]:
    """The tools' files that are there."""
    return [entry.name for entry in directory.iterdir() if entry.name.startswith("tooldispatchd-run-")]


def finish(directory: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """Run an agent to its end, without input; nothing of it may be left."""
    return _finish(directory, words, b"", environ)


def feed(directory: Path, stdin: bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
    """As `finish`, with `stdin` to read."""
    return _finish(directory, words, stdin, {})


def _finish(
    directory: Path, words: Sequence[str], stdin: bytes, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    ended = subprocess.run(
        [*RUN, *words],
        input=stdin,
        capture_output=True,
        env=environment(directory, **environ),
        cwd=directory,
        timeout=HANG_S,
        check=False,
    )
    assert leftovers(directory) == []
    return ended


@contextmanager
def running(directory: Path, *words: str, stdin: int = subprocess.PIPE) -> Iterator[subprocess.Popen[bytes]]:
    """An agent that runs while this is entered; its runner is killed where it has not ended then."""
    process = subprocess.Popen(
        [*RUN, *words],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(directory),
        cwd=directory,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def heard(process: subprocess.Popen[bytes]) -> bytes:
    """The next line of its stdout."""
    assert process.stdout is not None
    return process.stdout.readline()


def private_daemon(runner: int) -> int:
    """The private daemon of a runner."""
    (found,) = [pid for pid in children_of(runner) if b"serve" in words_of(pid)]
    return found


def until_gone(pid: int) -> None:
    """Wait until a process runs no more."""
    until(lambda: not is_running(pid))


def resident_bytes(pid: int) -> int:
    """The most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def open_fds(pid: int) -> set[int]:
    """The numbers that a process has open."""
    return {int(name) for name in os.listdir(f"/proc/{pid}/fd")}  # noqa: PTH208  # numbers, no paths
