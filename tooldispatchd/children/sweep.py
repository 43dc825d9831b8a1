"""The guardian's program: wait for the daemon's end, then kill every process that it left behind.

It runs as a script of its own (`python -I -S sweep.py RUN_ID`), so it imports the standard library only. Descriptor 0
is a pipe whose other end only the daemon holds; descriptor 1 is the table of process groups that `guardian` describes.
Nobody reads what it does: it says nothing and exits 0.
"""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

SLOT_BYTES = 8
# Bounds a sweep against a program that forks faster than it is killed.
SWEEP_S = 2.0
# A child that was being started when the daemon died shows its run id only after exec, so one empty round proves
# nothing; the second comes this much later.
ROUND_S = 0.02
QUIET_ROUNDS = 2


def main(run_id: str) -> None:
    """Wait for end of input, kill the groups of the table, then what carries `run_id` in its environment."""
    while os.read(0, 4096):
        pass
    kill_groups(os.pread(1, os.fstat(1).st_size, 0))
    sweep(f"TOOLDISPATCHD_RUN_ID={run_id}".encode())


def kill_groups(table: bytes) -> None:
    """KILL each process group that has a slot in `table`."""
    for at in range(0, len(table), SLOT_BYTES):
        group = int.from_bytes(table[at : at + SLOT_BYTES], "little")
        # 0 is a free slot; killpg(0) and killpg(1) mean our own group and everybody.
        if group > 1:
            with contextlib.suppress(OSError):
                os.killpg(group, signal.SIGKILL)


def sweep(mark: bytes) -> None:
    """KILL every process with `mark` in its environment, until none is found or SWEEP_S has passed."""
    until = time.monotonic() + SWEEP_S
    quiet = 0
    while quiet < QUIET_ROUNDS and time.monotonic() < until:
        marked = [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and is_marked(entry, mark)]  # noqa: PTH208  # half the cost of Path
        quiet = 0 if marked else quiet + 1
        for pid in marked:
            kill(pid, mark)
        time.sleep(ROUND_S)


def is_marked(pid: str, mark: bytes) -> bool:
    """Whether the environment that `pid` was started with holds `mark`; false where we may not look."""
    try:
        environment = Path("/proc", pid, "environ").read_bytes()
    except OSError:
        return False
    return mark in environment.split(b"\0")


def kill(pid: int, mark: bytes) -> None:
    """KILL `pid` if, once it is held by a descriptor and cannot be another process any more, it is still marked."""
    with contextlib.suppress(OSError):
        held = os.pidfd_open(pid)
        try:
            if is_marked(str(pid), mark):
                signal.pidfd_send_signal(held, signal.SIGKILL)
        finally:
            os.close(held)


if __name__ == "__main__":
    main(sys.argv[1])
