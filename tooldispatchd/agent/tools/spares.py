"""Key and stand-in of a server that is started before its session is there. Values.

The handshake tells a server what its agent can answer, which roots it has and whether it wants the server's notes, so
that a spare serves those sessions alone for which the handshake would have said the same.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from msgspec import Raw

from tooldispatchd.catalog.workspaces import Workspace
from tooldispatchd.providers.mcp.asking import AgentSide
from tooldispatchd.providers.mcp.keeper import Keeper
from tooldispatchd.providers.mcp.stdio import ChildPlace
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.questions import Question

# Makes a keeper from two callbacks: after calls have ended, and when tools have changed.
MakeKeeper = Callable[[Callable[[], None], Callable[[], None]], Keeper]


class ServerKind(NamedTuple):
    """The session that a server is started for, in names that every generation knows; of a shared one nobody's."""

    profile: str
    server: str
    uid: int = -1
    answers: frozenset[str] = frozenset()
    is_heard: bool = False
    workspace: Workspace | None = None


class WantedServer(NamedTuple):
    """A server of some kind under one generation. Equal keys mean that one may stand for the other.

    `spares` of it wait for sessions; of a shared one, which is kept for `keep_s`, there are none.
    """

    key: Hashable
    kind: ServerKind
    make: Callable[["Successor | None"], MakeKeeper]
    is_shared: bool = False
    spares: int = 0
    keep_s: float = 0.0
    roots: tuple[str, ...] = ()


class Successor:
    """The agent of a spare: nobody until a session takes it, then that session. It is the server's `ChildPlace` too.

    What a server asks before it is taken has no answer within its limit.
    """

    def __init__(self, wanted: WantedServer) -> None:
        self.roots = wanted.roots
        self.answers = wanted.kind.answers
        self._is_heard = wanted.kind.is_heard
        self._agent: AgentSide | None = None
        self._place: ChildPlace | None = None

    def succeed(self, agent: AgentSide, place: ChildPlace | None) -> bool:
        """Stand for `agent` from now on, in a place among its processes; False where it may have no more of them."""
        if place is not None and place.take() is not None:
            return False
        self._agent, self._place = agent, place
        return True

    def forget(self) -> None:
        """Drop the agent, which has left."""
        self._agent = None

    def take(self) -> Fault | None:
        """Take a place for a child; a spare needs none."""
        return None if self._place is None else self._place.take()

    def leave(self) -> None:
        """Give the place back. Idempotent."""
        if self._place is not None:
            self._place.leave()

    def ask(self, server: str, asked: Sequence[Question], origin: object = None) -> list[str]:
        """Ask the agent."""
        return [""] * len(asked) if self._agent is None else self._agent.ask(server, asked, origin)

    def withdraw(self, question: str) -> None:
        """Wait no more for this answer."""
        if self._agent is not None and question:
            self._agent.withdraw(question)

    def hears(self, server: str) -> bool:
        """Whether the agent wants to be told what the server says beyond its tools."""
        return self._is_heard if self._agent is None else self._agent.hears(server)

    def note(self, server: str, method: str, params: Raw) -> None:
        """Tell the agent."""
        if self._agent is not None:
            self._agent.note(server, method, params)
