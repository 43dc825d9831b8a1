"""The faults of children that gave no answer: how they ended, and which of their limits they passed.

The kernel says of some limits that they were passed; of others only the program itself does, on its stderr.
"""

import signal
from typing import Final

import msgspec

from tooldispatchd.children.procstat import ProcessorTime
from tooldispatchd.children.spawn import Exit
from tooldispatchd.children.tail import end_of
from tooldispatchd.forked.signals import signal_name
from tooldispatchd.wire.faults import Code, Fault

# The kernel holds a process to a limit by which process runs when its clock ticks, and tells the time that it measured.
# On busy cores the two were up to 0.15 s apart in the first second; over longer times the ticks are a better sample.
CPU_SLACK_S: Final = 0.25
CPU_SLACK_PART: Final = 0.02

# A shell's word for a child that a signal ended, and bubblewrap's.
SIGNALLED: Final = 128

# The words of programs and their runtimes when the kernel refuses them more, in lower case. These are strerror's words,
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

_BOUNDS: Final = {
    "cpu_s": "{} s of processor time",
    "memory": "{} bytes of memory",
    "processes": "{} processes",
    "files": "{} open files",
    "file_size": "{} bytes in one file",
}


class Limits(msgspec.Struct, frozen=True):
    """The limits that a child runs under, None where it has none: seconds, bytes, counts."""

    cpu_s: int | None = None
    memory: int | None = None
    processes: int | None = None
    files: int | None = None
    file_size: int | None = None

    def has(self, name: str | None) -> bool:
        """Whether there is a limit of that name, which may be anything that a child said."""
        return name in _BOUNDS and getattr(self, name) is not None

    def words(self, name: str) -> str:
        """The bound of the limit `name`, in words; a cgroup may have one that is not known here."""
        return f"its limit of {_BOUNDS[name].format(getattr(self, name))}" if self.has(name) else f"its limit {name}"


NO_LIMITS: Final = Limits()


def tails(stdout: bytes | bytearray, stderr: str) -> dict[str, object]:
    """What a fault tells of a child's output: the ends of what it wrote to stdout and stderr, each where it did."""
    said = {"stdout_tail": end_of(stdout), "stderr_tail": stderr}
    return {stream: text for stream, text in said.items() if text}


def tool_failed(detail: str, stderr: str, stdout: bytes | bytearray = b"", /, **extras: object) -> Fault:
    """The fault, with the ends of the child's output."""
    return Fault(Code.TOOL_FAILED, detail, extras | tails(stdout, stderr))


def ended(
    name: str,
    how: Exit,
    stderr: str,
    *,
    limits: Limits,
    limit: str | None,
    stdout: bytes | bytearray = b"",
    by_itself: str = "exited with code {}",
) -> Fault:
    """The fault of a child that ended without an answer; `limit` is the one that it passed."""
    extras: dict[str, object]
    if how.signal is not None:
        why, extras = f"'{name}' was ended by {signal_name(how.signal)}", {"signal": how.signal}
    else:
        why, extras = f"'{name}' {by_itself.format(how.code)}", {"exit_code": how.code}
    if limit is None:
        return tool_failed(why, stderr, stdout, **extras)
    return tool_failed(f"{why}: it passed {limits.words(limit)}", stderr, stdout, **extras, limit=limit)


def unwrapped(how: Exit) -> Exit:
    """How the program ended within another one that ends with 128 + n where signal n ended it."""
    if how.code is not None and SIGNALLED < how.code < SIGNALLED + signal.NSIG:
        return Exit(signal=how.code - SIGNALLED)
    return how


def passed_limit(
    limits: Limits, how: Exit, stderr: str, *, cpu: ProcessorTime | None, is_wrapped: bool = False
) -> str | None:
    """The limit, of those in `limits`, that made a child fail; None where nothing says so.

    A program whose child was ended by a signal commonly ends with 128 + that signal. Of one that `is_wrapped` the time
    is that of a child.
    """
    if limits == NO_LIMITS:
        return None
    code = how.code or 0
    signum = how.signal or (code - SIGNALLED if code > SIGNALLED else None)
    if limits.cpu_s is not None:
        # Of several processes each may have used less than the limit, so that their sum says nothing of a mere failure.
        is_whole = is_wrapped or signum == signal.SIGKILL
        used = 0.0 if cpu is None else cpu.whole_s if is_whole else cpu.own_s
        if signum == signal.SIGXCPU or used >= limits.cpu_s * (1 - CPU_SLACK_PART) - CPU_SLACK_S:
            return "cpu_s"
    if limits.file_size is not None and signum == signal.SIGXFSZ:
        return "file_size"
    said = stderr.lower()
    # The limit of which the program spoke last.
    places = {name: max(map(said.rfind, phrases)) for name, phrases in _SAID.items() if limits.has(name)}
    last = max(places, key=lambda name: places[name], default=None)
    return last if last is not None and places[last] >= 0 else None
