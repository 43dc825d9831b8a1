"""What a shell leaves for the next one of the same agent: its directory and its exported variables, in `ctx.state`.

The shell writes its environment at its end, with `env -0`, to a descriptor that it is given; kept is what differs from
the environment that it would have had without any state. A shell that is killed, or becomes another program, writes
nothing.
"""

import json
import os
import shlex
import shutil
from collections.abc import Mapping
from typing import Final

import msgspec

# Of the 64 KiB that a state may have; the rest is for how JSON writes what it has no characters for.
MAX_BYTES: Final = 48 * 1024
# Above what scripts take for their own (`exec 3>…`).
LOWEST_FD: Final = 200
# Each shell has its own. The daemon's own (`TOOLDISPATCHD_…`) tell it to which call a process belongs.
_OWN: Final = frozenset({"PWD", "SHLVL", "_"})
_DAEMONS: Final = "TOOLDISPATCHD_"


class ShellState(msgspec.Struct, frozen=True):
    """What lives on between the calls of an agent."""

    directory: str | None = None
    variables: dict[str, str] = {}
    unset: list[str] = []

    def over(self, base: Mapping[str, str]) -> dict[str, str]:
        """The environment of a shell that goes on from here."""
        return {name: value for name, value in base.items() if name not in self.unset} | self.variables


def script(fd: int) -> str:
    """Runs the command that is its first word, and writes the shell's environment to `fd` at its end.

    Once behind the command, as that may set a trap of its own for the shell's end, and once in such a trap, for what
    ends the shell. An empty entry begins each.
    """
    program = shlex.quote(shutil.which("env") or "env")
    # Nothing of it is shown under `set -x`, or ends the shell under `set -e`. What the shell has left in the background
    # has its traps too for a moment, and may be killed in that: it tells nothing.
    write = f"{{ printf '\\0' >&{fd}; {program} -0 >&{fd}; }}"
    tell = f"{{ set +x; [[ ${{BASHPID-$$}} == $$ ]] && {write}; }} 2>/dev/null || :"
    # The command sees no word and no variable of ours, and its first line is the first for the shell too.
    end = f'{{ set -- $?; set +x; }} 2>/dev/null; {tell}; exit "$1"'
    return f'trap {shlex.quote(tell)} EXIT; eval "set --; $1"\n{end}'


def left(written: bytes, base: Mapping[str, str]) -> tuple[ShellState, list[str]] | None:
    """The state that a shell left, and the names of what cannot be kept; None where it wrote nothing."""
    entries = written.rpartition(b"\0\0")[2] if b"\0\0" in written else written.removeprefix(b"\0")
    found = dict(entry.split("=", 1) for entry in map(os.fsdecode, entries.split(b"\0")) if "=" in entry)
    if not found:
        return None
    changed = {name: value for name, value in found.items() if base.get(name) != value and not _is_own(name)}
    unset = [name for name in base if name not in found and not _is_own(name)]
    kept, dropped = _fitting(changed)
    directory = found.get("PWD")
    if directory is not None and not _is_text(directory):
        directory = None
        dropped.append("the directory")
    return ShellState(directory, kept, unset), dropped


def _is_own(name: str) -> bool:
    return name in _OWN or name.startswith(_DAEMONS)


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _fitting(changed: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """As many of the variables as fit, small ones first, and the names of the others."""
    kept: dict[str, str] = {}
    dropped = []
    room = MAX_BYTES
    for name, value in sorted(changed.items(), key=lambda item: len(item[1])):
        size = len(json.dumps({name: value}, ensure_ascii=False).encode(errors="surrogatepass"))
        if size > room or not _is_text(name + value):
            dropped.append(name)
            continue
        room -= size
        kept[name] = value
    return kept, dropped
