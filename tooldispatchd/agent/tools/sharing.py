"""Servers that no session owns: shared ones, also while nobody uses them, and spares until a session takes them.

    session ── View ──┐
    session ── View ──┼── SharedServer ── Keeper ══ server        in `home`, until the last view is closed
    session ── View ──┘         │
                                └── idle, without a view: kept for `keep_s`, or a spare

A view costs no task. Calls of all sessions go over one connection, each with its own number, so that none of them can
end, or answer, another's. A shared server asks nobody anything: it could not say who is meant. A spare has one session,
whose own it is from then on, and ends with it.
"""

import math
import random
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import Final

import trio

from tooldispatchd.agent.log import Log
from tooldispatchd.agent.session.tasktree import TaskTree
from tooldispatchd.agent.tools.spares import ServerKind, Successor, WantedServer
from tooldispatchd.calls.backoff import Backoff
from tooldispatchd.calls.keeping import AllServerCounts, KeeperState
from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.providers.mcp.answers import PendingCall
from tooldispatchd.providers.mcp.asking import AgentSide
from tooldispatchd.providers.mcp.keeper import Keeper, ignore
from tooldispatchd.providers.mcp.remembered import Eras, Introductions, ToolLists
from tooldispatchd.providers.mcp.server import Server, ServerOffer
from tooldispatchd.providers.mcp.stdio import ChildPlace
from tooldispatchd.wire.faults import Fault

# A spare that was taken is replaced after its session's first call: a start takes all of a core for a second.
REPLACE_S: Final = 0.3
# Spares in a row that end before anybody takes them: then the next session has to ask for more.
MAX_LOST: Final = 10


def nothing() -> None:
    """Close nothing."""


class SharedServer:
    """A server and the sessions that use it. `over` is called when it begins to end, `idled` when it stays for others.

    The last session that leaves it leaves it for `keep_s`. With a `successor` it is a spare, or was.
    """

    def __init__(
        self,
        wanted: WantedServer,
        *,
        home: trio.Nursery,
        log: Log,
        over: Callable[["SharedServer"], None],
        idled: Callable[["SharedServer"], None],
    ) -> None:
        self.kind = wanted.kind
        self.key = wanted.key
        self.keep_s = wanted.keep_s
        self.successor = None if wanted.is_shared else Successor(wanted)
        self.keeper = wanted.make(self.successor)(self._batch_done, self._changed)
        self.keeper.moved = self._moved
        self.is_settled = False
        self.opened_at = math.inf
        self.ended = trio.Event()
        self._over = over
        self._idled = idled
        self._is_over = False
        self._views: dict[View, None] = {}
        self._keeping = trio.CancelScope()
        # Flush the sessions with calls that ended, or sent an update, since the last time: their views may have closed.
        self.answered: dict[Callable[[], None], None] = {}
        # Views still to be told that the server has settled, or that its tools have changed.
        self._stale: dict[View, None] = {}
        self._is_telling = False
        self._tree = TaskTree(home, log, closing=self.keeper.close, ended=self._ended)
        self._tree.own(partial(self.keeper.run, self._settled), self.keeper.close)

    @property
    def sessions(self) -> int:
        """Count the sessions that use the server."""
        return len(self._views)

    @property
    def is_up(self) -> bool:
        """Whether the server can be called now."""
        return self.keeper.state is KeeperState.OPEN and self.keeper.fault is None

    def add(self, view: "View") -> None:
        """Add a session's view."""
        self._keeping.cancel()
        self._views[view] = None
        if not self.is_settled:
            self._stale[view] = None

    def remove(self, view: "View") -> None:
        """Remove a session's view; the last one ends the server, or leaves it for as long as it is kept."""
        if view not in self._views:
            return
        del self._views[view]
        self._stale.pop(view, None)
        if not self._views:
            if self.successor is not None:
                self.successor.forget()
            if self.keep_s and self.keeper.fault is None and not self._is_over:
                self.idle()
            else:
                self.end()

    def idle(self) -> None:
        """Stay without a session, until one comes or the time is over."""
        self._keeping = trio.CancelScope()
        self._tree.own(partial(self._keep, self._keeping), nothing)
        self._idled(self)

    def stay(self, keep_s: float) -> None:
        """Set for how long the server is kept without a session, from now on."""
        if keep_s != self.keep_s:
            self.keep_s = keep_s
            if not self._views and keep_s:
                self._keeping.cancel()
                self.idle()

    async def _keep(self, keeping: trio.CancelScope) -> None:
        with keeping:
            await trio.sleep(self.keep_s)
            self.end()

    def end(self) -> None:
        """Begin the end, which `ended` tells. Idempotent."""
        if not self._is_over:
            self._is_over = True
            self._keeping.cancel()
            self._over(self)
            self._tree.end()

    def _ended(self) -> None:
        self.keeper.close()
        self.end()
        self.ended.set()
        # It holds this: without a cycle all is freed at once.
        del self._tree

    def _batch_done(self) -> None:
        answered, self.answered = self.answered, {}
        for flush in answered:
            flush()

    def _settled(self) -> None:
        self.is_settled = True
        self._tell()

    def _changed(self) -> None:
        self._stale.update(self._views)
        self._tell()

    def _moved(self, fault: Fault | None) -> None:
        if fault is None:
            self.opened_at = trio.current_time()
        elif not self._views and self.keeper.has_ended:
            self.end()
        for view in list(self._views):
            view.moved(fault)

    def _tell(self) -> None:
        if self._stale and not self._is_telling:
            self._is_telling = True
            self._tree.own(self._tell_next, nothing)

    async def _tell_next(self) -> None:
        """Notify one view, and leave the next to a task of its own.

        There may be thousands, each of which is shown its tools anew; and a defect in one must not keep it from others.
        """
        try:
            # It may have been closed meanwhile.
            if self._stale:
                view = next(iter(self._stale))
                del self._stale[view]
                view.tell()
        finally:
            self._is_telling = False
            self._tell()


