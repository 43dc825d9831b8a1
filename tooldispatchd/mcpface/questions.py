"""What a client is asked: by servers for elicitation, sampling or its roots, and whether calls may run.

A client of a handshake is asked by a request of ours, under the ticket of the call that the question belongs to. One of
the stateless revision is told `input_required` with all questions of a round: its call goes on in the daemon, and its
retry, known by a `requestState` that nobody can guess, brings the answers and gets what the call gives. A task of that
revision has its questions with it. Each question is answered once, or refused.
"""

from functools import partial
from typing import Final
from uuid import uuid4

import msgspec
from msgspec import Raw, UnsetType

from tooldispatchd.mcpface.alarms import Alarms
from tooldispatchd.mcpface.approvals import NO_FORMS, form_of, verdict_of
from tooldispatchd.mcpface.clientside import ClientRequest, ClientSide
from tooldispatchd.mcpface.daemonside import DaemonLine, DaemonSide
from tooldispatchd.mcpface.jsonrpc import UNREADABLE, WRONG_PARAMS, is_object, members
from tooldispatchd.mcpface.revisions import RELATED_TASK, ClientOffer
from tooldispatchd.mcpface.tasks import QUESTION_S, ClientTask, ClientTasks

# As many calls as a daemon lets an agent have in flight.
MAX_PARKED: Final = 256

# The port of a question whether a call may run.
APPROVE: Final = "approve_req"

# By the kind of a question, which is also the capability that a client needs for it.
_METHODS: Final = {"elicitation": "elicitation/create", "sampling": "sampling/createMessage", "roots": "roots/list"}


class _Asked(msgspec.Struct):
    mode: str = "form"


class _Question:
    """One question, until it is answered."""

    def __init__(self, line: DaemonLine) -> None:
        self.id = line.id or ""
        self.is_approval = line.port == APPROVE
        self.is_open = True
        if self.is_approval:
            self.kind, self.params = "elicitation", form_of(line)
        else:
            self.kind = line.kind or ""
            self.params = Raw(b"{}") if isinstance(line.params, UnsetType) else line.params

    def needs(self, offer: ClientOffer) -> dict[str, object] | None:
        """The capabilities that `offer` lacks for it; None where it may be put."""
        if self.kind != "elicitation":
            return None if self.kind in _METHODS and getattr(offer, self.kind) is not None else {self.kind: {}}
        is_page = _mode(self.params) == "url"
        if offer.has_pages if is_page else offer.has_forms:
            return None
        return {self.kind: {"url": {}} if is_page else {}}

    @property
    def told(self) -> dict[str, object]:
        """It as an input request."""
        return {"method": _METHODS[self.kind], "params": self.params}


class _Round:
    """A call of the stateless revision that asked something, and what it still wants to know."""

    def __init__(self, request: ClientRequest) -> None:
        self.request = request
        self.open: dict[str, _Question] = {}


