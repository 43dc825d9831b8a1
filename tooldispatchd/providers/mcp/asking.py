"""What a server asks: its own requests and notifications but progress, and what it must know to answer a call.

    server ── request ──▶ ServerRequests ── sampling, elicitation ──▶ QuestionRelay ── ask ──▶ agent
       ◀── result, error ──┘ ping, roots, all others at once               ◀──── ask_resp ──────┘

Every request is answered exactly once, unless the server cancels it or the connection ends: servers wait for ever. An
agent is asked only what it said that it answers; what it says reaches the server only in the shape that was asked for.
Sources: MCP 2024-11-05 to 2025-11-25, "Roots", "Sampling", "Elicitation", "Ping", "Cancellation".

    tools/call ──▶ input_required: requests, state ──▶ InputRound asks the agent ──▶ tools/call again, with both

In the newer revision (2026-07-28, `InputRequiredResult`) the server keeps nothing meanwhile: its `requestState` goes
back as it came, and is never looked into. What may be asked, and for how long, is the same rule of the `QuestionRelay`.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal, Protocol
from urllib.parse import unquote

import msgspec
import trio
from msgspec import Raw, UnsetType

from tooldispatchd.catalog.schemas import LIGHT, parts_of
from tooldispatchd.providers.mcp.greeting import SKILLS, UI
from tooldispatchd.providers.mcp.logmessages import BoundLog, ServerLog, printable
from tooldispatchd.providers.mcp.messages import (
    DECODE_ERRORS,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Id,
    Incoming,
    InputRequired,
    Outgoing,
    decoded,
)
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.wire.messages import AskResp, Reply
from tooldispatchd.wire.questions import Question

# One connection's questions that wait at once: the agent has other servers too.
MAX_OPEN: Final = 16
# A conversation with an image in it; the agent reads it as one line.
MAX_PARAMS_BYTES: Final = 1024 * 1024
# What an agent answers may hold some images more.
MAX_RESULT_BYTES: Final = 4 * 1024 * 1024
# An escape takes 11 ns where it is read and written anew, a part up to a hundred.
_ESCAPES_OF_A_PART: Final = 16
# Comes back in the answer; servers count, or write a UUID.
MAX_ID_CHARS: Final = 512
# Why an agent refused is a sentence.
MAX_REASON_CHARS: Final = 500

# JSON-RPC 2.0, "Error object"; the first two lie in its range for servers' own, and the second is the SDKs' time-out.
TOO_MANY: Final = -32000
TIMED_OUT: Final = -32001
INVALID_REQUEST: Final = -32600
INTERNAL_ERROR: Final = -32603
# MCP 2025-06-18, "Sampling", error handling: the user rejected the request.
REJECTED: Final = -1

KINDS: Final = {"roots/list": "roots", "sampling/createMessage": "sampling", "elicitation/create": "elicitation"}

LISTS: Final = frozenset({"notifications/prompts/list_changed", "notifications/resources/list_changed"})
# What is of interest to who reads a server's resources and prompts.
NOTES: Final = LISTS | {"notifications/resources/updated", "notifications/message"}
# MCP 2025-11-25, "Elicitation": what a page was opened for is done.
PAGE_DONE: Final = "notifications/elicitation/complete"
# MCP Apps, 2026-01-26: the pages that a host can show.
APP_TYPE: Final = "text/html;profile=mcp-app"
# By the mode of an elicitation, the word of `answers` that takes it.
MODES: Final = {"form": "elicitation", "url": "url"}
# A message of a log; longer ones are not passed on.
MAX_NOTE_BYTES: Final = 64 * 1024


class AgentSide(Protocol):
    """The agent behind a connection, as far as servers may ask it."""

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders that servers are told to work on, as `file://` URIs, by its profile."""

    @property
    def answers(self) -> frozenset[str]:
        """Those of `KINDS` that the agent answers; `url` where it opens addresses, `ui` where it shows MCP Apps."""

    def ask(self, server: str, asked: Sequence[Question], origin: object = None) -> list[str]:
        """Ask the agent, and have the questions sent; as `wire.questions.Questions.ask`.

        No `told` is called before this has returned. `origin` is that of the call which they are asked for, if known.
        """

    def hears(self, server: str) -> bool:
        """Whether the agent wants to be told what the server says beyond its tools."""

    def note(self, server: str, method: str, params: Raw) -> None:
        """The server says so: a notification of `NOTES`, for an agent that hears it, or `PAGE_DONE`."""

    def withdraw(self, question: str) -> None:
        """Wait no more for this answer; `told` is not called for it."""


