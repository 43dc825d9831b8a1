"""A tool's plan, the steps in it, and one call that does not end at once.

`calls.stages` says what a call may do next; a `Call` does it: it takes the steps of its plan, sets its deadline, leaves
what it waits for, halts its tool, ends. An agent's own call (`AgentCall`) and one that a chain asks for (`InnerCall`)
differ in how they end, and in where their task runs.

    take ─▶ take ─▶ take ─▶ the tool
                              │
    give ◀─ give ◀─ give ◀────┘ then it is answered, and leaves all the steps that it took
"""

import math
from collections.abc import Awaitable, Callable, Container, Iterable
from functools import partial
from typing import Final, Literal, Protocol

import msgspec
import trio
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.agent.calls.checking import Checking, Now, Reader
from tooldispatchd.agent.calls.sessionchannel import Hearer, Lookup, SessionCalls, SessionChannel, UpdateFilter
from tooldispatchd.agent.calls.spool import Spool
from tooldispatchd.agent.calls.starter import Starter
from tooldispatchd.agent.calls.step import OWN_PLACE, READ, Step
from tooldispatchd.agent.faults import CANCELLED, queue_full
from tooldispatchd.agent.session.approvers import AskedSession
from tooldispatchd.agent.session.lineage import CallAbove, Lineage, RootUsage
from tooldispatchd.agent.session.tasktree import Task
from tooldispatchd.calls.answercache import CallLookup
from tooldispatchd.calls.budget import AgentBudget
from tooldispatchd.calls.content import AS_JSON, Wanted
from tooldispatchd.calls.deadlines import Entry
from tooldispatchd.calls.decisions import Approval, Decisions
from tooldispatchd.calls.gate import Gate, GateVerdict, Places, Turns
from tooldispatchd.calls.outcome import Outcome, Update
from tooldispatchd.calls.outputs import StoredOutputs
from tooldispatchd.calls.stages import ASIDE, WAITS, CallEvent, CallMachine, CallState, Reason, StepOrder, ToDo, Waits
from tooldispatchd.calls.states import States
from tooldispatchd.calls.tally import Tallies, ToolTally
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.workspaces import Workspace
from tooldispatchd.children.grace import Grace
from tooldispatchd.front.timer import Deferred, Expiring, Timer, TimerLine
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.messages import CallMeta

# A socket takes this much at once from a peer that reads; a larger answer may lie here for as long as its agent likes.
LARGE_BYTES: Final = 64 * 1024


class Plan:
    """One tool as a session offers and calls it: what every kind of tool has.

    `kind` is how the tool runs and `provider` what runs it, for `meta`. `now(raw)` answers at once with the content or
    a fault, or says that the call is too heavy for that; it is None for a tool that must wait. One that has it has a
    `tally`, in which those calls are counted. `steps` are what a call that waits goes through, in their order. A tool
    that only looks at the session's own calls `takes_place` of no other. It `is_plain` where it takes a request as it
    stands. `gives_json` says that its answers are JSON, by its own type. One that `starts_agents` may start an agent
    with a channel of its own, itself or in a chain. Each call of one that is `in_background` becomes a job; of one that
    `may_ask_for_job` those whose input asks for it.
    """

    # fmt: off
    __slots__ = (
        "as_shown", "definition", "filter_updates", "gives", "gives_json", "in_background", "is_plain", "is_read_first",
        "kind", "leaves", "limit_s", "may_ask_for_job", "name", "now", "offered", "provider", "read", "reads_again",
        "rendered", "starts_agents", "steps", "takes", "takes_place", "tally", "tells_end", "tells_updates",
    )
    # fmt: on

    def __init__(
        self, offered: Offered, *, kind: str, limit_s: float, read: Reader, provider: str | None = None
    ) -> None:
        self.name, self.offered = offered.name, offered
        # Its entries in lists of tools and what they could not say, by form and name.
        self.rendered: dict[tuple[str, str], tuple[Raw, tuple[str, ...]]] = {}
        self.kind, self.provider = kind, provider or kind
        self.takes_place = self.gives_json = self.is_plain = True
        self.starts_agents = self.in_background = self.may_ask_for_job = False
        self.limit_s, self.read = limit_s, read
        self.now: Now | None = None
        self.tally: ToolTally | None = None
        self.as_shown: tuple[Plan, ...] | None = None  # see `showing`
        # Whether a step looks at the input when the tool has had it; whether none comes before that is read, and an
        # agent that ends a call early is told what its tool said at that.
        self.reads_again, self.is_read_first, self.tells_end = False, True, True
        # What looks at the updates of a call before they go on, if anything does.
        self.filter_updates: Callable[[Call, Callable[[Update], None]], UpdateFilter] | None = None
        self.definition: Callable[[], bytes] = bytes  # the digest of all that it is made of
        self.set_steps((READ, OWN_PLACE))

    def set_steps(self, steps: Iterable[Step]) -> None:
        """Have these steps alone, in this order; what a step does not do is left out of the ways of its calls."""
        self.steps: tuple[Step, ...] = tuple(steps)
        placed = list(enumerate(self.steps))
        self.takes = tuple((at, step.take) for at, step in placed if type(step).take is not Step.take)
        self.gives = tuple((at, step.give) for at, step in reversed(placed) if type(step).give is not Step.give)
        self.leaves = tuple((at, step.leave) for at, step in reversed(placed) if type(step).leave is not Step.leave)
        self.tells_updates = tuple(step.update for step in self.steps if type(step).update is not Step.update)

    def add(self, *steps: Step) -> None:
        """Have these steps too, each in its place."""
        self.set_steps(sorted((*self.steps, *steps), key=lambda step: step.order))
        orders = {step.order for step in self.steps}
        self.reads_again = not orders.isdisjoint({StepOrder.RETRY, StepOrder.AFTER_HOOK})
        self.is_read_first = StepOrder.BEFORE_HOOK not in orders
        self.tells_end = StepOrder.AFTER_HOOK not in orders

    def remove(self, order: StepOrder) -> None:
        """Have none of these steps."""
        self.set_steps(step for step in self.steps if step.order is not order)

    def start(self, call: "Call") -> None:
        """Start a call of a tool that must wait: set `call.halt`, and make sure that `call.finish` comes."""
        raise NotImplementedError(f"{self.kind} tools answer at once")

    def meta(self, latency_s: float, queued_s: float, *, bytes_in: int, bytes_out: int, dropped: list[str]) -> CallMeta:
        latency_ms, queued_ms = round(latency_s * 1000, 3), round(queued_s * 1000, 3)
        left_out = dropped or UNSET
        return CallMeta(latency_ms, queued_ms, self.kind, self.provider, bytes_in, bytes_out, dropped=left_out)


