"""The calls of one session that do not end at once: where each waits, that each ends once, and the jobs among them.

    taken ──▶ held for its server ──▶ admitted ──▶ running ──▶ ended: answered, or its job is done

A session has this from its first such call on; one that only calls inline tools never needs it.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, Literal, Protocol

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.agent.calls.call import Call, CallStage, Plan, Reason
from tooldispatchd.agent.calls.checking import Checking
from tooldispatchd.agent.faults import CANCELLED, queue_full, too_many
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.lineage import Levels, Lineage, RootUsage, too_deep
from tooldispatchd.agent.session.tasktree import Task
from tooldispatchd.agent.tools.toolset import HOLD, Lookup, Toolset
from tooldispatchd.calls.admission import Admission, AdmissionVerdict
from tooldispatchd.calls.gate import Gate
from tooldispatchd.calls.jobs import Job, Jobs, utf8_size
from tooldispatchd.calls.memory import Share
from tooldispatchd.calls.outcome import Answer, Outcome, Update
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import Request, ToolUpdate
from tooldispatchd.wire.session import SessionMachine, body_of

# An answer below this is about as large as the fault that would stand in its place.
NOTABLE_BYTES: Final = 1024


# What a socket takes at once from whoever reads; an answer over it may lie here for as long as its agent likes.
LARGE_BYTES: Final = 64 * 1024


class SessionChannel(Protocol):
    """The channel's side of a session."""

    share: Share
    """What it holds of the daemon's memory."""

    def crowding(self, size: int) -> Fault | None:
        """Why an answer of `size` bytes cannot be sent now."""

    def fit(self, content: str) -> str | Fault:
        """An answer, or why there is no room for one that may not be taken at once."""

    gate_key: Hashable
    """What gates know the channel by; one for all channels of a foreign user, and for all agents below one agent."""

    def has_answered(self, size: int) -> None:
        """An answer of `size` bytes lies among the outgoing lines."""

    @property
    def is_behind(self) -> bool:
        """Whether some of what was sent has not been taken yet."""

    def flush(self) -> None:
        """Send what lies in the machine's outgoing lines."""

    def closed(self, agent: str | None) -> None:
        """Nothing of the session is left; `agent` is its name, None for the channel's own."""


class Life(Protocol):
    """The session around its calls."""

    machine: SessionMachine
    toolset: Toolset
    number: int  # in the log
    lineage: Lineage | None  # where it stands, if another agent called it

    def keep(self, run: Task, close: Callable[[], None]) -> None:
        """As `agent.call.Owner`'s."""

    def find(self, name: str) -> Plan | Fault | Literal[Lookup.HOLD]:
        """The plan of the tool of that name, why there is none, or that it is too early to say."""

    def count(self, outcome: Outcome) -> None:
        """One more call has ended."""

    def refuse_request(self, request: Request, fault: Fault) -> None:
        """Answer a request that becomes no call with why."""

    def settle(self) -> None:
        """Begin the teardown where nothing is owed any more."""

    def start_soon(self, task: Task) -> None:
        """Run `task` among the session's."""

    def incident(self, tool: str, error: Exception) -> Fault:
        """Log a defect in one call; the fault that tells of it."""

    def is_told(self, call: Call, outcome: Outcome, took_s: float) -> None:
        """Log that the call was answered."""