class _Nobody:
    roots: tuple[str, ...] = ()
    answers: frozenset[str] = frozenset()

    def ask(self, server: str, asked: Sequence[Question], origin: object = None) -> list[str]:  # noqa: ARG002 - a Protocol's
        return []

    def hears(self, server: str) -> bool:  # noqa: ARG002 - a Protocol's
        return False

    def note(self, server: str, method: str, params: Raw) -> None:
        """Nobody hears it."""

    def withdraw(self, question: str) -> None:
        """Nothing was asked."""


NOBODY: Final[AgentSide] = _Nobody()
"""Stands behind a connection that many agents share, as none of them could be chosen to answer."""


def capabilities(agent: AgentSide, server: str = "") -> dict[str, object]:
    """What the client offers to servers on behalf of `agent` (MCP, `ClientCapabilities`).

    Of sampling none with tools, which needs more of an agent than one answer. Elicitation without modes means forms.
    """
    offered: dict[str, object] = {
        kind: {} for kind in KINDS.values() if kind in agent.answers or (kind == "roots" and agent.roots)
    }
    if "url" in agent.answers:
        offered["elicitation"] = {mode: {} for mode, word in MODES.items() if word in agent.answers}
    extensions: dict[str, object] = {UI: {"mimeTypes": [APP_TYPE]}} if "ui" in agent.answers else {}
    # An agent that reads the server's resources gets its skills as well.
    extensions |= {SKILLS: {}} if agent.hears(server) else {}
    return offered | ({"extensions": extensions} if extensions else {})


class JsonRpcError(msgspec.Struct, frozen=True):
    """Why a server's request has no result: a JSON-RPC error's code and message."""

    code: int
    message: str


Answered = Callable[[Raw | JsonRpcError], None]


class _Sampled(msgspec.Struct):
    role: Literal["user", "assistant"]
    content: dict[str, object] | list[dict[str, object]]
    model: str


class _Elicited(msgspec.Struct):
    action: Literal["accept", "decline", "cancel"]
    content: dict[str, object] | None = None


class _Root(msgspec.Struct):
    uri: str


class _Rooted(msgspec.Struct):
    roots: list[_Root]


class _Cancelled(msgspec.Struct):
    id: int | float | str = msgspec.field(name="requestId")


_decode_params: Final = msgspec.json.Decoder(dict[str, object]).decode
_decode_value: Final = msgspec.json.Decoder().decode
_decode_cancelled: Final = msgspec.json.Decoder(_Cancelled).decode
_decode_result: Final[dict[str, Callable[[Raw], object]]] = {
    "sampling": msgspec.json.Decoder(_Sampled).decode,
    "elicitation": msgspec.json.Decoder(_Elicited).decode,
    "roots": msgspec.json.Decoder(_Rooted).decode,
}
_encode: Final = msgspec.json.Encoder().encode

PONG: Final = Raw(b"{}")
DECLINED: Final = Raw(b'{"action":"decline"}')
UNKNOWN: Final = JsonRpcError(METHOD_NOT_FOUND, "Method not found")
GONE: Final = JsonRpcError(INTERNAL_ERROR, "The agent is gone")
CROWDED: Final = JsonRpcError(TOO_MANY, "Too many requests wait for the agent already")
MALFORMED: Final = JsonRpcError(INTERNAL_ERROR, "The agent's answer has not the form that the request needs")


