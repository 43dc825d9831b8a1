"""The calls of one session that do not end at once: where each waits, that each ends once, and the jobs among them.

    taken ──▶ lined up ──▶ held for its server ──▶ at gates ──▶ running ──▶ ended: answered, or its job is done

A session has this from its first such call on; one that only calls inline tools never needs it.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Final, Protocol

import trio
from msgspec import Raw

from tooldispatchd.agent.calls.agentcall import AgentCall, agent_call
from tooldispatchd.agent.calls.beside import beside_of, in_kind
from tooldispatchd.agent.calls.call import Call, CallContext, CallSession, Plan
from tooldispatchd.agent.calls.sessionchannel import SessionChannel
from tooldispatchd.agent.calls.step import READ
from tooldispatchd.agent.calls.unpacking import asks_for_job
from tooldispatchd.agent.faults import (
    CANCELLED,
    NO_JOBS,
    TOO_LATE,
    never_in_background,
    queue_full,
    too_many,
    without_secrets,
)
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.events import Events
from tooldispatchd.agent.session.lineage import Lineage, RootUsage, too_deep
from tooldispatchd.agent.session.tasktree import Task
from tooldispatchd.calls.budget import AgentBudget
from tooldispatchd.calls.decisions import Decisions
from tooldispatchd.calls.gate import Gate, Places
from tooldispatchd.calls.jobs import MAX_WAITERS, Job, Jobs
from tooldispatchd.calls.memory import Holding
from tooldispatchd.calls.order import CallGroups, OrderVerdict
from tooldispatchd.calls.outcome import Answer, Outcome, Update, content_in, utf8_size
from tooldispatchd.calls.outputs import StoredOutputs
from tooldispatchd.calls.stages import CallEvent, CallState, Reason
from tooldispatchd.calls.states import States
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.catalog.workspaces import Workspace
from tooldispatchd.children.grace import LAST_S
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import Request, ShortReq, ToolUpdate
from tooldispatchd.wire.questions import Questions
from tooldispatchd.wire.session import SessionMachine

# An answer below this is about as large as the fault that would stand in its place.
NOTABLE_BYTES: Final = 1024
# An input below this weighs no more than its call itself, of which there is a bound.
SMALL_BYTES: Final = 1024
# As many calls are ended in three milliseconds.
STOPS: Final = 64
# Faults of a request that no tool was found for.
NO_TOOL: Final = frozenset({Code.UNKNOWN_TOOL, Code.NOT_ALLOWED, Code.PROVIDER_NATIVE})
_PROGRESS: Final = {state: number for number, state in enumerate(CallState)}


class CallingSession(CallSession, Protocol):
    """`Session`, around its calls."""

    machine: SessionMachine
    number: int
    """In the log."""
    lineage: Lineage | None
    """Where it stands, if another agent called it."""
    profile: str
    workspace: Workspace | None

    events: Events | None
    """What tells whoever wants to hear of it; None where nobody does."""
    has_jobs: bool
    """Whether its agent may have jobs."""

    @property
    def group_size(self) -> int | None: ...
    @property
    def opening_limit_s(self) -> float: ...
    @property
    def questions(self) -> Questions: ...
    def flush(self) -> None: ...
    def refuse_request(self, request: Request, fault: Fault, plan: Plan | None = None) -> None: ...
    def note_answer(self, call: AgentCall, answer: Answer, took_s: float) -> None: ...
    def note_end(self, call: AgentCall, outcome: Outcome, took_s: float, plan: Plan | None) -> None: ...
    def incident(self, tool: str, error: Exception) -> Fault: ...
    def start_soon(self, task: Task) -> None: ...
    def settle(self) -> None: ...


class InFlight:
    """See the module."""

    __slots__ = (
        "_account",
        "_budgets",
        "_calls",
        "_channel",
        "_context",
        "_held",
        "_jobs",
        "_limits",
        "_machine",
        "_masker",
        "_order",
        "_owner",
        "_places",
        "_session",
        "_to_stop",
    )

    def __init__(self, session: CallingSession, runtime: Runtime, channel: SessionChannel) -> None:
        limits = self._limits = runtime.setup.limits
        self._masker = runtime.setup.catalog.masker
        self._session = session
        self._machine = session.machine
        self._channel = channel
        root = RootUsage(channel.gate_key, session.number, channel.share, session.events, uid=channel.visitor.uid)
        lineage = session.lineage or Lineage(root, session.number)
        self._account = lineage.account
        self._budgets, self._owner = runtime.state.budgets, (self._account.uid, session.profile)
        services = runtime.services
        # Its own, also where another agent called it: calls of that one, which wait for these, hold places already.
        self._places: Places[Call] = Places(limits.in_flight, limits.waiting)
        self._context = CallContext(
            agent=session.machine.agent,
            lineage=lineage,
            timer=services.timer,
            starter=services.starter,
            checking=services.checking,
            channel=channel,
            calls=self,
            session=session,
            tallies=runtime.state.tallies,
            profile=session.profile,
            workspace=session.workspace,
            states=States(Holding(channel.share)),
            places=self._places,
            decisions=Decisions(),
            asides=Gate(limits.waiting, waiting=0),
            turns=lineage.account.turns,
            keeps_details=services.audit is not None,
            spool=services.spool,
            outputs=StoredOutputs(services.spool.quota, limits.stored_bytes),
            budget=(budget := self._budget(runtime)),
            is_roomy=budget is None and session.machine.asked.max_output is None,
        )
        # Those that are stopped in one of the next turns, with what: none starts in a place that comes free meanwhile.
        self._to_stop: dict[AgentCall, Fault] = {}
        # By id; a job's call by its job, since its id is free again.
        self._calls: dict[str | Job, AgentCall] = {}
        # Calls whose server is still starting, in the order they came.
        self._held: dict[AgentCall, None] = {}
        size = session.group_size
        self._order: CallGroups[AgentCall] | None = None if size is None else CallGroups(size, limits.waiting)
        self._jobs: Jobs | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[AgentCall]:
        """The calls; none may begin or end meanwhile."""
        return iter(self._calls.values())

    @property
    def machine(self) -> SessionMachine:
        """The session's."""
        return self._machine

    @property
    def jobs(self) -> Jobs:
        """The agent's jobs."""
        if self._jobs is None:
            limits = self._limits
            self._jobs = Jobs(self._channel.share, max_jobs=limits.jobs, max_bytes=limits.job_bytes)
        return self._jobs

    @property
    def open_jobs(self) -> int:
        """How many jobs its agent has, read or not."""
        return 0 if self._jobs is None else len(self._jobs)

    @property
    def may_answer_now(self) -> bool:
        """Whether a call may be answered in the moment it comes: no other has to end before."""
        return self._order is None or self._order.is_idle

    # --- requests ---

    def take(self, request: Request, body: ShortReq, plan: Plan | None) -> None:
        """Begin a call that the machine has let in; `plan` is None where its server is still starting."""
        call = agent_call(self, self._context, body)
        is_plain = plan is not None and plan.takes_place and plan.is_plain and not body.background
        if not (is_plain and call.bytes_in <= SMALL_BYTES) or self._account.bytes_in_flight:
            refusal = self._refusal(call, plan, in_background=bool(body.background))
            if refusal is None and (body.background or (plan is not None and plan.in_background)):
                refusal = self._make_job(call)
            if refusal is not None:
                self._session.refuse_request(request, refusal.ran(may_have=False), plan)
                return
            if call.bytes_in > SMALL_BYTES:
                self._count_bytes(call.bytes_in)
        self._machine.start(request)
        self._calls[body.id] = call
        if plan is not None and self._order is None:
            if plan.starts_agents:
                self._admit(call, plan)
            else:
                call.plan, call.queued_at = plan, call.started_at
                self._go_on(call, AgentCall.advance)
            return
        has_order = self._order is not None and (plan is None or plan.takes_place)
        verdict = self._order.ask(call) if self._order is not None and has_order else OrderVerdict.START
        if verdict is OrderVerdict.START:
            self._begin(call, plan)
        elif verdict is OrderVerdict.WAIT:
            self._line_up(call, plan)
        else:
            call.finish(queue_full("agent"))

    def _line_up(self, call: AgentCall, plan: Plan | None) -> None:
        """Wait until the calls before it have ended, each within its own limit; what is wrong with it is said now."""
        call.plan = plan
        raw = call.input
        is_light = raw is not None and plan is not None and plan.is_read_first and plan.read.is_light(raw)
        if is_light and (refusal := READ.read_light(call)) is not None:
            call.finish(refusal)
            return
        if isinstance(raw, Raw) and not is_light:
            call.input = raw.copy()
        self.announce(call)
        call.enter(CallEvent.LINE_UP, math.inf)

    def _take_turn(self, call: AgentCall) -> None:
        """The calls before it have ended; its tool may have come or gone meanwhile where it was not known."""
        found = call.plan or self._session.find(call.name)
        if isinstance(found, Fault):
            call.finish(found)
        else:
            self._begin(call, found if isinstance(found, Plan) else None)

    def _begin(self, call: AgentCall, plan: Plan | None) -> None:
        """Go on to its tool, or wait for the server that may have it."""
        if plan is not None:
            self._admit(call, plan)
            return
        # A view would keep its whole line, of which the input may be a small part.
        if isinstance(call.input, Raw):
            call.input = call.input.copy()
        self._held[call] = None
        self.announce(call)
        call.leave_queue = partial(self._held.pop, call)
        call.enter(CallEvent.HOLD, self._session.opening_limit_s)

    def _make_job(self, call: AgentCall) -> Fault | None:
        """Give the call a job, which is told before long; why it cannot have one."""
        if not self._session.has_jobs:
            return NO_JOBS
        call.job = self.jobs.open(call.name)
        return queue_full("jobs") if call.job is None else None

    def _refusal(self, call: AgentCall, plan: Plan | None, *, in_background: bool) -> Fault | None:
        """Too many calls, or too much in them; an agent that has none in flight may have one of any size."""
        limits = self._limits
        if plan is None:
            # Calls that wait for a server are counted here, all others at the gate of their own places.
            if len(self._held) >= limits.waiting:
                return queue_full("opening")
        elif not plan.takes_place:
            if in_background:
                return never_in_background(call.name)
            # What waits (for its turn, its server, its input or its place), with all that may wait for each of it,
            # leaves room to read a job, and to stop one.
            if len(self._calls) > (1 + MAX_WAITERS) * (limits.in_flight + 4 * limits.waiting):
                return queue_full("agent")
        size = call.bytes_in
        is_of_jobs = plan is not None and not plan.takes_place
        if self._calls and not is_of_jobs and self._account.bytes_in_flight + size > limits.in_flight_bytes:
            return too_many("in_flight_bytes", limits.in_flight_bytes)
        share = self._channel.share
        return None if share.has_room(size) else share.fault

    def _count_bytes(self, size: int) -> None:
        self._account.bytes_in_flight += size
        self._channel.share.add(size)

    def reroute(self) -> None:
        """A server has answered or failed: what waited for it may go on."""
        for call in list(self._held):
            if call not in self._held:
                continue  # what came before it in this very loop has ended it
            found = self._session.find(call.name)
            if isinstance(found, Fault):
                call.finish(found)
            elif isinstance(found, Plan):
                del self._held[call]
                self._admit(call, found)

    def _admit(self, call: AgentCall, plan: Plan) -> None:
        """Between routing and the steps of its plan."""
        call.plan = plan
        # It no longer waits for its server: an end now has no queue to leave.
        call.leave_queue = None
        depth, deepest = self._context.lineage.depth, self._limits.agent_depth
        if plan.starts_agents and depth >= deepest > 0:
            call.finish(too_deep(plan.name, depth, deepest))
        elif plan.in_background and call.job is None and (refusal := self._make_job(call)) is not None:
            # Its server had to say first what it is.
            call.finish(refusal)
        else:
            call.queued_at = call.started_at if call.state is CallState.NEW else trio.current_time()
            self._go_on(call, AgentCall.advance)

    def was_read(self, call: AgentCall) -> Fault | None:
        """Make a job of a call whose input asks for one; why it cannot be one."""
        plan = call.plan
        if plan is None or not plan.may_ask_for_job or call.job is not None or not asks_for_job(call.line):
            return None
        return self._make_job(call)

    def _go_on(self, call: AgentCall, step: Callable[[AgentCall], None]) -> None:
        """Have the call do what is next, unless it is stopped before."""
        if call in self._to_stop:
            return
        try:
            step(call)
        except Exception as error:  # noqa: BLE001  # guard: a defect on its way is this call's fault alone
            self._failed(call, error)

    def announce(self, call: AgentCall) -> None:
        """Answer a background call with its job, under which it goes on; its id is free again."""
        job = call.job
        if job is None or call.key is job:
            return
        del self._calls[call.key]
        call.key = job
        self._calls[job] = call
        content = job.content()
        meta = call.meta(len(content))
        beside = beside_of(Answer(content), call.asked_kind, self._machine, gives_json=False, meta=meta, job=job.id)
        self._machine.answer(call.id, content, is_error=False, fault=False, beside=beside)

    def run(self, call: AgentCall) -> None:
        """Go on with a call whose turn has come, among its agent's calls or at its tool's gate."""
        if not call.has_ended:
            self._go_on(call, self._take_turn if call.state is CallState.LINED else AgentCall.advance)

    def update(self, call: AgentCall, update: Update) -> None:
        """Say how far the call is, with the next flush; to an agent that has not read its last answers, nothing."""
        for tell in () if call.plan is None else call.plan.tells_updates:
            update = tell(update)
        if call.job is not None:
            call.job.update = update
        elif not self._channel.is_behind:
            fields = (update.progress, update.total, update.message, update.content)
            self._machine.update(ToolUpdate(call.id, self._machine.agent, *fields))

    def oldest_at(self, server: str, tools: Mapping[str, DeclaredTool]) -> AgentCall | None:
        """The call that has been at a server for longest, itself or by a stage that is one of the declared `tools`."""
        found = (call for call in self._calls.values() if call.is_running and _is_at(call, server, tools))
        return min(found, key=lambda call: call.started_at, default=None)

    # --- ends of calls ---

    def cancel(self, key: str | Job) -> None:
        """The agent wants the call of that id, or that job, no more; one that is unknown, or done, is ignored.

        One that is ending already has no more time for it.
        """
        if (call := self._calls.get(key)) is not None:
            call.hurry(0)
            call.stop(CANCELLED, Reason.CANCELLED)

    def cancel_all(self) -> None:
        """The agent wants none of its calls any more, and no job; for those that are ending it is a second cancel."""
        for call in self._calls.values():
            call.hurry(0)
        self.stop(CANCELLED)

    def stop(self, fault: Fault, *, only_jobs: bool = False, only_waiting: bool = False) -> None:
        """End every call early with `fault`, or those alone that are jobs, or that wait: thousands in further turns."""
        chosen = [
            call
            for call in self._in_progress()
            if (call.job is not None or not only_jobs) and not (only_waiting and call.is_running)
        ]
        if len(chosen) > STOPS and not self._to_stop:
            self._session.start_soon(self._stop_in_turns)
        self._to_stop.update(dict.fromkeys(chosen, fault))
        self._stop_some()

    async def _stop_in_turns(self) -> None:
        while self._to_stop:
            self._channel.flush()
            await trio.lowlevel.checkpoint()
            self._stop_some()
        self._channel.flush()

    def _stop_some(self) -> None:
        for call in list(islice(self._to_stop, STOPS)):
            # The end of one may have been that of another.
            fault = self._to_stop.pop(call, None)
            if fault is not None:
                self._stop(call, fault)

    def stop_at_once(self, fault: Fault) -> None:
        """End every call now, where no task of the session can go on with it."""
        for call in self._in_progress():
            self._stop(call, self._to_stop.pop(call, fault))

    def _in_progress(self) -> list[AgentCall]:
        """The calls, of which those that wait come first, so that a place given back starts none.

        A call that waits for a job comes before it, and so has its own end and not the job's.
        """
        return sorted(self._calls.values(), key=_progress)

    def _stop(self, call: AgentCall, fault: Fault) -> None:
        """End a call early. Where the daemon ends, or the call that this whole agent serves, there is little time."""
        if call.has_ended:
            return
        depth = self._context.lineage.depth
        call.stop(fault, Reason.CANCELLED)
        if depth > 0 or fault.code is Code.DRAINING:
            call.hurry(LAST_S / 2**depth)

    def promote(self, call_id: str) -> Fault | None:
        """Make a job of a call that runs or waits; why it cannot be one."""
        call = self._calls.get(call_id)
        if call is None or call.state is CallState.STOPPING:
            return TOO_LATE
        if call.job is not None:
            return None  # it will be told of its job when its input is read
        if call.plan is not None and not call.plan.takes_place:
            return never_in_background(call.name)
        refusal = self._make_job(call)
        if refusal is None:
            self.announce(call)
        return refusal

    def close(self) -> RootUsage:
        """There will be no more calls: forget the jobs. Returns the account of the session's calls."""
        if not self._calls and self._jobs is not None:
            self._jobs.close()
            self._jobs = None
        self._context.states.close()
        self._context.spool.remove(self._context.outputs.close())
        if self._context.budget is not None and self._session.lineage is None:
            self._budgets.give_back(self._owner, self._context.agent, self._context.budget)
        # The context refers to this: without the cycle all is freed at once.
        del self._context
        return self._account

    def _budget(self, runtime: Runtime) -> AgentBudget | None:
        """Take the budget of its agent; an agent that another one called gets a fresh one for that call."""
        fresh = runtime.setup.budget(self._session.profile)
        if fresh is None or self._session.lineage is not None:
            return fresh
        return self._budgets.take(self._owner, self._machine.agent, fresh, trio.current_time())

    def ended(self, call: AgentCall) -> None:
        """Answer the call, or let its job be done, and give its places back; the session may have waited for it."""
        del self._calls[call.key]
        if self._to_stop:
            self._to_stop.pop(call, None)
        if call.bytes_in > SMALL_BYTES:
            self._count_bytes(-call.bytes_in)
        # The answer to a job may end another call that waits for it, and with that one the session.
        context, outcome = self._context, call.outcome
        assert outcome is not None
        try:
            self._answer(call, outcome)
        finally:
            # Others wait for these places, also where the answer failed.
            call.leave_steps(outcome)
            if self._order is not None:
                for each in self._order.leave(call):
                    context.starter.start(each)
        if not self._machine.accepts:
            self._session.settle()

    def _answer(self, call: AgentCall, outcome: Outcome) -> None:
        """Tell how the call ended; at once where its agent wants nothing but an answer, and nobody else hears of it."""
        is_plain = self._machine.is_quick and call.asked_kind is None and call.job is None
        if is_plain and type(outcome) is Answer and not outcome.warning:
            size = outcome.size
            if size <= NOTABLE_BYTES or self._channel.crowding(size) is None:
                self._session.note_answer(call, outcome, trio.current_time() - call.started_at)
                self._machine.answer(call.id, outcome.content, is_error=outcome.is_error, fault=False)
                if size > NOTABLE_BYTES:
                    self._channel.has_answered(size)
                return
        self._answer_in_full(call, outcome)

    def _answer_in_full(self, call: AgentCall, outcome: Outcome) -> None:
        if isinstance(outcome, Fault):
            outcome = without_secrets(outcome, self._masker)
            # For some no tool was found; and a session's refusal is one fault for all that wait for a server.
            is_bare = call.plan is None and (outcome is self._machine.refusal or outcome.code in NO_TOOL)
            may_have = call.ran_at is not None and outcome.code is not Code.INVALID_INPUT
            outcome = outcome if is_bare else outcome.ran(may_have=may_have)
        kind = call.asked_kind
        outcome = in_kind(outcome, kind, self._limits.part_bytes)
        is_job = call.job is not None and call.key is call.job
        size = 0 if isinstance(outcome, Fault) else outcome.size
        if not is_job and size > NOTABLE_BYTES and (crowding := self._channel.crowding(size)) is not None:
            outcome, size = crowding.ran(may_have=True), 0
        events, took_s = self._session.events, trio.current_time() - call.started_at
        self._session.note_end(call, outcome, took_s, call.plan)
        if events is not None:
            # The last event of the call, in one write with its answer.
            events.tool_finished(call.names, call.name, outcome, took_s=took_s)
        if call.job is not None and is_job:
            beside = beside_of(outcome, kind, self._machine, gives_json=False, meta=None)
            self.jobs.finish(call.job, outcome, beside)
            if events is not None:
                events.job_done(call.job)
            return
        if call.job is not None:
            self.jobs.forget(call.job)
        is_fault = isinstance(outcome, Fault)
        content = content_in(outcome, kind)
        is_error, warning = (True, None) if isinstance(outcome, Fault) else (outcome.is_error, outcome.warning)
        meta = call.meta(utf8_size(content), warning)
        beside = beside_of(outcome, kind, self._machine, gives_json=call.gives_json, meta=meta)
        self._machine.answer(call.id, content, is_error=is_error, fault=is_fault, beside=beside)
        if size > NOTABLE_BYTES:
            self._channel.has_answered(size)

    def _failed(self, call: AgentCall, error: Exception) -> None:
        fault = self._session.incident(call.name, error)
        if not call.has_ended:
            call.finish(fault)

    def spawn(self, call: AgentCall, task: Task) -> None:
        """Run a call's task, under the call's guard."""

        async def guarded() -> None:
            has_finished = False
            try:
                await task()
                has_finished = True
            except Exception as error:  # noqa: BLE001  # the same guard
                self._failed(call, error)
            finally:
                # Where the whole session is cancelled the task has had no chance to end its call.
                if not (has_finished or call.has_ended):
                    call.finish(self._to_stop.get(call, CANCELLED))
                self._channel.flush()

        self._session.start_soon(guarded)


def _progress(call: AgentCall) -> tuple[int, int, bool]:
    """How far a call is: one that is further may have a place that another waits for."""
    return _PROGRESS[call.state], call.taken, call.job is not None


def _is_at(call: AgentCall, server: str, tools: Mapping[str, DeclaredTool]) -> bool:
    plan, stage = call.plan, None if call.doing is None else tools.get(call.doing)
    if stage is not None and stage.server is not None:
        return stage.server.binding == server
    return plan is not None and plan.kind == "mcp" and plan.provider == server
