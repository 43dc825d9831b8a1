"""Files that are watched: when one of them has changed and is at rest again, the configuration is to be read anew.

    event, or another reading ─▶ quiet ─▶ directories watched anew ─▶ stamps differ ─▶ to be read ─▶ another reading

Their directories are watched (inotify(7)), because an editor puts a new file in the place of the old one, and what
mounts a directory anew swaps a link; where a directory is gone, the one that it was in. An event only says that it is
time to look: the files' stamps are compared with those that they had when they were read. A reading that changes what
it reads would be followed by another without end: ever more time lies between those. A file that somebody has begun to
write is not looked at until it is closed: it may be empty, or end anywhere. Imported only where `daemon.watch` is true.
"""

import ctypes
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from tooldispatchd.agent.log import Log
from tooldispatchd.calls.backoff import Backoff
from tooldispatchd.config.stamps import Stamp, stamp_of
from tooldispatchd.forked.libc import check, load

# An editor that writes in several steps is done by then, and its next one begins a new wait.
QUIET_S: Final = 0.05
# One that has moved a file away, to put another one in its place, has done so by then.
MOVING_S: Final = 0.3
# In a directory where something always happens, such as one for logs, it is looked at this often.
MAX_WAIT_S: Final = 2.0
# What changes a file so soon after a reading, or while it is made, is most likely started by it.
OWN_S: Final = 1.0
MAX_BACKOFF_S: Final = 30.0
# Who has a file open for longer may never close it.
MAX_WRITING_S: Final = 30.0
# Nothing else is read at the same time: the waits need no chance.
MIDDLE: Final = 0.5
# Of the files that a reading changes itself, in the log.
MAX_SHOWN: Final = 10
# linux/inotify.h
IN_MODIFY: Final = 0x2
IN_ATTRIB: Final = 0x4
IN_CLOSE_WRITE: Final = 0x8
IN_MOVED_FROM: Final = 0x40
IN_MOVED_TO: Final = 0x80
IN_CREATE: Final = 0x100
IN_DELETE: Final = 0x200
IN_DELETE_SELF: Final = 0x400
IN_MOVE_SELF: Final = 0x800
IN_ONLYDIR: Final = 0x0100_0000
# The file of this name is another one, or none, or whole again.
SETTLING: Final = IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE
EVENTS: Final = IN_MODIFY | IN_ATTRIB | SETTLING | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR
# inotify(7): the watch, what happened, a cookie, and the length of the name that follows, filled up with NUL.
EVENT: Final = struct.Struct("iIII")
READ_BYTES: Final = 64 * 1024


