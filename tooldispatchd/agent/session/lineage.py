"""Agents that call agents: where a session stands among them, and what is one for all of them.

    came in from outside ──call──▶ its agent ──call──▶ that one's agent …
          depth 0                   depth 1             depth 2          at most `limits.agent_depth`

Whoever came in from outside is the *root*. What it and all agents below it use is the root's: their turns at every
gate, their bytes in flight, and the figures of its last line in the log. So an agent gets no larger share of the
daemon by having agents of its own.
"""

import math
from collections.abc import Container, Hashable
from typing import Final, Generic, Protocol, TypeVar

import trio

from tooldispatchd.calls.gate import Gate, Turns, kept_of
from tooldispatchd.calls.memory import Share
from tooldispatchd.catalog.workspaces import Workspace
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import EventKind

# The setting that says how deep agents may call agents, as faults name it.
AGENT_DEPTH: Final = "agent_depth"

ItemT = TypeVar("ItemT", bound=Hashable)


class EventSink(Protocol):
    """`Events` of a root, which is told what happens below it."""

    def tell(self, kind: EventKind, fields: dict[str, object]) -> None:
        """Tell it, if it asked for this kind."""

    def flush(self) -> None:
        """Send what was told."""


class CallAbove(Protocol):
    """A `Call` that others are parts of."""

    def is_at(self, gate: Container[object]) -> bool:
        """Whether it has a place at the gate, or one that it is a part of has."""


class RootUsage:
    """The usage of a root and all agents below it.

    `channel` is the `gate_key` of the root's, and with the account itself what gates know all of them by; `number` is
    the root's session in the log; `share` is what all of them hold of the daemon's memory. `answered` and `faults` are
    those of the agents below it that have ended. It is told by its `events`, if it asked for any. `uid` is the user
    that its process runs as.
    """

    __slots__ = ("answered", "bytes_in_flight", "channel", "events", "faults", "number", "share", "uid")

    def __init__(
        self, channel: Hashable, number: int, share: Share, events: EventSink | None = None, *, uid: int = -1
    ) -> None:
        self.channel = channel
        self.share = share
        self.events = events
        self.uid = uid
        self.number = number
        self.answered = 0
        self.faults = 0
        self.bytes_in_flight = 0  # in the inputs of their calls

    @property
    def turns(self) -> Turns:
        """The keys that shares of places are counted by: the channel, and this account on it."""
        return self.channel, self


class Lineage:
    """Where one session stands: `number` is its own in the log, `parent` that of the session which called it.

    Its agent `serves` a call. Nothing that it calls may take longer than `until`, on trio's clock: then that call is
    over. Its calls are parts of that one's trace, `traceparent`, where they do not say another.
    """

    __slots__ = ("account", "depth", "number", "opened", "parent", "serves", "traceparent", "until", "workspace")

    def __init__(self, account: RootUsage, number: int, *, depth: int = 0, parent: int | None = None) -> None:
        self.account = account
        self.number = number
        self.depth = depth
        self.parent = parent
        self.serves: CallAbove | None = None
        self.until = math.inf
        self.traceparent: str | None = None
        # That of the call which its agent serves.
        self.workspace: Workspace | None = None
        # Set when its servers have answered or failed; nobody waits for that but who starts it.
        self.opened: trio.Event | None = None

    def below(self) -> "Lineage":
        """The lineage of an agent that this one calls; its number is not known before it has a session."""
        lineage = Lineage(self.account, 0, depth=self.depth + 1, parent=self.number)
        lineage.opened = trio.Event()
        return lineage

    def names(self) -> dict[str, object]:
        """The fields of its lines in the log, besides its own number."""
        return {"root": self.account.number, "parent": self.parent, "depth": self.depth}


class Levels(Generic[ItemT]):
    """The gates for agents, with as many places again for each level below the first.

    An agent keeps its place while it waits for what it calls. If all levels shared one gate, agents that have every
    place could wait for places that only they can give back. So who stands at some depth waits only for places that
    are held deeper down, and at the last level agents wait for no agent: somebody can always go on.
    """

    __slots__ = ("_gates", "_places")

    def __init__(self, places: int) -> None:
        self._places = places
        self._gates: dict[int, Gate[ItemT]] = {}

    def at(self, depth: int) -> Gate[ItemT]:
        """The gate for agents that an agent of this depth calls."""
        gate = self._gates.get(depth)
        if gate is None:
            gate = self._gates[depth] = Gate(self._places, kept=kept_of(self._places))
        return gate


def closing_figures(lineage: Lineage | None, account: RootUsage | None, answered: int, faults: int) -> tuple[int, int]:
    """The figures of a session's last log line: how many calls were answered, how many of these with a fault.

    Those of an agent that another one called (it has a `lineage`) are entered for its root; a root's own, with an
    `account` if it ever had one, are those of its agents too.
    """
    if lineage is not None:
        lineage.account.answered += answered
        lineage.account.faults += faults
    elif account is not None:
        return answered + account.answered, faults + account.faults
    return answered, faults


def too_deep(tool: str, depth: int, limit: int) -> Fault:
    """A call of `tool` by an agent at `depth`, which may have no agents below it."""
    detail = f"{tool} would start an agent {depth + 1} deep, and agents call agents at most {limit} deep"
    return Fault(Code.NOT_ALLOWED, detail, {"source": tool, "limit": AGENT_DEPTH, "depth": depth + 1})
