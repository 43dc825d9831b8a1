"""A tool's plan, and one call that does not end at once.

`calls.stages` says what a call may do next; a `Call` does it: it sets its deadline, leaves the queue that it waits in,
halts its tool, ends. An agent's own call (`AgentCall`) and one that a chain asks for (`InnerCall`) differ in how they
end, and in where their task runs.
"""

import math
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from enum import Enum
from functools import partial
from typing import Final, Literal, Protocol

import msgspec
import trio
from msgspec import UNSET, Raw

from tooldispatchd.agent.calls.checking import Checking, Now, Reader
from tooldispatchd.agent.faults import CANCELLED
from tooldispatchd.agent.session.lineage import Levels, Lineage, RootUsage
from tooldispatchd.agent.session.tasktree import Task
from tooldispatchd.calls.content import AS_JSON
from tooldispatchd.calls.deadlines import Entry
from tooldispatchd.calls.gate import Gate
from tooldispatchd.calls.jobs import Job, Jobs
from tooldispatchd.calls.memory import Share
from tooldispatchd.calls.outcome import Outcome, Update
from tooldispatchd.calls.stages import CallEvent, CallMachine, CallState, Reason, ToDo
from tooldispatchd.calls.states import States
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.children.grace import Grace
from tooldispatchd.front.timer import Expiring, Timer
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.messages import CallMeta

# A socket takes this much at once from a peer that reads; a larger answer may lie here for as long as its agent likes.
LARGE_BYTES: Final = 64 * 1024


class Plan:
    """One tool as a session offers and calls it: what every kind of tool has.

    Calls of tools with the same `state`, where they have one, are one at a time in each session.

    `kind` is how the tool runs and `provider` what runs it, for `meta`. `now(raw)` answers at once with the content or
    a fault, or says that the call is too heavy for that; it is None for a tool that must wait. `gate` shares the places
    for what a tool needs in the whole daemon; None where there is nothing to share. A tool that only looks at the
    session's own calls `takes_place` of none. `gives_json` says that its answers are JSON, by its own type. One that
    `starts_agents` may start an agent with a channel of its own, itself or in a chain. Each call of one that is
    `in_background` becomes a job; of one that `may_ask_for_job` those whose input asks for it.
    """

    __slots__ = (
        "gate",
        "gives_json",
        "in_background",
        "kind",
        "limit_s",
        "may_ask_for_job",
        "name",
        "now",
        "offered",
        "provider",
        "read",
        "rendered",
        "starts_agents",
        "state",
        "takes_place",
    )

    def __init__(
        self, offered: Offered, *, kind: str, limit_s: float, read: Reader, provider: str | None = None
    ) -> None:
        self.name = offered.name
        self.offered = offered
        # Its entries in lists of tools and what they could not say, by form and name.
        self.rendered: dict[tuple[str, str], tuple[Raw, tuple[str, ...]]] = {}
        self.kind = kind
        self.provider = provider or kind
        self.takes_place = self.gives_json = True
        self.starts_agents = self.in_background = self.may_ask_for_job = False
        self.state: str | None = None
        self.limit_s = limit_s
        self.read = read
        self.now: Now | None = None
        self.gate: Gate[Call] | None = None

    def start(self, call: "Call") -> None:
        """Start a call of a tool that must wait: set `call.halt`, and make sure that `call.finish` comes."""
        raise NotImplementedError(f"{self.kind} tools answer at once")

    def meta(self, latency_s: float, queued_s: float, *, bytes_in: int, bytes_out: int, dropped: list[str]) -> CallMeta:
        latency_ms, queued_ms = round(latency_s * 1000, 3), round(queued_s * 1000, 3)
        left_out = dropped or UNSET
        return CallMeta(latency_ms, queued_ms, self.kind, self.provider, bytes_in, bytes_out, dropped=left_out)


class Lookup(Enum):
    """The answer of `find` where there is neither a plan nor a fault yet."""

    HOLD = "the server that may offer it is still starting"


HOLD: Final = Lookup.HOLD


class SessionTools(Protocol):
    """`Session`, as the tools that find others use it."""

    plans: dict[str, Plan]

    def find(self, name: str) -> Plan | Fault | Literal[Lookup.HOLD]: ...
    def shown(self, names: Iterable[str]) -> list[str]: ...


