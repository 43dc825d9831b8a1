"""Whether processes that a test started are still there."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

PATIENCE_S: Final = 20.0


def is_running(pid: int) -> bool:
    """Whether the process lives; a zombie, which waits for a parent that need not be ours, does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False
    return re.search(rb"\) [^ZX]", stat) is not None


def sleepers(seconds: int) -> set[int]:
    """The processes of `sleep SECONDS`, whatever their parents, sessions and environments are."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (entry / "cmdline").read_bytes() == b"sleep\0%d\0" % seconds:
                found.add(int(entry.name))
    return found


async def until_gone(*pids: int) -> None:
    """Wait until none of them lives."""
    with trio.fail_after(PATIENCE_S):
        while any(is_running(pid) for pid in pids):
            await trio.sleep(0.005)
