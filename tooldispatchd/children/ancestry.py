"""Whether a process descends from this one, by the kernel's account of both."""

import os
from functools import cache
from typing import Final

from tooldispatchd.children.procstat import TICKS_PER_S, fields_of

# Deeper than any tree of processes that a person has; the kernel's own order of starts ends the walk long before.
MAX_DEPTH: Final = 256


def is_descendant(pid: int, *, seen_at: float) -> bool | None:
    """Whether this process, or one that descends from it, started the process `pid`, which was there at `seen_at`.

    `seen_at` is in seconds since the machine started. None where it cannot be known: the process is gone, and its
    number may be another's by now. This process adopts what its children leave behind, so that no descendant leaves by
    the death of those between.
    """
    own = os.getpid()
    try:
        own_start = _start_of(own)
        fields = fields_of(pid)
        if _started_at(fields) > seen_at * TICKS_PER_S + 1:
            return None
        for _ in range(MAX_DEPTH):
            if pid == own:
                return True
            # Nobody is older than who started it.
            if pid == 0 or _started_at(fields) < own_start:
                return False
            pid = int(fields[1])
            fields = fields_of(pid) if pid else fields
    except (OSError, ValueError, IndexError):
        pass
    return None


@cache
def _start_of(own: int) -> int:
    return _started_at(fields_of(own))


def _started_at(fields: list[bytes]) -> int:
    """In ticks since the machine started: the 22nd field, the first of `fields` being the third."""
    return int(fields[19])