class SessionChannel(Protocol):
    """`ChannelHost`, as a session uses it."""

    share: Share
    """Its share of the daemon's memory."""

    def crowding(self, size: int) -> Fault | None: ...
    def fit(self, content: str) -> str | Fault: ...

    gate_key: Hashable
    """The channel's key at gates: one for all channels of a foreign user, and for all agents below one agent."""

    def has_answered(self, size: int) -> None: ...
    @property
    def is_behind(self) -> bool: ...
    def flush(self) -> None: ...
    def closed(self, agent: str | None) -> None: ...


class SessionCalls(Protocol):
    """`InFlight`, as the tools for jobs use it."""

    @property
    def jobs(self) -> Jobs: ...
    def cancel(self, key: str | Job) -> None: ...


class CallContext(msgspec.Struct, frozen=True, eq=False):
    """Shared by all calls of one session, those within chains too."""

    agent: str | None
    """The agent's name on its channel; None for the channel's own."""
    lineage: Lineage
    timer: Timer
    starter: "Starter"
    checking: Checking
    channel: SessionChannel
    calls: SessionCalls
    tools: SessionTools
    lifted: Callable[[str], Plan | Fault]
    """The plan of a tool that a chain lifts, whether it is offered or not; or why there is none."""
    keep: Callable[[Task, Callable[[], None]], None]
    """Run a task that outlives a call; the second function is called when the session ends."""
    profile: str
    workspace: str | None
    """The session's own directory, if it has one."""
    states: "States[Call]"

    @property
    def account(self) -> RootUsage:
        """The account of the agent that came in from outside."""
        return self.lineage.account

    def enter(self, gate: Gate["Call"], call: "Call") -> bool:
        """Whether a call has its place in the gate; else it waits for its turn."""
        # In the root's name: its share is one agent's, however many it calls.
        account, gate = self.account, self._at_level(gate)
        if gate.enter(account.channel, account, call):
            return True
        call.leave_queue = partial(gate.withdraw, account.channel, account, call)
        return False

    def take_state(self, state: str, call: "Call") -> bool:
        """Whether a call has a state for itself, until it ends; else it waits for it."""
        if call.held_state is not None:
            return True
        if self.states.enter(state, call):
            call.held_state = state
            return True
        call.leave_queue = partial(self.states.withdraw, state, call)
        return False

    def leave_state(self, state: str) -> None:
        """A call that had a state has ended: start the one that has it next."""
        following = self.states.leave(state)
        if following is not None:
            following.held_state = state
            following.machine.apply(CallEvent.ADMIT)
            self.starter.start(following)

    def leave(self, gate: Gate["Call"]) -> None:
        """Give a place in the gate back, and start the call whose turn it is."""
        following = self._at_level(gate).leave(self.account.channel, self.account)
        if following is not None:
            following.machine.apply(CallEvent.LET_IN)
            self.starter.start(following)

    def _at_level(self, gate: Gate["Call"]) -> Gate["Call"]:
        return gate.at(self.lineage.depth) if isinstance(gate, Levels) else gate


