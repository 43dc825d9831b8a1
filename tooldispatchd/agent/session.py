"""One agent's session: its calls, its tasks, and its teardown.

Its state is the machine's (`wire.session`). A session without servers and without waiting calls has no task: it is
two objects and a table of plans that it shares with others of its profile. The first thing that needs a task starts
one, which opens the session's nursery:

    home ── session ─┬─ owner of each connection
                     └─ each call that needs a task

Leaving that nursery means that nothing of the session is left: no task, no descriptor, no child.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import trio
from msgspec import Raw

from tooldispatchd.agent.call import Call, Plan, Reason, Stage
from tooldispatchd.agent.faults import CANCELLED, DRAINING, queue_full, too_many
from tooldispatchd.agent.runtime import Host, Runtime
from tooldispatchd.agent.steps import encode_line
from tooldispatchd.agent.toolset import HOLD, Toolset
from tooldispatchd.calls.admission import Admission, Verdict
from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import PROTOCOL, NestedReq, Ready, Request, Tools
from tooldispatchd.wire.session import Event, SessionMachine, State, body_of, fault_line

# An answer below this is about as large as the fault that would stand in its place.
NOTABLE_BYTES: Final = 1024

Task = Callable[[], Awaitable[None]]


class Session:
    """One agent's life in the daemon."""

    __slots__ = (
        "_admission",
        "_calls",
        "_has_failed",
        "_host",
        "_is_forced",
        "_log",
        "_nursery",
        "_runtime",
        "_tasks",
        "_teardown",
        "answered",
        "faults",
        "machine",
        "plans",
        "profile",
        "toolset",
    )  # fmt: skip

    def __init__(self, runtime: Runtime, host: Host, machine: SessionMachine, *, profile: str, number: int) -> None:
        self.machine = machine
        self.profile = profile
        self.answered = 0
        self.faults = 0
        self._runtime = runtime
        self._host = host
        self._log = runtime.log.bind(session=number)
        self._calls: dict[str, Call] = {}
        self._admission: Admission[Call] | None = None
        self._nursery: trio.Nursery | None = None
        self._tasks: list[Task] | None = None
        self._teardown: trio.Event | None = None
        self._is_forced = False
        self._has_failed = False
        self.toolset = Toolset(self, runtime, profile, self._log)
        self.plans = self.toolset.plans

    # --- opening ---

    def open(self) -> None:
        """Start the profile's servers; where there are none the session is open at once."""
        self._log.info("session opened", profile=self.profile)
        self.toolset.open()
        self.opened()

    def opened(self) -> None:
        """A server has answered or failed: route what waited for it, and be ready when all have."""
        for call in [call for call in self._calls.values() if call.stage is Stage.OPENING]:
            self._route_held(call)
        if self.toolset.is_settled and not self._is_over:
            refusal = self.toolset.refusal
            if refusal is not None:
                self._refuse(refusal)
            else:
                self.machine.apply(Event.OPENED)
                if self.machine.is_greeted:
                    self.machine.outgoing.append(self._ready())
        self._host.flush()
        self._settle()

    @property
    def _is_over(self) -> bool:
        """Whether how the opening ends is of no interest any more."""
        return self.machine.is_gone or self._is_forced or self.machine.refusal is not None

    def _ready(self) -> Ready:
        toolset = self.toolset
        return Ready(self.profile, PROTOCOL, toolset.views(), toolset.warnings, self.machine.agent)

    def _refuse(self, refusal: Fault) -> None:
        """`hello` and every waiting request get the same fault, and the session ends."""
        self.machine.refusal = refusal
        self.machine.outgoing.append(fault_line(refusal, agent=self.machine.agent))
        self.machine.apply(Event.REFUSED)
        self._stop_calls(refusal)

    # --- requests ---

    def request(self, request: Request, *, line: int) -> None:
        """Run one request: an inline tool is answered here and now, any other becomes a call in flight."""
        machine = self.machine
        body = request.msg if isinstance(request, NestedReq) else request
        plan = self.plans.get(body.name)
        now = None if plan is None else plan.now
        if now is None or body.id in machine.live or not machine.accepts or body.agent is not None or body.background:
            self._request_slowly(request, plan, line=line)
            return
        self.answered += 1
        try:
            content = now(body.input)
        except Exception as error:  # noqa: BLE001  # guard: a defect in one call is that call's fault alone
            content = self._incident(body.name, error)
        if type(content) is str:
            machine.reply(request, content, is_error=False)
        else:
            self.faults += 1
            machine.reply_fault(request, content)  # type: ignore[arg-type]  # it is no str
        if self._runtime.logs_calls:
            self._log.debug("call answered", id=body.id, tool=body.name, is_error=type(content) is not str)

    def _request_slowly(self, request: Request, plan: Plan | None, *, line: int) -> None:
        if not self.machine.is_taken(request, line=line):
            return
        body = body_of(request)
        if body.agent is not None and body.agent != self.machine.agent:
            self.machine.reply_fault(request, Fault(Code.UNKNOWN_AGENT, "no session is open for this agent"))
            return
        if body.background:
            self.machine.reply_fault(request, Fault(Code.INVALID_REQUEST, "background is not yet available"))
            return
        call = Call(self, self._runtime.timer, body)
        if plan is None:
            found = self.toolset.find(body.name)
            if isinstance(found, Fault):
                self.machine.reply_fault(request, found)
                return
            if found is HOLD:
                self._hold(request, call)
                return
            plan = found
        self.machine.start(request)
        self._calls[call.id] = call
        self._admit(call, plan)

    def _hold(self, request: Request, call: Call) -> None:
        """The tool's server is still starting: its handshake has a limit, and so has the wait for it."""
        if len(self._calls) >= self._runtime.limits.waiting:
            self.machine.reply_fault(request, queue_full("opening"))
            return
        self.machine.start(request)
        self._calls[call.id] = call
        call.enter(Stage.OPENING, self.toolset.opening_limit_s)

    def _route_held(self, call: Call) -> None:
        if call.stage is not Stage.OPENING:
            return  # what came before it in this very loop has ended it
        found = self.toolset.find(call.name)
        if isinstance(found, Fault):
            call.finish(found)
        elif found is not HOLD:
            self._admit(call, found)

    def _admit(self, call: Call, plan: Plan) -> None:
        """The steps between routing and the provider: read the input, take a place, or wait for one."""
        value = plan.read(call.input)
        if isinstance(value, Fault):
            call.finish(value)
            return
        call.plan = plan
        call.line = encode_line(value)
        call.input = Raw()  # the agent's bytes are not needed any more
        if self._admission is None:
            self._admission = Admission(self._runtime.limits.in_flight, self._runtime.limits.waiting)
        call.queued_at = trio.current_time()
        verdict = self._admission.ask(call)
        if verdict is Verdict.FULL:
            call.finish(queue_full("agent"))
        elif verdict is Verdict.WAIT:
            call.leave_queue = partial(self._admission.withdraw, call)
            call.enter(Stage.QUEUE, plan.limit_s, since=call.queued_at)
        else:
            call.has_place = True
            self._runtime.starter.start(call)

    def run(self, call: Call) -> None:
        """Start a call that has a place among its agent's calls; the tool's gate may have none for it yet."""
        assert call.plan is not None
        if call.stage is Stage.ENDED:
            return
        gate = call.plan.gate
        if gate is not None and not call.has_gate:
            if not gate.enter(self, call):
                call.leave_queue = partial(gate.withdraw, self, call)
                call.enter(Stage.QUEUE, call.plan.limit_s, since=call.queued_at)
                return
            call.has_gate = True
        call.enter(Stage.RUN, call.plan.limit_s)
        with self.guard(call):
            call.plan.start(call)

    def cancel(self, call_id: str) -> None:
        """The agent wants the call no more; an unknown id is ignored."""
        call = self._calls.get(call_id)
        if call is not None:
            call.stop(CANCELLED, Reason.CANCELLED)

    def list_tools(self) -> None:
        """Answer `tools`."""
        self.machine.outgoing.append(Tools(self.toolset.views(), self.machine.agent))

    # --- ends of calls ---

    def ended(self, call: Call, outcome: Outcome) -> None:
        """Answer the call and give its places back; the session may have waited for its last call."""
        del self._calls[call.id]
        self.answered += 1
        if isinstance(outcome, Fault):
            self.faults += 1
            content, is_error = outcome.content(), True
        elif len(outcome.content) > NOTABLE_BYTES and self._host.is_crowded:
            outcome = too_many(self._runtime.limits.buffered_bytes)
            content, is_error = outcome.content(), True
        else:
            content, is_error = outcome.content, outcome.is_error
        is_fault = isinstance(outcome, Fault)
        self.machine.answer(call.id, content, is_error=is_error, fault=is_fault, agent=call.agent)
        if self._runtime.logs_calls:
            took_s = round(trio.current_time() - call.started_at, 6)
            self._log.debug("call answered", id=call.id, tool=call.name, is_error=is_error, took_s=took_s)
        self._give_back(call)
        self._settle()

    def _give_back(self, call: Call) -> None:
        starter = self._runtime.starter
        if call.has_gate and call.plan is not None and call.plan.gate is not None:
            other = call.plan.gate.leave()
            if other is not None:
                other.has_gate, other.leave_queue = True, None
                starter.start(other)
        if call.has_place and self._admission is not None:
            following = self._admission.finish()
            if following is not None:
                following.has_place, following.leave_queue = True, None
                starter.start(following)

    @contextmanager
    def guard(self, call: Call) -> Iterator[None]:
        """The guard of a call that waits: a defect on its way is this call's fault alone."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # guard, as in `request`
            call.finish(self._incident(call.name, error))

    def _incident(self, tool: str, error: Exception) -> Fault:
        incident = self._log.bind(tool=tool).incident("call failed", error)
        return Fault(Code.INTERNAL_ERROR, f"a defect of the daemon, incident {incident}", {"incident": incident})

    def flush(self) -> None:
        """Send what was asked of the servers and what is owed to the agent."""
        self._host.flush()

    # --- tasks ---

    def start_soon(self, task: Task) -> None:
        """Run `task` in the session's nursery, which is opened with the first one; bounded by the calls in flight."""
        if self.machine.state is State.CLOSED or self._has_failed:
            raise RuntimeError("a session that is over starts no tasks")
        if self._nursery is not None:
            self._nursery.start_soon(task)
        elif self._tasks is not None:
            self._tasks.append(task)
        else:
            self._tasks = [task]
            self._runtime.home.start_soon(self._live)

    def work(self, call: Call, task: Task) -> None:
        """Run a call's task, under the call's guard."""

        async def guarded() -> None:
            try:
                with self.guard(call):
                    await task()
            finally:
                # Where the whole session is cancelled the task has had no chance to end its call.
                if call.stage is not Stage.ENDED:
                    call.finish(CANCELLED)
                self.flush()

        self.start_soon(guarded)

    def own(self, run: Task, close: Callable[[], None]) -> None:
        """Run a connection's owner task, under its guard."""

        async def guarded() -> None:
            try:
                await run()
            except Exception as error:  # noqa: BLE001  # guard: a defect in one connection ends only that connection
                self._log.incident("connection failed", error)
                close()

        self.start_soon(guarded)

    async def _live(self) -> None:
        """The session's own task: its nursery, and the guard around it."""
        try:
            await self._nurse()
        except Exception as error:  # noqa: BLE001  # guard: a defect in one session ends only that session
            self._log.incident("session failed", error)
        finally:
            self._has_failed = bool(self._calls)
            self._nursery = None
            self._stop_calls(CANCELLED)
            self._close()

    async def _nurse(self) -> None:
        self._teardown = trio.Event()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for task in self._tasks or ():
                nursery.start_soon(task)
            self._tasks = []
            self._settle()
            await self._teardown.wait()
            # Each connection has its own bounded ladder; a cancelled scope would only cut it short.
            self.toolset.close()

    # --- ends of the session ---

    def end(self) -> None:
        """No more requests: what runs is finished, then all that the session owns is torn down."""
        if self.machine.state is not State.CLOSED:
            self.machine.apply(Event.ENDED)
            self._settle()

    def gone(self) -> None:
        """Nobody can be answered: its calls are cancelled, then all that it owns is torn down."""
        if self.machine.state is not State.CLOSED:
            self.machine.apply(Event.GONE)
            self._stop_calls(CANCELLED)
            self._settle()

    def abandon(self) -> None:
        """The grace is over: what still runs is ended, and nothing is waited for."""
        if self.machine.state is not State.CLOSED:
            self._is_forced = True
            self.machine.apply(Event.ENDED)
            self._stop_calls(DRAINING)
            self._settle()
            self._host.flush()

    def _stop_calls(self, fault: Fault) -> None:
        # Those that wait come first: a place that a running one gives back must start none of them.
        for call in sorted(self._calls.values(), key=lambda call: call.stage is Stage.RUN):
            call.stop(fault, Reason.CANCELLED)

    def _settle(self) -> None:
        """Begin the teardown when nothing is owed any more."""
        if self.machine.state is not State.DRAINING or self._calls:
            return
        if not self.toolset.is_settled and not self._is_over:
            return  # `ready` is still owed
        if self._teardown is not None:
            self._teardown.set()
        elif self._tasks is None:
            self._close()

    def _close(self) -> None:
        if self.machine.state is State.CLOSED:
            return
        if self.machine.state is not State.DRAINING:
            self.machine.apply(Event.ENDED)
        self.machine.apply(Event.TORN_DOWN)
        self._log.info("session closed", profile=self.profile, answered=self.answered, faults=self.faults)
        self._host.closed()
