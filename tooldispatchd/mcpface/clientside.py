"""The client's side of the face: its messages, the requests that are open, and what is said to it.

A *ticket* is the number of one thing that a client sent: a message, or a batch. A *request* has a number of its own,
and is answered at most once: what answers it takes it out of `open` first.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.mcpface.jsonrpc import (
    INVALID_REQUEST,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNAVAILABLE,
    UNREADABLE,
    WRONG_PARAMS,
    ClientMessage,
    error_json,
    find_lone_surrogate_id,
    is_batch,
    is_id,
    message_json,
    read_message,
    split_batch,
)
from tooldispatchd.mcpface.revisions import R2025_03, REVISIONS, SERVER_INFO, ClientOffer, Params, Revision, read_params
from tooldispatchd.wire.version import VERSION

# More than the calls that a daemon lets one agent have in flight (256), beside lists and questions.
MAX_OPEN: Final = 1024
# No client that is known sends more at once. Each may be a list of megabytes, and its answers are put together.
MAX_BATCH: Final = 16
# It is taken apart before its messages are counted: the smallest ones take some 3 ms.
MAX_BATCH_BYTES: Final = 64 * 1024
# Questions of servers that a client has not answered; the daemon bounds its own.
MAX_ASKED: Final = 256
# Our `Implementation`.
SERVER: Final = {"name": "tooldispatchd", "title": "tooldispatchd", "version": VERSION}

# Lists are one session's, and we are told of changes: a client is to ask again.
_NO_CACHE: Final = {"ttlMs": 0, "cacheScope": "private"}
_LISTS: Final = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
_CACHEABLE: Final = frozenset(
    {*_LISTS, "server/discover", "resources/read", "resources/directory/read", "skills/list", "skills/get"}
)
_NO_PARAMS: Final = Raw(b"{}")
_NO_META: Final[Mapping[str, object]] = {}


class Said(msgspec.Struct, frozen=True):
    """One message for the client. Each ticket has exactly one `is_last`.

    Where a ticket gets no answer (a notification, an answer to our question, a cancelled request), `message` of its
    last one is empty: nothing is to be sent, and over HTTP the exchange is over (202 where nothing was sent before).
    """

    message: bytes
    """JSON without a newline; or nothing."""
    ticket: int | None
    """The client's message that it belongs to; None: said unasked (the GET stream, or plain stdio)."""
    is_last: bool = False
    """The answer, of a batch all of it: nothing more comes under this ticket."""


class ClientRequest:
    """A request that waits for its answer."""

    def __init__(self, number: int, ticket: int, method: str, id_: Raw) -> None:
        self.number = number
        self.ticket = ticket
        self.id = id_
        self.method = method
        self.params = Params()
        self.revision = R2025_03
        self.offer = ClientOffer()
        self.headers: Mapping[str, str] | None = None
        """Those that repeat arguments, by their names in lower case; None where it did not come over HTTP."""
        self.cancel: Callable[[], None] = lambda: None
        """What is to be done when the client cancels it."""
        self.ended: list[Callable[[], None]] = []
        """What is to be done when it is answered, or ends without an answer."""
        self.steps = 0
        """Calls of the daemon that were made for it."""
        self.progress = float("-inf")
        """The last that was told."""
        self.is_parked = False
        """Whether it was answered with a question and is to be retried."""
        self.kept: Callable[[], None] | None = None
        """Gives its retry the answer that came meanwhile."""

    @property
    def wants_task(self) -> bool:
        """Whether it asks for a task, in the revision in which clients do."""
        return self.revision.has_tasks and self.params.task is not None

    @property
    def subject(self) -> tuple[str, str | None, str | None]:
        """What it asks for: a retry asks for the same."""
        return self.method, self.params.name, self.params.uri


class _Batch:
    def __init__(self) -> None:
        self.left = 1
        self.answers: list[bytes] = []


