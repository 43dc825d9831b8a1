"""Files that are watched: when one of them has changed and is at rest again, the configuration is to be read anew.

Their directories are watched (inotify(7)), because an editor puts a new file in the place of the old one, and what
mounts a directory anew swaps a link. An event only says that it is time to look: the files' stamps are compared with
those that they had when they were read. Imported only where `daemon.watch` is true.
"""

import ctypes
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from tooldispatchd.agent.log import Log
from tooldispatchd.config.stamps import Stamp, stamp_of
from tooldispatchd.forked.libc import check, load

# An editor that writes in several steps is done by then, and a person does not notice.
QUIET_S: Final = 0.3
# In a directory where something always happens, such as one for logs, it is looked at this often.
MAX_WAIT_S: Final = 2.0
# linux/inotify.h
IN_ATTRIB: Final = 0x4
IN_CLOSE_WRITE: Final = 0x8
IN_MOVED_TO: Final = 0x80
IN_CREATE: Final = 0x100
IN_DELETE: Final = 0x200
IN_ONLYDIR: Final = 0x0100_0000
EVENTS: Final = IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_ONLYDIR
# The events themselves say nothing that is needed.
READ_BYTES: Final = 64 * 1024


class FileWatch:
    """See the module; `run` calls `changed`. Raises `OSError` where the kernel has no more watches."""

    def __init__(self, log: Log, changed: Callable[[], None]) -> None:
        self._log = log
        self._changed = changed
        self._libc = load()
        self._fd = check(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._stamps: Mapping[Path, Stamp] = {}
        self._directories: dict[Path, int] = {}

    def follow(self, stamps: Mapping[Path, Stamp]) -> None:
        """Watch these files from now on, which had these stamps when they were read; and what has changed already."""
        self._stamps = stamps
        # The directory of a link, and that of what it leads to.
        wanted = {path.parent for path in stamps} | {Path(os.path.realpath(path)).parent for path in stamps}
        for gone in self._directories.keys() - wanted:
            self._libc.inotify_rm_watch(self._fd, self._directories.pop(gone))
        for directory in sorted(wanted - self._directories.keys()):
            number = self._libc.inotify_add_watch(self._fd, os.fsencode(directory), EVENTS)
            if number < 0:
                self._log.warning("directory not watched", path=str(directory), why=os.strerror(ctypes.get_errno()))
            else:
                self._directories[directory] = number
        self._look()

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            while True:
                await trio.lowlevel.wait_readable(self._fd)
                with trio.move_on_after(MAX_WAIT_S):
                    while await self._hears_more():
                        pass
                self._look()
        finally:
            os.close(self._fd)

    async def _hears_more(self) -> bool:
        """Whether there is another event before it has been quiet for a while."""
        with suppress(BlockingIOError):
            while os.read(self._fd, READ_BYTES):
                pass
        with trio.move_on_after(QUIET_S):
            await trio.lowlevel.wait_readable(self._fd)
            return True
        return False

    def _look(self) -> None:
        if any(stamp_of(path) != stamp for path, stamp in self._stamps.items()):
            self._changed()
