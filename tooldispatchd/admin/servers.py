"""Servers and their connections, as they are shown; and the end of connections, so that others follow them."""

import time
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
import trio

from tooldispatchd.agent.session.session import Session
from tooldispatchd.agent.tools.sharing import SharedServer, Sharing
from tooldispatchd.calls.keeping import KeeperState
from tooldispatchd.providers.mcp.keeper import Keeper

# How a keeper's state is told; an open one may have failed since.
SHOWN_STATES: Final = {
    KeeperState.ASLEEP: "asleep",
    KeeperState.WAKING: "opening",
    KeeperState.OPENING: "opening",
    KeeperState.OPEN: "up",
    KeeperState.AWAY: "dead",
    KeeperState.ENDED: "dead",
}


class ServerView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One server as a session has it, or as all do that share it; `since` is when its connection opened."""

    name: str
    state: str
    transport: str
    tools: int
    restarts: int
    in_flight: int
    session: int | None = None
    sessions: int | None = None
    revision: str | None = None
    pid: int | None = None
    since: float | None = None
    last_error: str | None = None


class ServersShown(msgspec.Struct, frozen=True):
    """The numbers of servers in each state, of all sessions, each that is shared once."""

    asleep: int
    opening: int
    up: int
    dead: int
    kept: int
    """Of all of them those that are shared and that no session uses."""
    spare: int
    """Spares: servers that wait for a session of their own."""


def servers_shown(sharing: Sharing) -> ServersShown:
    """Those of all names together; of those that have ended for good nobody wants to know."""
    found = {**dict.fromkeys(SHOWN_STATES.values(), 0), "kept": sharing.kept, "spare": sharing.spare}
    for _, counts in sharing.counts.servers():
        for state, number in counts.now.items():
            found[SHOWN_STATES[state]] += number if state is not KeeperState.ENDED else 0
    return ServersShown(**found)


def server_views(sessions: Iterable[Session]) -> Iterator[ServerView | None]:
    """The servers that each of the sessions has alone. None is between."""
    for session in sessions:
        yield None
        for server in session.toolset.servers:
            if server.kept is not None and not server.binding.spec.shared:
                yield _view(server.kept.keeper, session=session.number)
            elif server.kept is None:
                # It is never started here.
                yield ServerView(
                    name=server.name,
                    session=session.number,
                    state="off",
                    transport=_transport(server.binding.spec.url),
                    tools=0,
                    restarts=0,
                    in_flight=0,
                    last_error=None if server.fault is None else server.fault.detail,
                )


def shared_view(shared: SharedServer) -> ServerView:
    """A server that sessions share."""
    return _view(shared.keeper, sessions=shared.sessions)


def _view(keeper: Keeper, *, session: int | None = None, sessions: int | None = None) -> ServerView:
    connection, fault, opened_at = keeper.connection, keeper.fault, keeper.opened_at
    state = SHOWN_STATES[keeper.state]
    return ServerView(
        name=keeper.server.name,
        session=session,
        sessions=sessions,
        state="dead" if state == "up" and fault is not None else state,
        transport=_transport(None if keeper.server.reach is None else keeper.server.reach.url),
        tools=len(keeper.offer.tools),
        restarts=max(keeper.connections - 1, 0),
        in_flight=0 if connection is None else connection.in_flight,
        revision=None if connection is None else connection.revision,
        pid=None if connection is None else connection.pid,
        since=None if opened_at is None else round(time.time() - (trio.current_time() - opened_at), 3),
        last_error=None if fault is None else fault.detail,
    )


def _transport(url: str | None) -> str:
    if url is None:
        return "stdio"
    return "websocket" if url.startswith(("ws:", "wss:")) else "http"


def keepers_of(name: str, sessions: Iterable[Session], shared: Iterable[SharedServer]) -> list[Keeper]:
    """The keepers of the connections to the server of this name, in these sessions and for those that share it."""
    own = (server for session in sessions for server in session.toolset.servers if server.name == name)
    kept = [server.kept.keeper for server in own if server.kept is not None and not server.binding.spec.shared]
    return kept + [each.keeper for each in shared if each.keeper.server.name == name]
