"""A call that an agent asked for: what it was asked for with, what it is known by, and what it took.

Where it goes is `InFlight`'s.
"""

import math
from functools import partial
from typing import Final, Protocol

import msgspec
import trio
from msgspec import UNSET

from tooldispatchd.agent.calls.beside import wanted_kind
from tooldispatchd.agent.calls.call import Call, CallContext, Plan
from tooldispatchd.agent.calls.sessionchannel import UpdateFilter
from tooldispatchd.agent.faults import CANCELLED
from tooldispatchd.agent.session.tasktree import Task
from tooldispatchd.calls.content import Wanted
from tooldispatchd.calls.jobs import Job
from tooldispatchd.calls.outcome import Update
from tooldispatchd.calls.outputs import TOKEN_BYTES, StoredOutput
from tooldispatchd.calls.stages import CallEvent, CallState
from tooldispatchd.calls.trace import is_traceparent
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import CallMeta, ContentKind, ShortReq
from tooldispatchd.wire.session import SessionMachine

# More than most models can read at once.
MAX_OUTPUT: Final = 256 * 1024

# A call waits for these outside of the steps of its plan, but for the last, in which somebody is asked.
STAGES_OF_WAITS: Final = {CallEvent.LINE_UP: "order", CallEvent.HOLD: "opening", CallEvent.ASK: "approval"}


def room_of(body: ShortReq) -> float:
    """How many bytes of an answer the request has room for."""
    tokens = math.inf if body.max_tokens is None else body.max_tokens * TOKEN_BYTES
    return min(tokens, math.inf if body.max_bytes is None else body.max_bytes)


class HoldingCalls(Protocol):
    """`InFlight`, as the calls in it use it."""

    @property
    def machine(self) -> SessionMachine: ...
    def update(self, call: "AgentCall", update: Update) -> None: ...
    def run(self, call: "AgentCall") -> None: ...
    def announce(self, call: "AgentCall") -> None: ...
    def was_read(self, call: "AgentCall") -> Fault | None: ...
    def spawn(self, call: "AgentCall", task: Task) -> None: ...
    def ended(self, call: "AgentCall") -> None: ...


