"""A place to wait for: so many are inside at once, the others wait for their turn, and how many may wait. Pure.

    enter ──▶ IN ───────────────────▶ leave
         └──▶ WAIT ──(let in)──▶ …
         └──▶ FULL, LIMITED: refused

The calls of one agent, programs in the whole daemon, a queue of the configuration, what only one tool may touch at a
time: each has a gate. Turns go by priority, then by channel, then by agent, then first come. Among channels and among
agents it is the turn of the one that holds the fewest places, of several the one that came to so few first: nobody is
kept from a first place by an agent that has many calls, or long ones.

Some of the places may be `kept` for who holds none: a newcomer then need not wait until others are done. Half of these
are for channels that hold none.

An item may want the gate `whole`: it is inside alone. Once it is the first of its agent's, no item passes it that came
later with its priority, whoever holds how many places: so it waits for those inside, and not for a stream of others.
"""

from collections import OrderedDict
from collections.abc import Hashable
from enum import Enum, IntEnum
from math import inf
from typing import Final, Generic, TypeVar

from tooldispatchd.calls.rate import Rate

ItemT = TypeVar("ItemT", bound=Hashable)
MemberT = TypeVar("MemberT", bound=Hashable)

# The channel and the agent in whose turns an item waits.
Turns = tuple[Hashable, Hashable]

# More than there can be.
UNBOUNDED: Final = 1 << 60


class GateVerdict(Enum):
    """What becomes of an item that comes to a gate."""

    IN = "in"
    WAIT = "wait"
    FULL = "full"  # there is no place, and no room to wait
    LIMITED = "limited"  # it came too soon after others, and cannot wait for its time


class Priority(IntEnum):
    """Among those that wait; a lower number has its turns more often."""

    HIGH = 0
    NORMAL = 1
    LOW = 2


# What a turn costs: of 21 turns that all want, 16 are of high priority, 4 of normal, and one is of low.
_COST: Final = {Priority.HIGH: 1, Priority.NORMAL: 4, Priority.LOW: 16}