class ClientSide:
    """Reads messages, keeps the requests that are open, and writes what is said.

    `serve` answers a request, now or later; `hear` takes a notification.
    """

    def __init__(self, serve: Callable[[ClientRequest], None], hear: Callable[[str, Params], None]) -> None:
        self.to_client: list[Said] = []
        self.open: dict[int, ClientRequest] = {}
        self.revision = R2025_03
        """What the handshake agreed on; before it, what a client that says none is taken to speak."""
        self.offer = ClientOffer()
        self._serve, self._hear = serve, hear
        self._beside: Revision | None = None
        self._headers: Mapping[str, str] | None = None
        self._numbers = 0
        self._batches: dict[int, _Batch] = {}
        self._asked: dict[str, Callable[[Raw | None], None]] = {}
        self.has_ended = False
        """Whether nothing more comes from the client."""

    def take(self, text: bytes, revision: str | None = None, headers: Mapping[str, str] | None = None) -> int:
        """Take a message or a batch; returns its ticket. `revision` and `headers` are what HTTP says beside it."""
        ticket, self._headers = self._number(), headers
        self._beside = REVISIONS.get(revision or "")
        take = self._take_batch if is_batch(text) else self._take_one
        take(ticket, text)
        return ticket

    def answer(
        self, request: ClientRequest, result: Mapping[str, object], meta: Mapping[str, object] = _NO_META
    ) -> None:
        """Answer `request` with a result and its `_meta`, unless it was answered."""
        if request.is_parked:
            request.kept = partial(self.answer, request, result, meta)
            return
        said = result.get("_meta")
        meta = {**said, **meta} if isinstance(said, dict) else meta
        if request.revision.is_stateless:
            cache = _NO_CACHE if request.method in _CACHEABLE else {}
            result = {"resultType": "complete", **cache, **result}
            meta = {**meta, SERVER_INFO: SERVER}
        whole = {**result, "_meta": meta} if meta else result
        self._close(request, message_json(id=request.id, result=whole))

    def fail(self, request: ClientRequest, code: int, message: str, data: object = UNSET) -> None:
        """Answer `request` with an error, unless it was answered."""
        if request.is_parked:
            request.kept = partial(self.fail, request, code, message, data)
        else:
            self._close(request, error_json(request.id, code, message, data))

    def lacks(self, request: ClientRequest, capabilities: Mapping[str, object]) -> None:
        """Fail `request`, which needs what its client did not say that it can do."""
        why = "the request needs a capability that its client did not declare"
        self.fail(request, MISSING_CAPABILITY, why, {"requiredCapabilities": capabilities})

    def drop(self, request: ClientRequest) -> None:
        """End `request` without an answer: its client said that it does not want one."""
        self._close(request, b"")

    def park(self, request: ClientRequest, questions: Mapping[str, object], state: str) -> None:
        """Answer `request` with questions; what would answer it is kept for its retry."""
        self.answer(request, {"resultType": "input_required", "inputRequests": questions, "requestState": state})
        request.is_parked = True

    def adopt(self, parked: ClientRequest, retry: ClientRequest) -> None:
        """Go on with `parked` as what its client now calls it: it is answered where `retry` would be."""
        del self.open[retry.number]
        self.open[parked.number] = parked
        parked.id, parked.ticket, parked.params, parked.offer = retry.id, retry.ticket, retry.params, retry.offer
        parked.is_parked = False
        if parked.kept is not None:
            parked.kept()

    def notify(self, method: str, params: object = UNSET, request: ClientRequest | None = None) -> None:
        """Say a notification, under the ticket of `request` if it is about one; none about one that has ended."""
        if request is None or request.number in self.open:
            self._say(message_json(method=method, params=params), request)

    def ask(
        self, key: str, method: str, params: object, request: ClientRequest | None, then: Callable[[Raw | None], None]
    ) -> None:
        """Ask the client; `then` gets its result, or None where it refused or cannot be asked any more."""
        if self.has_ended or len(self._asked) >= MAX_ASKED:
            then(None)
            return
        self._asked[key] = then
        self._say(message_json(id=key, method=method, params=params), request)

    def withdraw(self, key: str) -> None:
        """Give up a question, if it is not answered: then it is as if refused."""
        then = self._asked.pop(key, None)
        if then is not None:
            self.notify("notifications/cancelled", {"requestId": key})
            then(None)

    def end(self) -> None:
        """Nothing more comes from the client: it answers no question that is open, and can be asked no other."""
        self.has_ended = True
        for key in list(self._asked):
            self.withdraw(key)

    def find(self, id_: Raw) -> ClientRequest | None:
        """The latest open request with that id."""
        return next((one for one in reversed(self.open.values()) if one.id == id_), None)

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _take_batch(self, ticket: int, text: bytes) -> None:
        is_taken = self.revision.has_batches and len(text) <= MAX_BATCH_BYTES
        try:
            parts = split_batch(text) if is_taken else []
        except UNREADABLE:
            self._say_last(ticket, error_json(None, PARSE_ERROR, "cannot read the batch: it is not JSON"))
            return
        if not 0 < len(parts) <= MAX_BATCH:
            why = f"cannot take the batch: the revision has none, or it has not 1 to {MAX_BATCH} messages"
            self._say_last(ticket, error_json(None, INVALID_REQUEST, why))
            return
        batch = self._batches[ticket] = _Batch()
        for part in parts:
            batch.left += 1
            self._take_one(ticket, bytes(part))
        self._say_last(ticket, b"")

    def _take_one(self, ticket: int, text: bytes) -> None:
        try:
            message = read_message(text)
        except msgspec.ValidationError:
            # JSON that is no object, or has a method that is no string.
            self._say_last(ticket, error_json(None, INVALID_REQUEST, "cannot read the message: it is no JSON-RPC"))
            return
        except UNREADABLE:
            id_ = find_lone_surrogate_id(text)
            why = "it is not JSON" if id_ is None else "a text in it has half of a pair of surrogates"
            self._say_last(ticket, error_json(id_, PARSE_ERROR, f"cannot read the message: {why}"))
            return
        if isinstance(message.id, UnsetType) and not isinstance(message.method, UnsetType):
            with suppress(*UNREADABLE):
                self._hear(message.method, read_params(_NO_PARAMS if message.params is UNSET else message.params))
            self._say_last(ticket, b"")
        elif isinstance(message.id, UnsetType) or not is_id(message.id):
            self._say_last(
                ticket,
                error_json(None, INVALID_REQUEST, "cannot answer the message: its id is no string and no number"),
            )
        elif isinstance(message.method, UnsetType):
            self._reply(message.id, message.result)
            self._say_last(ticket, b"")
        else:
            self._open(ticket, message, message.method, message.id)

    def _open(self, ticket: int, message: ClientMessage, method: str, id_: Raw) -> None:
        # Copied, since a Raw of a decoder holds the whole message.
        request = ClientRequest(self._number(), ticket, method, id_.copy())
        self.open[request.number] = request
        request.revision, request.offer = self._beside or self.revision, self.offer
        request.headers = self._headers
        if len(self.open) > MAX_OPEN:
            self.fail(request, UNAVAILABLE, f"more than {MAX_OPEN} requests are open")
            return
        try:
            request.params = read_params(_NO_PARAMS if message.params is UNSET else message.params)
        except UNREADABLE as error:
            self.fail(request, WRONG_PARAMS, f"wrong params: {error}")
            return
        self._serve(request)

    def _reply(self, id_: Raw, result: Raw | UnsetType) -> None:
        try:
            then = self._asked.pop(msgspec.json.decode(id_, type=str), None)
        except UNREADABLE:
            return
        if then is not None:
            then(None if isinstance(result, UnsetType) else result)

    def _close(self, request: ClientRequest, message: bytes) -> None:
        if self.open.pop(request.number, None) is None:
            return
        self._say_last(request.ticket, message)
        ended, request.ended = request.ended, []
        for then in ended:
            then()

    def _say(self, message: bytes, request: ClientRequest | None) -> None:
        self.to_client.append(Said(message, None if request is None else request.ticket))

    def _say_last(self, ticket: int, message: bytes) -> None:
        batch = self._batches.get(ticket)
        if batch is not None:
            batch.left -= 1
            if message:
                batch.answers.append(message)
            if batch.left:
                return
            del self._batches[ticket]
            message = b"[" + b",".join(batch.answers) + b"]" if batch.answers else b""
        self.to_client.append(Said(message, ticket, is_last=True))
