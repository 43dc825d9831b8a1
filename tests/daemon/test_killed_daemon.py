"""A daemon that is killed in the midst of calls of all kinds: nothing of them survives."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.daemon import hostilities
from tests.daemon.hostile_ways import BATCHES, IN_SCRATCH, Ways, able, configured, note_of, tool_of
from tests.daemon.spawned import PATIENCE_S, Daemon, carriers, until
from tests.daemon.traces import daemon_in, groups_of, groups_said, leaves, left_of, on_a_busy_machine, open_directory

GONE_S: Final = 3.0
ENDINGS: Final = frozenset({"ignores_term", "flees", "closes_its_output", "stops_itself"})
WAYS: Final = {
    f"{batch}-{name}".replace(" ", "_"): way._replace(endings=way.endings & (ENDINGS | IN_SCRATCH))
    for batch, ways in BATCHES.items()
    for name, way in ways.items()
    if way.endings >= ENDINGS
}
# An agent that waits for the answer of a tool which gives none, on a channel of its own.
LEADING: Final = """
[tools.stuck]
command = ["sleep", "1000"]
[processes.leader]
kind = "agent"
type = "!json -> !json"
command = ["sh", "-c", 'echo "{\\"id\\":\\"1\\",\\"name\\":\\"stuck\\",\\"input\\":null}" >&4; read -r answer <&5']
tools = ["stuck"]
[tools.lead]
process = "leader"
"""


class Killed(NamedTuple):
    """What was there when a daemon was killed, and what still was a while later."""

    calls: int
    processes: int
    directories: list[str]
    left: list[object]
    """Processes by their numbers, directories and cgroups by their paths."""


@pytest.fixture(scope="module")
def killed() -> Iterator[Killed]:
    with ExitStack() as stage:
        yield kill(stage)


def kill(stage: ExitStack) -> Killed:
    directory = stage.enter_context(open_directory())
    shutil.copy(str(hostilities.__file__), directory)
    ways = able(WAYS, is_full=False)
    daemon = stage.enter_context(daemon_in(directory, configured(ways, directory) + LEADING))
    notes = begin(stage, daemon, ways, directory)
    until(lambda: bool(daemon.running("sleep")))
    (run_id,) = daemon.run_ids()
    processes = len(carriers(run_id))
    made = [*directory.glob("tmp/tooldispatchd-*"), *directory.glob("run/tooldispatchd-*")]
    cgroups = leaves(daemon.process.pid)
    own = {number for groups in groups_of({daemon.process.pid}).values() for number in groups}
    groups = groups_said(directory / "notes") - own
    daemon.process.kill()
    daemon.process.wait()

    def left() -> list[object]:
        theirs = [pid for pid, of in groups_of().items() if groups & set(of)]
        return [*carriers(run_id), *theirs, *(path for path in (*made, *cgroups) if path.exists())]

    return Killed(
        notes + 1, processes, [path.parent.name for path in made], left_of(left, within_s=on_a_busy_machine(GONE_S))
    )


def begin(stage: ExitStack, daemon: Daemon, ways: Ways, directory: Path) -> int:
    """Have all of it called, and an agent lead another; how many calls there are of the ways, all underway."""
    notes = []
    for name, way in ways.items():
        for ending in sorted(way.endings):
            notes.append(note_of(directory, name, ending))
            value = {"ending": ending, "note": str(notes[-1])} if way.kind == "python" else None
            stage.enter_context(daemon.agent()).call("hostile", tool_of(name, way, ending), value)
    stage.enter_context(daemon.agent()).call("led", "lead", None)
    assert left_of(lambda: [note.name for note in notes if not note.exists()], within_s=PATIENCE_S) == []
    return len(notes)


def test_a_daemon_that_is_killed_leaves_nothing_of_its_calls(killed: Killed) -> None:
    assert killed.calls >= 45
    assert killed.processes > killed.calls
    assert killed.directories == ["tmp", "run"]
    assert killed.left == []