class FileWatch:
    """See the module; `run` calls `changed`, and `follow` must come after that.

    Raises `OSError` where the kernel has no more watches.
    """

    def __init__(self, log: Log, changed: Callable[[], None]) -> None:
        self._log = log
        self._changed = changed
        self._libc = load()
        self._fd = check(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._stamps: Mapping[Path, Stamp] = {}
        # What is watched, by the kernel's numbers; and the directories that cannot be, which the log was told of.
        self._directories: dict[int, str] = {}
        self._unwatched: set[str] = set()
        # The files by all their names, those of them that somebody is writing, and those that are not there meanwhile.
        self._names: set[str] = set()
        self._written: set[str] = set()
        self._moved: set[str] = set()
        self._may_write = False
        self._followed_at = 0.0
        # There was another reading since it was looked; one was asked for, and until it is there nothing is looked at.
        self._is_due = self._is_asked = False
        self._waiting = trio.CancelScope()
        self._backoff = Backoff()
        self._own = 0

    def follow(self, stamps: Mapping[Path, Stamp], *, may_write: bool = False) -> None:
        """Watch these files from now on, which had these stamps when they were read; and what has changed already.

        The reading `may_write` some of them itself.
        """
        self._stamps = stamps
        self._may_write = may_write
        self._followed_at = trio.current_time()
        self._is_due, self._is_asked = True, False
        self._attend()
        self._waiting.cancel()

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            while True:
                with trio.CancelScope() as self._waiting:
                    if self._is_asked:
                        await trio.sleep_forever()
                    elif not self._is_due:
                        await trio.lowlevel.wait_readable(self._fd)
                        if not self._hear():
                            # Somebody writes another file, a log say, which has more events than anybody needs.
                            await trio.sleep(QUIET_S)
                            continue
                if self._is_asked:
                    continue
                is_own = self._is_own()
                self._is_due = False
                await self._settle()
                self._attend()
                await trio.lowlevel.checkpoint()
                if self._differing():
                    await self._hold_back(is_own=is_own)
                    self._ask()
        finally:
            os.close(self._fd)

    def _is_own(self) -> bool:
        """Tell whether the reading itself has most likely changed the files that differ by now."""
        if self._may_write and trio.current_time() < self._followed_at + OWN_S:
            return True
        # While it was read: by code that is imported, say.
        return self._is_due and bool(self._differing())

    async def _settle(self) -> None:
        """Wait until nobody changes the files any more."""
        quiet_at, until = trio.current_time() + QUIET_S, trio.current_time() + MAX_WAIT_S
        while trio.current_time() < min(quiet_at, until):
            with trio.move_on_at(quiet_at):
                await trio.lowlevel.wait_readable(self._fd)
            if self._hear():
                quiet_at = trio.current_time() + QUIET_S
        for changing, within_s in ((self._moved, MOVING_S), (self._written, MAX_WRITING_S)):
            with trio.move_on_after(within_s):
                while changing:
                    await trio.lowlevel.wait_readable(self._fd)
                    await trio.sleep(QUIET_S)
                    self._hear()
            changing.clear()

    def _attend(self) -> None:
        """Watch the directories as they are now: one of a name may be another one by now."""
        # The directory of a link, and that of what it leads to. Of a thousand files most are in few directories, and a
        # step for each of them takes the loop a millisecond.
        real: dict[str, str] = {}
        self._names = set()
        for path in map(str, self._stamps):
            directory, _, name = path.rpartition("/")
            if directory not in real:
                real[directory] = os.path.realpath(directory)
            self._names |= {path, f"{real[directory]}/{name}"}
            if os.path.islink(path):  # noqa: PTH114  # as above
                self._names.add(os.path.realpath(path))
        wanted = {name.rpartition("/")[0] or "/" for name in self._names}
        directories: dict[int, str] = {}
        for directory in sorted({_standing(Path(each)) for each in wanted}):
            number = self._libc.inotify_add_watch(self._fd, os.fsencode(directory), EVENTS)
            if number >= 0:
                directories[number] = directory
            elif directory not in self._unwatched:
                self._unwatched.add(directory)
                self._log.warning("directory not watched", path=directory, why=os.strerror(ctypes.get_errno()))
        for gone in self._directories.keys() - directories.keys():
            self._libc.inotify_rm_watch(self._fd, gone)
        self._directories = directories

    def _hear(self) -> bool:
        """Take the events that are there; whether it is time to look, or a file is being written that is watched."""
        is_time = False
        # Once: where events come as fast as they are read, others have their turns.
        with suppress(BlockingIOError):
            for number, mask, name in _events(os.read(self._fd, READ_BYTES)):
                path = os.path.join(self._directories.get(number, ""), name)  # noqa: PTH118  # of thousands of events
                if mask == IN_MODIFY:
                    if path in self._names:
                        self._written.add(path)
                        is_time = True
                    continue
                is_time = True
                if mask & SETTLING:
                    self._written.discard(path)
                    self._moved.discard(path)
                if mask & (IN_MOVED_FROM | IN_DELETE) and path in self._names:
                    self._moved.add(path)
        return is_time

    async def _hold_back(self, *, is_own: bool) -> None:
        """Wait before another reading, where the last one has most likely changed its files by itself."""
        if not is_own:
            self._backoff, self._own = Backoff(), 0
            return
        self._own += 1
        if self._own == 2:
            paths = [str(path) for path in self._differing()[:MAX_SHOWN]]
            self._log.warning("reading changes its own files", paths=paths, within_s=MAX_BACKOFF_S)
        await trio.sleep(min(MAX_BACKOFF_S, self._backoff.wait_s(0.0, MIDDLE)))

    def _ask(self) -> None:
        # It may have been read meanwhile.
        if self._differing():
            self._is_asked = True
            self._changed()

    def _differing(self) -> list[Path]:
        return [path for path, stamp in self._stamps.items() if stamp_of(path) != stamp]


def _events(read: bytes) -> Iterator[tuple[int, int, str]]:
    """The watch, the mask and the file's name of each event; the name is empty where it is about the directory."""
    at = 0
    while at < len(read):
        number, mask, _, length = EVENT.unpack_from(read, at)
        at += EVENT.size + length
        yield number, mask, os.fsdecode(read[at - length : at].rstrip(b"\0"))


def _standing(directory: Path) -> str:
    """The directory; where it is not there, the nearest one above that is."""
    while not directory.is_dir() and directory != directory.parent:
        directory = directory.parent
    return str(directory)
