"""Run a program for a call: to its end, its limit or the call's end, with both ends of its output.

The program leads a session of its own, without a terminal. Its stdout and stderr are one pipe, so that they are read in
the order in which they were written. The run ends when the program does, and what it leaves behind ends with it.

    running ── its end, its limit, or the call is given up ──▶ TERM for what is left ── GRACE_S ──▶ KILL ──▶ ended
"""

import codecs
import math
import os
import posix
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from tooldispatchd.forked.python.context import ToolContext, ToolFailedError
from tooldispatchd.forked.python.marking import CHILD
from tooldispatchd.forked.signals import signal_name
from tooldispatchd.toolbox.excerpt import Excerpt, from_character, without_nulls
from tooldispatchd.toolbox.leftovers import ROUND_S, Leftovers, ended_leftovers

# Between TERM and KILL; the daemon gives a call that is cancelled two seconds (`stop_s`), and the answer needs some.
GRACE_S: Final = 1.0
# What a call keeps of its own time to stop its program and to answer.
RESERVE_S: Final = 1.5
# How often the output is shown while it comes, and how much of it at most: one update.
SHOWN_EVERY_S: Final = 0.25
SHOWN_BYTES: Final = 4_000
# As much as a pipe holds, unless a program has made it larger (1 MiB at most, without privileges).
CHUNK_BYTES: Final = 64 * 1024
LAST_CHUNKS: Final = 16
# The directory of its own that a call has which is shut in (`context.enter_scratch`).
SCRATCH: Final = "TOOLDISPATCHD_SCRATCH"
# Programs that would ask a person fail, and tell why: there is nobody. `env` of the tool's table comes before these.
UNATTENDED: Final = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    # Without a network npm would wait half a minute for it, though its questions are at their end.
    "npm_config_update_notifier": "false",
    # An editor that fails: git then says how to give what would be typed there.
    **dict.fromkeys(("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR"), "false"),
}


class Run(NamedTuple):
    """A program that has ended."""

    output: str
    code: int
    """The exit code; of one that a signal ended, the signal's number, negative."""
    stopped: str | None
    """Why it was stopped; None where it ended by itself."""

    def text(self, *notes: str) -> str:
        """The answer to a model: the output, then how it ended, then the notes, each on a line of its own."""
        by = f"exit code {self.code}" if self.code >= 0 else f"ended by {signal_name(-self.code)}"
        end = by if self.stopped is None else f"{self.stopped}; {by}"
        gap = "" if not self.output or self.output.endswith("\n") else "\n"
        return "\n".join((f"{self.output}{gap}{end}", *notes))


def run(
    words: Sequence[str | os.PathLike[str]],
    *,
    ctx: ToolContext,
    limit_s: float,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
    pass_fds: Sequence[int] = (),
) -> Run:
    """Run a program to its end; raises ToolFailedError where it cannot be started."""
    output = _Output(ctx)
    with ended_leftovers() as leftovers:
        process, readable = _start(words, stdin=stdin, cwd=cwd, env=env or environment(), pass_fds=pass_fds)
        with _open(readable):
            try:
                stopped = _follow(process.pid, readable, output, leftovers, ctx=ctx, limit_s=limit_s)
            finally:
                # Before it is reaped: the group's number cannot be another's until then.
                _signal_group(process.pid, signal.SIGKILL)
                code = process.wait()
            for _ in range(LAST_CHUNKS):
                # Bounded: what has left the group may still write.
                if not output.read(readable):
                    break
    ctx.details["exit_code"] = code
    return Run(output.finish(), code, stopped)


def environment() -> dict[str, str]:
    """The variables of a program that is started here: this process's own, with a home and a PATH that it may use."""
    # By this one the daemon knows what a call leaves behind; `os.environ` has that of the process that was forked.
    marks = {os.fsdecode(name): os.fsdecode(value) for name, value in posix.environ.items() if name == CHILD[:-1]}
    home = os.environ.get("HOME")
    scratch = os.environ.get(SCRATCH)
    if home is not None and scratch is not None and not _can_list(home):
        # As programs have it that are shut in: many end where they cannot read their settings.
        home = scratch
    # A shell finds programs by `stat`, which the sandbox allows everywhere, and would stop at one that it may not run.
    path = os.pathsep.join(filter(_can_list, os.environ.get("PATH", os.defpath).split(os.pathsep)))
    return {**UNATTENDED, **os.environ, **marks, "PATH": path, **({} if home is None else {"HOME": home})}


def time_for(ctx: ToolContext, wanted_s: float) -> float:
    """As much of `wanted_s` as the call has time for, so that it can still say what became of it."""
    left_s = ctx.left_s
    return wanted_s if left_s is None else min(wanted_s, max(left_s / 2, left_s - RESERVE_S))


def _can_list(directory: str) -> bool:
    try:
        os.scandir(directory).close()
    except OSError:
        return False
    return True


