"""A tool's plan, the steps in it, and one call that does not end at once.

`calls.stages` says what a call may do next; a `Call` does it: it takes the steps of its plan, sets its deadline, leaves
what it waits for, halts its tool, ends. An agent's own call (`AgentCall`) and one that a chain asks for (`InnerCall`)
differ in how they end, and in where their task runs.

    take ─▶ take ─▶ take ─▶ the tool
                              │
    give ◀─ give ◀─ give ◀────┘ then it is answered, and leaves all the steps that it took
"""

import math
from collections.abc import Awaitable, Callable, Container, Hashable, Iterable
from enum import Enum, IntEnum
from functools import partial
from typing import Final, Literal, Protocol

import msgspec
import trio
from msgspec import UNSET, Raw

from tooldispatchd.agent.calls.checking import Checking, Now, Reader
from tooldispatchd.agent.calls.spool import Spool
from tooldispatchd.agent.calls.starter import Starter
from tooldispatchd.agent.faults import CANCELLED, queue_full, rate_limited
from tooldispatchd.agent.session.lineage import CallAbove, Lineage, RootUsage
from tooldispatchd.agent.session.tasktree import Task
from tooldispatchd.calls.budget import AgentBudget
from tooldispatchd.calls.content import AS_JSON
from tooldispatchd.calls.deadlines import Entry
from tooldispatchd.calls.gate import Gate, GateVerdict, Priority, Turns
from tooldispatchd.calls.jobs import Job, Jobs
from tooldispatchd.calls.memory import Share
from tooldispatchd.calls.outcome import Outcome, Update
from tooldispatchd.calls.outputs import StoredOutputs
from tooldispatchd.calls.stages import CallEvent, CallMachine, CallState, Reason, ToDo
from tooldispatchd.calls.states import States
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.children.grace import Grace
from tooldispatchd.front.timer import Deferred, Expiring, Timer
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.messages import CallMeta

# A socket takes this much at once from a peer that reads; a larger answer may lie here for as long as its agent likes.
LARGE_BYTES: Final = 64 * 1024


class StepOrder(IntEnum):
    """The steps of a call, in the order in which it takes them; what it gives back comes in the other direction.

    Each call comes to gates in this order, and holds those that it has passed: so of two calls none ever waits for what
    the other holds. An agent process keeps its place while its calls wait in queues, so that place comes before them.
    """

    SIZE = 0  # on the way back alone: how much of the answer a model gets
    REDACT = 1  # on the way back alone: of what is kept of it too, known secrets are masked
    CACHE = 2  # the answer to an equal call, from before or of one under way
    RETRY = 3  # what comes after it is done anew where it could not be done
    REST = 4  # refused at once where a breaker is open
    OWN_PLACE = 5  # among the calls of its agent
    STATE = 6  # that its tool keeps in its session
    AGENT_PLACE = 7  # among agent processes
    QUEUE = 8  # by their order in the file
    EXCLUSIVE = 9  # by their names
    PROGRAM_PLACE = 10  # among programs
    BUDGET = 11  # one of the calls that its agent has left
    BREAKER = 12


class Waits(Enum):
    """What a step says that the call waits for."""

    WAITS = "its turn, with which `run` comes"


WAITS: Final = Waits.WAITS


class Step:
    """One thing that happens to a call around its tool. It belongs to a plan, and so to many calls."""

    __slots__ = ("order",)

    def __init__(self, order: StepOrder) -> None:
        self.order: Final = order

    def take(self, call: "Call") -> Outcome | Literal[Waits.WAITS] | None:
        """On the way to the tool: None where the call goes on; an outcome, which stands in the tool's place."""

    def give(self, call: "Call", outcome: Outcome) -> Outcome | Literal[Waits.WAITS] | None:
        """On the way back, unless the call is ended early: None where the outcome stays as it is; another one."""

    def leave(self, call: "Call", outcome: Outcome) -> None:
        """The call has ended so, or takes the step anew; called once for each time that it took it, or waited in it."""