class View:
    """One session's side of a shared server; a `ServerHandle`.

    `settled` is called once, unless the server `is_settled` already; `changed` when its tools have changed since, and
    `flush_agent` after calls of this session were completed. `moved` is as of a `Keeper`.
    """

    __slots__ = ("_changed", "_flush_agent", "_settled", "_shared", "moved")

    def __init__(
        self,
        shared: SharedServer,
        *,
        settled: Callable[[], None],
        changed: Callable[[], None],
        flush_agent: Callable[[], None],
    ) -> None:
        self._flush_agent = flush_agent
        self.moved: Callable[[Fault | None], None] = ignore
        self._shared = shared
        self._changed = changed
        self._settled: Callable[[], None] | None = None if shared.is_settled else settled
        shared.add(self)

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to wait for."""
        return self._settled is None

    def tell(self) -> None:
        """Tell the session that the server has settled, or has other tools than before."""
        settled, self._settled = self._settled, None
        if settled is not None:
            settled()
        else:
            self._changed()

    @property
    def keeper(self) -> Keeper:
        """The owner of the connections, for all sessions that share the server."""
        return self._shared.keeper

    @property
    def server(self) -> Server:
        return self._shared.keeper.server

    @property
    def offer(self) -> ServerOffer:
        """The offer of the server."""
        return self._shared.keeper.offer

    @property
    def fault(self) -> Fault | None:
        return self._shared.keeper.fault

    def start(self, call: PendingCall) -> Outcome | None:
        """As `Keeper.start`; what the call says is flushed to this session alone."""
        call.tells = self._tells
        return self._shared.keeper.start(call)

    def _tells(self) -> None:
        self._shared.answered[self._flush_agent] = None

    def cancel(self, call: PendingCall, reason: str) -> None:
        """Give a call up."""
        self._shared.keeper.cancel(call, reason)

    def expire(self, call: PendingCall) -> None:
        """A call ran longer than the server may take: where others still wait for it, it is only cancelled."""
        if self._shared.successor is None:
            self._shared.keeper.cancel(call, "timeout")
        else:
            self._shared.keeper.expire(call)

    def hear(self, changed: Callable[[], None]) -> None:
        """Have another be told when the tools have changed."""
        self._changed = changed

    def flush(self) -> None:
        """Send what is queued, of all sessions."""
        self._shared.keeper.flush()

    def close(self) -> None:
        """Release the server. Idempotent."""
        self._shared.remove(self)
        self._settled = None
        self._changed = self._flush_agent = nothing
        self.moved = ignore


class Shelf:
    """The spares of one key, or the shared server of one that stays; `least` of them are started at first."""

    def __init__(self, wanted: WantedServer, *, is_warm: bool) -> None:
        self.wanted = wanted
        self.least = int(is_warm)
        self.servers: dict[SharedServer, None] = {}
        self.is_warm = self.has_been_up = False
        # In a row, before a session has taken one.
        self.lost = 0
        self.backoff = Backoff()
        # The wait before it is filled, while there is one.
        self.waiting: trio.CancelScope | None = None


class Sharing:
    """The servers of the daemon that no session owns, by what they are; and what is known of all servers.

    At most `max_idle` are without a session, and most of these end when the daemon needs the room. `eras` and
    `tool_lists` are the revisions that servers speak and the tools that they have, as far as any connection has found
    out.
    """

    __slots__ = (
        "_home",
        "_idle",
        "_is_closed",
        "_log",
        "_max_idle",
        "_servers",
        "_shelves",
        "_tree",
        "counts",
        "eras",
        "tool_lists",
    )

    def __init__(self, home: trio.Nursery, log: Log, *, max_idle: int = 256) -> None:
        self._home = home
        self._log = log
        self._max_idle = max_idle
        self._servers: dict[Hashable, SharedServer] = {}
        # The one that was asked for last is the last.
        self._shelves: dict[Hashable, Shelf] = {}
        # The one that is so for longest is the first.
        self._idle: dict[SharedServer, None] = {}
        self._tree: TaskTree | None = None
        self._is_closed = False
        self.eras = Eras()
        self.tool_lists = ToolLists()
        self.counts = AllServerCounts()

    def __len__(self) -> int:
        return len(self._servers)

    @property
    def introductions(self) -> Introductions:
        """The last introduction of each server."""
        return self.tool_lists.introductions

    def __iter__(self) -> Iterator[SharedServer]:
        """The shared servers and the spares; none may come or go meanwhile."""
        yield from self._servers.values()
        yield from (each for each in self._idle if each.successor is not None)

    @property
    def kept(self) -> int:
        """How many shared servers no session uses."""
        return sum(each.successor is None for each in self._idle)

    @property
    def spare(self) -> int:
        """How many servers wait for a session of their own."""
        return len(self._idle) - self.kept

    @property
    def cold(self) -> list[str]:
        """The servers of profiles with `warm` that have not been up since the daemon, or the reload, began."""
        warm = (each for each in self._shelves.values() if each.is_warm and not each.has_been_up)
        return sorted({each.wanted.kind.server for each in warm if not any(one.is_up for one in each.servers)})

    def shared(self, wanted: WantedServer) -> SharedServer:
        """The shared server of that key: the one that is there, unless it has ended for good, or a new one."""
        server = self._servers.get(wanted.key)
        if server is None or server.keeper.has_ended:
            server = self._servers[wanted.key] = self._started(wanted)
            shelf = self._shelves.get(wanted.key)
            if shelf is not None:
                shelf.servers[server] = None
                server.keep_s = math.inf
        if self._is_closed:
            server.keep_s = 0.0
        self._idle.pop(server, None)
        return server

    def take(self, key: Hashable, agent: AgentSide, place: ChildPlace | None) -> SharedServer | None:
        """A spare of that key for `agent`, which is to close it; None where none is up, or the agent has no place."""
        shelf = self._shelves.get(key)
        server = None if shelf is None else next((each for each in shelf.servers if each.is_up), None)
        if shelf is None or server is None or server.successor is None or not server.successor.succeed(agent, place):
            return None
        shelf.has_been_up, shelf.backoff = True, Backoff()
        del shelf.servers[server], self._idle[server]
        self._fill_soon(shelf, REPLACE_S)
        return server

    def stock(self, wanted: WantedServer, *, is_warm: bool = False) -> None:
        """Have spares of it from now on, or one that is shared; one is there at first where it `is_warm`."""
        if self._is_closed:
            return
        shelf = self._shelves.pop(wanted.key, None) or Shelf(wanted, is_warm=is_warm)
        self._shelves[wanted.key] = shelf
        shelf.wanted, shelf.is_warm, shelf.lost = wanted, shelf.is_warm or is_warm, 0
        if wanted.is_shared and (server := self._servers.get(wanted.key)) is not None:
            shelf.servers[server] = None
            server.stay(math.inf)
        self._fill_soon(shelf, 0.0 if is_warm else REPLACE_S)

    def renew(self, find: Callable[[ServerKind], WantedServer | None], warm: Iterable[WantedServer]) -> None:
        """After a reload: end what is idle and would not be started so any more, and start what is to be warm."""
        stocked: dict[Hashable, WantedServer] = {}
        is_warm = {wanted.key: wanted for wanted in warm}
        for shelf in list(self._shelves.values()):
            wanted = find(shelf.wanted.kind)
            shelf.is_warm = False
            if wanted is not None and (wanted.spares or wanted.key in is_warm):
                stocked[wanted.key] = wanted
            if wanted is None or wanted.key != shelf.wanted.key or wanted.key not in stocked:
                self._drop(shelf)
        for server in list(self._servers.values()):
            wanted = find(server.kind)
            is_current = wanted is not None and wanted.key == server.key
            server.stay(math.inf if server.key in is_warm else wanted.keep_s if wanted and is_current else 0.0)
            if not server.keep_s and not server.sessions:
                server.end()
        for wanted in (stocked | is_warm).values():
            self.stock(wanted, is_warm=wanted.key in is_warm)

    def shed(self) -> None:
        """End what is idle and not to be warm, because the daemon needs the room."""
        for server in [each for each in self._idle if each.keep_s < math.inf]:
            self._evict(server)

    def close(self) -> None:
        """End what is idle, now or later: the daemon ends. Idempotent."""
        self._is_closed = True
        for shelf in list(self._shelves.values()):
            self._drop(shelf)
        for server in self._servers.values():
            server.keep_s = 0.0
        for server in list(self._idle):
            server.end()
        if self._tree is not None:
            self._tree.end()

    # --- shelves ---

    def _fill_soon(self, shelf: Shelf, wait_s: float) -> None:
        if shelf.waiting is None and not self._is_closed:
            if self._tree is None:
                self._tree = TaskTree(self._home, self._log, closing=nothing, ended=nothing)
            shelf.waiting = trio.CancelScope()
            self._tree.own(partial(self._fill, shelf, shelf.waiting, wait_s), nothing)

    async def _fill(self, shelf: Shelf, waiting: trio.CancelScope, wait_s: float) -> None:
        with waiting:
            await trio.sleep(wait_s)
        shelf.waiting = None
        wanted, number = shelf.wanted, max(shelf.wanted.spares, shelf.least)
        shelf.least = 1 if wanted.is_shared else 0
        while self._shelves.get(wanted.key) is shelf and len(shelf.servers) < number and self._has_room(shelf):
            server = self.shared(wanted) if wanted.is_shared else self._started(wanted)
            shelf.servers[server] = None
            if not wanted.is_shared:
                self._idle[server] = None
            elif not server.sessions:
                server.idle()

    def _has_room(self, shelf: Shelf) -> bool:
        """Make room for one more that is idle, but not at the expense of the same shelf."""
        while len(self._idle) >= self._max_idle:
            oldest = next((one for one in self._idle if one not in shelf.servers and one.keep_s < math.inf), None)
            if oldest is None:
                return False
            self._evict(oldest)
        return True

    def _evict(self, server: SharedServer) -> None:
        """End one that is idle, which is not replaced."""
        shelf = self._shelves.get(server.key)
        if shelf is not None:
            shelf.servers.pop(server, None)
        server.end()

    def _drop(self, shelf: Shelf) -> None:
        del self._shelves[shelf.wanted.key]
        if shelf.waiting is not None:
            shelf.waiting.cancel()
        for server in list(shelf.servers) if not shelf.wanted.is_shared else ():
            server.end()

    # --- servers ---

    def _started(self, wanted: WantedServer) -> SharedServer:
        return SharedServer(wanted, home=self._home, log=self._log, over=self._over, idled=self._idled)

    def _idled(self, server: SharedServer) -> None:
        self._idle[server] = None
        if len(self._idle) > self._max_idle:
            self._evict(next((each for each in self._idle if each.keep_s < math.inf), server))

    def _over(self, server: SharedServer) -> None:
        self._idle.pop(server, None)
        if self._servers.get(server.key) is server:
            del self._servers[server.key]
        shelf = self._shelves.get(server.key)
        if shelf is None or server not in shelf.servers:
            return
        # It was lost before a session has taken it, or its connection has died.
        del shelf.servers[server]
        shelf.has_been_up = shelf.has_been_up or server.opened_at < math.inf
        shelf.lost += 1
        lived_s = max(trio.current_time() - server.opened_at, 0.0)
        if shelf.lost < MAX_LOST or shelf.is_warm:
            wait_s = shelf.backoff.wait_s(lived_s, random.random())  # noqa: S311  # it hides nothing
            shelf.least = max(shelf.least, int(shelf.is_warm))
            self._fill_soon(shelf, max(wait_s, REPLACE_S))
