"""What the daemon asks of a client: a server's elicitation or sampling, and whether a call may run.

A client of a handshake is asked by a request of ours, under the ticket of the call that the question belongs to. One of
the stateless revision is told `input_required`: its call goes on in the daemon, and its retry, known by a
`requestState` that nobody can guess, brings the answers and gets what the call gives. Each question is answered once,
or refused.
"""

import secrets
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from tooldispatchd.mcpface.alarms import Alarms
from tooldispatchd.mcpface.clientside import ClientRequest, ClientSide
from tooldispatchd.mcpface.daemonside import DaemonLine, DaemonSide
from tooldispatchd.mcpface.jsonrpc import UNREADABLE, WRONG_PARAMS

# A person who was called away comes back within that; the daemon's own limits of the call end it earlier.
QUESTION_S: Final = 600.0
# As many calls as a daemon lets an agent have in flight.
MAX_PARKED: Final = 256

_METHODS: Final = {"elicitation": "elicitation/create", "sampling": "sampling/createMessage"}
_NOBODY: Final = "the client answers no such question"


class _Mode(msgspec.Struct):
    mode: str = "form"


class _Elicited(msgspec.Struct):
    action: str = ""
    content: dict[str, object] | None = None


class _Question:
    """One question, until it is answered."""

    def __init__(self, line: DaemonLine, method: str, params: object) -> None:
        self.id = line.id or ""
        self.is_approval = line.port == "approve_req"
        self.method = method
        self.params = params
        self.is_open = True


class _Round:
    """A call of the stateless revision that asked something: who gets its answer, and what it still wants to know."""

    def __init__(self, request: ClientRequest) -> None:
        self.request = request
        self.open: dict[str, _Question] = {}


class ClientQuestions:
    """Takes questions of the daemon to the client, and the answers back."""

    def __init__(self, client: ClientSide, daemon: DaemonSide, alarms: Alarms) -> None:
        self._client = client
        self._daemon = daemon
        self._alarms = alarms
        self._rounds: dict[int, _Round] = {}
        """By the number of the call."""
        self._states: dict[str, _Round] = {}
        daemon.listeners["ask"] = self._take
        daemon.listeners["approve_req"] = self._take

    def knows(self, state: str) -> bool:
        """Whether a retry with this `requestState` is to come."""
        return state in self._states

    def retry(self, request: ClientRequest) -> None:
        """Take the retry of a call, with its answers."""
        round_ = self._states.get(request.params.request_state or "")
        if round_ is None or not _is_same(round_.request, request):
            self._client.fail(request, WRONG_PARAMS, "this requestState is not known, or was used")
            return
        del self._states[request.params.request_state or ""]
        parked, round_.request = round_.request, request
        request.ended.append(partial(self._ended, round_))
        for key, result in (request.params.input_responses or {}).items():
            question = round_.open.pop(key, None)
            if question is not None:
                self._answer(question, result)
        self._client.adopt(parked, request)
        if round_.open and request.number in self._client.open:
            self._park(round_)

    def _take(self, line: DaemonLine) -> None:
        request, method = self._belongs_to(line), _METHODS.get(line.kind or "", "elicitation/create")
        question = _Question(line, method, _approval(line) if line.port == "approve_req" else _params(line))
        offer = self._client.offer if request is None else request.offer
        offered = offer.sampling if method == _METHODS["sampling"] else offer.elicitation
        is_page = _mode(question.params) == "url"
        if offered is None or (is_page and "url" not in offered):
            self._answer(question, None)
        elif request is None or not request.revision.is_stateless:
            self._ask(question, request)
        else:
            self._park_for(question, request)

    def _ask(self, question: _Question, request: ClientRequest | None) -> None:
        key = f"question-{question.id}"
        end = partial(self._expire, question, key)
        if request is not None:
            request.ended.append(end)
        self._alarms.after(QUESTION_S, end)
        self._client.ask(key, question.method, question.params, request, partial(self._answer, question))

    def _expire(self, question: _Question, key: str) -> None:
        if question.is_open:
            self._client.withdraw(key)
            self._answer(question, None)

    def _park_for(self, question: _Question, request: ClientRequest) -> None:
        round_ = next((one for one in self._rounds.values() if one.request is request), None)
        if round_ is None:
            if len(self._rounds) >= MAX_PARKED:
                self._answer(question, None)
                return
            round_ = self._rounds[request.number] = _Round(request)
        round_.open[question.id] = question
        # One that is parked already is told of it when it comes back.
        if not request.is_parked:
            self._park(round_)

    def _park(self, round_: _Round) -> None:
        state = secrets.token_urlsafe(24)
        self._states[state] = round_
        self._alarms.after(QUESTION_S, partial(self._forget, state))
        asked = {key: {"method": one.method, "params": one.params} for key, one in round_.open.items()}
        self._client.park(round_.request, asked, state)

    def _forget(self, state: str) -> None:
        round_ = self._states.pop(state, None)
        if round_ is not None:
            round_.request.cancel()
            self._drop(round_)

    def _ended(self, round_: _Round) -> None:
        # A retry that ends by being asked again is parked in the same breath.
        if round_.request.number not in self._client.open and round_ not in self._states.values():
            self._drop(round_)

    def _drop(self, round_: _Round) -> None:
        self._rounds = {number: one for number, one in self._rounds.items() if one is not round_}
        for question in round_.open.values():
            self._answer(question, None)

    def _belongs_to(self, line: DaemonLine) -> ClientRequest | None:
        number = (line.call or "").partition(".")[0]
        if number.isdecimal() and len(number) < 18:
            round_ = self._rounds.get(int(number))
            return self._client.open.get(int(number)) if round_ is None else round_.request
        calls = [one for one in self._client.open.values() if one.method == "tools/call"]
        calls += [one.request for one in self._rounds.values()]
        named = [one for one in calls if one.params.name == line.name]
        return next(iter(named or calls), None)

    def _answer(self, question: _Question, result: Raw | None) -> None:
        if not question.is_open:
            return
        question.is_open = False
        if question.is_approval:
            allowed = result is not None and _is_approved(result)
            self._daemon.respond("approve_resp", question.id, {"allow": allowed})
        elif result is None:
            self._daemon.respond("ask_resp", question.id, {"refuse": _NOBODY})
        else:
            self._daemon.respond("ask_resp", question.id, {"result": result})


def _is_same(parked: ClientRequest, retry: ClientRequest) -> bool:
    was, now = parked.params, retry.params
    return (parked.method, was.name, was.uri) == (retry.method, now.name, now.uri)


def _params(line: DaemonLine) -> Raw:
    return Raw(b"{}") if isinstance(line.params, UnsetType) else line.params


def _mode(params: object) -> str:
    try:
        return msgspec.json.decode(params, type=_Mode).mode if isinstance(params, Raw) else "form"
    except UNREADABLE:
        return "form"


def _approval(line: DaemonLine) -> dict[str, object]:
    # What is shown to a person is bounded: an input may be megabytes.
    shown = "" if isinstance(line.input, UnsetType) else bytes(line.input)[:2000].decode("utf-8", "replace")
    return {
        "message": f"May the tool {line.name} run? {line.reason or ''}\n{shown}".strip(),
        "requestedSchema": {
            "type": "object",
            "properties": {"allow": {"type": "boolean", "title": "Allow this call"}},
            "required": ["allow"],
        },
    }


def _is_approved(result: Raw) -> bool:
    try:
        said = msgspec.json.decode(result, type=_Elicited)
    except UNREADABLE:
        return False
    return said.action == "accept" and said.content is not None and said.content.get("allow") is True
