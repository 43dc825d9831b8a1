"""The number by which the daemon recognises the orphans of a child, written where the kernel shows it. Stdlib only.

A process that only forks keeps showing the variables that its program was started with (proc(5), environ), and so all
children of a warm parent would seem to be that parent. The parent is started with room for another number, and writes
each child's there before it forks; the daemon knows the parent itself by its process.
"""

import ctypes
import posix
from pathlib import Path

CHILD = b"TOOLDISPATCHD_CHILD="
# As long as that, so that one can become the other in its place.
ROOM = b"TOOLDISPATCHD_SPARE="
DIGITS = 19

# In /proc/self/stat, counted behind the program's name: where the variables begin and end (proc(5), fields 50 and 51).
ENV_START, ENV_END = 47, 48


def room() -> tuple[str, str]:
    """The variable, name and value, that a parent must be started with."""
    return ROOM[:-1].decode(), "0" * DIGITS


class Mark:
    """Where this process's variables lie; made once, in the parent."""

    def __init__(self) -> None:
        """Raises OSError or ValueError where they cannot be found."""
        stat = Path("/proc/self/stat").read_bytes()
        fields = stat[stat.rindex(b")") + 2 :].split()
        start, end = int(fields[ENV_START]), int(fields[ENV_END])
        shown = ctypes.string_at(start, end - start)
        own, room = start + _at(shown, CHILD), start + _at(shown, ROOM)
        # The name of the room is changed once; from then on only numbers are written.
        ctypes.memmove(own, b"_", 1)
        ctypes.memmove(room, CHILD, len(CHILD))
        self._digits = memoryview((ctypes.c_char * DIGITS).from_address(room + len(CHILD))).cast("B")

    def put(self, number: int) -> None:
        """Make `number` this process's own, and that of what it starts and forks from now on."""
        # The C library passes on what it was given, which is this; `os.environ` is a copy of its own. Setting it there
        # would also set it in the C library once more, which costs each fork more than all else here.
        self._digits[:] = digits = b"%0*d" % (DIGITS, number)
        posix.environ[CHILD[:-1]] = digits


def _at(shown: bytes, name: bytes) -> int:
    if shown.startswith(name):
        return 0
    return shown.index(b"\0" + name) + 1