class InFlight:
    """See the module. It is the `agent.call.Owner` of its calls."""

    __slots__ = (
        "_account",
        "_admission",
        "_calls",
        "_emptied",
        "_held",
        "_host",
        "_jobs",
        "_life",
        "_lineage",
        "_machine",
        "_reading",
        "_runtime",
    )

    def __init__(self, life: Life, runtime: Runtime, host: SessionChannel) -> None:
        limits = runtime.setup.limits
        self._life = life
        self._machine = life.machine
        self._runtime = runtime
        self._host = host
        # By id; a job's call by its job, since its id is free again.
        self._calls: dict[str | Job, Call] = {}
        # Those whose server is still starting, in the order they came.
        self._held: dict[Call, None] = {}
        self._lineage = life.lineage or Lineage(RootUsage(host.gate_key, life.number, host.share), life.number)
        self._account = self._lineage.account
        self._emptied: trio.Event | None = None
        # Its own, also where another agent called it: calls of that one, which wait for these, hold places already.
        self._admission: Admission[Call] = Admission(limits.in_flight, limits.waiting)
        self._jobs: Jobs | None = None
        # Inputs that checkers read, or will.
        self._reading = 0

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def jobs(self) -> Jobs:
        """Those of this agent."""
        if self._jobs is None:
            limits = self._runtime.setup.limits
            self._jobs = Jobs(self._host.share, max_jobs=limits.jobs, max_bytes=limits.job_bytes)
        return self._jobs

    def keep(self, run: Task, close: Callable[[], None]) -> None:
        """Run what outlives a call; when the session ends `close` is called."""
        self._life.keep(run, close)

    @property
    def agent(self) -> str | None:
        """The agent's name on its channel; None for the channel's own."""
        return self._machine.agent

    @property
    def checking(self) -> Checking:
        """The daemon's checkers."""
        return self._runtime.services.checking

    @property
    def account(self) -> RootUsage:
        """That of the agent that came in from outside."""
        return self._account

    def crowding(self, size: int) -> Fault | None:
        """Why an answer of `size` bytes cannot be sent now."""
        return self._host.crowding(size)

    @property
    def wants_updates(self) -> bool:
        """Whether the agent asked to be told how far its calls are."""
        return self._machine.wants_updates

    # --- requests ---

    def take(self, request: Request, plan: Plan | None) -> None:
        """Begin a call that the machine has let in; `plan` is None where its tool is still to be found."""
        body = body_of(request)
        call = Call(self, self._runtime.services.timer, body, self._lineage)
        if plan is None:
            found = self._life.find(body.name)
            if isinstance(found, Fault):
                self._life.refuse_request(request, found)
                return
            plan = None if found is HOLD else found
        if body.background and plan is not None and not plan.takes_place:
            # A job that waits for jobs could wait for itself.
            self._life.refuse_request(request, Fault(Code.INVALID_REQUEST, f"{body.name} never runs in the background"))
            return
        refusal = self._refusal(call, plan)
        if refusal is not None:
            self._life.refuse_request(request, refusal)
            return
        if body.background:
            call.job = self.jobs.open(body.name)
            if call.job is None:
                self._life.refuse_request(request, queue_full("jobs"))
                return
        self._machine.start(request)
        self._calls[call.key] = call
        self._count_bytes(call.bytes_in)
        if plan is None:
            self._hold(call)
        else:
            self._admit(call, plan)

    def _hold(self, call: Call) -> None:
        # A view would keep its whole line, of which the input may be a small part.
        if isinstance(call.input, Raw):
            call.input = call.input.copy()
        self._held[call] = None
        self._announce(call)
        call.enter(CallStage.OPENING, self._life.toolset.opening_limit_s)

    def _count_bytes(self, size: int) -> None:
        self._account.bytes_in_flight += size
        self._host.share.add(size)

    def _refusal(self, call: Call, plan: Plan | None) -> Fault | None:
        """Too many calls, or too much in them; an agent that has none in flight may have one of any size."""
        limits = self._runtime.setup.limits
        # Those whose server is still starting, then those that take no place: all others are the admission's to count.
        if plan is None and len(self._held) >= limits.waiting:
            return queue_full("opening")
        if plan is not None and not plan.takes_place and len(self._calls) >= limits.in_flight + 2 * limits.waiting:
            return queue_full("agent")
        size = call.bytes_in
        if self._calls and self._account.bytes_in_flight + size > limits.in_flight_bytes:
            return too_many("in_flight_bytes", limits.in_flight_bytes)
        return None if self._host.share.has_room(size) else self._host.share.fault

    def reroute(self) -> None:
        """A server has answered or failed: what waited for it may go on."""
        for call in list(self._held):
            if call not in self._held:
                continue  # what came before it in this very loop has ended it
            found = self._life.find(call.name)
            if isinstance(found, Fault):
                call.finish(found)
            elif found is not HOLD:
                del self._held[call]
                self._admit(call, found)

    def _admit(self, call: Call, plan: Plan) -> None:
        """The steps between routing and the provider: read the input, take a place, or wait for one."""
        call.plan = plan
        depth, deepest = self._lineage.depth, self._runtime.setup.limits.agent_depth
        if plan.starts_agents and depth >= deepest > 0:
            call.finish(too_deep(plan.name, depth, deepest))
            return
        if isinstance(call.input, Raw) and not plan.read.is_light(call.input):
            self._have_read(call, plan, call.input)
            return
        value = plan.read(call.input, call.dropped)
        if isinstance(value, Fault):
            call.finish(value)
        else:
            self._admit_line(call, plan, plan.read.encode(value))

    def _have_read(self, call: Call, plan: Plan, raw: Raw) -> None:
        """Have a checker read the input; the call waits for it as for a place."""
        if self._reading >= self._runtime.setup.limits.waiting:
            call.finish(queue_full("agent"))
            return
        scope = trio.CancelScope()

        async def have_read() -> None:
            try:
                with scope, self.guard(call):
                    line = await self._runtime.services.checking.read(
                        plan.read, raw, call.dropped, turns=self._account.turns
                    )
                    if isinstance(line, Fault):
                        call.finish(line)
                    elif call.stage is not CallStage.ENDED:
                        call.leave_queue = None
                        self._admit_line(call, plan, line)
            finally:
                self._reading -= 1
                self.flush()

        self._reading += 1
        call.leave_queue = scope.cancel
        call.enter(CallStage.QUEUE, plan.limit_s)
        self._life.start_soon(have_read)

    def _admit_line(self, call: Call, plan: Plan, line: bytes | bytearray) -> None:
        call.line = line
        call.input = Raw()  # the agent's bytes are not needed any more
        call.queued_at = trio.current_time()
        verdict = self._admission.ask(call) if plan.takes_place else None
        if verdict is AdmissionVerdict.FULL:
            call.finish(queue_full("agent"))
            return
        self._announce(call)
        if verdict is AdmissionVerdict.WAIT:
            call.leave_queue = partial(self._admission.withdraw, call)
            call.enter(CallStage.QUEUE, plan.limit_s, since=call.queued_at)
        else:
            call.has_place = plan.takes_place
            self._runtime.services.starter.start(call)

    def _announce(self, call: Call) -> None:
        """Answer a background call with its job, under which it goes on; its id is free again."""
        job = call.job
        if job is None or call.key is job:
            return
        del self._calls[call.key]
        call.key = job
        self._calls[job] = call
        content = job_content(job)
        meta = call.meta(len(content)) if self._machine.wants_meta else None
        self._machine.answer(call.id, content, is_error=False, fault=False, meta=meta)

    def run(self, call: Call) -> None:
        """Start a call that has a place among its agent's calls; the tool's gate may have none for it yet."""
        assert call.plan is not None
        if call.stage is CallStage.ENDED:
            return
        gate = call.plan.gate
        if gate is not None and not call.has_gate:
            if not self.enter(gate, call):
                call.enter(CallStage.QUEUE, call.plan.limit_s, since=call.queued_at)
                return
            call.has_gate = True
        call.enter(CallStage.RUN, call.plan.limit_s)
        with self.guard(call):
            call.plan.start(call)

    def enter(self, gate: Gate[Call], call: Call) -> bool:
        """Whether a call of this agent, or within one, has its place in the gate; else it waits for its turn."""
        # In the root's name: its share is one agent's, however many it calls.
        account, gate = self._account, self._at_level(gate)
        if gate.enter(account.channel, account, call):
            return True
        call.leave_queue = partial(gate.withdraw, account.channel, account, call)
        return False

    def leave(self, gate: Gate[Call]) -> None:
        """Give a place in the gate back, and start the call whose turn it is."""
        following = self._at_level(gate).leave(self._account.channel, self._account)
        if following is not None:
            following.has_gate, following.leave_queue = True, None
            self._runtime.services.starter.start(following)

    def _at_level(self, gate: Gate[Call]) -> Gate[Call]:
        return gate.at(self._lineage.depth) if isinstance(gate, Levels) else gate

    def update(self, call: Call, update: Update) -> None:
        """Say how far the call is, with the next flush; to an agent that has not read its last answers, nothing."""
        if call.job is not None:
            call.job.update = update
        elif not self._host.is_behind:
            fields = (update.progress, update.total, update.message, update.content)
            self._machine.update(ToolUpdate(call.id, self._machine.agent, *fields))

    def inner(self, name: str) -> Plan | Fault:
        """The plan of a tool that a chain of this session lifts, or why there is none."""
        return self._life.toolset.inner(name)

    def cancel(self, key: str | Job) -> None:
        """The agent wants the call of that id, or that job, no more; one that is unknown, or done, is ignored."""
        if (call := self._calls.get(key)) is not None:
            call.stop(CANCELLED, Reason.CANCELLED)

    def stop(self, fault: Fault, *, only_jobs: bool = False) -> None:
        """End every call early with `fault`; those that wait come first, so that a place given back starts none."""
        for call in sorted(self._calls.values(), key=lambda call: call.stage is CallStage.RUN):
            if call.job is not None or not only_jobs:
                call.stop(fault, Reason.CANCELLED)

    def rest(self) -> trio.Event:
        """End every call; what is set when the last has ended."""
        emptied = self._emptied = self._emptied or trio.Event()
        self.stop(CANCELLED)
        self._look_whether_empty()
        self.flush()
        return emptied

    def _look_whether_empty(self) -> None:
        if self._emptied is not None and not self._calls:
            self._emptied.set()
            self._emptied = None

    def close(self) -> RootUsage:
        """Nobody asks for anything of it any more; the account of what was in it."""
        self.forget_jobs()
        return self._account

    def forget_jobs(self) -> None:
        """Be done with all jobs, read or not, unless one still runs."""
        if not self._calls and self._jobs is not None:
            self._jobs.close()
            self._jobs = None

    # --- ends of calls ---

    def ended(self, call: Call, outcome: Outcome) -> None:
        """Answer the call, or let its job be done, and give its places back; the session may have waited for it."""
        del self._calls[call.key]
        self._held.pop(call, None)
        self._count_bytes(-call.bytes_in)
        try:
            self._tell(call, outcome)
        finally:
            # Whatever becomes of the answer, others wait for these places.
            self._give_back(call)
        self._look_whether_empty()
        self._life.settle()

    def _tell(self, call: Call, outcome: Outcome) -> None:
        self._life.count(outcome)
        if call.job is not None and call.key is call.job:
            self.jobs.finish(call.job, outcome)
        else:
            if call.job is not None:
                self.jobs.forget(call.job)
            if isinstance(outcome, Answer) and len(outcome.content) > NOTABLE_BYTES:
                outcome = self.crowding(len(outcome.content)) or outcome
            self._answer(call, outcome)
        self._life.is_told(call, outcome, trio.current_time() - call.started_at)

    def _answer(self, call: Call, outcome: Outcome) -> None:
        is_fault = isinstance(outcome, Fault)
        content = outcome.content() if isinstance(outcome, Fault) else outcome.content
        is_error = True if isinstance(outcome, Fault) else outcome.is_error
        meta = call.meta(utf8_size(content)) if self._machine.wants_meta else None
        self._machine.answer(call.id, content, is_error=is_error, fault=is_fault, meta=meta)
        if len(content) > NOTABLE_BYTES:
            self._host.has_answered(len(content))

    def _give_back(self, call: Call) -> None:
        if call.has_gate and call.plan is not None and call.plan.gate is not None:
            self.leave(call.plan.gate)
        if call.has_place:
            following = self._admission.finish()
            if following is not None:
                following.has_place, following.leave_queue = True, None
                self._runtime.services.starter.start(following)

    @contextmanager
    def guard(self, call: Call) -> Iterator[None]:
        """The guard of a call that waits: a defect on its way is this call's fault alone."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # guard: as the one of calls that are answered at once
            fault = self._life.incident(call.name, error)
            if call.stage is not CallStage.ENDED:
                call.finish(fault)

    def work(self, call: Call, task: Task) -> None:
        """Run a call's task, under the call's guard."""

        async def guarded() -> None:
            try:
                with self.guard(call):
                    await task()
            finally:
                # Where the whole session is cancelled the task has had no chance to end its call.
                if call.stage is not CallStage.ENDED:
                    call.finish(CANCELLED)
                self.flush()

        self._life.start_soon(guarded)

    def flush(self) -> None:
        """Send what was asked of the servers and what is owed to the agent."""
        self._host.flush()


def job_content(job: Job) -> str:
    """What a request with `background` is answered with."""
    return msgspec.json.encode({"job": job.id}).decode()
