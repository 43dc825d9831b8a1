"""A tool's plan, and one call that does not end at once: where it waits, what may end it early, and that it ends once.

    OPENING ─▶ QUEUE ─▶ RUN ─▶ ENDED      (any stage may go to ENDED: deadline, cancel, the agent is gone)

In OPENING it waits for its server's handshake, in QUEUE for a place among its agent's calls or in the tool's gate. It
has one deadline at a time: while it waits, the tool's limit from its arrival; while it runs, the tool's limit from
its start; and always the agent's own `deadline_ms`, and what is left to the call that its agent serves, if it is one
that another agent has called.
"""

import math
from collections import deque
from collections.abc import Awaitable, Callable
from enum import Enum, StrEnum
from typing import Protocol

import msgspec
import trio
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.agent.calls.checking import Checking, Now, Reader
from tooldispatchd.agent.faults import CANCELLED
from tooldispatchd.agent.session.lineage import Lineage, RootUsage
from tooldispatchd.calls.deadlines import Entry
from tooldispatchd.calls.gate import Gate
from tooldispatchd.calls.jobs import Job, Jobs
from tooldispatchd.calls.outcome import Outcome, Update
from tooldispatchd.calls.trace import is_traceparent
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.front.timer import Expiring, Timer
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import CallMeta, ShortReq


class CallStage(StrEnum):
    """Where a call is; the values stand in `timeout` faults."""

    OPENING = "opening"
    QUEUE = "queue"
    RUN = "run"
    ENDED = "ended"


class Reason(Enum):
    """Why a running call is ended early."""

    CANCELLED = "cancelled"  # by the agent, by its end, or by its own deadline
    LIMIT = "limit"  # the tool's own limit has passed