def _start(
    words: Sequence[str | os.PathLike[str]],
    *,
    stdin: int,
    cwd: str | None,
    env: Mapping[str, str],
    pass_fds: Sequence[int],
) -> tuple[subprocess.Popen[bytes], int]:
    """The program, and the end of its pipe that is read, which never blocks."""
    readable, writable = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603  # to run what the agent says is the task; the sandbox bounds it
            words,
            stdin=stdin,
            stdout=writable,
            stderr=writable,
            cwd=cwd,
            env=env,
            pass_fds=pass_fds,
            start_new_session=True,
        )
    except OSError as error:
        os.close(readable)
        raise ToolFailedError(f"cannot start {words[0]}: {error.strerror}") from error
    finally:
        os.close(writable)
    os.set_blocking(readable, False)
    return process, readable


def _follow(
    pid: int, readable: int, output: "_Output", leftovers: Leftovers, *, ctx: ToolContext, limit_s: float
) -> str | None:
    """Read until the program and what it started have ended; why it was stopped, if it was."""
    began = time.monotonic()
    allowed_s = time_for(ctx, limit_s)
    stopped, kill_at = None, math.inf
    with _open(os.pidfd_open(pid)) as ended:
        poll = select.poll()
        for fd in (readable, ended, ctx.fileno()):
            poll.register(fd, select.POLLIN)
        while ended not in (ready := {fd for fd, _ in poll.poll(SHOWN_EVERY_S * 1000)}):
            if readable in ready and not output.read(readable):
                poll.unregister(readable)
            output.show()
            took_s = time.monotonic() - began
            if stopped is None and (took_s >= allowed_s or ctx.cancelled()):
                stopped = _why(took_s, allowed_s, limit_s)
                poll.unregister(ctx.fileno())
                kill_at = _have_end(pid)
            elif stopped is not None:
                leftovers.told_to_end(pid)
            if time.monotonic() >= kill_at:
                _signal_group(pid, signal.SIGKILL)
    if stopped is None:
        kill_at = _have_end(pid)
    # A shell ends before what runs in it.
    while leftovers.told_to_end(pid) and time.monotonic() < kill_at:
        output.read(readable)
        time.sleep(ROUND_S)
    return stopped


def _have_end(pid: int) -> float:
    """Tell a group to end; the time at which it is killed."""
    # One that is stopped must go on to hear of it.
    for signum in (signal.SIGTERM, signal.SIGCONT):
        _signal_group(pid, signum)
    return time.monotonic() + GRACE_S


def _why(took_s: float, allowed_s: float, limit_s: float) -> str:
    if took_s < allowed_s:
        return f"stopped after {took_s:.1f} s: the call was cancelled"
    if allowed_s < limit_s:
        return f"stopped after {allowed_s:.1f} s: the call has no more time"
    return f"stopped after {limit_s:g} s, its timeout_s"


class _Output:
    """What a program has written: its two ends for the answer, and the newest of it for whoever watches."""

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._excerpt = Excerpt()
        self._line = b""
        self._new = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_skipping = False
        self._shown_at = time.monotonic()

    def read(self, fd: int) -> bool:
        """Take what is there; whether there was any."""
        try:
            chunk = os.read(fd, CHUNK_BYTES)
        except BlockingIOError:
            return False
        lines = folded(self._line + chunk)
        # Of a line that has not ended further frames may come; one that is too long for them is kept as it is.
        start = lines.rfind(b"\n") + 1 if len(lines) <= 2 * CHUNK_BYTES else len(lines)
        self._excerpt.add(lines[:start])
        self._line = lines[start:] if len(lines) - start <= CHUNK_BYTES else b""
        if not self._line:
            self._excerpt.add(lines[start:])
        self._new += chunk
        if len(self._new) > SHOWN_BYTES:
            self._new = bytearray(from_character(bytes(self._new[-SHOWN_BYTES:])))
            self._is_skipping = True
        return bool(chunk)

    def show(self, *, final: bool = False) -> None:
        """Show what is new, unless something was shown a moment ago."""
        now = time.monotonic()
        if not final and now < self._shown_at + SHOWN_EVERY_S:
            return
        self._shown_at = now
        if self._is_skipping:
            self._decoder.reset()
        text = without_nulls(self._decoder.decode(bytes(self._new), final))
        if text:
            self._ctx.update(content=f"\n…\n{text}" if self._is_skipping else text)
        self._new.clear()
        self._is_skipping = False

    def finish(self) -> str:
        """Show the rest; the text of it all."""
        self.show(final=True)
        self._excerpt.add(self._line)
        return self._excerpt.text()


def folded(output: bytes) -> bytes:
    r"""Keep of each line what stands after its last carriage return, as of a progress bar; `\r\n` stays."""
    return b"\n".join(_last_frame(line) for line in output.split(b"\n")) if b"\r" in output else output


def _last_frame(line: bytes) -> bytes:
    frames = line.rstrip(b"\r")
    return frames.rpartition(b"\r")[2] + line[len(frames) :][-1:]


@contextmanager
def _open(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def _signal_group(pid: int, signum: int) -> None:
    # Of its members one may run as another user, and another may be gone.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signum)
