"""The C library's heap: buffers grow without being copied, and what a burst has taken goes back to the system.

A large buffer is a mapping of its own: growing it moves pages and no bytes, freeing it gives it back. By itself the
library learns from the first such buffer that is freed to keep up to 32 MiB in its heap, where growing to 60 MB by
pieces copied for 170 ms in one turn of the loop.

What lies at the heap's end is given back too. Small things that were made last, such as the schemas of a server, keep
all before them: of 48 MiB that twelve sessions' schemas took nothing came back, and 38 MiB with this.
"""

import ctypes
import mmap
from typing import Final

import trio

from tooldispatchd.calls.memory import FREED_BYTES

# A burst comes in waves; while it goes on its memory is of use.
IDLE_S: Final = 1.0
PAGE_BYTES: Final = mmap.PAGESIZE
# <malloc.h>: M_MMAP_THRESHOLD, which once set is not moved any more.
MMAP_THRESHOLD: Final = -3
MAPPED_BYTES: Final = 256 * 1024


class Heap:
    """Gives back what is free a moment after `ebbed` was called; until then its tasks wait and cost nothing."""

    def __init__(self) -> None:
        self._ebbed = trio.Event()
        self._left: list[bytearray] = []
        self._is_left = trio.Event()
        self._libc = ctypes.CDLL(None)
        tune = getattr(self._libc, "mallopt", None)
        if tune is not None:
            tune(MMAP_THRESHOLD, MAPPED_BYTES)

    def ebbed(self) -> None:
        """Much has been freed."""
        self._ebbed.set()

    def let_go(self, buffer: bytearray) -> None:
        """Nobody needs a large buffer any more."""
        self._left.append(buffer)
        self._is_left.set()

    async def free(self) -> None:
        """Free what was let go of in steps: of 60 MB all at once takes more than 10 ms on a busy virtual machine."""
        while True:
            await self._is_left.wait()
            self._is_left = trio.Event()
            while self._left:
                buffer = self._left.pop()
                try:
                    buffer.pop()
                except BufferError:
                    continue  # somebody still looks at it
                start = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
                # The pages that are wholly its own; what is left goes when the buffer does. Shrinking it would copy it
                # where something was taken from its front.
                for address in range(
                    -(-start // PAGE_BYTES) * PAGE_BYTES, start + len(buffer) - FREED_BYTES, FREED_BYTES
                ):
                    self._libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(FREED_BYTES), mmap.MADV_DONTNEED)
                    await trio.lowlevel.checkpoint()

    async def run(self) -> None:
        """Serve until cancelled; at once over on a C library that has no way to do it."""
        trim = getattr(self._libc, "malloc_trim", None)
        while trim is not None:
            await self._ebbed.wait()
            await trio.sleep(IDLE_S)
            self._ebbed = trio.Event()
            # A millisecond for each MiB on a busy machine, in which the loop serves on.
            await trio.to_thread.run_sync(trim, 0, abandon_on_cancel=True)