class GateStep(Step):
    """A place at a gate, which `find` finds for a call, by its `name` in faults; None where it needs none.

    A call below one that is inside has the place of that one: it would wait for what can only come after it.
    """

    __slots__ = ("_find", "_name", "_priority", "_whole")

    def __init__(
        self,
        order: StepOrder,
        name: str,
        find: Callable[["CallContext"], Gate["Call"] | None],
        *,
        whole: bool = False,
        priority: Priority = Priority.NORMAL,
    ) -> None:
        super().__init__(order)
        self._name = name
        self._find = find
        self._whole = whole
        self._priority = priority

    def take(self, call: "Call") -> Fault | Literal[Waits.WAITS] | None:
        gate = self._find(call.context)
        if gate is None or (call.above is not None and call.above.is_at(gate)):
            return None
        now, until = (0.0, math.inf) if gate.rate is None else (trio.current_time(), call.waits_until)
        turns = call.context.turns
        verdict = gate.enter(call, turns, whole=self._whole, priority=self._priority, now=now, until=until)
        if verdict is GateVerdict.FULL:
            return queue_full(self._name)
        if verdict is GateVerdict.LIMITED:
            return rate_limited(self._name, gate.retry_after_s(now))
        if verdict is GateVerdict.IN:
            return None
        call.context.starter.watch(gate)
        return WAITS

    def leave(self, call: "Call", _outcome: Outcome) -> None:
        gate = self._find(call.context)
        if gate is not None and call in gate:
            call.context.starter.leave(gate, call)


class _OwnPlace(Step):
    """A place among the calls of its agent; a stage of a chain has that of its chain."""

    __slots__ = ()

    def take(self, call: "Call") -> Fault | Literal[Waits.WAITS] | None:
        if call.request is not call:
            return None
        verdict = call.context.places.enter(call)
        if verdict is GateVerdict.IN:
            return None
        return WAITS if verdict is GateVerdict.WAIT else queue_full("agent")

    def leave(self, call: "Call", _outcome: Outcome) -> None:
        if call.request is call:
            for following in call.context.places.leave(call):
                call.context.starter.start(following)


OWN_PLACE: Final = _OwnPlace(StepOrder.OWN_PLACE)


