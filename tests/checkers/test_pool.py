"""Real processes: what is asked of a checker, and what becomes of one that cannot answer."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from tests.checkers import jobs
from tooldispatchd.agent.runtime import FairLimiter
from tooldispatchd.checkers.pool import CheckerError, Checkers
from tooldispatchd.checkers.worker import NICE
from tooldispatchd.children.family import open_family

SOON_S = 30


@asynccontextmanager
async def opened() -> AsyncIterator[Checkers]:
    async with open_family() as family:
        with trio.fail_after(SOON_S):
            checkers = Checkers(family, FairLimiter(2))
            yield checkers
            await checkers.close()
        assert len(family) == 0


async def pid_of(checkers: Checkers) -> int:
    return int((await checkers.run(jobs.pid, b"", b"", turns=(1, 1)))[0])


@pytest.mark.parametrize("size", [0, 1, 1 << 20, 20 << 20])
async def test_a_job_of_any_size_is_done(size: int) -> None:
    async with opened() as checkers:
        reply, payload, beside = await checkers.run(jobs.double, b"arguments", [bytes(size), b"end"], turns=(1, 1))
        assert (reply, len(payload), bytes(payload[-3:]), bytes(beside)) == (b"arguments", 2 * size + 6, b"end", b"")


async def test_what_stands_beside_a_payload_comes_in_a_buffer_of_its_own() -> None:
    async with opened() as checkers:
        _, payload, beside = await checkers.run(jobs.beside, b"arguments", b"payload", turns=(1, 1))
        assert (bytes(payload), bytes(beside)) == (b"payload", b"arguments")


async def test_one_checker_does_one_job_after_the_other() -> None:
    async with opened() as checkers:
        assert await pid_of(checkers) == await pid_of(checkers)


async def test_a_value_that_takes_too_much_memory_is_told_and_the_checker_goes_on() -> None:
    async with opened() as checkers:
        first = await pid_of(checkers)
        with pytest.raises(CheckerError) as failed:
            await checkers.run(jobs.eat, b"", b"", turns=(1, 1))
        assert failed.value.limit == "check"
        assert await pid_of(checkers) == first


async def test_a_job_that_is_cancelled_ends_its_checker_and_the_next_one_has_another() -> None:
    async with opened() as checkers:
        first = await pid_of(checkers)
        with trio.move_on_after(0.2) as scope:
            await checkers.run(jobs.hang, b"", b"", turns=(1, 1))
        assert scope.cancelled_caught
        with pytest.raises(ProcessLookupError):
            os.kill(first, 0)
        assert await pid_of(checkers) != first


async def test_a_checker_that_dies_is_told_and_replaced() -> None:
    async with opened() as checkers:
        with pytest.raises(CheckerError, match="its checker ended"):
            await checkers.run(jobs.die, b"", b"", turns=(1, 1))
        assert await pid_of(checkers) > 0


async def test_a_checker_that_somebody_kills_while_it_idles_is_replaced_unnoticed() -> None:
    async with opened() as checkers:
        first = await pid_of(checkers)
        pidfd = os.pidfd_open(first)
        os.kill(first, signal.SIGKILL)
        await trio.lowlevel.wait_readable(pidfd)
        os.close(pidfd)
        assert await pid_of(checkers) != first


async def test_a_job_that_takes_long_no_longer_stands_back_and_the_next_one_does_again() -> None:
    async with opened() as checkers:
        assert (await checkers.run(jobs.nice, b"", b"", turns=(1, 1)))[0] == str(NICE).encode()
        assert (await checkers.run(jobs.starve, b"", b"", turns=(1, 1)))[0] == b"0"
        assert (await checkers.run(jobs.nice, b"", b"", turns=(1, 1)))[0] == str(NICE).encode()


async def test_others_have_their_turns_while_a_large_job_is_sent_and_received() -> None:
    turns = 0
    async with opened() as checkers, trio.open_nursery() as nursery:

        async def count() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        nursery.start_soon(count)
        await checkers.run(jobs.double, b"", bytes(16 << 20), turns=(1, 1))
        nursery.cancel_scope.cancel()
    # Sixteen megabytes there and thirty-two back, in pieces of at most a quarter of one.
    assert turns >= 48 * 4
