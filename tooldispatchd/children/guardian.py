"""The guardians: two processes that outlive the daemon just long enough to kill what it left behind.

Each sleeps on a pipe whose other end only the daemon holds, so that it learns of any end of the daemon, SIGKILL too.
There are two so that one is there where the other dies with the daemon; one sweeps at a time, as a lock on the table
has it, and the other then finds nothing. Children are not announced to them one by one: their process groups stand in a
table in shared memory (a memfd), one slot of eight bytes each, little endian, 0 when free, which is read when the pipe
has ended (`sweep`). What else is to go away, directories and cgroups, is told through the pipe: it is little and does
not change.
"""

import errno
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from tooldispatchd.children.descriptors import close_all, has_exited, lift, open_pidfd, open_pipe
from tooldispatchd.children.sweep import DISSOLVE_S, END, SLOT_BYTES, SWEEP_S

PROGRAM: Final = Path(__file__).with_name("sweep.py")

# Well over what a kernel's default table of processes holds (32,768); the table is then half a megabyte.
MAX_GROUPS: Final = 65_536

# The sweep's own bounds and a start of Python on a busy machine.
END_S: Final = SWEEP_S + DISSOLVE_S + 1.0

# A pipe holds 64 KiB that are not read yet, so that telling never blocks, even while the guardian is stopped.
MAX_TOLD_BYTES: Final = 32 * 1024

GUARDIANS: Final = 2

# Blocked from its first instruction on: a polite stop of the whole service must not end its guardian first.
DEAF_TO: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Guardians:
    """The table of process groups, and the processes that watch over it."""

    def __init__(self, run_id: str) -> None:
        self._table = lift(os.memfd_create("tooldispatchd-groups", os.MFD_CLOEXEC))
        self._free: list[int] = []
        self._slots = 0
        self._told = b""
        self.each: Final = [Guardian(run_id, self._table) for _ in range(GUARDIANS)]

    @property
    def pids(self) -> set[int]:
        """The numbers of their processes, which only this class reaps."""
        return {guardian.pid for guardian in self.each if guardian.pid >= 0}

    def ensure(self) -> None:
        """Start those processes that are not there, or have died; raises OSError."""
        for guardian in self.each:
            guardian.ensure(self._told)

    def reserve(self) -> int:
        """Take a free slot; raises OSError when there is none."""
        if self._free:
            return self._free.pop()
        if self._slots == MAX_GROUPS:
            raise OSError(errno.EAGAIN, f"{MAX_GROUPS} children run already")
        self._slots += 1
        return self._slots - 1

    def enter(self, slot: int, group: int) -> None:
        os.pwrite(self._table, group.to_bytes(SLOT_BYTES, "little"), slot * SLOT_BYTES)

    def free(self, slot: int) -> None:
        """Give a slot back. Do so before the group's leader is reaped: afterwards its number may be another's."""
        self.enter(slot, 0)
        self._free.append(slot)

    async def end(self) -> None:
        """Let one sweep, wait for it and reap it; cannot be cancelled, takes END_S at most. Idempotent."""
        if self.pids:
            with suppress(OSError):
                # One that died would sweep nothing.
                self.ensure()
        sweeping, *others = sorted(self.each, key=lambda guardian: guardian.pid, reverse=True)
        for guardian in others:
            # Where the daemon itself waits for one, another would only take as long again.
            guardian.dismiss()
        await sweeping.end()
        if self._table >= 0:
            os.close(self._table)
            self._table = -1

    def tell(self, kind: bytes, path: str) -> None:
        """Have them remove what lies at `path`, which is of `kind` (`sweep`): after whatever end of the daemon.

        Raises ValueError where the paths are too long for them to hold.
        """
        message = kind + os.fsencode(path) + END
        if len(self._told) + len(message) > MAX_TOLD_BYTES:
            raise ValueError(f"cannot have '{path}' removed: too many paths")
        self._told += message
        for guardian in self.each:
            guardian.tell(message)


class Guardian:
    """One of the processes, and its successors."""

    def __init__(self, run_id: str, table: int) -> None:
        self._run_id = run_id
        self._table = table
        self.pid = -1
        """-1 where there is no process."""
        self._pidfd = -1
        self._pipe = -1
        self._started = trio.Event()

    async def died(self) -> None:
        """Wait until there has been a process and it has died. For one task, which must have ended before `end`."""
        while not (self.pid >= 0 and has_exited(self._pidfd)):
            if self.pid < 0:
                self._started = trio.Event()
                await self._started.wait()
            else:
                # The start of another child may find the death first, and reap.
                with suppress(trio.ClosedResourceError):
                    await trio.lowlevel.wait_readable(self._pidfd)

    def ensure(self, told: bytes) -> None:
        """Start the process if there is none, or if it has died, and tell it `told`; raises OSError."""
        if self.pid >= 0:
            if not has_exited(self._pidfd):
                return
            self._reap()
        ends: list[int] = []
        try:
            open_pipe(ends)
            os.write(ends[1], told)
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", str(PROGRAM), self._run_id],
                # Empty: its environment must not carry the run id that it looks for.
                {},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, ends[0], 0),
                    (os.POSIX_SPAWN_DUP2, self._table, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                setsid=True,
                setsigmask=DEAF_TO,
            )
            self._pidfd = open_pidfd(self.pid)
        except BaseException:
            self.pid = -1
            close_all(ends)
            raise
        reading, self._pipe = ends
        os.close(reading)
        self._started.set()

    def tell(self, message: bytes) -> None:
        """Say more; the next one is told all of it, should this one have died."""
        if self.pid >= 0:
            with suppress(BrokenPipeError):
                os.write(self._pipe, message)

    async def end(self) -> None:
        """Let it sweep, wait for it and reap it; cannot be cancelled, takes END_S at most. Idempotent."""
        if self.pid < 0:
            return
        # One that was stopped would not sweep in time.
        os.kill(self.pid, signal.SIGCONT)
        os.close(self._pipe)
        self._pipe = -1
        with trio.move_on_after(END_S, shield=True):
            await trio.lowlevel.wait_readable(self._pidfd)
        # Nothing changes if it has exited; else it gives up, as its own bound would have it.
        self.dismiss()

    def dismiss(self) -> None:
        """KILL and reap it. Idempotent."""
        if self.pid >= 0:
            os.kill(self.pid, signal.SIGKILL)
            self._reap()

    def _reap(self) -> None:
        os.waitpid(self.pid, 0)
        trio.lowlevel.notify_closing(self._pidfd)
        os.close(self._pidfd)
        if self._pipe >= 0:
            os.close(self._pipe)
        self.pid = self._pidfd = self._pipe = -1
