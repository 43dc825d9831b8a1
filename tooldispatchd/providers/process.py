"""Tools that are programs: one child a call, its input on stdin, exactly one JSON value on stdout.

    spawn ──▶ write, read, drain ──▶ leader exited ──▶ group killed ──▶ rest of the pipes ──▶ reaped ──▶ Value | Fault
                     └── cancelled, or too much output ──▶ group killed, reaped

The end of a call is the end of the program, never the end of its pipes: a process that left the group may hold stdout
for ever. How long a call may take and how many run at once are the caller's decisions.
"""

import fcntl
import os
import select
import signal
from contextlib import closing
from typing import Final

import msgspec
import trio

from tooldispatchd.children.family import Family
from tooldispatchd.children.spawn import Child, Exit, SpawnError
from tooldispatchd.children.tail import Tail
from tooldispatchd.wire.faults import Code, Fault

# What a pipe holds by default, so that one read mostly empties it; and each descriptor gets one read or write of this
# size per turn, so that a child that writes for ever does not hold the loop.
CHUNK_BYTES: Final = 64 * 1024

# How often in a row one child is looked at: its output, the ends of its pipes and its own end.
LOOKS: Final = 4

# As much of a program's complaints as a model should read.
STDERR_TAIL_BYTES: Final = 4 * 1024


