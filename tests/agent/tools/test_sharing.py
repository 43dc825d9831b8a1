"""Shared servers in memory: who is told what, and who is not."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.agent.fakes import Ledger
from tests.providers.mcp.connecting import ECHO, begin
from tests.providers.mcp.keeping import SERVER, Log, keeper_of
from tests.providers.mcp.scripted import ScriptedServer
from tooldispatchd.agent.tools.sharing import Sharing, View
from tooldispatchd.agent.tools.spares import ServerKind, WantedServer
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.providers.mcp.answers import PendingCall
from tooldispatchd.providers.mcp.keeper import Keeper
from tooldispatchd.providers.mcp.remembered import ToolLists
from tooldispatchd.wire.messages import ContentKind

QUIET = msgspec.structs.replace(SERVER, dies_of_timeouts=False)


class Session:
    """One of those that share, and what it was told."""

    def __init__(self, shared: "Shared", *, is_broken: bool = False) -> None:
        self.settled = 0
        self.changed = 0
        self.flushed = 0
        self.outcomes: list[Outcome] = []
        self._is_broken = is_broken
        self.view: View = View(
            shared.sharing.shared(shared.wanted),
            settled=self._settle,
            changed=self._change,
            flush_agent=self._flush,
        )

    def _settle(self) -> None:
        if self._is_broken:
            raise LookupError("a defect")
        self.settled += 1

    def _change(self) -> None:
        self.changed += 1

    def _flush(self) -> None:
        self.flushed += 1

    def call(self) -> PendingCall:
        made = begin(self.view, ECHO, b"{}", self.outcomes.append)
        assert isinstance(made, PendingCall)
        self.view.flush()
        return made


class Shared:
    """The shared servers of a daemon, all of which are `way`."""

    def __init__(self, way: ScriptedServer, home: trio.Nursery) -> None:
        self.way = way
        self.log = Ledger()
        self.sharing = Sharing(home, self.log)

    @property
    def wanted(self) -> WantedServer:
        return WantedServer(b"key", ServerKind("default", "kit"), lambda _: self.make, is_shared=True)

    def make(self, batch_done: Callable[[], None], changed: Callable[[], None]) -> Keeper:
        return keeper_of(self.way, QUIET, batch_done, changed, log=Log(), lists=ToolLists())


@asynccontextmanager
async def sharing(way: ScriptedServer) -> AsyncIterator[Shared]:
    """Leaving waits for everything to be gone."""
    async with trio.open_nursery() as home:
        shared = Shared(way, home)
        yield shared
    assert len(shared.sharing) == 0
    assert all(link.is_closed for link in way.links)


async def test_only_who_got_an_answer_is_flushed(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with sharing(way) as shared:
        first, second = Session(shared), Session(shared)
        await wait_all_tasks_blocked()
        assert (first.settled, second.settled) == (1, 1)
        first.call()
        second.call()
        way.link_now.answer("second's", 1)
        await wait_all_tasks_blocked()
        assert (first.outcomes, second.outcomes) == ([], [Answer("second's", kind=ContentKind.TEXT)])
        assert (first.flushed, second.flushed) == (0, 1)
        first.view.close()
        second.view.close()


async def test_an_answer_with_which_the_session_leaves_the_server_is_flushed(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with sharing(way) as shared:
        leaving, staying = Session(shared), Session(shared)
        await wait_all_tasks_blocked()
        assert isinstance(begin(leaving.view, ECHO, b"{}", lambda _outcome: leaving.view.close()), PendingCall)
        leaving.view.flush()
        way.link_now.answer("the last one", 0)
        await wait_all_tasks_blocked()
        assert (leaving.flushed, staying.flushed) == (1, 0)
        staying.view.close()


async def test_a_call_that_takes_too_long_is_cancelled_and_nothing_else(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with sharing(way) as shared:
        first, second = Session(shared), Session(shared)
        await wait_all_tasks_blocked()
        expired = first.call()
        second.call()
        first.view.expire(expired)
        assert way.link_now.said[-1] == "notifications/cancelled"
        way.link_now.answer("late", 0)
        way.link_now.answer("there", 1)
        await wait_all_tasks_blocked()
        assert (first.outcomes, second.outcomes) == ([], [Answer("there", kind=ContentKind.TEXT)])
        first.view.close()
        second.view.close()


async def test_who_comes_later_need_not_wait(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with sharing(way) as shared:
        first = Session(shared)
        assert not first.view.is_settled
        await wait_all_tasks_blocked()
        second = Session(shared)
        assert (second.view.is_settled, list(second.view.offer.tools), len(way.links)) == (True, ["echo"], 1)
        first.view.close()
        second.view.close()


async def test_a_defect_in_one_session_keeps_nothing_from_the_others(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with sharing(way) as shared:
        sessions = [Session(shared), Session(shared, is_broken=True), Session(shared)]
        await wait_all_tasks_blocked()
        assert [session.settled for session in sessions] == [1, 0, 1]
        assert [type(error) for error in shared.log.incidents] == [LookupError]
        for session in sessions:
            session.view.close()


async def test_who_has_left_is_told_nothing(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with sharing(way) as shared:
        leaving, staying = Session(shared), Session(shared)
        leaving.view.close()
        leaving.view.close()
        await wait_all_tasks_blocked()
        way.link_now.change_tools("echo", "sum")
        await trio.sleep(3)
        assert (leaving.settled, leaving.changed) == (0, 0)
        assert (staying.settled, staying.changed) == (1, 1)
        staying.view.close()


async def test_a_server_that_is_ending_is_joined_by_nobody(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with sharing(way) as shared:
        first = Session(shared)
        await wait_all_tasks_blocked()
        first.view.cancel(first.call(), "cancelled")
        way.link_now.die()
        await wait_all_tasks_blocked()
        second = Session(shared)
        await wait_all_tasks_blocked()
        assert (len(way.links), second.view.fault) == (2, None)
        # The new one is nothing to who had the old.
        assert first.view.fault is not None
        first.view.close()
        third = Session(shared)
        assert third.view.is_settled
        second.view.close()
        third.view.close()


async def test_a_cancelled_daemon_leaves_nothing(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with trio.open_nursery() as home:
        shared = Shared(way, home)
        session = Session(shared)
        await wait_all_tasks_blocked()
        session.call()
        home.cancel_scope.cancel()
    assert way.link_now.is_closed
    assert len(session.outcomes) == 1
