"""Tools that are programs: one child a call, its input on stdin, exactly one JSON value on stdout.

    spawn ──▶ write, read, drain ──▶ leader exited ──▶ group killed ──▶ rest of the pipes ──▶ reaped ──▶ Value | Fault
                     └── cancelled, or too much output ──▶ group killed, reaped

The end of a call is the end of the program, never the end of its pipes: a process that left the group may hold stdout
for ever. How long a call may take and how many run at once are the caller's decisions. A program whose caller wants
updates has a fourth pipe for them (`updates`); any other has none, and pays nothing.
"""

import fcntl
import math
import os
import select
import signal
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

import msgspec
import trio

from tooldispatchd.calls.outcome import Update
from tooldispatchd.children.family import Family
from tooldispatchd.children.spawn import Child, Exit, SpawnError
from tooldispatchd.children.tail import Tail
from tooldispatchd.providers.updates import UpdateLines
from tooldispatchd.wire.faults import Code, Fault

# What a pipe holds by default, so that one read mostly empties it; and each descriptor gets one read or write of this
# size per turn, so that a child that writes for ever does not hold the loop.
CHUNK_BYTES: Final = 64 * 1024

# What is read of updates in one turn: lines may be short, and each is looked at.
UPDATES_CHUNK_BYTES: Final = 16 * 1024

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
    """The JSON value that a program answered with, decoded; and how many of its lines of updates were none."""

    value: object
    skipped_updates: int = 0


async def run_command(
    family: Family,
    command: Command,
    line: bytes,
    *,
    env: Mapping[str, str] = {},
    update: Callable[[Update], None] | None = None,
) -> Value | Fault:
    """Run `command` once with `line` (one JSON value and a newline) on its stdin, and with `env` on top of its own.

    Where `update` is given the program may write lines of `tool_update` to its descriptor 3, and `update` is called
    with them as `updates` merges them, never once this has returned; it must not block, nor raise.

    Every failure is a `tool_failed` fault: it cannot be started, it ends with another code than 0 or by a signal, it
    writes too much, or anything but one JSON value. When this returns or is cancelled its process group is killed and
    reaped, and its descriptors are closed. Raises OSError where the kernel refuses an epoll set.
    """
    try:
        whole = {**command.env, **env} if env else command.env
        child = family.spawn(command.argv, env=whole, cwd=command.cwd, with_updates=update is not None)
    except SpawnError as error:
        return Fault(Code.TOOL_FAILED, str(error))
    ended: Exit | None = None
    try:
        updates = None if update is None else UpdateLines(update)
        with closing(_Exchange(child, line, updates, max_output_bytes=command.max_output_bytes)) as exchange:
            await exchange.run()
            ended = await child.kill() if exchange.is_over else exchange.finish()
        if updates is not None:
            updates.end()
    finally:
        if ended is None:
            # It shields and bounds itself, as does every way to end a child.
            await child.kill()  # noqa: ASYNC102  # as above
    return _judge(command, exchange, ended, skipped_updates=0 if updates is None else updates.skipped)


class _Exchange:
    """What goes in and out of one child until its leader has exited, behind one epoll set."""

    def __init__(self, child: Child, line: bytes, updates: UpdateLines | None, *, max_output_bytes: int) -> None:
        self._child = child
        self._updates = updates
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
        if child.updates >= 0:
            epoll.register(child.updates, select.EPOLLIN)
        # Most inputs fit into the pipe at once, so that stdin need not be watched at all.
        self._write()
        if self._pending:
            epoll.register(child.stdin, select.EPOLLOUT)
        else:
            child.close_stdin()
        while not self.is_over:
            if self._updates is None or (due := self._updates.tell_due(trio.current_time())) == math.inf:
                await trio.lowlevel.wait_readable(epoll)
            else:
                with trio.move_on_at(due):
                    await trio.lowlevel.wait_readable(epoll)
            if self._serve_ready():
                return

    def finish(self) -> Exit:
        """Kill what the leader left in its group, take what lies in the pipes, reap; only after it has exited."""
        child = self._child
        child.signal_group(signal.SIGKILL)
        # Its end of input need not come: a process that left the group may hold the other end for ever.
        for fd in (child.stdout, child.stderr, child.updates):
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
            elif fd == self._child.stderr:
                self._child.close_stderr()
            else:
                self._child.close_updates()

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
            chunk = os.read(fd, CHUNK_BYTES if fd != self._child.updates else UPDATES_CHUNK_BYTES)
        except BlockingIOError:
            return None
        if fd == self._child.stdout:
            if chunk:
                self._chunks.append(chunk)
                self._room -= len(chunk)
        elif fd == self._child.stderr:
            self.errors.add(chunk)
        elif self._updates is not None:
            self._updates.take(chunk)
        return len(chunk)


def _judge(command: Command, exchange: _Exchange, ended: Exit, *, skipped_updates: int) -> Value | Fault:
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
        return Value(msgspec.json.decode(output), skipped_updates)
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
