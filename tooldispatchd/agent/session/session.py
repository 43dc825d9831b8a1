"""One agent's session: its requests, its opening, and its end.

Its state is the machine's (`wire.session`). A session without servers and without waiting calls is two objects and a
table of plans that it shares with others of its profile; the first call that waits brings `InFlight`, the first task
brings a `TaskTree`.
"""

from collections.abc import Callable, Iterable, Sequence
from time import time
from typing import Literal

from msgspec import Raw
from trio import current_time

from tooldispatchd.agent.calls.agentcall import AgentCall
from tooldispatchd.agent.calls.atonce import answer_at_once
from tooldispatchd.agent.calls.call import LARGE_BYTES, Plan
from tooldispatchd.agent.calls.checking import HEAVY
from tooldispatchd.agent.calls.inflight import NO_TOOL, InFlight
from tooldispatchd.agent.calls.sessionchannel import Lookup, SessionChannel
from tooldispatchd.agent.calls.unpacking import unpack
from tooldispatchd.agent.faults import CANCELLED, DRAINING, NO_JOBS, TOO_LATE, ran_at_once
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.approvers import AskedSession
from tooldispatchd.agent.session.endings import keep_ended, log_ended, note_ended
from tooldispatchd.agent.session.entrance import Visitor
from tooldispatchd.agent.session.events import Events
from tooldispatchd.agent.session.lineage import Lineage, closing_figures
from tooldispatchd.agent.session.listsender import ListSender
from tooldispatchd.agent.session.moving import Formers, profile_in
from tooldispatchd.agent.session.notes import ServerNotes
from tooldispatchd.agent.session.offering import Offering
from tooldispatchd.agent.session.tasktree import Task, TaskTree
from tooldispatchd.agent.steps.auditing import AuditedCall, SessionAudit, audit_of
from tooldispatchd.agent.tools.searching import CallPlan
from tooldispatchd.agent.tools.toolset import Toolset
from tooldispatchd.calls.order import group_size
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.calls.recent import RecentCaller
from tooldispatchd.calls.refusals import is_logged
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.workspaces import Workspace
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ByeSaid, Hello, NestedReq, Reply, Request, ShortReq, ToolCancel, ToolsReq
from tooldispatchd.wire.opening import OpeningLine
from tooldispatchd.wire.questions import Question, Questions
from tooldispatchd.wire.session import DUPLICATE, Event, SessionMachine, State, body_of, capabilities_of