class _Waiting:
    """A question that was asked, or a pause, which has no `question`; it waits until `due` at the latest."""

    __slots__ = ("answered", "due", "question")

    def __init__(self, due: float, answered: Answered) -> None:
        self.due = due
        self.answered = answered
        self.question: str | None = None


class ToAsk(msgspec.Struct, frozen=True):
    """What is to be asked of the agent: a kind, what the server wrote, and the server's key of it in a round."""

    kind: str
    params: Raw
    key: str | None = None


class QuestionRelay:
    """One connection's questions to its agent, at most `MAX_OPEN` of them and each for the server's `call_s`.

    Times are trio's. Each asker is told exactly once, unless it withdraws or the connection ends. `waiting` holds what
    waits by its numbers; others only look whether there is anything.
    """

    __slots__ = ("_asked", "_in_vain", "_is_closed", "_server", "agent", "waiting")

    def __init__(self, server: Server, agent: AgentSide) -> None:
        self._server = server
        self.agent = agent
        self._asked = 0
        self._is_closed = False
        self.waiting: dict[int, _Waiting] = {}
        # Until when questions count that were withdrawn: the agent has them all the same, and a server that asks and
        # withdraws in turn must not flood it.
        self._in_vain: list[float] = []

    @property
    def due(self) -> float:
        return min(each.due for each in self.waiting.values()) if self.waiting else math.inf

    def read(self, method: str, params: Raw | UnsetType) -> Raw | JsonRpcError | ToAsk:
        """The answer to a server's request, as far as it can be given at once; else what the agent is to be asked."""
        if self._is_closed:
            return GONE
        if method == "roots/list" and self.agent.roots:
            roots = [
                {"uri": uri, "name": unquote(uri.removeprefix("file://").rstrip("/").rpartition("/")[2]) or "/"}
                for uri in self.agent.roots
            ]
            return Raw(_encode({"roots": roots}))
        kind = KINDS.get(method)
        if kind is None or self.agent.answers.isdisjoint(MODES.values() if kind == "elicitation" else (kind,)):
            return UNKNOWN
        asked = _read_params(kind, params, self.agent.answers)
        return asked if isinstance(asked, JsonRpcError) else ToAsk(kind, asked)

    def ask(self, asked: Sequence[tuple[ToAsk, Answered]], origin: object = None) -> list[int] | JsonRpcError:
        """Ask the agent all of that, or nothing: the numbers under which each `Answered` waits for its answer.

        `origin` is as of `AgentSide.ask`.
        """
        now = trio.current_time()
        self._in_vain = [due for due in self._in_vain if due > now]
        # So many the agent may still be busy with.
        busy = len(self._in_vain) + sum(each.question is not None for each in self.waiting.values())
        if busy + len(asked) > MAX_OPEN:
            return CROWDED
        numbers = [self._wait(self._server.call_s, answered) for _, answered in asked]
        questions = [
            Question(each.kind, each.params, partial(self._take, number, each.kind), each.key)
            for number, (each, _) in zip(numbers, asked, strict=True)
        ]
        ids = self.agent.ask(self._server.name, questions, origin)
        waiting = [self.waiting.get(number) for number in numbers]
        for each, id_ in zip(waiting, ids, strict=False):
            if each is None:
                # To send a question may be how it is noticed that the agent is gone, which ends its connections.
                return GONE
            each.question = id_
        if not ids:
            # It answers these kinds, so it is asked too much, or is leaving.
            for number in numbers:
                self.waiting.pop(number, None)
            return CROWDED
        return numbers

    def pause(self, seconds: float, over: Callable[[], None]) -> int:
        """Call `over` after that time; the number to withdraw it by."""
        return self._wait(seconds, lambda _answer: over())

    def withdraw(self, number: int) -> None:
        """Nobody waits for this any more; an unknown number is ignored."""
        waiting = self.waiting.get(number)
        if waiting is not None and waiting.question is not None:
            self._in_vain.append(waiting.due)
        self.drop(number)

    def drop(self, number: int) -> None:
        """Withdraw what ends with its call: the agent knows that end, so it is not busy with the question."""
        waiting = self.waiting.pop(number, None)
        if waiting is not None and waiting.question is not None:
            self.agent.withdraw(waiting.question)

    def expire(self, now: float) -> None:
        """Withdraw what has waited long enough at `now`, and tell those who asked."""
        late = JsonRpcError(TIMED_OUT, f"The agent did not answer within {self._server.call_s:g} s")
        for number, waiting in [each for each in self.waiting.items() if each[1].due <= now]:
            # One of those before it may have withdrawn it.
            if number in self.waiting:
                self.withdraw(number)
                waiting.answered(late)

    def clear(self) -> None:
        """Withdraw everything and tell nobody."""
        for number in list(self.waiting):
            self.withdraw(number)

    def close(self) -> None:
        """Withdraw everything, and ask nothing after that."""
        self._is_closed = True
        self.clear()

    def _wait(self, seconds: float, answered: Answered) -> int:
        self._asked += 1
        self.waiting[self._asked] = _Waiting(trio.current_time() + seconds, answered)
        return self._asked

    def _take(self, number: int, kind: str, reply: Reply | None) -> None:
        waiting = self.waiting.pop(number, None)
        if waiting is not None:
            waiting.answered(_read_reply(kind, reply))