class Plan:
    """One tool as a session offers and calls it: what every kind of tool has.

    `kind` is how the tool runs and `provider` what runs it, for `meta`. `now(raw)` answers at once with the content or
    a fault, or says that the call is too heavy for that; it is None for a tool that must wait. `steps` are what a call
    that waits goes through, in their order. A tool that only looks at the session's own calls has none of them, and
    `takes_place` of no other. `gives_json` says that its answers are JSON, by its own type. One that
    `starts_agents` may start an agent with a channel of its own, itself or in a chain. Each call of one that is
    `in_background` becomes a job; of one that `may_ask_for_job` those whose input asks for it.
    """

    __slots__ = (
        "gives",
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
        "steps",
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
        self.limit_s = limit_s
        self.read = read
        self.now: Now | None = None
        self.steps: tuple[Step, ...] = (OWN_PLACE,)
        # Whether any of them does something on the way back.
        self.gives = False

    def add(self, *steps: Step) -> None:
        """Have these steps too, each in its place."""
        self.steps = tuple(sorted((*self.steps, *steps), key=lambda step: step.order))
        self.gives = any(type(step).give is not Step.give for step in self.steps)

    def remove(self, order: StepOrder) -> None:
        """Have none of these steps."""
        self.steps = tuple(step for step in self.steps if step.order is not order)

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


class Hearer(Protocol):
    """`Events` of a session, as breakers tell it of themselves."""

    def breaker_moved(self, of: dict[str, object], *, is_open: bool) -> None: ...


class SessionTools(Protocol):
    """`Session`, as the tools that find others use it, and breakers."""

    plans: dict[str, Plan]

    @property
    def hearer(self) -> Hearer | None: ...
    def has_stored(self) -> None: ...
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

    @property
    def uid(self) -> int: ...
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


class CallLookup:
    """What a call is known by where answers are given again, `key`; and how old the answer is that it got there.

    `era` is what has to be the same still when its own answer comes, for that to be kept.
    """

    __slots__ = ("age_s", "era", "key")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.era: Hashable = None
        self.age_s: float | None = None


class CallContext(msgspec.Struct, frozen=True, eq=False):
    """Shared by all calls of one session, those within chains too."""

    agent: str | None
    """The agent's name on its channel; None for the channel's own."""
    lineage: Lineage
    timer: Timer
    starter: Starter["Call"]
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
    states: States
    places: Gate["Call"]
    """Those of the session's own calls."""
    turns: Turns
    """In the root's name: its share of a gate is one agent's, however many it calls."""
    spool: Spool
    outputs: StoredOutputs
    """Long answers of its own calls, in files of the spool."""
    budget: AgentBudget | None
    keeps_details: bool = False
    """Whether what tools tell beside their answers is wanted, also where the agent does not ask for it."""

    @property
    def account(self) -> RootUsage:
        """The account of the agent that came in from outside."""
        return self.lineage.account


class Call:
    """A call in flight. `line` is its checked and re-encoded input once that was read; `halt` ends it while it runs.

    `wanted` is what its agent asked for of its answer. It is a part of the call `above`, if there is one: of a chain's,
    or of the one that its agent serves. It has `taken` so many steps of its plan, and may wait in the last of them.
    `lookup` is there where its answer may be another's. `doing` is what a chain waits for; `child` is the session of
    the agent that the call started, for `meta`; to `dropped` the pointers are added to what of the input was taken as
    left out. `grace` is the time that it has where it is ended early.
    """

    __slots__ = (
        "_at",
        "_entry",
        "above",
        "child",
        "context",
        "doing",
        "dropped",
        "grace",
        "halt",
        "id",
        "leave_queue",
        "line",
        "lookup",
        "machine",
        "name",
        "plan",
        "queued_at",
        "taken",
        "traceparent",
        "tries",
        "wanted",
    )

    def __init__(
        self,
        context: CallContext,
        call_id: str,
        name: str,
        *,
        traceparent: str | None,
        above: CallAbove | None,
        allowed_s: float = math.inf,
    ) -> None:
        self.context = context
        self.above = above
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
        self.queued_at = 0.0
        self.tries = 1
        self.lookup: CallLookup | None = None
        # Where it waits and that is no gate: takes it out of there.
        self.leave_queue: Callable[[], object] | None = None
        self._entry: Entry[Expiring] | None = None
        # How many of its plan's steps it is to leave, of which so many have not given yet.
        self.taken = self._at = 0

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

    @property
    def is_beside(self) -> bool:
        """Whether it has no state: as a job for which its input asked it may be a server, and run for hours."""
        return False

    def update(self, update: Update) -> None:
        """The tool says how far it is; ignored once the call ends."""
        raise NotImplementedError

    def run(self) -> None:
        """Its turn has come."""
        raise NotImplementedError

    def flush(self) -> None:
        """Send what there is to say."""
        self.context.channel.flush()

    def spawn(self, task: Task) -> None:
        """Run the call's task, under the call's guard."""
        raise NotImplementedError

    def started(self) -> None:
        """Its tool is started next, for the first time."""
        raise NotImplementedError

    def ended(self) -> None:
        """Hand on the outcome, then leave the steps."""
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

    def is_at(self, gate: Container[object]) -> bool:
        """As `CallAbove.is_at`."""
        return self in gate or (self.above is not None and self.above.is_at(gate))

    @property
    def waits_until(self) -> float:
        """When it waits no longer."""
        assert self.plan is not None
        return min(self._since + self.plan.limit_s, self.machine.deadline)

    @property
    def _since(self) -> float:
        """From when on its tool's limit counts."""
        ran_at = self.machine.ran_at
        return self.queued_at if ran_at is None else ran_at

    def advance(self) -> None:
        """Take the steps that are left, and start its tool; where a step has it wait, `run` comes with its turn."""
        assert self.plan is not None
        steps = self.plan.steps
        self.leave_queue = None
        while self._at < len(steps):
            taken = steps[self._at].take(self)
            if taken is not None and taken is not WAITS:
                self.finish(taken)
                return
            self.taken = self._at = self._at + 1
            if taken is WAITS:
                self.wait()
                return
        self.begin()

    def wait(self) -> None:
        """Its turn has not come."""
        assert self.plan is not None
        self.enter(CallEvent.WAIT, self.plan.limit_s, since=self._since)

    def begin(self) -> None:
        """It has taken all steps: start its tool."""
        plan, ran_at = self.plan, self.machine.ran_at
        assert plan is not None
        self.enter(CallEvent.START, plan.limit_s, since=ran_at)
        if ran_at is None:
            self.started()
        plan.start(self)

    def retake(self) -> None:
        """Take the step anew in which it waits: what it waited for has come, or will not."""
        self._at -= 1
        self.context.starter.start(self)

    def try_again(self, outcome: Outcome, wait_s: float) -> None:
        """Take the steps anew that come after the one that gives, after so many seconds; until then it has no place."""
        self.leave_steps(outcome, to=self._at)
        self.tries += 1
        self.halt = None
        self.wait()
        timer, starter = self.context.timer, self.context.starter
        entry = timer.add(trio.current_time() + wait_s, Deferred(partial(starter.start, self)))
        self.leave_queue = partial(timer.drop, entry)

    def leave_steps(self, outcome: Outcome, *, to: int = 0) -> None:
        """Give back what the steps after the first `to` took, the last first."""
        while self.taken > to:
            assert self.plan is not None
            self.taken -= 1
            self.plan.steps[self.taken].leave(self, outcome)

    def stop(self, fault: Fault, reason: Reason) -> None:
        """End early with `fault`: at once where it waits, and where it runs as soon as nothing of it is left."""
        todo = self.machine.apply(CallEvent.STOP, fault)
        if todo is ToDo.HALT:
            assert self.halt is not None
            self.halt(reason)
        elif todo is ToDo.END:
            self._end()

    def hurry(self, seconds: float) -> None:
        """Where it is ending, have what is left of it killed in so many seconds."""
        if self.grace is not None and self.machine.state is CallState.STOPPING:
            self.grace.within(seconds)

    def finish(self, outcome: Outcome) -> None:
        """The one end, by way of the steps that it took; a second is a defect and raises `RuntimeError`."""
        plan = self.plan
        if plan is not None and plan.gives and self.machine.state is not CallState.STOPPING:
            while self._at:
                given = plan.steps[self._at - 1].give(self, outcome)
                if given is WAITS:
                    return
                self._at -= 1
                outcome = given or outcome
        self.machine.apply(CallEvent.FINISH, outcome)
        self._end()

    def given(self, outcome: Outcome) -> None:
        """The step that had it wait on the way back gives this outcome."""
        self._at -= 1
        self.finish(outcome)

    def work(self, run: Callable[[], Awaitable[Outcome]], then: Callable[[Outcome], None] | None = None) -> None:
        """Run in a task what ends the call; from here on `halt` ends it, also before the task has begun.

        Where it does not end the call yet, its outcome goes to `then`.
        """
        scope = trio.CancelScope()
        grace = self.grace = self.grace or Grace()

        async def ended() -> None:
            outcome: Outcome = CANCELLED
            with scope:
                outcome = await run()
            self.machine.add(grace.said)
            if not self.has_ended:  # it may have waited for this, and not for its tool
                (then or self.finish)(outcome)

        def halt(_reason: Reason) -> None:
            grace.open()
            scope.cancel()

        self.halt = halt
        self.spawn(ended)

    def _end(self) -> None:
        if self.leave_queue is not None:
            self.leave_queue()
        self.halt = self.leave_queue = None
        self._drop_entry()
        self.ended()

    def _drop_entry(self) -> None:
        if self._entry is not None:
            self.context.timer.drop(self._entry)
            self._entry = None