class CallSession(Protocol):
    """`Session`, as its calls use it."""

    @property
    def plans(self) -> dict[str, Plan]: ...
    @property
    def events(self) -> Hearer | None: ...
    def has_stored(self) -> None: ...
    def find(self, name: str) -> Plan | Fault | Literal[Lookup.HOLD]: ...
    def shown(self, names: Iterable[str]) -> list[str]: ...
    def lifted(self, name: str) -> Plan | Fault: ...
    def approver(self) -> AskedSession | None: ...
    def keep(self, run: Task, close: Callable[[], None]) -> None: ...


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
    session: CallSession
    tallies: Tallies
    profile: str
    workspace: Workspace | None
    """The session's own directory, if it has one."""
    states: States
    places: Places["Call"]
    """Those of the session's own calls."""
    decisions: Decisions
    asides: Gate["Call"]
    """Of those that come to their own places no sooner than what they wait for lets them."""
    turns: Turns
    """In the root's name: its share of a gate is one agent's, however many it calls."""
    spool: Spool
    outputs: StoredOutputs
    """Long answers of its own calls, in files of the spool."""
    budget: AgentBudget | None
    is_roomy: bool = False
    """Whether nothing but a table bounds how much of an answer its agent gets."""
    keeps_details: bool = False
    """Whether what tools tell beside their answers is wanted, also where the agent does not ask for it."""

    @property
    def account(self) -> RootUsage:
        """The account of the agent that came in from outside."""
        return self.lineage.account


