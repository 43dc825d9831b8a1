"""The views of administrators: one method for each, which makes the value as JSON, in turns."""

import time
from collections import Counter
from collections.abc import Callable

import msgspec
import trio

from tooldispatchd.admin.keys import DEFAULT, key_view, keys_of, nowhere, prepare, shown_source
from tooldispatchd.admin.pieces import EntryList, in_turns
from tooldispatchd.admin.servers import server_views, shared_view
from tooldispatchd.admin.sessions import call_view, calls_in_flight, open_sessions, session_view, still_open
from tooldispatchd.admin.status import status_view
from tooldispatchd.admin.tools import tool_counts
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.administration import RunningDaemon
from tooldispatchd.calls.tally import ToolTally
from tooldispatchd.catalog.explanation import explain_tool
from tooldispatchd.metrics.rendering import pieces
from tooldispatchd.wire.messages import AdminReq


class Views:
    """The values of one daemon."""

    def __init__(self, daemon: RunningDaemon, latest: Callable[[], Runtime]) -> None:
        self._daemon = daemon
        self._latest = latest

    async def status(self, _asked: AdminReq) -> bytes:
        """The daemon as a whole."""
        runtime = self._latest()
        view = await status_view(self._daemon, runtime, open_sessions(runtime.state))
        return runtime.setup.catalog.masker.mask_bytes(msgspec.json.encode(view))

    async def sessions(self, _asked: AdminReq) -> bytes:
        """The open sessions."""
        state, entries, now = self._latest().state, self._entries(), trio.current_time()
        await entries.fill(still_open(open_sessions(state), state), lambda session: session_view(session, now))
        return _lists(sessions=entries)

    async def calls(self, asked: AdminReq) -> bytes:
        """The calls in flight, and those that ended last; of one session where it is named."""
        state, live, ended = self._latest().state, self._entries(), self._entries()
        now, wanted = trio.current_time(), {None, asked.session}
        sessions = [each for each in open_sessions(state) if asked.session is None or each.number in wanted]
        await live.fill(calls_in_flight(still_open(sessions, state)), lambda each: call_view(*each, now))
        recent = [call for call in state.recent.since(time.time()) if asked.session is None or call.session in wanted]
        await ended.fill(recent, lambda call: call)
        return _lists(calls=live, ended=ended)

    async def servers(self, _asked: AdminReq) -> bytes:
        """The servers of all sessions, each that is shared once."""
        runtime, entries = self._latest(), self._entries()
        await entries.fill(list(runtime.services.sharing), shared_view)
        sessions = still_open(open_sessions(runtime.state), runtime.state)
        await entries.fill(server_views(sessions), lambda view: view)
        return _lists(servers=entries)

    async def tools(self, _asked: AdminReq) -> bytes:
        """The tools that are or were called, and requests for which there was none."""
        state, entries = self._latest().state, self._entries()
        in_flight: Counter[tuple[str, str, str]] = Counter()
        async for session in in_turns(still_open(open_sessions(state), state)):
            plans = (call.plan for call in session.in_flight or () if call.plan is not None)
            in_flight.update((plan.name, plan.kind, plan.provider) for plan in plans)
        counted = state.tallies.tools()
        known = {(tally.name, tally.kind, tally.provider) for tally in counted}
        # None of whose calls has ended yet.
        first = [ToolTally(*tool) for tool in in_flight if tool not in known]
        tallies = [*counted, *first, state.tallies.none]
        await entries.fill(tallies, lambda tally: tool_counts(tally, in_flight[tally.name, tally.kind, tally.provider]))
        return _lists(tools=entries)

    async def config(self, asked: AdminReq) -> bytes:
        """The effective configuration, one entry for each key, what may be a secret masked; of one tool, its lines."""
        read, entries = self._daemon.configuration, self._entries()
        configuration = None if read is None else read()
        origin_of = nowhere if configuration is None else configuration.origin_of
        if configuration is not None:
            await trio.to_thread.run_sync(prepare, origin_of)
        if asked.tool is not None:
            catalog = self._latest().setup.catalog
            lines = await trio.to_thread.run_sync(
                explain_tool, catalog, asked.tool, lambda path: origin_of(path) or DEFAULT
            )
            return catalog.masker.mask_bytes(msgspec.json.encode({"lines": lines}))
        await entries.fill(keys_of(self._latest().setup.catalog.config), lambda key: key_view(*key, origin_of))
        head = b"" if configuration is None else msgspec.json.encode(shown_source(configuration))[1:-1] + b","
        return b"{" + head + _lists(keys=entries)[1:]

    async def metrics(self, _asked: AdminReq) -> bytes:
        """The counters, as Prometheus reads them."""
        runtime = self._latest()
        text = "".join([piece async for piece in in_turns(pieces(self._daemon, runtime))])
        return runtime.setup.catalog.masker.mask_bytes(msgspec.json.encode({"text": text}))

    def _entries(self) -> EntryList:
        return EntryList(self._latest().setup.catalog.masker)


def _lists(**lists: EntryList) -> bytes:
    """An object with these lists, and how much was left out of them."""
    left_out = sum(each.left_out for each in lists.values())
    parts = [b'"%s":%s' % (name.encode(), each.json) for name, each in lists.items()]
    return b"{%s}" % b",".join([*parts, *([b'"left_out":%d' % left_out] if left_out else [])])