class Call:
    """A call in flight. `line` is its checked and re-encoded input once that was read; `halt` ends it while it runs.

    `wanted` is what its agent asked for of its answer.
    `doing` is what a chain waits for; `child` is the session of the agent that the call started, for `meta`; to
    `dropped` the pointers are added to what of the input was taken as left out. `grace` is the time that it has where
    it is ended early.
    """

    __slots__ = (
        "_entry",
        "child",
        "context",
        "doing",
        "dropped",
        "grace",
        "halt",
        "held_state",
        "id",
        "leave_queue",
        "line",
        "machine",
        "name",
        "plan",
        "traceparent",
        "wanted",
    )

    def __init__(
        self, context: CallContext, call_id: str, name: str, *, traceparent: str | None, allowed_s: float = math.inf
    ) -> None:
        self.context = context
        self.machine = CallMachine(trio.current_time(), allowed_s)
        self.id = call_id
        self.name = name
        self.traceparent = traceparent
        self.wanted = AS_JSON
        self.plan: Plan | None = None
        self.line: bytes | bytearray = b""
        self.dropped: list[str] = []
        self.doing: str | None = None
        self.child: int | None = None
        self.halt: Callable[[Reason], None] | None = None
        self.grace: Grace | None = None
        # The state of its session that no other call may touch until this one ends.
        self.held_state: str | None = None
        # Takes the call out of the queue that it waits in.
        self.leave_queue: Callable[[], object] | None = None
        self._entry: Entry[Expiring] | None = None

    # --- where an agent's call and one within a chain differ ---

    @property
    def request(self) -> "Call":
        """The agent's own call that this one is a part of, or is."""
        raise NotImplementedError

    @property
    def until(self) -> float:
        """When it is over, or what it is a part of, whichever comes first."""
        raise NotImplementedError

    @property
    def wants_updates(self) -> bool:
        """Whether anybody will see how far it is."""
        raise NotImplementedError

    def update(self, update: Update) -> None:
        """The tool says how far it is; ignored once the call ends."""
        raise NotImplementedError

    def run(self) -> None:
        """Its turn has come."""
        raise NotImplementedError

    def spawn(self, task: Task) -> None:
        """Run the call's task, under the call's guard."""
        raise NotImplementedError

    def ended(self, todo: ToDo) -> None:
        """Hand on the outcome, and give back what `todo` says."""
        raise NotImplementedError

    # --- the steps of its life ---

    @property
    def is_running(self) -> bool:
        """Whether its tool has it, also while that ends it."""
        state = self.machine.state
        return state is CallState.RUNNING or state is CallState.STOPPING

    @property
    def has_ended(self) -> bool:
        """Whether it has its outcome."""
        return self.machine.state is CallState.ENDED

    def enter(self, event: CallEvent, limit_s: float, *, since: float | None = None) -> None:
        """Go on to a state in which the call may stay for `limit_s` seconds from `since` (now) on."""
        machine = self.machine
        machine.apply(event)
        when = machine.allow(limit_s, trio.current_time() if since is None else since)
        self._drop_entry()
        if when < math.inf:
            self._entry = self.context.timer.add(when, self)

    def expire(self) -> None:
        """The deadline has passed."""
        self._entry = None
        self.stop(*self.machine.timeout(self.name, self.doing))
        self.context.channel.flush()

    def stop(self, fault: Fault, reason: Reason) -> None:
        """End early with `fault`: at once where it waits, and where it runs as soon as nothing of it is left."""
        todo = self.machine.apply(CallEvent.STOP, fault)
        if todo.halt:
            assert self.halt is not None
            self.halt(reason)
        elif todo.end:
            self._end(todo)

    def hurry(self, seconds: float) -> None:
        """Where it is ending, have what is left of it killed in so many seconds."""
        if self.grace is not None and self.machine.state is CallState.STOPPING:
            self.grace.within(seconds)

    def finish(self, outcome: Outcome) -> None:
        """The one end; a second is a defect and raises `RuntimeError`."""
        self._end(self.machine.apply(CallEvent.FINISH, outcome))

    def work(self, run: Callable[[], Awaitable[Outcome]]) -> None:
        """Run in a task what ends the call; from here on `halt` ends it, also before the task has begun."""
        scope = trio.CancelScope()
        grace = self.grace = self.grace or Grace()

        async def ended() -> None:
            outcome: Outcome = CANCELLED
            with scope:
                outcome = await run()
            self.machine.add(grace.said)
            self.finish(outcome)

        def halt(_reason: Reason) -> None:
            grace.open()
            scope.cancel()

        self.halt = halt
        self.spawn(ended)

    def _end(self, todo: ToDo) -> None:
        if todo.leave_queue and self.leave_queue is not None:
            self.leave_queue()
        self.halt = self.leave_queue = None
        self._drop_entry()
        held, self.held_state = self.held_state, None
        try:
            self.ended(todo)
        finally:
            # Others wait for it, also where the answer failed.
            if held is not None:
                self.context.leave_state(held)

    def _drop_entry(self) -> None:
        if self._entry is not None:
            self.context.timer.drop(self._entry)
            self._entry = None


class Starter:
    """Starts the calls whose turn has come, one after the other.

    A call may end while it is being started (its connection is dead), which makes room for the next: a queue here,
    where calling on would go as deep as the agent has calls waiting.
    """

    def __init__(self) -> None:
        self._turn: deque[Call] = deque()
        self._is_starting = False

    def start(self, call: Call) -> None:
        """Start the call, now or after those before it."""
        self._turn.append(call)
        if self._is_starting:
            return
        self._is_starting = True
        try:
            while self._turn:
                first = self._turn.popleft()
                first.run()
                first.context.channel.flush()
        finally:
            self._is_starting = False
