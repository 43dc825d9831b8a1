"""Keepers of servers in memory, and what they tell the session above them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import trio
from trio.testing import wait_all_tasks_blocked

from tests.providers.mcp.connecting import DEFAULT, ECHO, begin
from tests.providers.mcp.linking import SHARE
from tests.providers.mcp.scripted import ScriptedServer
from tooldispatchd.calls.keeping import ServerCounts
from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.checkers.pool import IN_PLACE
from tooldispatchd.providers.mcp.answers import PendingCall
from tooldispatchd.providers.mcp.connection import Connection
from tooldispatchd.providers.mcp.keeper import Keeper, Restart
from tooldispatchd.providers.mcp.remembered import Eras, ToolLists
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.wire.faults import Fault

SERVER = msgspec.structs.replace(DEFAULT, name="kit", handshake_s=5.0, call_s=2.0)


class Log:
    def __init__(self) -> None:
        self.events: list[str] = []

    def debug(self, event: str, **fields: object) -> None:
        self.events.append(event)

    info = warning = error = debug


def keeper_of(
    way: ScriptedServer,
    server: Server,
    batch_done: Callable[[], None],
    changed: Callable[[], None],
    *,
    log: Log,
    lists: ToolLists,
    lazy: bool = False,
    restart: Restart = "never",
) -> Keeper:
    """A keeper whose connections lead to `way`."""

    def connect(changed: Callable[[], None]) -> Connection:
        return Connection(
            server,
            share=SHARE,
            way=way,
            eras=Eras(),
            opening=trio.CapacityLimiter(1),
            checkers=IN_PLACE,
            log=log,
            batch_done=batch_done,
            changed=changed,
        )

    return Keeper(
        server,
        connect,
        lazy=lazy,
        restart=restart,
        lists=lists,
        counts=ServerCounts(),
        log=log,
        batch_done=batch_done,
        changed=changed,
        is_ending=lambda: False,
    )


class Session:
    """What is above a keeper, and what it was told."""

    def __init__(self, way: ScriptedServer, lists: ToolLists) -> None:
        self.way = way
        self.lists = lists
        self.log = Log()
        self.settled = 0
        self.batches = 0
        self.changes: list[list[str]] = []
        self.ended = trio.Event()
        self.outcomes: dict[str, Outcome] = {}
        self.keeper: Keeper

    def make(self, server: Server, *, lazy: bool, restart: Restart) -> Keeper:
        return keeper_of(
            self.way,
            server,
            self.batch_done,
            self.changed,
            log=self.log,
            lists=self.lists,
            lazy=lazy,
            restart=restart,
        )

    def batch_done(self) -> None:
        self.batches += 1

    def changed(self) -> None:
        self.changes.append(list(self.keeper.offer.tools))

    def settle(self) -> None:
        self.settled += 1

    async def own(self) -> None:
        await self.keeper.run(self.settle)
        self.ended.set()

    def call(self, name: str) -> PendingCall | Fault:
        def done(outcome: Outcome) -> None:
            assert name not in self.outcomes
            self.outcomes[name] = outcome

        made = begin(self.keeper, ECHO, b"{}", done)
        self.keeper.flush()
        return made

    def refused(self) -> Fault:
        """The fault of a call that cannot be made."""
        made = self.call("refused")
        assert isinstance(made, Fault)
        return made

    def made(self, name: str) -> PendingCall:
        call = self.call(name)
        assert isinstance(call, PendingCall)
        return call

    def fault(self, name: str) -> Fault:
        outcome = self.outcomes[name]
        assert isinstance(outcome, Fault)
        return outcome


@asynccontextmanager
async def keeping(
    way: ScriptedServer,
    *,
    server: Server = SERVER,
    lazy: bool = False,
    restart: Restart = "never",
    lists: ToolLists | None = None,
) -> AsyncIterator[Session]:
    """A session whose keeper runs, and has nothing to do any more; gone at the end."""
    session = Session(way, lists or ToolLists())
    session.keeper = session.make(server, lazy=lazy, restart=restart)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.own)
        await wait_all_tasks_blocked()
        yield session
        session.keeper.close()
        with trio.fail_after(10):
            await session.ended.wait()
    assert session.settled == 1
    assert all(link.is_closed for link in way.links)


async def known_list(*tools: str) -> ToolLists:
    """Lists that know a server with these tools, of an earlier session."""
    lists = ToolLists()
    async with keeping(ScriptedServer(*tools), lazy=True, lists=lists):
        pass
    return lists