class ClientQuestions:
    """Takes questions of the daemon to the client, and the answers back."""

    def __init__(self, client: ClientSide, daemon: DaemonSide, tasks: ClientTasks, alarms: Alarms) -> None:
        self._client = client
        self._daemon = daemon
        self._tasks = tasks
        self._alarms = alarms
        self._rounds: dict[int, _Round] = {}
        """By the number of the call."""
        self._states: dict[str, _Round] = {}
        daemon.listeners["ask"] = daemon.listeners[APPROVE] = self._take

    def knows(self, state: str) -> bool:
        """Whether a retry with this `requestState` is to come."""
        return state in self._states

    def end(self) -> None:
        """Nothing more comes from the client: no retry either."""
        for state in list(self._states):
            self._forget(state)
        self._tasks.end()

    def retry(self, request: ClientRequest) -> None:
        """Take the retry of a call, with its answers."""
        round_ = self._states.get(request.params.request_state or "")
        # Another method or thing is no retry, whatever state it shows.
        if round_ is None or round_.request.subject != request.subject:
            self._client.fail(request, WRONG_PARAMS, "this requestState is not known, or was used")
            return
        del self._states[request.params.request_state or ""]
        parked = round_.request
        parked.ended.append(partial(self._ended, round_))
        round_.open = {key: one for key, one in round_.open.items() if not self._is_answered(one, key, request)}
        self._client.adopt(parked, request)
        if round_.open and parked.number in self._client.open:
            self._park(round_)
        else:
            self._tasks.promote_later(parked)

    def _take(self, line: DaemonLine) -> None:
        question, request, task = _Question(line), self._belongs_to(line), self._tasks.of_job(line.call)
        needs = question.needs((task or request or self._client).offer)
        stateless = request if request is not None and request.revision.is_stateless else None
        if self._client.has_ended:
            self._answer(question, None)
        elif needs is None and task is not None:
            self._ask_in(task, line, question)
        elif needs is None and stateless is not None:
            self._gather(line, question, stateless)
        elif needs is None:
            self._ask(question, request)
        elif question.is_approval:
            question.is_open = False
            self._daemon.decide(question.id, {"allow": False, "reason": NO_FORMS})
        else:
            # Servers of a handshake ask for roots in passing: no call fails for that.
            if stateless is not None and (line.key is not None or question.kind != "roots"):
                self._client.lacks(stateless, needs)
                stateless.cancel()
            self._answer(question, None)

    def _ask(self, question: _Question, request: ClientRequest | None) -> None:
        key = f"question-{question.id}"
        self._alarms.after(QUESTION_S, partial(self._client.withdraw, key))
        if request is not None:
            request.ended.append(partial(self._client.withdraw, key))
        self._client.ask(key, _METHODS[question.kind], question.params, request, partial(self._answer, question))

    def _ask_in(self, task: ClientTask, line: DaemonLine, question: _Question) -> None:
        # No two questions of a task have one key: clients may leave out those that they have answered.
        key = question.id if line.key is None else f"{line.key}-{question.id}"
        asked = f"question-{question.id}"

        def end(answer: Raw | None) -> None:
            self._client.withdraw(asked)
            self._answer(question, answer)

        self._tasks.ask(task, key, question.told, end)
        if not task.takes_updates:
            # A client of a handshake is asked beside its task, whose state tells of it.
            params, then = _related(question.params, task.id), partial(self._tasks.settle, task, key)
            self._client.ask(asked, _METHODS[question.kind], params, None, then)

    def _gather(self, line: DaemonLine, question: _Question, request: ClientRequest) -> None:
        round_ = self._rounds.get(request.number)
        if round_ is None:
            if len(self._rounds) >= MAX_PARKED:
                self._answer(question, None)
                return
            round_ = self._rounds[request.number] = _Round(request)
            request.ended.append(partial(self._ended, round_))
        # The server's own name for it, where it gave one.
        key = line.key or question.id
        key = f"{key}-{question.id}" if key in round_.open else key
        # What was said before it was asked was said of another call.
        if question.is_approval or not self._is_answered(question, key, request):
            round_.open[key] = question
        # A call that is parked already is told of it when it comes back.
        if round_.open and not line.more and not request.is_parked:
            self._park(round_)

    def _is_answered(self, question: _Question, key: str, request: ClientRequest) -> bool:
        """Answer it with what the client's request says to it, if anything: then it is asked no more."""
        given = request.params.input_responses or {}
        if not is_object(given.get(key)):
            return False
        self._answer(question, given.pop(key))
        return True

    def _park(self, round_: _Round) -> None:
        # Without `secrets`, as in `tasks`.
        state = uuid4().hex
        self._states[state] = round_
        self._alarms.after(QUESTION_S, partial(self._forget, state))
        self._client.park(round_.request, {key: one.told for key, one in round_.open.items()}, state)

    def _forget(self, state: str) -> None:
        round_ = self._states.pop(state, None)
        if round_ is not None:
            round_.request.cancel()
            self._drop(round_)

    def _ended(self, round_: _Round) -> None:
        # What ends by being asked is parked in the same breath.
        if round_ not in self._states.values():
            self._drop(round_)

    def _drop(self, round_: _Round) -> None:
        self._rounds.pop(round_.request.number, None)
        for question in round_.open.values():
            self._answer(question, None)

    def _belongs_to(self, line: DaemonLine) -> ClientRequest | None:
        # A call's id begins with its request's number; a job's does not, and nobody waits for that.
        number = (line.call or "").partition(".")[0]
        if not number.isdecimal() or len(number) > 18:
            return None
        round_ = self._rounds.get(int(number))
        return self._client.open.get(int(number)) if round_ is None else round_.request

    def _answer(self, question: _Question, result: Raw | None) -> None:
        if not question.is_open:
            return
        question.is_open = False
        if question.is_approval:
            self._daemon.decide(question.id, verdict_of(result))
            return
        refusal: dict[str, object] = {"refuse": "the client answers no such question"}
        self._daemon.respond(question.id, refusal if result is None else {"result": result})


def _related(params: Raw, task_id: str) -> object:
    """`params` with the task that they belong to, where they are an object."""
    try:
        fields = members(params)
        meta = members(fields.get("_meta", b"{}"))
    except UNREADABLE:
        return params
    return {**fields, "_meta": dict[str, object](meta) | {RELATED_TASK: {"taskId": task_id}}}


def _mode(params: Raw) -> str:
    try:
        return msgspec.json.decode(params, type=_Asked).mode
    except UNREADABLE:
        return "form"
