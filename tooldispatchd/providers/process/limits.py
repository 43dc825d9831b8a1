"""Which limit a program passed that failed: the kernel says it of some, of others only the program itself does."""

import signal
from typing import Final

import msgspec

from tooldispatchd.children.procstat import ProcessorTime
from tooldispatchd.children.spawn import Exit

# The kernel holds a process to a limit by who runs when its clock ticks, and tells the time that it measured. On busy
# cores the two were up to 0.15 s apart in the first second; over longer times the ticks are a better sample.
CPU_SLACK_S: Final = 0.25
CPU_SLACK_PART: Final = 0.02

# A shell's word for a child that a signal ended, and bubblewrap's.
SIGNALLED: Final = 128

# What programs and their runtimes say when the kernel refuses them more, in lower case. These are strerror's words,
# and the names that C++, Python, node and shells have for the same.
_SAID: Final = {
    "memory": (
        *("cannot allocate", "failed to allocate", "memory allocation of", "memory exhausted", "out of memory"),
        *("memoryerror", "outofmemoryerror", "bad_alloc", "allocation failed"),
    ),
    "file_size": ("file too large", "file size limit exceeded"),
    "files": ("too many open files",),
    "processes": (
        *("resource temporarily unavailable", "cannot fork", "can't start new thread"),
        *("failed to create new os thread", "unable to create native thread"),
    ),
}


class Limits(msgspec.Struct, frozen=True):
    """The limits that a program runs under, None where it has none: seconds, bytes, counts."""

    cpu_s: int | None = None
    memory: int | None = None
    processes: int | None = None
    files: int | None = None
    file_size: int | None = None


NO_LIMITS: Final = Limits()


def passed_limit(
    limits: Limits, ended: Exit, stderr: str, *, cpu: ProcessorTime | None, is_wrapped: bool
) -> str | None:
    """The limit, of those in `limits`, that made a program fail; None where nothing says so.

    A program whose child was ended by a signal commonly ends with 128 + that signal. Of one that `is_wrapped` the time
    is that of a child.
    """
    code = ended.code or 0
    signum = ended.signal or (code - SIGNALLED if code > SIGNALLED else None)
    if limits.cpu_s is not None:
        # Of several processes each may have used less than the limit, so that their sum says nothing of a mere failure.
        is_whole = is_wrapped or signum == signal.SIGKILL
        used = 0.0 if cpu is None else cpu.whole_s if is_whole else cpu.own_s
        if signum == signal.SIGXCPU or used >= limits.cpu_s * (1 - CPU_SLACK_PART) - CPU_SLACK_S:
            return "cpu_s"
    if limits.file_size is not None and signum == signal.SIGXFSZ:
        return "file_size"
    return _said(limits, stderr.lower())


def _said(limits: Limits, stderr: str) -> str | None:
    """The limit of which the program spoke last."""
    places = {
        name: max(stderr.rfind(words) for words in phrases)
        for name, phrases in _SAID.items()
        if getattr(limits, name) is not None
    }
    last = max(places, key=lambda name: places[name], default=None)
    return last if last is not None and places[last] >= 0 else None