class Call(CallMachine, eq=False, kw_only=True):
    """A call in flight. Its `input` is None once that was read; then `line` is what was checked, encoded anew. `halt`
    ends it while it runs.

    `wanted` is what its agent asked for of its answer. It is a part of the call `above`, if there is one: of a chain's,
    or of the one that its agent serves. It has `taken` so many steps of its plan, and may wait in the last of them.
    `lookup` is there where its answer may be another's. `doing` is what a chain waits for; `child` is the session of
    the agent that the call started, for `meta`; to `dropped` the pointers are added to what of the input was taken as
    left out. `grace` is the time that it has where it is ended early.
    """

    context: CallContext
    id: str
    name: str
    above: CallAbove | None = None
    traceparent: str | None = None
    wanted: Wanted = AS_JSON
    plan: Plan | None = None
    approval: Approval | None = None
    input: Raw | UnsetType | None = None
    line: bytes | bytearray = b""
    dropped: list[str] = msgspec.field(default_factory=list)
    doing: str | None = None
    child: int | None = None
    halt: Callable[[Reason], None] | None = None
    grace: Grace | None = None
    queued_at: float = 0.0
    tries: int = 1
    has_begun: bool = False
    """In this try."""
    has_waited: bool = False
    """For its turn."""
    lookup: CallLookup | None = None
    waiting: tuple[str, str, float] | None = None
    """For what it waits, and since when."""
    leave_queue: Callable[[], object] | None = None
    """Where it waits and that is no gate: takes it out of there."""
    timed_by: TimerLine | Entry[Expiring] | None = None
    """Where its deadline is."""
    taken: int = 0
    """How many of its plan's steps it is to leave."""
    at: int = 0
    """How many of these have not given yet."""

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

    def announce(self) -> None:
        """It will take a while: tell its agent of its job, if it has one."""

    def was_read(self) -> Fault | None:
        """Its input has been read; why it is refused for what that says."""

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
        state = self.state
        return state is CallState.RUNNING or state is CallState.STOPPING

    @property
    def has_ended(self) -> bool:
        """Whether it has its outcome."""
        return self.state is CallState.ENDED

    def enter(self, event: CallEvent, limit_s: float, *, since: float | None = None) -> None:
        """Go on to a state of waiting, in which the call may stay for `limit_s` seconds from `since` (now) on."""
        if self.waiting is not None:
            self.note_wait()
        self.apply(event)
        self._arm(self.allow(limit_s, trio.current_time() if since is None else since))
        self.entered(event)

    def entered(self, event: CallEvent) -> None:
        """It waits from here on."""

    def note_wait(self) -> None:
        """What it waited for has come, or it has ended."""

    def _arm(self, when: float) -> None:
        if self.timed_by is not None:
            self._disarm()
        if when < math.inf:
            timer = self.context.timer
            is_next = self.is_limit and (line := timer.line(self.limit_s)).add(self, when)
            self.timed_by = line if is_next else timer.add(when, self)

    def expire(self) -> None:
        """End the call at its deadline, unless that was put off."""
        self.timed_by = None
        if trio.current_time() < self.ends_at:
            # In no line: of limits that were put off each is another one.
            self.timed_by = self.context.timer.add(self.ends_at, self)
        else:
            self.stop(*self.timeout(self.name, self.doing))
            self.context.channel.flush()

    def is_at(self, gate: Container[object]) -> bool:
        """As `CallAbove.is_at`."""
        return self in gate or (self.above is not None and self.above.is_at(gate))

    @property
    def is_read_again(self) -> bool:
        """Whether its input is looked at once more after its tool had it: for another try, by a hook, by the audit."""
        return self.context.keeps_details or (self.plan is not None and self.plan.reads_again)

    @property
    def sent_line(self) -> bytes | bytearray:
        """Its input for what runs its tool, which may make its own line of it: a copy where it is read again."""
        return bytes(self.line) if self.is_read_again else self.line

    @property
    def waits_until(self) -> float:
        """When it waits no longer."""
        assert self.plan is not None
        return min(self._since + self.plan.limit_s, self.deadline)

    @property
    def _since(self) -> float:
        """From when on its tool's limit counts."""
        return self.queued_at if self.ran_at is None else self.ran_at

    def advance(self) -> None:
        """Take the steps that are left, and start its tool; where a step has it wait, `run` comes with its turn."""
        assert self.plan is not None
        plan, begins = self.plan, self.at
        self.leave_queue = None
        for at, take in plan.takes:
            if at >= begins:
                self.taken = self.at = at
                taken = take(self)
                if taken is not None:
                    self._took(taken)
                    return
        self.taken = self.at = len(plan.steps)
        self.begin()

    def _took(self, taken: Outcome | Waits) -> None:
        """A step has ended the call, or has it wait."""
        if not isinstance(taken, Waits):
            self.finish(taken)
            return
        self.taken = self.at = self.at + 1
        if taken is WAITS:
            self.wait()

    def wait(self) -> None:
        """Its turn has not come."""
        assert self.plan is not None
        self.has_waited = True
        self.enter(CallEvent.WAIT, self.plan.limit_s, since=self._since)

    def aside(
        self, run: Callable[[], Awaitable[Outcome | None]], *, given: Outcome | None = None, limit_s: float = math.inf
    ) -> Literal[Waits.ASIDE] | Fault:
        """Run a step's task, which is cancelled where the call ends before; with None from it the call goes on.

        A check is within the call's own limit, `limit_s`; what has another one is given none. On the way back, with
        the outcome `given` so far, a call that ran runs still.
        """
        # One that runs is counted among those in flight, and a stage with its chain.
        asides = None if self.is_running or self.request is not self else self.context.asides
        if asides is not None and asides.enter(self, self.context.turns) is not GateVerdict.IN:
            return queue_full("agent")
        scope = trio.CancelScope()
        if given is not None:
            # However its task ends, this step has given.
            self.at -= 1

        async def run_within() -> None:
            outcome: Outcome | None = None
            try:
                with scope:
                    outcome = await run()
            finally:
                if asides is not None:
                    asides.leave(self)
            ended = CANCELLED if scope.cancelled_caught else outcome or given
            if self.has_ended:
                return
            if ended is None:
                self.go_on(since)
            else:
                self.finish(ended)

        ran_at, since = self.ran_at, self._since if limit_s < math.inf else None
        if self.is_running and ran_at is not None:
            self.halt = lambda _reason: scope.cancel()
            if limit_s == math.inf:
                # Else it stays under the limit under which it runs, as far as that was extended.
                self._arm(self.allow(limit_s, ran_at))
        else:
            self.leave_queue = scope.cancel
            self.enter(CallEvent.WAIT, limit_s, since=since)
        self.spawn(run_within)
        return ASIDE

    def go_on(self, since: float | None = None) -> None:
        """Take the steps that are left after a step aside. The limit counts from `since`, by default from now."""
        self.queued_at = trio.current_time() if since is None else since
        self.context.starter.start(self)

    def begin(self) -> None:
        """It has taken all steps: start its tool."""
        plan, ran_at = self.plan, self.ran_at
        assert plan is not None
        self.has_begun = True
        # Where it did not wait for its turn, that was its request's: the check of its input is within the limit.
        since = ran_at or (trio.current_time() if self.has_waited else self.queued_at)
        if self.waiting is not None:
            self.note_wait()
        self.apply(CallEvent.START)
        self._arm(self.allow(plan.limit_s, since))
        if ran_at is None:
            self.started()
        plan.start(self)

    def retake(self) -> None:
        """Take the step anew in which it waits: what it waited for has come, or will not."""
        self.at -= 1
        self.context.starter.start(self)

    def try_again(self, outcome: Outcome, wait_s: float) -> None:
        """Take the steps anew that come after the one that gives, after so many seconds; until then it has no place."""
        self.leave_steps(outcome, to=self.at)
        self.tries += 1
        self.has_begun = False
        self.halt = None
        self.wait()
        timer, starter = self.context.timer, self.context.starter
        entry = timer.add(trio.current_time() + wait_s, Deferred(partial(starter.start, self)))
        self.leave_queue = partial(timer.drop, entry)

    def leave_steps(self, outcome: Outcome, *, to: int = 0) -> None:
        """Give back what the steps after the first `to` took, the last first."""
        if self.plan is None:
            return
        taken = self.taken
        for at, leave in self.plan.leaves:
            if to <= at < taken:
                self.taken = at
                leave(self, outcome)
        self.taken = min(taken, to)

    def stop(self, fault: Fault, reason: Reason) -> None:
        """End early with `fault`: at once where it waits, and where it runs as soon as nothing of it is left."""
        todo = self.apply(CallEvent.STOP, fault)
        if todo is ToDo.HALT:
            assert self.halt is not None
            self.halt(reason)
        elif todo is ToDo.END:
            self._end()

    def hurry(self, seconds: float) -> None:
        """Where it is ending, have what is left of it killed in so many seconds."""
        if self.grace is not None and self.state is CallState.STOPPING:
            self.grace.within(seconds)

    def finish(self, outcome: Outcome) -> None:
        """The one end, by way of the steps that it took; a second is a defect and raises `RuntimeError`."""
        plan = self.plan
        if plan is not None and self.state is not CallState.STOPPING:
            taken = self.at
            for at, give in plan.gives:
                if at < taken:
                    self.at = at + 1
                    given = give(self, outcome)
                    if given is not None:
                        if isinstance(given, Waits):
                            return
                        outcome = given
            self.at = 0
        self.apply(CallEvent.FINISH, outcome)
        self._end()

    def work(self, run: Callable[[], Awaitable[Outcome]]) -> None:
        """Run in a task what ends the call; from here on `halt` ends it, also before the task has begun."""
        scope = trio.CancelScope()
        grace = self.grace = self.grace or Grace()

        async def ended() -> None:
            outcome: Outcome = CANCELLED
            with scope:
                outcome = await run()
            if self.plan is None or self.plan.tells_end:
                self.hear(grace.said)
            self.finish(outcome)

        def halt(_reason: Reason) -> None:
            grace.open()
            scope.cancel()

        self.halt = halt
        self.spawn(ended)

    def _end(self) -> None:
        if self.leave_queue is not None:
            self.leave_queue()
        self.halt = self.leave_queue = None
        if self.timed_by is not None:
            self._disarm()
        self.ended()

    def _disarm(self) -> None:
        timed_by, self.timed_by = self.timed_by, None
        if type(timed_by) is TimerLine:
            timed_by.drop(self)
        elif timed_by is not None:
            self.context.timer.drop(timed_by)  # type: ignore[arg-type]  # mypy does not take `type` for what it says
