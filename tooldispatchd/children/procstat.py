"""The kernel's account of a process, in one line each: `/proc/PID/stat` and `statm` (proc_pid_stat(5))."""

import os
from pathlib import Path
from typing import Final

import msgspec

# Its name has sixteen bytes, and each of its fifty numbers at most twenty.
MAX_BYTES: Final = 2048
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class ProcessorTime(msgspec.Struct, frozen=True):
    """Seconds of processor time: of a process's `own`, and with those children that it has waited for, `whole`."""

    own_s: float
    whole_s: float


def fields_of(pid: int) -> list[bytes]:
    """The third and all later fields; raises OSError."""
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    # With nothing around it: some read this twice in each call.
    try:
        stat = os.read(fd, MAX_BYTES)
    finally:
        os.close(fd)
    # The second, the program's name, stands in parentheses and may hold anything.
    return stat[stat.rindex(b")") + 2 :].split()


def program_name(pid: int) -> str | None:
    """Read the name of a process's program, which it may change; None where it is gone (proc_pid_comm(5))."""
    try:
        return Path(f"/proc/{pid}/comm").read_bytes().decode(errors="replace").rstrip("\n") or None
    except OSError:
        return None


def processor_time(pid: int) -> ProcessorTime | None:
    """The time of a process that is not reaped yet; None where the kernel does not tell."""
    try:
        # Fields 14 to 17.
        own, system, children, childrens_system = (int(field) / TICKS_PER_S for field in fields_of(pid)[11:15])
    except (OSError, ValueError):
        return None
    return ProcessorTime(own + system, own + system + children + childrens_system)


def resident_bytes(pid: int) -> int:
    """The resident memory of a process; 0 where it is gone (proc(5), statm)."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0