class Places(Generic[ItemT]):
    """The places of one agent's calls: first come, first served; so many wait. Each call comes through here."""

    __slots__ = ("_places", "_room", "_waiting", "inside")

    def __init__(self, places: int, waiting: int) -> None:
        self._places = places
        self._room = waiting
        self._waiting: dict[ItemT, None] = {}
        self.inside = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is inside, and nothing waits."""
        return not (self.inside or self._waiting)

    def enter(self, item: ItemT) -> GateVerdict:
        """Let the item in, or have it wait; or refuse it."""
        if self.inside < self._places:
            self.inside += 1
            return GateVerdict.IN
        if len(self._waiting) >= self._room:
            return GateVerdict.FULL
        self._waiting[item] = None
        return GateVerdict.WAIT

    def leave(self, item: ItemT) -> ItemT | None:
        """Take an item out, whether it is inside or waits; the one that is let in by that."""
        if not self._waiting:
            self.inside -= 1
            return None
        if item in self._waiting:
            del self._waiting[item]
            return None
        following = next(iter(self._waiting))
        del self._waiting[following]
        return following


class _Ranks(Generic[MemberT]):
    """Members by rank: first is the lowest rank, and in it the one that has been there for longest."""

    __slots__ = ("_by_rank", "_rank_of")

    def __init__(self) -> None:
        self._rank_of: dict[MemberT, tuple[int, ...]] = {}
        # In an ordinary dict finding the first would pass all that were taken out before it.
        self._by_rank: dict[tuple[int, ...], OrderedDict[MemberT, None]] = {}

    def put(self, member: MemberT, rank: tuple[int, ...]) -> None:
        if self._rank_of.get(member) != rank:
            self.drop(member)
            self._rank_of[member] = rank
            self._by_rank.setdefault(rank, OrderedDict())[member] = None

    def drop(self, member: MemberT) -> None:
        rank = self._rank_of.pop(member, None)
        if rank is not None:
            members = self._by_rank[rank]
            del members[member]
            if not members:
                del self._by_rank[rank]

    @property
    def first(self) -> MemberT | None:
        # Quick, however many there are: with n places at most about sqrt(2n) different numbers of them are held.
        return next(iter(self._by_rank[min(self._by_rank)])) if self._by_rank else None


class _Channel:
    """How many places the agents of one channel hold, and how many of their items wait."""

    __slots__ = ("held", "key", "waiting")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.held = 0
        self.waiting = 0


class _Agent:
    """One agent at the gate."""

    __slots__ = ("channel", "held", "turns", "waiting")

    def __init__(self, turns: Turns, channel: _Channel) -> None:
        self.turns = turns
        self.channel = channel
        self.held = 0
        self.waiting = 0


class _Line(Generic[ItemT]):
    """What waits with one priority: `length` items. Its next turn is at `turn`, which each puts off by its `cost`."""

    __slots__ = ("agents", "channels", "cost", "items", "length", "turn", "wholes")

    def __init__(self, cost: int) -> None:
        self.cost = cost
        # Each agent's in the order they came, with whether each wants the gate whole.
        self.items: dict[_Agent, OrderedDict[ItemT, bool]] = {}
        # Those that want the gate whole and are the first of their agent, with the moment from which on they are.
        self.wholes: OrderedDict[ItemT, int] = OrderedDict()
        # Those of its channel, and the channels, that may be let in.
        self.agents: dict[_Channel, _Ranks[_Agent]] = {}
        self.channels: _Ranks[_Channel] = _Ranks()
        self.length = 0
        self.turn = 0


def kept_of(places: int) -> int:
    """How many of so many places are kept: a quarter is hardly missed by an agent alone; of few places two.

    One of these two is for an agent, one for a channel.
    """
    return max(places // 4, min(places - 1, 2))


class Gate(Generic[ItemT]):
    """At most `places` items are inside, `per_agent` of one agent, and `waiting` wait, of which it keeps `room_kept`.

    Of the places so many are `kept`. Items come in at a `rate` where there is one; then `due` says when `let_in` is to
    be called. Times are in seconds of the caller's clock, and matter to gates with a rate alone.
    """

    __slots__ = (
        "__weakref__",
        "_agents",
        "_channels",
        "_free",
        "_inside",
        "_is_whole",
        "_kept",
        "_lines",
        "_moment",
        "_only",
        "_per_agent",
        "_places",
        "_room",
        "_room_kept",
        "_turn",
        "_waiting",
        "rate",
    )

    def __init__(
        self,
        places: int = UNBOUNDED,
        *,
        waiting: int = UNBOUNDED,
        per_agent: int = UNBOUNDED,
        kept: int = 0,
        room_kept: int = 0,
        rate: Rate | None = None,
    ) -> None:
        self.rate = rate
        self._places = self._free = places
        self._per_agent = per_agent
        self._kept = kept
        self._room = waiting
        self._room_kept = room_kept
        # Who holds a place, or waits; and the agent of a gate that all are of.
        self._agents: dict[Turns, _Agent] = {}
        self._only = _Agent((None, None), _Channel(None))
        self._channels: dict[Hashable, _Channel] = {}
        self._inside: dict[ItemT, _Agent] = {}
        self._is_whole = False
        # With the moment in which each came; moments are counted.
        self._waiting: dict[ItemT, tuple[_Agent, _Line[ItemT], int]] = {}
        self._moment = 0
        self._lines: dict[Priority, _Line[ItemT]] = {}
        self._turn = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is inside, and nothing waits."""
        return not (self._inside or self._waiting)

    @property
    def places(self) -> int:
        """How many may be inside."""
        return self._places

    @property
    def inside(self) -> int:
        """How many are inside."""
        return len(self._inside)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def __contains__(self, item: object) -> bool:
        """Whether the item is inside, or waits."""
        return item in self._inside or item in self._waiting

    def enter(
        self,
        item: ItemT,
        turns: Turns | None = None,
        *,
        whole: bool = False,
        priority: Priority = Priority.NORMAL,
        now: float = 0.0,
        until: float = inf,
    ) -> GateVerdict:
        """Let the item in, or have it wait, which is of no use after `until`; or refuse it.

        Without `turns` all that come to this gate are of one agent.
        """
        agent = self._only if turns is None else self._agents.get(turns) or self._new_agent(turns)
        # Most come to an open gate; written out, since every call that waits for anything comes through here.
        if self._free > self._kept and not (self._waiting or whole or agent.held >= self._per_agent or self.rate):
            self._inside[item] = agent
            self._free -= 1
            agent.held += 1
            agent.channel.held += 1
            return GateVerdict.IN
        if not self._waiting and self._fits(agent, whole=whole) and (self.rate is None or self.rate.take(now)):
            self._take(item, agent, whole=whole)
            return GateVerdict.IN
        has_room = len(self._waiting) < self._room - _kept_from(self._room_kept, agent.channel.waiting, agent.waiting)
        ahead = sum(line.length for other, line in self._lines.items() if other <= priority)
        self._add(item, agent, priority, whole=whole)
        # Its turn may come before that of all others.
        fitting = self._next()
        if fitting is item and (self.rate is None or self.rate.take(now)):
            self._admit(item)
            return GateVerdict.IN
        is_late = self.rate is not None and self.rate.due(now, ahead) > until
        if has_room and not is_late:
            return GateVerdict.WAIT
        self._remove(item)
        if not (agent.held or agent.waiting):
            self._forget(agent)
        return GateVerdict.FULL if fitting is None and not is_late else GateVerdict.LIMITED

    def leave(self, item: ItemT, now: float = 0.0) -> list[ItemT]:
        """Take an item out, whether it is inside or waits; returns those that are let in by that."""
        agent = self._inside.pop(item, None)
        if agent is None:
            agent = self._remove(item)
        else:
            self._free = self._places if self._is_whole else self._free + 1
            self._is_whole = False
            agent.held -= 1
            agent.channel.held -= 1
            if self._waiting:
                self._rank_anew(agent)
        if not (agent.held or agent.waiting):
            self._forget(agent)
        return self.let_in(now) if self._waiting else []

    def let_in(self, now: float = 0.0) -> list[ItemT]:
        """Let in all whose turn has come; returns them."""
        let_in: list[ItemT] = []
        while (item := self._next()) is not None and (self.rate is None or self.rate.take(now)):
            self._admit(item)
            let_in.append(item)
        return let_in

    def due(self, now: float) -> float | None:
        """When the rate lets the next one in; None where that waits for a place, or nothing waits."""
        return None if self.rate is None or self._next() is None else self.rate.due(now)

    def retry_after_s(self, now: float) -> float | None:
        """When one that is refused now has a chance, by the rate."""
        return None if self.rate is None else self.rate.due(now, len(self._waiting)) - now

    # --- who may be inside ---

    def _fits(self, agent: _Agent, *, whole: bool) -> bool:
        if whole:
            return self._free == self._places
        if agent.held >= self._per_agent:
            return False
        return self._free > _kept_from(self._kept, agent.channel.held, agent.held)

    def _next(self) -> ItemT | None:
        """The item whose turn it is, if it fits."""
        if not self._free:
            return None
        lines = self._lines.values()
        for line in lines if len(lines) == 1 else sorted(lines, key=lambda line: (line.turn, line.cost)):
            channel = line.channels.first
            agent = None if channel is None else line.agents[channel].first
            if agent is None:
                continue
            item, whole = next(iter(line.items[agent].items()))
            if line.wholes and not whole:
                first, since = next(iter(line.wholes.items()))
                if since < self._waiting[item][2]:
                    item, agent, whole = first, self._waiting[first][0], True
            if self._fits(agent, whole=whole):
                return item
            if whole:
                return None
        return None

    def _take(self, item: ItemT, agent: _Agent, *, whole: bool) -> None:
        self._inside[item] = agent
        self._is_whole = whole
        self._free = 0 if whole else self._free - 1
        agent.held += 1
        agent.channel.held += 1

    def _admit(self, item: ItemT) -> None:
        """Let in an item that waits."""
        agent, line, _ = self._waiting[item]
        whole = line.items[agent][item]
        self._turn = line.turn
        line.turn += line.cost
        self._remove(item)
        self._take(item, agent, whole=whole)
        self._rank_anew(agent)

    # --- what waits ---

    def _add(self, item: ItemT, agent: _Agent, priority: Priority, *, whole: bool) -> None:
        line = self._lines.get(priority)
        if line is None:
            line = self._lines[priority] = _Line(_COST[priority])
        if not line.length:
            # It has missed no turns while nothing waited.
            line.turn = max(line.turn, self._turn)
        items = line.items.setdefault(agent, OrderedDict())
        items[item] = whole
        self._moment += 1
        if whole and len(items) == 1:
            line.wholes[item] = self._moment
        line.agents.setdefault(agent.channel, _Ranks())
        line.length += 1
        agent.waiting += 1
        agent.channel.waiting += 1
        self._waiting[item] = agent, line, self._moment
        self._rank(line, agent)

    def _remove(self, item: ItemT) -> _Agent:
        agent, line, _ = self._waiting.pop(item)
        items = line.items[agent]
        del items[item]
        line.wholes.pop(item, None)
        line.length -= 1
        agent.waiting -= 1
        agent.channel.waiting -= 1
        if not items:
            del line.items[agent]
            self._rank(line, agent)
            return agent
        first, whole = next(iter(items.items()))
        if whole and first not in line.wholes:
            self._moment += 1
            line.wholes[first] = self._moment
        return agent

    def _rank_anew(self, agent: _Agent) -> None:
        """The agent holds another number of places."""
        for line in self._lines.values():
            if agent.channel in line.agents:
                self._rank(line, agent)

    def _rank(self, line: _Line[ItemT], agent: _Agent) -> None:
        channel = agent.channel
        ranks = line.agents[channel]
        if agent in line.items and agent.held < self._per_agent:
            ranks.put(agent, (agent.held,))
        else:
            ranks.drop(agent)
        first = ranks.first
        if first is None:
            line.channels.drop(channel)
        else:
            kept = _kept_from(self._kept, channel.held, first.held)
            line.channels.put(channel, (kept, channel.held))

    # --- who is known ---

    def _new_agent(self, turns: Turns) -> _Agent:
        channel = self._channels.get(turns[0])
        if channel is None:
            channel = self._channels[turns[0]] = _Channel(turns[0])
        agent = self._agents[turns] = _Agent(turns, channel)
        return agent

    def _forget(self, agent: _Agent) -> None:
        """Drop who neither holds a place nor waits for one."""
        channel = agent.channel
        if agent is self._only:
            return
        del self._agents[agent.turns]
        if not (channel.held or channel.waiting):
            del self._channels[channel.key]
            for line in self._lines.values():
                line.agents.pop(channel, None)


def _kept_from(kept: int, by_channel: int, by_agent: int) -> int:
    """How many of those that are kept are not for an agent, by what its channel and itself have."""
    if not by_channel:
        return 0
    return kept if by_agent else kept // 2
