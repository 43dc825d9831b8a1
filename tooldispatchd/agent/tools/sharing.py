"""Servers that all sessions with the same configuration and credentials use together: one keeper, and a view for each.

    session ── View ──┐
    session ── View ──┼── SharedServer ── Keeper ══ server        in `home`, until the last view is closed
    session ── View ──┘

A view costs no task. Calls of all sessions go over one connection, each with its own number, so that none of them can
end, or answer, another's. A shared server asks nobody anything: it could not say who is meant.
"""

from collections.abc import Callable, Iterator
from functools import partial

import trio

from tooldispatchd.agent.log import Log
from tooldispatchd.agent.session.tasktree import TaskTree
from tooldispatchd.calls.keeping import AllServerCounts
from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.providers.mcp.answers import PendingCall
from tooldispatchd.providers.mcp.keeper import Keeper, ignore
from tooldispatchd.providers.mcp.remembered import Eras, ToolLists
from tooldispatchd.providers.mcp.server import Server, ServerOffer
from tooldispatchd.wire.faults import Fault

# Makes a keeper from two callbacks: after calls have ended, and when tools have changed.
MakeKeeper = Callable[[Callable[[], None], Callable[[], None]], Keeper]


def nothing() -> None:
    """There is nothing to close."""


class SharedServer:
    """A server and the sessions that use it. `over` is called when the last one has left."""

    def __init__(
        self, make: MakeKeeper, *, home: trio.Nursery, log: Log, over: Callable[["SharedServer"], None]
    ) -> None:
        self.keeper = make(self._batch_done, self._changed)
        self.keeper.moved = self._moved
        self.is_settled = False
        self._over = over
        self._views: dict[View, None] = {}
        # Flush the sessions with calls that ended, or sent an update, since the last time: their views may have closed.
        self.answered: dict[Callable[[], None], None] = {}
        # Views still to be told that the server has settled, or that its tools have changed.
        self._stale: dict[View, None] = {}
        self._is_telling = False
        self._tree = TaskTree(home, log, closing=self.keeper.close, ended=self.keeper.close)
        self._tree.own(partial(self.keeper.run, self._settled), self.keeper.close)

    @property
    def sessions(self) -> int:
        """How many use it."""
        return len(self._views)

    def add(self, view: "View") -> None:
        """Add a session's view."""
        self._views[view] = None
        if not self.is_settled:
            self._stale[view] = None

    def remove(self, view: "View") -> None:
        """Remove a session's view; the last one ends the server."""
        if view not in self._views:
            return
        del self._views[view]
        self._stale.pop(view, None)
        if not self._views:
            self._over(self)
            self._tree.end()

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
        for view in list(self._views):
            view.moved(fault)

    def _tell(self) -> None:
        if self._stale and not self._is_telling:
            self._is_telling = True
            self._tree.own(self._tell_next, nothing)

    async def _tell_next(self) -> None:
        """Tell one, and leave the next to a task of its own.

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
        """The server has settled, or has other tools than before."""
        settled, self._settled = self._settled, None
        if settled is not None:
            settled()
        else:
            self._changed()

    @property
    def keeper(self) -> Keeper:
        """What has its connections, for all sessions that share it."""
        return self._shared.keeper

    @property
    def server(self) -> Server:
        return self._shared.keeper.server

    @property
    def offer(self) -> ServerOffer:
        """What it offers."""
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
        """A call ran longer than the server may take: others still wait for it, so that it is only cancelled."""
        self._shared.keeper.cancel(call, "timeout")

    def flush(self) -> None:
        """Send what is queued, of all sessions."""
        self._shared.keeper.flush()

    def close(self) -> None:
        """Release the server. Idempotent."""
        self._shared.remove(self)
        self._settled = None
        self._changed = self._flush_agent = nothing
        self.moved = ignore


class Sharing:
    """The shared servers of the daemon, by a digest of what they are; and what is known of all servers.

    `eras` and `tool_lists` are the revisions that servers speak and the tools that they have, as far as any connection
    has found out.
    """

    __slots__ = ("_home", "_log", "_servers", "counts", "eras", "tool_lists")

    def __init__(self, home: trio.Nursery, log: Log) -> None:
        self._home = home
        self._log = log
        self._servers: dict[bytes, SharedServer] = {}
        self.eras = Eras()
        self.tool_lists = ToolLists()
        self.counts = AllServerCounts()

    def __len__(self) -> int:
        return len(self._servers)

    def __iter__(self) -> Iterator[SharedServer]:
        """The shared servers; none may come or go meanwhile."""
        return iter(self._servers.values())

    def server(self, key: bytes, make: MakeKeeper) -> SharedServer:
        """The server of that key: the one that is there, unless it has ended for good, or a new one."""
        shared = self._servers.get(key)
        if shared is None or shared.keeper.has_ended:
            shared = self._servers[key] = SharedServer(
                make, home=self._home, log=self._log, over=partial(self._forget, key)
            )
        return shared

    def _forget(self, key: bytes, shared: SharedServer) -> None:
        if self._servers.get(key) is shared:
            del self._servers[key]
