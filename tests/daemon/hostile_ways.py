"""The ways in which hostile programs are run, what is to come of each of their endings, and a configuration for it."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.daemon.hostilities import ENDINGS, IS_FULL, UNREAD
from tests.forked.sandbox.confined import abilities, lack_of

# For a user who may not come to where the tests' own stands.
OTHERS_PYTHON: Final = "/usr/bin/python3"
# Time enough to get underway on a machine that is busy with all of this.
CALL_S: Final = 3.0
# As long as a busy machine may take for a second of processor time.
LONG_S: Final = 60.0

LIMITS: Final = """
cpu_s = 1
memory = "64M"
files = 32
file_size = "64K"
output_bytes = "256K"
"""
HARMLESS: Final = """
[limits]
processes = 200
max_line_bytes = 16_777_216
max_content_bytes = 4_194_304
[tools.echo]
type = "json -> json"
inline = "id"
[tools.soon]
command = ["sh", "-c", "cat >/dev/null; echo 1"]
[tools.function]
python = "hostilities:play"
"""

# A bound on files is met before a file system is full.
BY_LIMIT: Final = frozenset({"fills_a_file", "allocates_without_end", "opens_without_end"})
BY_MACHINE: Final = frozenset({"fills_the_file_system"})
# For every user but root, whose processes only a cgroup counts.
BY_USER: Final = frozenset({"forks_all_it_can"})
# What has no scratch directory would litter where everybody's temporary files are.
IN_SCRATCH: Final = frozenset({"litters"})
FREE: Final = frozenset(ENDINGS) - BY_LIMIT - BY_USER - IN_SCRATCH
BOUNDED: Final = frozenset(ENDINGS) - BY_MACHINE - BY_USER - IN_SCRATCH
# What reads for a function is not its own.
OF_PROGRAMS: Final = frozenset(UNREAD)
# After these a worker goes on to serve, with all that it has started: only for functions that are trusted.
OF_ONE_CALL: Final = frozenset(
    {"forks_grandchildren", "leaves_its_session", "leaves_a_holder", "fills_the_file_system"}
)


class Way(NamedTuple):
    """How hostile programs are run: `kind` is `command`, `agent` or `python`, `means` what shuts them in."""

    kind: str
    endings: frozenset[str]
    keys: str = ""
    means: str | None = None


Ways = Mapping[str, Way]
BATCHES: Final[Mapping[str, Ways]] = {
    "programs": {
        "plain": Way("command", FREE),
        "limits": Way("command", BOUNDED, LIMITS),
        "user": Way("command", BY_USER | {"answers"}, 'user = "nobody"\nprocesses = 16\n'),
        "agent": Way("agent", FREE),
    },
    "shut in": {
        "landlock": Way("command", FREE | IN_SCRATCH, means="landlock"),
        "bubblewrap": Way("command", FREE | IN_SCRATCH, means="bubblewrap"),
        "limits": Way("command", BOUNDED | IN_SCRATCH, LIMITS, means="landlock"),
        "agent": Way("agent", FREE | IN_SCRATCH, means="landlock"),
    },
    "functions": {
        "fork": Way("python", FREE - OF_PROGRAMS),
        "limits": Way("python", BOUNDED - OF_PROGRAMS, LIMITS),
        "landlock": Way("python", FREE - OF_PROGRAMS | IN_SCRATCH, means="landlock"),
        "resident": Way("python", FREE - OF_PROGRAMS - OF_ONE_CALL, "resident = true\n"),
    },
}

OUTCOMES: Final = {
    "ignores_term": "timeout",
    "burns_processor_time": "timeout",
    "forks_without_end": "timeout",
    "closes_its_output": "cancelled",
    "reads_nothing": "cancelled",
    "stops_itself": "cancelled",
    "flees": "cancelled",
    "litters": "cancelled",
    "forks_grandchildren": "1",
    "leaves_its_session": "1",
    "leaves_a_holder": "1",
    "exits_unread": "1",
    "writes_for_ever": "tool_failed: output_bytes",
    "fills_the_file_system": "tool_failed",
    "fills_a_file": "tool_failed: file_size",
    "forks_all_it_can": "tool_failed: processes",
    "allocates_without_end": "tool_failed: memory",
    "opens_without_end": "tool_failed: files",
}
"""The code of the fault, and the limit that it names. What is `cancelled` would go on for ever: it is the test that
cancels it."""


def outcomes_of(way: Way) -> dict[str, str]:
    """What is to come of each ending."""
    expected = {ending: outcome for ending, outcome in OUTCOMES.items() if ending in way.endings}
    if "cpu_s" in way.keys:
        expected["burns_processor_time"] = "tool_failed: cpu_s"
    if way.kind == "python":
        # What a function prints is no answer.
        expected["writes_for_ever"] = "cancelled"
    return expected


def able(ways: Ways, *, is_full: bool) -> dict[str, Way]:
    """What of them this machine can do; `is_full` where there is a small file system to be filled."""
    lacking = frozenset() if is_full else BY_MACHINE
    return {name: way._replace(endings=way.endings - lacking) for name, way in ways.items() if _is_able(way)}


def _is_able(way: Way) -> bool:
    if way.means is not None:
        means = abilities().landlock if way.means == "landlock" else abilities().bubblewrap
        return lack_of(means, "network", "read", "write") is None
    return "user" not in way.keys or (os.getuid() == 0 and Path(OTHERS_PYTHON).exists() and not abilities().processes)


def configured(ways: Ways, directory: Path) -> str:
    """A configuration with a tool for each ending of each way, and for functions one for each way."""
    tables = [table for name, way in ways.items() for table in _tables(name, way, directory)]
    return "\n".join([HARMLESS, *tables])


def tool_of(name: str, way: Way, ending: str) -> str:
    return name if way.kind == "python" else f"{name}_{ending}"


def _tables(name: str, way: Way, directory: Path) -> Iterator[str]:
    keys = way.keys
    if IS_FULL:
        keys += 'env = { ATTACK_S = "1" }\n'
    if way.means is not None:
        # Of functions it is not said: there is but one for them.
        keys += f'sandbox = "{way.means}"\n' if way.kind != "python" else ""
        readable = [sys.base_prefix, sys.prefix, f"{directory}/hostilities.py"]
        keys += f"network = false\nread = {json.dumps(readable)}\nwrite = [{json.dumps(str(directory / 'notes'))}]\n"
    if way.kind == "python":
        yield f'[tools.{name}]\npython = "hostilities:play"\ncall_s = {LONG_S}\n{keys}'
        return
    for ending in sorted(way.endings):
        tool = tool_of(name, way, ending)
        python = OTHERS_PYTHON if "user" in way.keys else sys.executable
        words = [python, "-I", "-S", "-B", f"{directory}/hostilities.py", ending, str(note_of(directory, name, ending))]
        call_s = CALL_S if outcomes_of(way).get(ending) == "timeout" else LONG_S
        command = f"command = {json.dumps(words)}\n{keys}"
        if way.kind == "agent":
            yield f'[processes.{tool}]\nkind = "agent"\ntype = "!json -> !json"\ntools = ["echo"]\n{command}'
            yield f'[tools.{tool}]\nprocess = "{tool}"\ncall_s = {call_s}\n'
        else:
            yield f"[tools.{tool}]\ncall_s = {call_s}\n{command}"


def note_of(directory: Path, name: str, ending: str) -> Path:
    """Where it says that it is underway."""
    return directory / "notes" / f"{name}-{ending}"