class ServerRequests:
    """A server's own requests and notifications on one connection.

    `send` takes the answers and has them leave: an agent answers in no turn of the connection's owner. `due` is when
    `tell` should be called, in trio's time. `wants_list` is set when the server's lists have changed; the new listing
    clears it. `relay` is for rounds of input, which share its bounds.
    """

    __slots__ = ("_is_closed", "_lists", "_numbers", "_said", "_send", "_server", "relay", "wants_list")

    def __init__(self, server: Server, agent: AgentSide, log: BoundLog, *, send: Callable[[Outgoing], None]) -> None:
        self.wants_list = False
        self.relay = QuestionRelay(server, agent)
        self._server = server.name
        self._said = ServerLog(server.name, log)
        self._send = send
        self._numbers: dict[Id, int] = {}
        self._is_closed = False
        self._lists = LISTS if server.resources else frozenset()

    @property
    def due(self) -> float:
        return min(self.relay.due, self._said.due) if self.relay.waiting else self._said.due

    def tell(self, now: float) -> None:
        """Deal with what is due at `now`."""
        self.relay.expire(now)
        self._said.tell(now)

    def renew(self) -> None:
        """The server was started anew: forget the requests and notices of its run before."""
        self.wants_list = False
        self.relay.clear()
        self._numbers.clear()

    def close(self) -> None:
        """The connection is over: withdraw what the agent is asked, and send nothing more."""
        if not self._is_closed:
            self._is_closed = True
            self.relay.close()
            self._numbers.clear()
            self._said.close()

    def take_request(self, message: Incoming) -> None:
        """Answer a request of the server, now or when the agent has; one whose id cannot be given back is ignored."""
        id_, method = message.id, message.method
        if self._is_closed or isinstance(id_, UnsetType) or id_ is None or isinstance(method, UnsetType):
            return
        if isinstance(id_, str) and len(id_) > MAX_ID_CHARS:
            return
        if id_ in self._numbers:
            self._send(_answer(id_, JsonRpcError(INVALID_REQUEST, "The id is one of a request that still waits")))
            return
        answer = PONG if method == "ping" else self.relay.read(method, message.params)
        if isinstance(answer, ToAsk):
            numbers = self.relay.ask([(answer, partial(self._answered, id_))])
            if not isinstance(numbers, JsonRpcError):
                self._numbers[id_] = numbers[0]
                return
            answer = numbers
        self._answered(id_, answer)

    def take_notification(self, message: Incoming) -> None:
        """Note what the server tells, but progress; what is unknown is ignored."""
        method = message.method
        if self._is_closed or isinstance(method, UnsetType):
            return
        agent = self.relay.agent
        if "url" in agent.answers if method == PAGE_DONE else method in NOTES and agent.hears(self._server):
            params = _read_note(message.params)
            if params is None and method in LISTS:
                params = PONG  # that it changed is all that matters
            if params is not None:
                agent.note(self._server, method, params)
        if method == "notifications/message":
            self._said.take(message.params, trio.current_time())
        elif method == "notifications/cancelled":
            cancelled = decoded(_decode_cancelled, message.params, MAX_PARAMS_BYTES)
            number = None if cancelled is None else self._numbers.pop(cancelled.id, None)
            if number is not None:
                self.relay.withdraw(number)
        elif method == "notifications/tools/list_changed" or method in self._lists:
            self.wants_list = True

    def _answered(self, id_: Id, answer: Raw | JsonRpcError) -> None:
        self._numbers.pop(id_, None)
        self._send(_answer(id_, answer))


