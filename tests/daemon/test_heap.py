"""Large buffers are freed in several turns of the loop."""

import mmap
import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import trio
from trio.testing import wait_all_tasks_blocked

from tooldispatchd.calls.memory import Memory
from tooldispatchd.daemon.heap import MAX_LEFT_BYTES, STEP_BYTES, Heap


async def freed(buffers: list[bytearray]) -> None:
    """Let go of them, which nobody else has then, until all is free."""
    heap, memory = Heap(), Memory(1)
    memory.let_go = heap.let_go
    share = memory.share(0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(heap.free)
        while buffers:
            share.let_go(buffers.pop())
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


async def test_the_pages_of_a_large_buffer_are_given_back_whatever_was_taken_from_its_front() -> None:
    large = [bytearray(b"x") * (8 * STEP_BYTES)]
    del large[0][:100]
    before = resident_bytes()
    await freed(large)
    assert before - resident_bytes() > 6 * STEP_BYTES


async def test_a_buffer_that_somebody_else_has_too_stays_as_it_is() -> None:
    shared = bytearray(b"x") * (8 * STEP_BYTES)
    await freed([shared, shared])
    assert shared.count(b"x") == len(shared) == 8 * STEP_BYTES


async def test_a_buffer_that_somebody_still_looks_at_stays_as_it_is() -> None:
    buffers = [bytearray(b"x") * (3 * STEP_BYTES)]
    with memoryview(buffers[0]) as view:
        await freed(buffers)
        assert bytes(view) == b"x" * (3 * STEP_BYTES)


class Part:
    """Something that takes its time to be freed."""


class Buffer(bytearray):
    """One that can be looked for."""


async def living(heap: Heap, left: Sequence[Callable[[], object]]) -> list[list[bool]]:
    """Which of these there are after each turn, until the heap has freed all."""
    turns = [[True] * len(left)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(heap.free)
        while any(turns[-1]):
            await trio.lowlevel.checkpoint()
            turns.append([each() is not None for each in left])
        nursery.cancel_scope.cancel()
    return turns


async def test_what_was_let_go_first_is_freed_first_and_a_step_of_it_in_each_turn() -> None:
    heap, buffers = Heap(), [Buffer(STEP_BYTES // 4) for _ in range(40)]
    left = [weakref.ref(buffer) for buffer in buffers]
    while buffers:
        heap.let_go(buffers.pop(0))
    turns = await living(heap, left)
    assert all(all(each[40 - sum(each) :]) for each in turns)
    # Four are a step. Of two turns in which both tasks have one, one may come before and one after the other's.
    assert 4 <= max(sum(before) - sum(after) for before, after in pairwise(turns)) <= 8


async def test_what_was_large_is_freed_a_part_a_turn() -> None:
    heap, parts = Heap(), [Part() for _ in range(20)]
    left = [weakref.ref(part) for part in parts]
    heap.take_apart(parts)
    del parts
    turns = await living(heap, left)
    # Of two turns in which both have one, one may come before and one after the other's.
    assert max(sum(before) - sum(after) for before, after in pairwise(turns)) <= 2


async def test_what_waits_to_be_freed_has_a_bound() -> None:
    heap, before = Heap(), resident_bytes()
    for _ in range(8):
        heap.let_go(bytearray(b"x") * (MAX_LEFT_BYTES // 2))
    assert resident_bytes() - before < 2 * MAX_LEFT_BYTES
