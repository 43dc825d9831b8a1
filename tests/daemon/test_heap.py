"""Large buffers are freed in several turns of the loop."""

import mmap
from pathlib import Path

import trio
from trio.testing import wait_all_tasks_blocked

from tooldispatchd.calls.memory import LARGE_BYTES, Memory
from tooldispatchd.daemon.heap import MAX_LEFT_BYTES, STEP_BYTES, Heap


async def freed(*buffers: bytearray) -> None:
    """Let go of them, until all is free."""
    heap, memory = Heap(), Memory(1)
    memory.let_go = heap.let_go
    share = memory.share(0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(heap.free)
        for buffer in buffers:
            share.let_go(buffer)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


async def test_the_pages_of_a_large_buffer_are_given_back_whatever_was_taken_from_its_front() -> None:
    large = bytearray(b"x") * (8 * STEP_BYTES)
    del large[:100]
    before = resident_bytes()
    await freed(large)
    assert before - resident_bytes() > 6 * STEP_BYTES
    # Those that it shares with others are as they were.
    assert large[-1] == ord("x")


async def test_a_small_buffer_and_one_that_somebody_still_looks_at_stay_as_they_are() -> None:
    small, large = bytearray(b"x") * LARGE_BYTES, bytearray(b"x") * (3 * STEP_BYTES)
    with memoryview(large):
        await freed(small, large)
    assert small.count(b"x") == len(small)
    assert large.count(b"x") == 3 * STEP_BYTES


async def test_what_waits_to_be_freed_has_a_bound() -> None:
    heap, before = Heap(), resident_bytes()
    for _ in range(8):
        heap.let_go(bytearray(b"x") * (MAX_LEFT_BYTES // 2))
    assert resident_bytes() - before < 2 * MAX_LEFT_BYTES