class AgentCall(Call, eq=False, kw_only=True):
    """A call that an agent asked for. `key` is its id, or its job once the agent was told of that.

    `asked_kind` is the kind of content that was asked for, None where none was. `turn` is that of its model; the answer
    may be `stored`.
    """

    calls: HoldingCalls
    key: str | Job
    asked_kind: ContentKind | None = None
    asked_room: float = math.inf
    bytes_in: int = 0
    is_renamed: bool = False
    """Another tool stands in its own one's place, which happens once."""
    job: Job | None = None
    stored: StoredOutput | None = None
    turn: str | int | float | None = None
    updates: UpdateFilter | None = None

    @property
    def request(self) -> "AgentCall":
        return self

    @property
    def until(self) -> float:
        return self.ends_at

    @property
    def is_beside(self) -> bool:
        return self.job is not None and self.plan is not None and self.plan.may_ask_for_job

    @property
    def wants_updates(self) -> bool:
        return self.job is not None or self.calls.machine.asked.updates

    @property
    def gives_json(self) -> bool:
        """Whether its answer is JSON, by its tool's own type."""
        return self.plan is not None and self.plan.gives_json

    @property
    def max_output(self) -> int:
        """How many bytes of its answer a model should get, where no table says."""
        return self.calls.machine.asked.max_output or MAX_OUTPUT

    @property
    def room(self) -> float:
        """How many bytes of an answer there is room for, as the request and the budget have it."""
        budget = self.context.budget
        return self.asked_room if budget is None else min(self.asked_room, budget.room(self.turn))

    @property
    def room_limit(self) -> str:
        """What leaves no more room than that."""
        return "budget" if self.room < self.asked_room else "window"

    def was_read(self) -> Fault | None:
        return self.calls.was_read(self)

    def rename(self, name: str) -> Fault | None:
        """Have another tool called in the place of its own, and take its steps from the first on; why none is."""
        found = self.context.session.find(name)
        if isinstance(found, Fault):
            return found
        if self.is_renamed or not isinstance(found, Plan) or not found.takes_place or found.in_background:
            return Fault(Code.NOT_ALLOWED, f"{name} cannot be called in the place of another tool", {"source": name})
        self.leave_steps(CANCELLED)
        self.plan, self.name, self.is_renamed = found, found.name, True
        self.at = 0
        return None

    def update(self, update: Update) -> None:
        if self.state is not CallState.RUNNING or self.plan is None:
            return
        if self.plan.filter_updates is None:
            self.calls.update(self, update)
            return
        self.updates = self.updates or self.plan.filter_updates(self, partial(self.calls.update, self))
        self.updates.take(update)

    def run(self) -> None:
        self.calls.run(self)

    def announce(self) -> None:
        self.calls.announce(self)

    def entered(self, event: CallEvent) -> None:
        if event in STAGES_OF_WAITS:
            self.waiting = STAGES_OF_WAITS[event], "", trio.current_time()
        elif event is CallEvent.WAIT:
            self._waits_in(self.at)

    def wait(self) -> None:
        self.announce()
        super().wait()
        # In the step that it has just taken.
        self._waits_in(self.at - 1)

    def _waits_in(self, at: int) -> None:
        steps = () if self.plan is None else self.plan.steps
        if at < len(steps):
            self.waiting = steps[at].order.name.lower(), steps[at].name, trio.current_time()

    def note_wait(self) -> None:
        assert self.waiting is not None
        stage, name, since = self.waiting
        self.waiting = None
        self.context.tallies.waits(stage, name).add(trio.current_time() - since)

    def begin(self) -> None:
        if self.job is not None:
            self.announce()
        super().begin()

    def started(self) -> None:
        events = self.context.session.events
        if events is not None and self.plan is not None:
            queued_s = trio.current_time() - self.started_at
            events.tool_started(self.names, self.name, provider=self.plan.provider, queued_s=queued_s)

    def spawn(self, task: Task) -> None:
        self.calls.spawn(self, task)

    def ended(self) -> None:
        if self.updates is not None:
            self.updates.close()
            self.updates = None
        if self.waiting is not None:
            self.note_wait()
        self.calls.ended(self)

    @property
    def known_as(self) -> str:
        """Its id, or that of its job."""
        return self.id if self.job is None or self.key is not self.job else self.job.id

    @property
    def names(self) -> dict[str, object]:
        """What the agent knows it by, now."""
        return {"job" if self.key is self.job else "id": self.known_as}

    def meta(self, bytes_out: int, warning: str | None = None) -> CallMeta | None:
        """Times and sizes, at its end, and a warning; None where no tool was found, or the agent did not ask."""
        if self.plan is None or not self.calls.machine.asked.meta:
            return None
        now = trio.current_time()
        queued_s = (now if self.ran_at is None else self.ran_at) - self.started_at
        sizes = {"bytes_in": self.bytes_in, "bytes_out": bytes_out}
        meta = self.plan.meta(now - self.started_at, queued_s, **sizes, dropped=self.dropped)
        if self.lookup is not None and self.lookup.age_s is not None:
            meta = msgspec.structs.replace(meta, cached=True, age_ms=round(self.lookup.age_s * 1000))
        if warning is not None:
            meta = msgspec.structs.replace(meta, warnings=[warning])
        return meta if self.child is None else msgspec.structs.replace(meta, child=self.child)


def agent_call(calls: HoldingCalls, context: CallContext, body: ShortReq) -> AgentCall:
    """Make the call that an agent asks for."""
    now, lineage, asked = trio.current_time(), context.lineage, calls.machine.asked
    allowed_s = math.inf if body.deadline_ms is None else body.deadline_ms / 1000
    if lineage.until < math.inf:
        allowed_s = min(allowed_s, max(0.0, lineage.until - now))
    call = AgentCall(
        now,
        allowed_s,
        ends_at=now + allowed_s,
        calls=calls,
        context=context,
        id=body.id,
        key=body.id,
        name=body.name,
        input=body.input,
        bytes_in=0 if body.input is UNSET else len(body.input),
        turn=body.turn,
        above=lineage.serves,
        traceparent=lineage.traceparent,
        asked_kind=wanted_kind(body, calls.machine),
    )
    # An invalid one is ignored, as the Recommendation says; and who was called goes on where it stands.
    if body.traceparent is not None and is_traceparent(body.traceparent):
        call.traceparent = body.traceparent
    if body.has_bound:
        call.asked_room = room_of(body)
    has_details = asked.details or context.keeps_details
    if call.asked_kind is not None or has_details:
        call.wanted = Wanted(call.asked_kind or ContentKind.JSON, has_details)
    return call
