"""The C library's heap: buffers grow without being copied, and what a burst has taken goes back to the system.

A large buffer is a mapping of its own: growing it moves pages and no bytes, freeing it gives it back. By itself the
library learns from the first such buffer that is freed to keep up to 32 MiB in its heap, where growing to 60 MB by
pieces copied for 170 ms in one turn of the loop.

What lies at the heap's end is given back too. Small things that were made last, such as the schemas of a server, keep
all before them: of 48 MiB that twelve sessions' schemas took nothing came back, and 38 MiB with this.
"""

import ctypes
import mmap
import sys
from collections import deque
from collections.abc import Iterable, Sized
from typing import Final

import trio

from tooldispatchd.forked.libc import load

# A burst comes in waves; while it goes on its memory is of use.
IDLE_S: Final = 1.0
# What is freed in one turn: it takes a tenth of a millisecond, and of 1 MiB three.
STEP_BYTES: Final = 256 * 1024
# What may wait for that: beyond it buffers are freed at once, for memory that is no longer needed has no bound else.
MAX_LEFT_BYTES: Final = 64 * 1024 * 1024
# What is a mapping of its own from its beginning; to make one costs what a copy of this does.
MAPPED_BYTES: Final = 256 * 1024
# Of a buffer that only the queue has: the queue's reference, and that of the call which counts them.
SOLE_REFERENCES: Final = 2
# <malloc.h>: M_MMAP_THRESHOLD, which once set is not moved any more.
MMAP_THRESHOLD: Final = -3


class Heap:
    """Gives free memory back to the system a moment after `ebbed` was called; until then its tasks sleep."""

    def __init__(self) -> None:
        self._ebbed = trio.Event()
        self._left: deque[Sized] = deque()
        self._left_bytes = 0
        self._parts: list[object] = []
        self._is_left = trio.Event()
        self._libc = load()
        tune = getattr(self._libc, "mallopt", None)
        if tune is not None:
            # Lines count on it: one that grows has memory of its own, and answers that are asked for at once have too.
            tune(MMAP_THRESHOLD, MAPPED_BYTES)

    def ebbed(self) -> None:
        """Say that much has been freed."""
        self._ebbed.set()

    def let_go(self, buffer: Sized) -> None:
        """Take a buffer that its owner needs no more, to free it in steps, unless somebody else has it too."""
        if self._left_bytes < MAX_LEFT_BYTES:
            self._left.append(buffer)
            self._left_bytes += sys.getsizeof(buffer)
            self._is_left.set()

    def take_apart(self, parts: Iterable[object]) -> None:
        """Take what something large was made of, and nobody else has any more, to free one part after the other.

        To free the 300 tools of a configuration at once took 12 ms.
        """
        self._parts += parts
        self._is_left.set()

    async def free(self) -> None:
        """Free the buffers that were let go, a step of them in each turn and a larger one in several; then each part.

        Freeing 60 MB at once takes more than 10 ms on a busy virtual machine.
        """
        while True:
            await self._is_left.wait()
            self._is_left = trio.Event()
            freed = 0
            while self._left:
                # Agents whose calls were one have one answer, which the slower ones still take; a view has it too.
                is_sole = sys.getrefcount(self._left[0]) == SOLE_REFERENCES
                buffer = self._left.popleft()
                size = sys.getsizeof(buffer)
                if size > STEP_BYTES and isinstance(buffer, bytearray) and is_sole:
                    await self._give_back(buffer)
                del buffer
                self._left_bytes -= size
                freed += size
                if freed >= STEP_BYTES:
                    freed = 0
                    await trio.lowlevel.checkpoint()
            while self._parts:
                self._parts.pop()
                await trio.lowlevel.checkpoint()

    async def _give_back(self, buffer: bytearray) -> None:
        """Give the kernel the pages that lie wholly in a buffer that nobody else has: its content is lost."""
        start = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        # Shrinking it would copy it, where something was taken from its front.
        for address in range(first, start + len(buffer) - STEP_BYTES, STEP_BYTES):
            self._libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(STEP_BYTES), mmap.MADV_DONTNEED)
            await trio.lowlevel.checkpoint()

    async def run(self) -> None:
        """Run until cancelled; returns at once on a C library without `malloc_trim`."""
        trim = getattr(self._libc, "malloc_trim", None)
        while trim is not None:
            await self._ebbed.wait()
            await trio.sleep(IDLE_S)
            self._ebbed = trio.Event()
            # It takes a millisecond for each MiB on a busy machine: in a thread, beside the loop.
            await trio.to_thread.run_sync(trim, 0, abandon_on_cancel=True)
