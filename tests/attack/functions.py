"""What hostile tools do: as functions of Python tools, and as a program, `functions.py NAME`."""

import os
import sys
import time
from contextlib import suppress

MIB = 1024 * 1024


def rows(size: int) -> list[list[int]]:
    """So many bytes of small values, as JSON has them."""
    return [[]] * (size // 3)


def letters(size: int) -> str:
    return "x" * size


def take(given: list[list[int]]) -> int:
    return len(given)


def pause(seconds: float) -> None:
    time.sleep(seconds)


def join_the_daemon() -> None:
    """Leave children for the daemon to reap that are in its group and carry nothing of it in their environment."""
    pid, groups = os.getpid(), []
    while pid > 1:
        groups.append(os.getpgid(pid))
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 - for any interpreter
            pid = int(stat.read().rpartition(")")[2].split()[1])
    for _ in range(50):
        if os.fork() == 0:
            for group in groups:
                # Others are of another session.
                with suppress(PermissionError):
                    os.setpgid(0, group)
            # Its own child outlives it, and comes to the daemon.
            if os.fork() == 0:
                os.execve("/bin/sleep", ["sleep", "0.2"], {})
            os._exit(0)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    time.sleep(0.3)
    print(1)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