class Plan:
    """What is the same for all tools: what is said of them, and how long a call may take.

    `kind` is how the tool runs and `provider` what runs it, for `meta`. `now(raw)` answers at once with the content or
    a fault, or says that the call is too heavy for that; it is None for a tool that must wait. `gate` shares the places
    for what a tool needs in the whole daemon; None where there is nothing to share. A tool that only looks at the
    session's own calls `takes_place` of none. One that `starts_agents` may start an agent with a channel of its own,
    itself or in a chain.
    """

    __slots__ = (
        "gate",
        "kind",
        "limit_s",
        "name",
        "now",
        "offered",
        "provider",
        "read",
        "rendered",
        "starts_agents",
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
        self.takes_place = True
        self.starts_agents = False
        self.limit_s = limit_s
        self.read = read
        self.now: Now | None = None
        self.gate: Gate[Call] | None = None

    def start(self, call: "Call") -> None:
        """Start a call of a tool that must wait: set `call.halt`, and see to it that `call.finish` comes."""
        raise NotImplementedError(f"{self.kind} tools answer at once")

    def meta(self, latency_s: float, queued_s: float, *, bytes_in: int, bytes_out: int, dropped: list[str]) -> CallMeta:
        """What one call of this tool took."""
        latency_ms, queued_ms = round(latency_s * 1000, 3), round(queued_s * 1000, 3)
        left_out = dropped or UNSET
        return CallMeta(latency_ms, queued_ms, self.kind, self.provider, bytes_in, bytes_out, dropped=left_out)


class CallOwner(Protocol):
    """The session of a call."""

    def keep(self, run: Callable[[], Awaitable[None]], close: Callable[[], None]) -> None:
        """Run what outlives a call; when the session ends `close` is called."""

    @property
    def agent(self) -> str | None:
        """The agent's name on its channel; None for the channel's own."""

    @property
    def checking(self) -> Checking:
        """The daemon's checkers."""

    @property
    def account(self) -> RootUsage:
        """That of the agent that came in from outside."""

    @property
    def jobs(self) -> Jobs:
        """Those of this agent."""

    def crowding(self, size: int) -> Fault | None:
        """Why an answer of `size` bytes cannot be sent now."""

    @property
    def wants_updates(self) -> bool:
        """Whether the agent asked to be told how far its calls are."""

    def update(self, call: "Call", update: Update) -> None:
        """Tell the agent how far the call is."""

    def enter(self, gate: Gate["Call"], call: "Call") -> bool:
        """Whether a call has its place in a gate; else it waits there for its turn."""

    def leave(self, gate: Gate["Call"]) -> None:
        """A place in a gate is free for the next."""

    def inner(self, name: str) -> Plan | Fault:
        """The plan of a tool that a chain lifts, whether it is offered or not; or why there is none."""

    def cancel(self, key: str | Job) -> None:
        """End a call early, by its id or as the job that it is; one that is unknown, or done, is ignored."""

    def ended(self, call: "Call", outcome: Outcome) -> None:
        """Answer the call and give its places back."""

    def run(self, call: "Call") -> None:
        """Start a call that has its places."""

    def work(self, call: "Call", task: Callable[[], Awaitable[None]]) -> None:
        """Run the call's task, under the call's guard."""

    def flush(self) -> None:
        """Send what has been answered."""


class Call:
    """A call in flight. `line` is its checked and re-encoded input from QUEUE on; `halt` ends it while it runs.

    `outer` is the call of a chain that asked for this one, and `lineage` where its agent stands, if it is a request of
    one; `child` is the session of the agent that it started, for `meta`. It is over at `ends_at`, on trio's clock.
    """

    __slots__ = (
        "_allowed_ms",
        "_deadline",
        "_entry",
        "_is_limit",
        "_limit_s",
        "_verdict",
        "bytes_in",
        "child",
        "doing",
        "dropped",
        "ends_at",
        "halt",
        "has_gate",
        "has_place",
        "id",
        "input",
        "job",
        "key",
        "leave_queue",
        "line",
        "lineage",
        "name",
        "outer",
        "owner",
        "plan",
        "queued_at",
        "ran_at",
        "stage",
        "started_at",
        "timer",
        "traceparent",
    )  # fmt: skip

    def __init__(self, owner: CallOwner, timer: Timer, body: ShortReq, lineage: Lineage | None = None) -> None:
        self.owner = owner
        self.lineage = lineage
        self.outer: Call | None = None
        self.child: int | None = None
        self.id = body.id
        # What its session knows it by: its id, or its job once that has been announced.
        self.key: str | Job = body.id
        self.job: Job | None = None
        self.name = body.name
        self.input: Raw | UnsetType = body.input
        self.bytes_in = 0 if isinstance(body.input, UnsetType) else len(body.input)
        # One that is not valid says nothing: by the Recommendation it is ignored.
        trace = body.traceparent
        self.traceparent = trace if trace is not None and is_traceparent(trace) else None
        # Pointers to what of the input was taken as left out.
        self.dropped: list[str] = []
        self.line: bytes | bytearray = b""
        self.plan: Plan | None = None
        self.stage = CallStage.OPENING
        # What a chain waits for.
        self.doing: str | None = None
        self.has_place = False
        self.has_gate = False
        self.halt: Callable[[Reason], None] | None = None
        # Takes the call out of the queue that it waits in; None where it waits in none.
        self.leave_queue: Callable[[], None] | None = None
        self.queued_at = 0.0
        self.started_at = trio.current_time()
        # Not before its turn has come: what ends earlier has waited all its life.
        self.ran_at: float | None = None
        self.timer = timer
        self._allowed_ms = math.inf if body.deadline_ms is None else body.deadline_ms
        self._deadline = self.started_at + self._allowed_ms / 1000
        if lineage is not None and lineage.until < self._deadline:
            self._deadline = lineage.until
            self._allowed_ms = max(0.0, lineage.until - self.started_at) * 1000
        self.ends_at = self._deadline
        self._limit_s = math.inf
        self._is_limit = False
        self._entry: Entry[Expiring] | None = None
        self._verdict: Fault | None = None

    def enter(self, stage: CallStage, limit_s: float, *, since: float | None = None) -> None:
        """Go on to `stage`, in which the call may stay for `limit_s` seconds from `since` (now) on."""
        if self.stage is CallStage.ENDED:
            raise RuntimeError(f"call {self.id!r} has ended and cannot enter {stage}")
        self.stage = stage
        if stage is CallStage.RUN:
            self.ran_at = trio.current_time()
        self._limit_s = limit_s
        limit_at = (trio.current_time() if since is None else since) + limit_s
        self._is_limit = limit_at <= self._deadline
        if self._entry is not None:
            self.timer.drop(self._entry)
            self._entry = None
        self.ends_at = when = min(limit_at, self._deadline)
        if when < math.inf:
            self._entry = self.timer.add(when, self)

    @property
    def request(self) -> "Call":
        """The agent's own call that this one is a part of: itself, if no chain asked for it."""
        return self if self.outer is None else self.outer.request

    @property
    def until(self) -> float:
        """When it is over, or what it is a part of: `ends_at` of whichever comes first."""
        return self.ends_at if self.outer is None else min(self.ends_at, self.outer.until)

    @property
    def wants_updates(self) -> bool:
        """Whether anybody will see how far it is."""
        return self.job is not None or self.owner.wants_updates

    def update(self, update: Update) -> None:
        """The tool says how far it is; nothing once the call has ended."""
        if self.stage is CallStage.RUN and self._verdict is None:
            self.owner.update(self, update)

    def meta(self, bytes_out: int) -> CallMeta | None:
        """What it took, at its end; nothing for a call that no tool was found for."""
        if self.plan is None:
            return None
        now = trio.current_time()
        queued_s = (now if self.ran_at is None else self.ran_at) - self.started_at
        sizes = {"bytes_in": self.bytes_in, "bytes_out": bytes_out}
        meta = self.plan.meta(now - self.started_at, queued_s, **sizes, dropped=self.dropped)
        return meta if self.child is None else msgspec.structs.replace(meta, child=self.child)

    def expire(self) -> None:
        """The stage's deadline has passed."""
        self._entry = None
        limit_ms = self._limit_s * 1000 if self._is_limit else self._allowed_ms
        detail = f"{self.name} was not done within {limit_ms:.0f} ms (stage {self.stage})"
        extras: dict[str, object] = {"limit_ms": round(limit_ms), "stage": self.stage.value}
        if self.doing is not None:
            detail = f"{detail}: it waited for {self.doing}"
            extras["process"] = self.doing
        fault = Fault(Code.TIMEOUT, detail, extras)
        self.stop(fault, Reason.LIMIT if self._is_limit else Reason.CANCELLED)
        self.owner.flush()

    def stop(self, fault: Fault, reason: Reason) -> None:
        """End early with `fault`: at once where it waits, and where it runs as soon as nothing of it is left."""
        if self.stage is CallStage.ENDED or self._verdict is not None:
            return
        if self.stage is CallStage.RUN:
            assert self.halt is not None
            self._verdict = fault
            self.halt(reason)
        else:
            if self.leave_queue is not None:
                self.leave_queue()
                self.leave_queue = None
            self.finish(fault)

    def work(self, run: Callable[[], Awaitable[Outcome]]) -> None:
        """Run in a task what ends the call; from here on `halt` ends it, also before the task has begun."""
        scope = trio.CancelScope()

        async def ended() -> None:
            outcome: Outcome = CANCELLED
            with scope:
                outcome = await run()
            self.finish(outcome)

        self.halt = lambda _reason: scope.cancel()
        self.owner.work(self, ended)

    def finish(self, outcome: Outcome) -> None:
        """The one end; a second is a defect and raises `RuntimeError`."""
        if self.stage is CallStage.ENDED:
            raise RuntimeError(f"call {self.id!r} has ended twice")
        self.stage = CallStage.ENDED
        self.halt = None
        if self._entry is not None:
            self.timer.drop(self._entry)
            self._entry = None
        self.owner.ended(self, outcome if self._verdict is None else self._verdict)


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
                first.owner.run(first)
                first.owner.flush()
        finally:
            self._is_starting = False
