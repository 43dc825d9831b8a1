"""Sessions of HTTP clients beside a clock that stands still, and a daemon that says nothing."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from tooldispatchd.mcpface.web.budget import ByteBudget
from tooldispatchd.mcpface.web.guard import Credential, RefusalError
from tooldispatchd.mcpface.web.sessions import KEPT_S, WebSession

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@asynccontextmanager
async def session_on(name: str, budget: ByteBudget) -> AsyncIterator[WebSession]:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"\0{name}")
        door.listen()
        session = WebSession("key", Credential(None, ""), "owner", budget, idle_s=600.0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run, name, 1024 * 1024)
            yield session
            session.end()


async def test_an_answer_that_is_read_for_long_keeps_nobody_awake(mock_clock: MockClock) -> None:
    async with session_on("tests-read-for-long", ByteBudget()) as session:
        _, feed = await session.take(PING, None)
        feed.attach()
        mock_clock.jump(2 * KEPT_S)
        for _ in range(50):
            await trio.lowlevel.checkpoint()
        now = trio.lowlevel.current_statistics()
        assert now.tasks_runnable == 0
        assert now.seconds_to_next_deadline > 0


async def test_an_answer_is_kept_from_when_its_reader_leaves(mock_clock: MockClock) -> None:
    async with session_on("tests-kept", ByteBudget()) as session:
        _, feed = await session.take(PING, None)
        reader = feed.attach()
        mock_clock.jump(2 * KEPT_S)
        session.leave(feed, reader)
        mock_clock.jump(KEPT_S / 2)
        await trio.testing.wait_all_tasks_blocked()
        assert session.find_feed(feed.number) is feed
        mock_clock.jump(KEPT_S)
        await trio.testing.wait_all_tasks_blocked()
        assert session.find_feed(feed.number) is None


async def test_a_client_whose_share_is_held_asks_for_nothing_more() -> None:
    budget = ByteBudget(total=300)
    async with session_on("tests-full", budget) as session:
        budget.change("owner", 100)
        with pytest.raises(RefusalError):
            await session.take(PING, None)
        budget.change("owner", -100)
        await session.take(PING, None)