def _answer(id_: Id, answer: Raw | JsonRpcError) -> Outgoing:
    reply: dict[str, object] = {"jsonrpc": "2.0", "id": id_}
    if isinstance(answer, JsonRpcError):
        reply["error"] = answer
    else:
        reply["result"] = answer
    return Outgoing(_encode(reply) + b"\n")


def _read_params(kind: str, params: Raw | UnsetType, answers: frozenset[str]) -> Raw | JsonRpcError:
    """The question for the agent: encoded anew, as a server's bytes may break the agent's line."""
    if isinstance(params, UnsetType):
        return PONG if kind == "roots" else JsonRpcError(INVALID_PARAMS, "The request has no params")
    if len(memoryview(params)) > MAX_PARAMS_BYTES:
        return JsonRpcError(INVALID_PARAMS, f"The params are larger than {MAX_PARAMS_BYTES} bytes")
    if _has_too_many_parts(params):
        return JsonRpcError(INVALID_PARAMS, "The params have too many parts")
    try:
        asked = _decode_params(params)
        # MCP 2025-11-25: what the client did not declare is an error.
        if kind == "elicitation" and MODES.get(str(asked.get("mode", "form"))) not in answers:
            return JsonRpcError(INVALID_PARAMS, "This mode of elicitation is not offered")
        if kind == "sampling" and (asked.get("tools") or asked.get("toolChoice")):
            return JsonRpcError(INVALID_PARAMS, "Sampling with tools is not offered")
        return Raw(_encode(asked))
    except DECODE_ERRORS:
        return JsonRpcError(INVALID_PARAMS, "The params cannot be read")


def _read_note(params: Raw | UnsetType) -> Raw | None:
    """What a notification says, encoded anew as a question is; None where it is too long or cannot be read."""
    if isinstance(params, UnsetType):
        return PONG
    said = None if _has_too_many_parts(params) else decoded(_decode_params, params, MAX_NOTE_BYTES)
    return None if said is None else Raw(_encode(said))


def _has_too_many_parts(text: Raw) -> bool:
    """Whether a value takes more than some milliseconds to be written anew: long texts, such as images, do not."""
    said = bytes(text)
    return parts_of(said) + said.count(b"\\") // _ESCAPES_OF_A_PART > LIGHT


def _read_reply(kind: str, reply: Reply | None) -> Raw | JsonRpcError:
    if not isinstance(reply, AskResp):
        return GONE
    why = reply.refuse
    if why is True or isinstance(why, str):
        if kind == "elicitation":
            # MCP, "Elicitation": to decline is a result, and has no place for a reason.
            return DECLINED
        reason = f": {printable(why, MAX_REASON_CHARS)}" if isinstance(why, str) and why else ""
        return JsonRpcError(REJECTED, f"User rejected {kind} request{reason}")
    result = reply.result
    if isinstance(result, UnsetType) or len(memoryview(result)) > MAX_RESULT_BYTES or _has_too_many_parts(result):
        return MALFORMED
    try:
        _decode_result[kind](result)
        return Raw(_encode(_decode_value(result)))
    except DECODE_ERRORS:
        return MALFORMED