class Command(msgspec.Struct, frozen=True):
    """How to run a program: words, variables beside those of every child, directory, and the bound on stdout."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str | None
    max_output_bytes: int


class Value(msgspec.Struct, frozen=True):
    """The JSON value that a program answered with, decoded."""

    value: object


async def run_command(family: Family, command: Command, line: bytes) -> Value | Fault:
    """Run `command` once with `line` (one JSON value and a newline) on its stdin.

    Every failure is a `tool_failed` fault: it cannot be started, it ends with another code than 0 or by a signal, it
    writes too much, or anything but one JSON value. When this returns or is cancelled its process group is killed and
    reaped, and its descriptors are closed. Raises OSError where the kernel refuses an epoll set.
    """
    try:
        child = family.spawn(command.argv, env=command.env, cwd=command.cwd)
    except SpawnError as error:
        return Fault(Code.TOOL_FAILED, str(error))
    ended: Exit | None = None
    try:
        with closing(_Exchange(child, line, max_output_bytes=command.max_output_bytes)) as exchange:
            await exchange.run()
            ended = await child.kill() if exchange.is_over else exchange.finish()
    finally:
        if ended is None:
            # It shields and bounds itself, as does every way to end a child.
            await child.kill()  # noqa: ASYNC102  # as above
    return _judge(command, exchange, ended)


class _Exchange:
    """What goes in and out of one child until its leader has exited, behind one epoll set."""

    def __init__(self, child: Child, line: bytes, *, max_output_bytes: int) -> None:
        self._child = child
        self._epoll = select.epoll()
        self._pending = memoryview(line)
        self._room = max_output_bytes
        self._chunks: list[bytes] = []
        self.errors = Tail(STDERR_TAIL_BYTES)

    @property
    def is_over(self) -> bool:
        """Whether stdout passed its bound."""
        return self._room < 0

    @property
    def output(self) -> bytes:
        """All of stdout."""
        return self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)

    async def run(self) -> None:
        """Serve the pipes until the leader has exited or stdout is over its bound."""
        child, epoll = self._child, self._epoll
        for fd in (child.stdout, child.stderr, child.pidfd):
            epoll.register(fd, select.EPOLLIN)
        # Most inputs fit into the pipe at once, so that stdin need not be watched at all.
        self._write()
        if self._pending:
            epoll.register(child.stdin, select.EPOLLOUT)
        else:
            child.close_stdin()
        while not self.is_over:
            await trio.lowlevel.wait_readable(epoll)
            if self._serve_ready():
                return

    def finish(self) -> Exit:
        """Kill what the leader left in its group, take what lies in the pipes, reap; only after it has exited."""
        child = self._child
        child.signal_group(signal.SIGKILL)
        # Its end of input need not come: a process that left the group may hold the other end for ever.
        for fd in (child.stdout, child.stderr):
            if fd >= 0:
                self._drain(fd)
        return child.reap()

    def close(self) -> None:
        """Give the epoll set back."""
        self._epoll.close()

    def _serve_ready(self) -> bool:
        """Serve what is ready; whether the leader has exited."""
        # What follows the first event mostly comes while that is served, and looking is cheaper than waiting.
        for _ in range(LOOKS):
            ready = [fd for fd, _ in self._epoll.poll(0)]
            if self._child.pidfd in ready:
                return True
            if not ready:
                break
            for fd in ready:
                self._serve(fd)
        return False

    def _serve(self, fd: int) -> None:
        if fd == self._child.stdin:
            self._write()
            if not self._pending:
                self._epoll.unregister(fd)
                self._child.close_stdin()
        elif self._read(fd) == 0:
            # A pipe at its end would be ready for ever. Closing alone need not take it out of the set: a child that
            # is just being started holds a copy until its exec is done, and its number may be another pipe's by then.
            self._epoll.unregister(fd)
            if fd == self._child.stdout:
                self._child.close_stdout()
            else:
                self._child.close_stderr()

    def _write(self) -> None:
        try:
            written = os.write(self._child.stdin, self._pending)
        except BlockingIOError:
            return
        except BrokenPipeError:
            # A program need not read its input.
            written = len(self._pending)
        self._pending = self._pending[written:]

    def _drain(self, fd: int) -> None:
        # The leader can have left no more than the pipe holds; the rest would be another process's, without end.
        left = fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
        while left > 0 and (count := self._read(fd)):
            left -= count

    def _read(self, fd: int) -> int | None:
        """Take one chunk; its size, 0 at the end of the stream, None where nothing lies ready."""
        try:
            chunk = os.read(fd, CHUNK_BYTES)
        except BlockingIOError:
            return None
        if fd != self._child.stdout:
            self.errors.add(chunk)
        elif chunk:
            self._chunks.append(chunk)
            self._room -= len(chunk)
        return len(chunk)


def _judge(command: Command, exchange: _Exchange, ended: Exit) -> Value | Fault:
    argv0 = command.argv[0]
    if exchange.is_over:
        why = f"'{argv0}' was killed because it wrote more than {command.max_output_bytes} bytes to stdout"
        return _fault(why, exchange, limit="output_bytes")
    if ended.signal is not None:
        return _fault(f"'{argv0}' was ended by {_signal_name(ended.signal)}", exchange, signal=ended.signal)
    if ended.code != 0:
        return _fault(f"'{argv0}' exited with code {ended.code}", exchange, exit_code=ended.code)
    output = exchange.output
    if not output.strip():
        return _fault(f"'{argv0}' wrote no answer: one JSON value on stdout is expected", exchange)
    try:
        return Value(msgspec.json.decode(output))
    except UnicodeDecodeError:
        why = "is not UTF-8"
    except RecursionError:
        why = "is nested too deep"
    except msgspec.DecodeError as error:
        # The one way to tell the two apart without a second parser; it holds positions, never the output.
        is_longer = "trailing characters" in str(error)
        why = "is more than one JSON value" if is_longer else f"is not JSON: {error}"
    return _fault(f"'{argv0}' wrote an answer that {why}", exchange)


def _fault(detail: str, exchange: _Exchange, **extras: object) -> Fault:
    if exchange.errors.total:
        extras["stderr_tail"] = exchange.errors.text()
    return Fault(Code.TOOL_FAILED, detail, extras)


def _signal_name(signum: int) -> str:
    try:
        return signal.Signals(signum).name
    except ValueError:
        # Real-time signals have no names of their own.
        return f"signal {signum}"
