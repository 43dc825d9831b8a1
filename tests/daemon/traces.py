"""What a daemon has at one moment: processes, descriptors, cgroups and scratch directories; and what it had, gone."""

import os
import re
import select
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from tests.daemon.forking import Forked, fork_daemon
from tests.daemon.spawned import (
    PATIENCE_S,
    SERVE,
    Agent,
    Daemon,
    carriers,
    children_of,
    ready,
    without_places,
    words_of,
)

# A variable of the daemon's.
SECRET: Final = "SECRET_OF_THE_DAEMON"
SCRATCHES: Final = "tooldispatchd-scratch-*"
# Many times what a fork ahead takes.
SETTLED_S: Final = 0.2

Looked = TypeVar("Looked")


class Held(NamedTuple):
    """Compared whole: what stands more often in one than in the other was left, or lost."""

    descriptors: Counter[str]
    """By kind."""
    processes: Counter[str]
    """Its own and all that bear its run id, by their words."""
    scratches: list[str]
    cgroups: list[str]


@contextmanager
def open_directory() -> Iterator[Path]:
    """A directory that other users may pass through, which pytest's own are not, and where a daemon's temporary files
    are its own."""
    directory = Path(tempfile.mkdtemp(prefix="hostile-")).resolve()
    try:
        directory.chmod(0o711)
        for name, mode in (("tmp", 0o1777), ("notes", 0o1777), ("run", 0o711)):
            (directory / name).mkdir()
            (directory / name).chmod(mode)
        yield directory
    finally:
        # A guardian may still be at it, where a test has failed.
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def daemon_in(directory: Path, config: str, *before: str, listen: Sequence[str] = ()) -> Iterator[Daemon]:
    """A daemon on a directory of `open_directory`, with its temporary files there too; `before` is what starts it.

    `listen` are places beside its socket.
    """
    file, path, log = directory / "config.toml", directory / "dispatch.sock", directory / "log"
    file.write_text(config)
    # What is the daemon's own does not lie where its programs may fill everything.
    own = {"TMPDIR": str(directory / "tmp"), "RUNTIME_DIRECTORY": str(directory / "run"), SECRET: "secret"}
    places = [word for place in (f"unix:{path}", *listen) for word in ("--listen", place)]
    words, env = ["--config", str(file), *places], {**without_places(), **own}
    with log.open("ab") as stderr, ExitStack() as stage:
        process: subprocess.Popen[bytes] | Forked
        if before:
            serve = [*before, *SERVE, *words]
            process = subprocess.Popen(serve, stdin=subprocess.DEVNULL, stderr=stderr, env=env, cwd=directory)
        else:
            process = fork_daemon(["serve", *words], stderr.fileno(), cwd=directory, env=env)
        stage.enter_context(process)
        yield stage.enter_context(ready(Daemon(process, path, log)))


def held(daemon: Daemon, directory: Path) -> Held:
    """What there is of a daemon now, less what it needs for the question."""
    pid = daemon.process.pid
    own = [b" ".join(words_of(each)).decode(errors="replace") for each in family(daemon)]
    return Held(
        Counter(re.sub(r"\d+", "N", target) for target in links(Path(f"/proc/{pid}/fd"))),
        # What has ended and is not reaped shows no words.
        Counter(words[:200] or "zombie" for words in own),
        sorted(path.name for path in (directory / "tmp").glob(f"{SCRATCHES}/[0-9]*")),
        sorted(path.name for path in leaves(pid)),
    )


def links(directory: Path) -> Iterator[str]:
    for entry in directory.iterdir():
        try:
            yield str(entry.readlink())
        except FileNotFoundError:
            continue


def family(daemon: Daemon) -> set[int]:
    """All that bear its run id, and all that come from it, ended ones too."""
    found = {pid for run_id in daemon.run_ids() for pid in carriers(run_id)}
    waiting = [daemon.process.pid, *found]
    while waiting:
        try:
            below = children_of(waiting.pop()) - found
        except FileNotFoundError:
            # It has just ended.
            continue
        found |= below
        waiting += below
    return found - {daemon.process.pid}


def leaves(pid: int) -> list[Path]:
    """The cgroups of the calls of a daemon that has been given some."""
    own = re.search(r"^0::(/.*/tooldispatchd-\w+)/daemon$", Path(f"/proc/{pid}/cgroup").read_text(), re.MULTILINE)
    points = re.search(r" (/\S*) \S+ (?:\S+ )*- cgroup2 ", Path("/proc/self/mountinfo").read_text())
    if own is None or points is None:
        return []
    return [path for path in Path(points[1], own[1][1:], "calls").iterdir() if path.is_dir()]


def groups_of(pids: Container[int] = range(1 << 32)) -> dict[int, tuple[int, int]]:
    """The process group and the session of each of these processes that lives, of all where none are named.

    What has ended may have to wait for a parent that is none of ours; under the daemon `held` counts that too.
    """
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) in pids:
            try:
                stat = (entry / "stat").read_text(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            state, _, group, session, *_ = stat.rpartition(")")[2].split()
            if state not in "XZ":
                found[int(entry.name)] = (int(group), int(session))
    return found


def is_silent(agent: Agent) -> bool:
    """Whether nothing has been said to an agent that it has not heard."""
    return not select.select([agent.channel], [], [], 0)[0]


def settled(daemon: Daemon, directory: Path) -> Held:
    """Return the holdings of a daemon once they have not changed for a while and its zombies are reaped.

    A zombie that is still there after `PATIENCE_S` counts: the daemon has not reaped it.
    """
    until_s = time.monotonic() + PATIENCE_S
    seen = held(daemon, directory)
    while True:
        time.sleep(SETTLED_S)
        before, seen = seen, held(daemon, directory)
        if seen == before and ("zombie" not in seen.processes or time.monotonic() > until_s):
            return seen


def at_last(look: Callable[[], Looked], wanted: Looked, *, within_s: float) -> Looked:
    """What `look` sees when it is as `wanted`, or when the time has passed."""
    until_s = time.monotonic() + within_s
    while (seen := look()) != wanted and time.monotonic() < until_s:
        time.sleep(0.02)
    return seen


def on_a_busy_machine(within_s: float) -> float:
    """What so many seconds are where each of those who want a processor gets its share of them."""
    return within_s * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def left_of(look: Callable[[], list[Looked]], *, within_s: float) -> list[Looked]:
    """What `look` still sees when the time has passed; nothing as soon as it sees nothing."""
    return at_last(look, list[Looked](), within_s=within_s)


@contextmanager
def mounted(directory: Path, options: str) -> Iterator[bool]:
    """A file system in memory on `directory`; whether there could be one."""
    words = ["mount", "-t", "tmpfs", "-o", options, "hostile", str(directory)]
    could = subprocess.run(words, check=False, stderr=subprocess.DEVNULL).returncode == 0
    try:
        yield could
    finally:
        if could:
            # Should a process still be in it, that is found by the tests; the directory can be removed all the same.
            subprocess.run(["umount", "--lazy", str(directory)], check=True)


def groups_said(notes: Path) -> set[int]:
    """The process groups and sessions that `hostilities` say they were in; not those of other namespaces."""
    said = [path.read_text() for path in notes.iterdir() if "bubblewrap" not in path.name and path.suffix == ""]
    return {int(number) for text in said for number in text.split()}