# As the SDKs of the protocol have it: a form has few pages, and a server that never has enough must not go on for ever.
MAX_ROUNDS: Final = 10
# A server that only wants to be asked again is asked after so long, doubled each time up to the second.
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 0.25

METHOD_WORDS: Final = {
    "sampling/createMessage": "a model's answer (sampling)",
    "elicitation/create": "a person's answer (elicitation)",
    "roots/list": "the roots",
}


class InputRound:
    """Round `number` of one call, from 1 on: what `required` asks for is asked of the agent, all at once.

    `done` gets the answers by the server's keys, for `InputRequired.answered`; or, as a phrase, why there are none: the
    agent does not answer that, refused, or did not answer in time. Once, unless `withdraw` comes before.
    """

    __slots__ = ("_done", "_is_over", "_number", "_origin", "_relay", "_required", "_responses", "_waiting")

    def __init__(
        self,
        relay: QuestionRelay,
        required: InputRequired,
        done: Callable[[dict[str, Raw] | str], None],
        *,
        number: int = 1,
        origin: object = None,
    ) -> None:
        self._relay = relay
        self._origin = origin
        self._required = required
        self._done = done
        self._number = number
        self._is_over = False
        self._waiting: dict[str, int] = {}
        self._responses: dict[str, Raw] = {}

    def begin(self) -> None:
        """Ask. `done` may be called within: where nothing has to be waited for, or it is in vain."""
        requests = self._required.requests
        if self._number > MAX_ROUNDS:
            return self._end(f"it asked for input more than {MAX_ROUNDS} times")
        if len(requests) > MAX_OPEN:
            return self._end(f"it asks for more than {MAX_OPEN} things at once")
        if not requests:
            seconds = min(FIRST_PAUSE_S * 2 ** (self._number - 1), LONGEST_PAUSE_S)
            self._waiting[""] = self._relay.pause(seconds, partial(self._end, {}))
            return None
        asked: dict[str, ToAsk] = {}
        for key, request in requests.items():
            answer = self._relay.read(request.method, request.params)
            if isinstance(answer, JsonRpcError):
                return self._refuse(key, answer)
            if isinstance(answer, ToAsk):
                asked[key] = msgspec.structs.replace(answer, key=key)
            else:
                self._responses[key] = answer
        if asked:
            numbers = self._relay.ask([(each, partial(self._take, key)) for key, each in asked.items()], self._origin)
            if isinstance(numbers, JsonRpcError):
                return self._refuse(next(iter(asked)), numbers)
            self._waiting = dict(zip(asked, numbers, strict=True))
        return self._end_if_complete()

    def withdraw(self) -> None:
        """Stop waiting for the agent's answers; `done` is not called."""
        self._is_over = True
        for number in self._waiting.values():
            self._relay.drop(number)
        self._waiting.clear()

    def _take(self, key: str, answer: Raw | JsonRpcError) -> None:
        self._waiting.pop(key, None)
        if isinstance(answer, JsonRpcError):
            return self._refuse(key, answer)
        self._responses[key] = answer
        return self._end_if_complete()

    def _refuse(self, key: str, refusal: JsonRpcError) -> None:
        what = METHOD_WORDS.get(self._required.requests[key].method, "what this client does not know")
        why = "its agent does not answer that" if refusal is UNKNOWN else refusal.message
        self._end(f"it asks for {what}: {why}")

    def _end_if_complete(self) -> None:
        if not self._waiting:
            # In the server's order, whichever was answered first.
            self._end({key: self._responses[key] for key in self._required.requests})

    def _end(self, outcome: dict[str, Raw] | str) -> None:
        if not self._is_over:
            self.withdraw()
            self._done(outcome)