class Session:
    # fmt: off
    __slots__ = (
        "_channel", "_formers", "_has_opened", "_is_forced", "_is_logged", "_is_searched", "_list_sender", "_log",
        "_next", "_offering", "_order", "_questions", "_runtime", "_spec", "_tree", "_warned", "answered",
        "as_caller", "audit", "events", "farewell", "faults", "has_jobs", "in_flight", "lineage", "machine", "number",
        "opened_at", "profile", "toolset", "visitor", "workspace",
    )
    # fmt: on

    def __init__(
        self,
        runtime: Runtime,
        channel: SessionChannel,
        machine: SessionMachine,
        lineage: Lineage | None,
        *,
        profile: Profile,
        workspace: Workspace | None = None,
        spec: Raw | None = None,
    ) -> None:
        self.machine = machine
        self.number = runtime.state.sessions  # it is the last one that was opened
        self.lineage = lineage
        self.events: Events | None = None
        self.audit: SessionAudit | None = None
        self.as_caller: RecentCaller | None = None
        self.profile = profile.name
        self.workspace = workspace
        self.answered = self.faults = 0
        # The agent's `bye`, which is answered when the teardown is done.
        self.farewell: ByeSaid | None = None
        self._runtime = runtime
        self._channel = channel
        name = {} if machine.agent is None else {"agent": machine.agent}
        self._log = runtime.setup.log.bind(session=self.number, **name, **({} if lineage is None else lineage.names()))
        # The calls that do not end at once, from the first of them on.
        self.in_flight: InFlight | None = None
        self._questions: Questions | None = None
        self._tree: TaskTree | None = None
        self._is_forced = self._has_opened = False
        self._warned: set[str] = set()  # tools of which the log has a warning: each call of one gives the same
        self._spec = spec  # by what its `hello` has narrowed the profile
        # What is left of generations that it was of; and what gives the one that it is to be of once it has opened.
        self._formers: Formers | None = None
        self._next: Callable[[], Runtime] | None = None
        root = self.number if lineage is None else lineage.account.number
        self.toolset = Toolset(self, runtime, profile, self._log, turns=(channel.gate_key, root), share=channel.share)
        self._offering = Offering(self.toolset, machine, profile)
        self._list_sender: ListSender | None = None
        self.has_jobs = profile.jobs
        self._is_searched = profile.is_searched
        self._order = profile.order
        self._attend()

    def _attend(self) -> None:
        """After what `hello` asks for: find out who wants to hear of its calls, and whether they have an order."""
        machine, lineage = self.machine, self.lineage
        is_heard_above = lineage is not None and lineage.account.events is not None
        if self.events is None and (machine.asked.events or is_heard_above):
            self.events = Events(self._runtime, machine, self._channel, lineage)
        self._runtime.state.approvers.note(self, self._runtime.setup, self._channel.gate_key)
        self.look_who_hears()
        self._offering.attend()

    def look_who_hears(self) -> None:
        """Find out whether calls may take the shorter way: it tells nobody of them, and looks at no other."""
        machine = self.machine
        is_heard = self._log.logs_calls or self.events is not None or self.audit is not None
        machine.is_quick = machine.accepts and not (is_heard or machine.asked.wants_more or self.group_size)

    @property
    def group_size(self) -> int | None:
        """How many calls run at once where they have an order."""
        return group_size(self._order or self.machine.asked.order)

    # --- opening ---

    def open(self, visitor: Visitor) -> None:
        """Start the profile's servers; where there are none the session is open at once."""
        self._runtime.enter()
        self.visitor, self.opened_at = visitor, time()
        self._runtime.state.opened[self.number] = self
        # Of many that do not open only some are logged, or one user could fill the disk.
        self._is_logged = False
        if is_logged(self._runtime.state.unopened.lately(visitor.uid, current_time()) + 1):
            self._log_opened()
        self.audit = audit_of(self._runtime.services.audit, visitor.uid, self)
        self.look_who_hears()
        self.toolset.open()
        self.opened()
        if self._is_opening and self.machine.asked.opening:
            self._say(self._offering.opening(self._capabilities))

    def _log_opened(self) -> None:
        self._is_logged = True
        self._log.info("session opened", profile=self.profile, uid=self.visitor.uid, pid=self.visitor.pid)

    def opened(self) -> None:
        """A server has answered or failed: route what waited for it, and be ready when all have."""
        refusal = self.toolset.refusal if self._is_opening else None
        if refusal is not None and not self._is_over:
            # Before anything is routed: `hello` and what waits get this same fault, whatever other servers will say.
            self.machine.refusal = refusal
            self._runtime.state.unopened.note(self.visitor.uid, current_time())
            self.machine.refuse_opening(refusal)
            self.machine.apply(Event.REFUSED)
            self._stop_calls(refusal)
        self._offering.settle()
        if self.in_flight is not None:
            self.in_flight.reroute()
        if self.toolset.is_settled and not self._is_over:
            if self._has_opened:
                self.tools_changed()
            elif self.machine.is_greeted or self.lineage is not None:
                self._sender.once_rendered(self._open)
            else:
                self._open()
        elif self._is_opening and (line := self._offering.still_opening()) is not None:
            self._say(line)
        self._go_on()

    def _say(self, line: OpeningLine) -> None:
        self.machine.outgoing.append(line)
        self._channel.flush()

    def _open(self) -> None:
        if self._is_opening:
            self._has_opened = True
            self.machine.apply(Event.OPENED)
            if not self._is_logged:
                self._log_opened()
            if self.machine.is_greeted:
                self._say_ready()
        self._go_on()

    def _go_on(self) -> None:
        if self._next is not None:
            self.move(self._next)
        if self.lineage is not None and self.lineage.opened is not None and not self._is_opening:
            self.lineage.opened.set()
        self._channel.flush()
        self.settle()

    def move(self, latest: Callable[[], Runtime]) -> None:
        """Go on under the latest generation, for calls from now on; or end where that has not its profile any more."""
        machine, runtime = self.machine, latest()
        # A server that is still starting would have to be told to stop: it is waited for.
        self._next = latest if self._is_opening or not self.toolset.is_settled else None
        if self._next or machine.state is not State.OPEN or self.lineage is not None or runtime is self._runtime:
            return
        profile = profile_in(runtime, self._runtime, self.profile, self._spec)
        if profile is None:
            self.drain()
            return
        runtime.enter()
        before, former, self._runtime = self.toolset, self._runtime, runtime
        turns = self._channel.gate_key, self.number
        self.toolset = Toolset(self, runtime, profile, self._log, turns=turns, share=self._channel.share)
        self.has_jobs, self._is_searched = profile.jobs, profile.is_searched
        self._offering.move(self.toolset, profile)
        self.toolset.open(before)
        self._formers = self._formers or Formers()
        self._formers.leave(former, before, self.in_flight or ())
        self._attend()
        if self.in_flight is not None:
            self.in_flight.reroute()
        self.tools_changed()

    def greet(self, hello: Hello, *, line: int) -> None:
        """A `hello` for a session that is open already: `ready` says so, once."""
        if self.machine.greet(hello, line=line):
            self._attend()
            if self.machine.state is State.OPEN:
                self._sender.once_rendered(self._say_ready)

    @property
    def _is_opening(self) -> bool:
        """Whether `ready` is still owed, should there be a `hello`: also where the input has ended since."""
        return not self._has_opened and not self._is_over

    @property
    def _is_over(self) -> bool:
        """Whether how the opening ends is of no interest any more."""
        return self.machine.is_gone or self._is_forced or self.machine.refusal is not None

    @property
    def _sender(self) -> ListSender:
        sender = self._list_sender or ListSender(self, self._offering, self._channel, self._runtime.services)
        if self.machine.state is not State.CLOSED:  # it would never be freed
            self._list_sender = sender
        return sender

    @property
    def _capabilities(self) -> Raw:
        own, rules = self.lineage is None, self._channel.may_administer
        may_name = own and self.toolset.may_name_workspace
        return capabilities_of(self.machine, jobs=self.has_jobs, agents=own, workspace=may_name, admin=rules)

    def _say_ready(self) -> None:
        limits = self._runtime.setup.ready_limits
        self.machine.outgoing.append(self._offering.ready(self.profile, self._capabilities, limits))

    def tools_changed(self) -> None:
        """A server has other tools than before: they can be called at once, and the agent is told before long."""
        self._offering.refresh()
        # Before it is open there is `ready` to tell of them; and who finds tools by searching has the list that it had.
        is_told = self.machine.asked.updates and not self._is_searched
        if is_told and self.machine.state is not State.OPENING:
            self._sender.changed()

    def has_stored(self) -> None:
        """A long answer was stored: what reads it is among the tools from here on."""
        self.toolset.offer_outputs()

    def server_moved(self, server: str, fault: Fault | None) -> None:
        """A server has come up, or is gone."""
        if self.events is not None:
            self.events.server_moved(server, fault)
            self._channel.flush()

    @property
    def plans(self) -> dict[str, Plan]:
        """What can be called, by every name that was shown."""
        return self._offering.plans

    def find(self, name: str) -> Plan | Fault | Literal[Lookup.HOLD]:
        """The plan of a tool by its own name or by one that is shown, why there is none, or that it is too early."""
        return self._offering.find(name)

    def shown(self, names: Iterable[str]) -> list[str]:
        """The names of tools as the form of `hello` shows them."""
        return self._offering.spelled(names)

    # --- requests ---

    def request(self, request: Request, *, line: int) -> None:
        """Run one request: an inline tool is answered here and now, any other becomes a call in flight."""
        machine = self.machine
        body: ShortReq = request.msg if type(request) is NestedReq else request  # type: ignore[assignment]  # it is one
        plan = self._offering.plans.get(body.name)
        if (
            plan is None
            or not (machine.is_quick and plan.is_plain)
            or body.background
            or body.content
            or body.max_bytes
            or body.max_tokens
            or body.id in machine.live
        ):
            self._request_slowly(request, body, plan, line=line)
            return
        now = plan.now
        if now is None:
            self._calls().take(request, body, plan)
            return
        try:
            content = now(body.input)
        except Exception as error:  # noqa: BLE001  # guard: a defect in one call is that call's fault alone
            content = self.incident(body.name, error)
        if type(content) is str and (len(content) <= LARGE_BYTES or type(content := self._channel.fit(content)) is str):
            self.answered += 1
            plan.tally.at_once += 1  # type: ignore[union-attr]  # a plan with `now` has one
            machine.reply(request, content, is_error=False)
        elif content is HEAVY:
            self._calls().take(request, body, plan)
        else:
            self.refuse_request(request, ran_at_once(content), plan)  # type: ignore[arg-type]  # it is no str

    def _request_slowly(self, request: Request, body: ShortReq, plan: Plan | None, *, line: int) -> None:
        is_duplicate = body.id in self.machine.live
        if not self.machine.is_taken(request, line=line):
            # A duplicate id gets a line of its own: the answer belongs to the first request.
            if not is_duplicate:
                self.note_end(body, self.machine.refusal or DRAINING)
            elif self.audit is not None:
                self.audit.note(body, DUPLICATE)
            return
        if body.background and not self.has_jobs:
            self.refuse_request(request, NO_JOBS)
            return
        if plan is None:
            found = self.find(body.name)
            if isinstance(found, Fault):
                self.refuse_request(request, found if found.code in NO_TOOL else found.ran(may_have=False))
                return
            plan = found if isinstance(found, Plan) else None
        if isinstance(plan, CallPlan):
            if (fault := unpack(body)) is not None:
                self.refuse_request(request, fault.ran(may_have=False))
            else:
                self.request(request, line=line)
            return
        if plan is not None and plan.in_background and not self.has_jobs:
            self.refuse_request(request, NO_JOBS, plan)
            return
        may_be_now = self.in_flight is None or self.in_flight.may_answer_now
        if plan is not None and plan.now is not None and may_be_now and not body.has_bound:
            part_bytes = self._runtime.setup.limits.part_bytes
            if answer_at_once(self, self._channel, request, plan, part_bytes=part_bytes, calls=self._calls):
                return
        self._calls().take(request, body, plan)

    def refuse_request(self, request: Request, fault: Fault, plan: Plan | None = None) -> None:
        """Answer a request that becomes no call with why."""
        self.machine.reply_fault(request, fault)
        self.note_end(body_of(request), fault, plan=plan)

    def note_answer(self, call: AgentCall, answer: Answer, took_s: float) -> None:
        """As `note_end`, for an answer of which nobody else hears."""
        self.answered += 1
        if self._formers is not None:
            self._formers.note_end(call)
        keep_ended(self, self._runtime.state, call, answer, took_s, call.plan)

    def note_end(self, call: AuditedCall, outcome: Outcome, took_s: float = 0.0, plan: Plan | None = None) -> None:
        """Count, log and record that a request was answered."""
        self.answered += 1
        self.faults += isinstance(outcome, Fault)
        if self._formers is not None and isinstance(call, AgentCall):
            self._formers.note_end(call)
        note_ended(self, self._runtime.state, call, outcome, took_s=took_s, plan=plan)
        if plan is not None and isinstance(outcome, Answer) and outcome.warning and plan.name not in self._warned:
            self._warned.add(plan.name)
            self._log.warning("answer given with a warning", tool=plan.name, provider=plan.provider)
        log_ended(self._log, self._runtime.state, call, outcome, took_s=took_s, plan=plan)

    def _calls(self) -> InFlight:
        if self.in_flight is None:
            self.in_flight = InFlight(self, self._runtime, self._channel)
        return self.in_flight

    def cancel(self, asked: ToolCancel) -> None:
        """The agent wants a call no more, or all of them, or those that wait; an unknown id is ignored."""
        if self.in_flight is None:
            return
        if asked.id is not None:
            self.in_flight.cancel(asked.id)
        elif asked.waiting:
            self.in_flight.stop(CANCELLED, only_waiting=True)
        else:
            self.in_flight.cancel_all()

    def promote(self, call_id: str) -> Fault | None:
        """Make a job of a call that runs or waits; why it cannot be one."""
        if not self.has_jobs:
            return NO_JOBS
        return TOO_LATE if self.in_flight is None else self.in_flight.promote(call_id)

    def list_tools(self, asked: ToolsReq) -> Fault | None:
        """Answer `tools` or `select`; or why that cannot be."""
        return self._sender.answer(asked)

    def take_reply(self, reply: Reply) -> None:
        """The agent's answer to a question; one to none is ignored."""
        if self._questions is None:
            return
        try:
            self._questions.take(reply)
        except Exception as error:  # noqa: BLE001  # guard: the question was one call's, which ends at its limit
            self._log.incident("question failed", error)
        self._channel.flush()

    @property
    def questions(self) -> Questions:
        """The questions that the agent has not answered yet."""
        if self._questions is None:
            self._questions = Questions(self.machine)
        return self._questions

    # --- the agent, as far as the session's own servers may ask (`AgentSide`) ---

    @property
    def roots(self) -> tuple[str, ...]:
        """`file://` URIs."""
        return self._runtime.setup.roots(self.profile, self.workspace)

    @property
    def answers(self) -> frozenset[str]:
        """The kinds of questions that the agent said in `hello` that it answers."""
        return self.machine.asked.answers

    def ask(self, server: str, asked: Sequence[Question], origin: object = None) -> list[str]:
        """Ask the agent, and send the questions; as `Questions.ask`. `told` comes in a later turn."""
        call = origin if isinstance(origin, AgentCall) else None
        if call is None and self.in_flight is not None:
            call = self.in_flight.oldest_at(server, self._runtime.setup.catalog.tools)
        questions = self.questions.ask(server, asked, call=None if call is None else call.known_as)
        self._channel.flush()
        return questions

    def withdraw(self, question: str) -> None:
        """Stop waiting for this answer."""
        if self._questions is not None:
            self._questions.withdraw(question)

    def hears(self, server: str) -> bool:
        """Whether the agent asked to speak with its servers, and may with this one."""
        return self.machine.asked.servers and self.toolset.passing_server(server) is not None

    def note(self, server: str, method: str, params: Raw) -> None:
        """Tell the agent what a server that it hears says."""
        at = next((each for each in self.toolset.servers if each.name == server), None)
        if at is not None:
            at.notes = at.notes or ServerNotes(self._runtime.services.timer, self.machine, self._channel, server)
            at.notes.take(method, params)

    # --- what its calls need ---

    @property
    def opening_limit_s(self) -> float:
        """How long a call may wait for the servers."""
        return self.toolset.opening_limit_s

    def lifted(self, name: str) -> Plan | Fault:
        """The plan of a tool that a chain of this session lifts, or why there is none."""
        return self.toolset.inner(name)

    def approver(self) -> AskedSession | None:
        """Who is asked about its calls."""
        state = self._runtime.state
        root = self if self.lineage is None else state.opened.get(self.lineage.account.number)
        return state.approvers.of(self, root, self._runtime.setup, self._channel.gate_key)

    def incident(self, tool: str, error: Exception) -> Fault:
        """Log a defect in one call; the fault that tells of it."""
        incident = self._log.bind(tool=tool).incident("call failed", error)
        return Fault(Code.INTERNAL_ERROR, f"a defect of the daemon, incident {incident}", {"incident": incident})

    def flush(self) -> None:
        """Send the outgoing lines and servers' queued requests."""
        self._channel.flush()

    def start_soon(self, task: Task) -> None:
        """Run `task` among the session's; raises `RuntimeError` once the session is over."""
        self._tasks().start_soon(task)

    def own(self, run: Task, close: Callable[[], None]) -> None:
        """Run a connection's owner task, under its guard."""
        self._tasks().own(run, close)

    def keep(self, run: Task, close: Callable[[], None]) -> None:
        """Run what outlives a call; when the session ends `close` is called."""
        self._tasks().keep(run, close)

    def _tasks(self) -> TaskTree:
        if self.machine.state is State.CLOSED:
            raise RuntimeError("a session that is over starts no tasks")
        if self._tree is None:
            self._tree = TaskTree(
                self._runtime.services.home, self._log, closing=self._close_servers, ended=self._tasks_ended
            )
        return self._tree

    def _tasks_ended(self) -> None:
        try:
            if self.in_flight is not None:
                self.in_flight.stop_at_once(CANCELLED)
        finally:
            self._close()

    # --- ends of the session ---

    def drain(self) -> None:
        """No more requests: what runs is finished, its jobs are cancelled, then all that it owns is torn down."""
        if self.machine.state is not State.CLOSED:
            self.machine.apply(Event.ENDED)
            if self._questions is not None:
                self._questions.close()
            if self.in_flight is not None:
                self.in_flight.stop(CANCELLED, only_jobs=True)
            self.settle()

    def gone(self) -> None:
        """The agent has left: cancel its calls, then tear down all that the session owns."""
        if self.machine.state is not State.CLOSED:
            self.machine.apply(Event.GONE)
            self._stop_calls(CANCELLED)
            self.settle()

    def abort(self, fault: Fault = DRAINING) -> None:
        """The grace is over: what still runs is ended with `fault`, and nothing is waited for."""
        if self.machine.state is not State.CLOSED:
            self._abort_opening(fault)
            self._stop_calls(fault)
            self.settle()
            self._channel.flush()

    def _abort_opening(self, fault: Fault = DRAINING) -> None:
        """Take no more requests, and wait for no server; a `hello` that did gets `fault` in the place of `ready`."""
        if self.machine.is_greeted and self._is_opening:
            self.machine.refuse_opening(fault)
        self._is_forced = True
        self.machine.apply(Event.ENDED)

    def _stop_calls(self, fault: Fault) -> None:
        if self._questions is not None:
            self._questions.close()
        if self.in_flight is not None:
            self.in_flight.stop(fault)

    def settle(self) -> None:
        """Begin the teardown once every request is answered."""
        if self.machine.state is not State.DRAINING or self.in_flight:
            return
        if self._is_opening:
            # `ready` is still owed; but nobody can call what it would name where the daemon ends.
            if not self._runtime.state.is_draining:
                return
            self._abort_opening()
        if self._tree is not None:
            self._tree.end()
        else:
            self._close()

    def _close_servers(self) -> None:
        self.toolset.close()
        if self._formers is not None:
            self._formers.close()

    def _close(self) -> None:
        if self.machine.state is State.CLOSED:
            return
        self._runtime.state.approvers.forget(self)
        if self._questions is not None:
            self._questions.close()
        # Shared servers have no tasks in this session whose end would have released them.
        self._close_servers()
        if self._list_sender is not None:
            self._list_sender.close()
        if self.machine.state is not State.DRAINING:
            self.machine.apply(Event.ENDED)
        self.machine.apply(Event.TORN_DOWN)
        del self._runtime.state.opened[self.number]
        account = None if self.in_flight is None else self.in_flight.close()
        answered, faults = closing_figures(self.lineage, account, self.answered, self.faults)
        if self._is_logged:
            self._log.info("session closed", profile=self.profile, answered=answered, faults=faults)
        if self._formers is not None:
            self._formers.forget()
        self._runtime.leave()
        self._channel.closed(self.machine.agent)
        self.in_flight = self._questions = self._list_sender = self._tree = None
        self.toolset.forget()
