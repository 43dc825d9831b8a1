"""Two calls of one tool that is shut in: one attacks the other, the daemon, and what stands between them."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.daemon.hostile_ways import OTHERS_PYTHON
from tests.daemon.spawned import Daemon, Message, until, words_of
from tests.daemon.traces import daemon_in, family, is_silent, open_directory
from tests.forked.sandbox.confined import abilities, lack_of
from tooldispatchd.forked.sandbox.seccomp import MACHINES, REFUSED

CELL: Final = Path(__file__).with_name("cell.py")
# Of these none comes from an attempt that was made wrongly.
REFUSALS: Final = {f"refused {name}" for name in ("EPERM", "EACCES", "EROFS", "ENOENT", "ESRCH", "EXDEV")}


class Way(NamedTuple):
    """How both are run; the user's name, where it is not the daemon's own."""

    kind: str
    means: str
    user: str | None = None
    files: bool = True
    """Whether it is kept from files too, and not from the network alone."""


WAYS: Final = {
    "landlock": Way("command", "landlock"),
    "landlock, another user": Way("command", "landlock", "nobody"),
    "bubblewrap": Way("command", "bubblewrap"),
    "bubblewrap, another user": Way("command", "bubblewrap", "nobody"),
    "landlock, files open": Way("command", "landlock", files=False),
    "bubblewrap, files open": Way("command", "bubblewrap", files=False),
    "functions": Way("python", "landlock"),
    "functions, files open": Way("python", "landlock", files=False),
}


class Fought(NamedTuple):
    """What came of one call's attacks on another."""

    outcomes: dict[str, str]
    kept: Message
    """The answer to the call that was attacked."""
    pid: int
    """The daemon's number before, and its exit code since, None where it lives."""
    ended: int | None
    secret: str
    made: list[str]


@pytest.fixture(scope="module", params=WAYS)
def fought(request: pytest.FixtureRequest) -> Iterator[Fought]:
    way = WAYS[request.param]
    if (why := why_not(way)) is not None:
        pytest.skip(why)
    with ExitStack() as stage:
        yield fight(stage, way)


def why_not(way: Way) -> str | None:
    """Why this cannot be tried on this machine."""
    if way.user is not None and (os.getuid() != 0 or not Path(OTHERS_PYTHON).exists()):
        return "only root can be another user, who needs an interpreter"
    means = abilities().landlock if way.means == "landlock" else abilities().bubblewrap
    return lack_of(means, "network", "read", "write")


def fight(stage: ExitStack, way: Way) -> Fought:
    directory = stage.enter_context(open_directory())
    outside = directory / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    # Apart from everything else: what lies beside a function's module is the function's to read.
    (directory / "program").mkdir()
    shutil.copy(CELL, directory / "program")
    # What it is kept from by its user alone would prove nothing of what shuts it in.
    for path in (outside, outside / "secret"):
        shutil.chown(path, way.user or os.getuid())
    daemon = stage.enter_context(daemon_in(directory, configured(way, directory)))
    other, attacker = (stage.enter_context(daemon.agent()) for _ in range(2))
    notes = directory / "notes"
    holding = {"note": f"{notes}/note", "ready": f"{notes}/ready", "until": f"{notes}/until"}
    other.call("hold", "cell", {"field": json.dumps(holding)})
    until(lambda: (notes / "ready").exists() or not is_silent(other))
    said = attacker.ask("cell", {"field": json.dumps(told(daemon, way, directory))})
    (notes / "until").touch()
    kept = other.hear()
    return Fought(
        json.loads(said["content"]),
        kept,
        daemon.process.pid,
        daemon.process.poll(),
        (outside / "secret").read_text(),
        sorted(path.name for path in outside.iterdir()),
    )


def configured(way: Way, directory: Path) -> str:
    program = directory / "program" / CELL.name
    readable = [str(program), *([] if way.user else [sys.base_prefix, sys.prefix])]
    keys = "network = false\n"
    if way.files:
        keys += f"read = {json.dumps(readable)}\nwrite = [{json.dumps(str(directory / 'notes'))}]\n"
    if way.user is not None:
        keys += f'user = "{way.user}"\n'
    if way.kind == "python":
        return f'[tools.cell]\npython = "cell:play"\ncwd = {json.dumps(str(program.parent))}\n{keys}'
    python = sys.executable if way.user is None else OTHERS_PYTHON
    words = json.dumps([python, "-I", "-S", "-B", str(program)])
    modes = 'args = ["${field}"]\ninput_mode = "args"\ntype = "{field: string} -> json"\n'
    return f'[tools.cell]\ncommand = {words}\nsandbox = "{way.means}"\n{modes}{keys}'


def told(daemon: Daemon, way: Way, directory: Path) -> dict[str, object]:
    """What there is to attack."""
    held, scratch = (directory / "notes" / "ready").read_text().split()
    column = MACHINES[os.uname().machine].column
    processes = {
        "the daemon": daemon.process.pid,
        # In a namespace of its own it has another number than here.
        "the other": int(held) if way.means == "landlock" else with_words(daemon, b"until")[-1],
        "the forker": with_words(daemon, b"forked/start.py")[0],
        "the guardian": with_words(daemon, b"sweep.py")[0],
    }
    return {
        "processes": processes,
        "calls": {name: numbers[column] for name, numbers in REFUSED.items()},
        "files": way.files,
        "daemon": daemon.process.pid,
        "outside": str(directory / "outside"),
        "configuration": str(directory / "config.toml"),
        "socket": str(daemon.path),
        "scratch": scratch,
        # In a namespace of its own its parent is of its own call.
        "parents": way.means == "landlock",
        # A function is called through one.
        "own": 1 if way.kind == "python" else 0,
    }


def with_words(daemon: Daemon, word: bytes) -> list[int]:
    """Its processes with that on their command line, the oldest first."""
    return sorted(pid for pid in family(daemon) if word in b" ".join(words_of(pid)))


def test_every_attempt_is_refused(fought: Fought) -> None:
    assert {name: outcome for name, outcome in fought.outcomes.items() if outcome not in REFUSALS} == {}


def test_the_other_call_and_the_daemon_are_unharmed(fought: Fought) -> None:
    assert (fought.kept["is_error"], json.loads(fought.kept["content"])) == (False, {"kept": "secret"})
    assert fought.ended is None


def test_everything_outside_is_as_it_was(fought: Fought) -> None:
    assert (fought.secret, fought.made) == ("secret", ["secret"])
