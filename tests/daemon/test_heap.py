"""Large buffers are freed in turns of the loop."""

import trio
from trio.testing import wait_all_tasks_blocked

from tooldispatchd.calls.memory import FREED_BYTES, Memory
from tooldispatchd.daemon.heap import Heap


async def test_a_large_buffer_is_freed_by_halves_and_small_ones_at_once() -> None:
    heap, memory, sizes = Heap(), Memory(1), [0]
    memory.let_go = heap.let_go
    share = memory.share(0)
    large, small = bytearray(4 * FREED_BYTES), bytearray(FREED_BYTES)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(heap.free)
        share.let_go(small)
        share.let_go(large)
        while len(large) > FREED_BYTES:
            sizes.append(len(large))
            await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert len(set(sizes)) > 2
    assert len(small) == FREED_BYTES


async def test_a_buffer_that_somebody_still_looks_at_stays_as_it_is() -> None:
    heap, looked_at, large = Heap(), bytearray(2 * FREED_BYTES), bytearray(2 * FREED_BYTES)
    with memoryview(looked_at):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(heap.free)
            heap.let_go(large)
            heap.let_go(looked_at)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    assert len(looked_at) == 2 * FREED_BYTES
    assert len(large) <= FREED_BYTES
