"""One call of a request: sent, followed through its pages or its stream, and read.

What had not reached the API is `server_unavailable`, and worth another try; what failed once it was there is
`tool_failed`, since it may have had its effect. A status of 400 and more is the API's own answer, an error.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.calls.content import Wanted
from tooldispatchd.calls.gate import Turns
from tooldispatchd.calls.memory import Holding, Share
from tooldispatchd.calls.outcome import Answer, Outcome, Update
from tooldispatchd.calls.violations import fault_at
from tooldispatchd.catalog.rest.declared import BuiltRequest, RestTool, UnsendableError
from tooldispatchd.catalog.rest.requests import RequestMade, build_request
from tooldispatchd.catalog.restspecs import RestStreamSpec
from tooldispatchd.catalog.schemas import ACCEPT, MAX_LIGHT_BYTES, Check, is_light
from tooldispatchd.catalog.violations import Violation
from tooldispatchd.checkers.pool import CheckerError, Running
from tooldispatchd.children.tail import end_of
from tooldispatchd.http.errors import WireError
from tooldispatchd.http.reply import HttpReply
from tooldispatchd.providers.rest.apiwires import ANY_TYPE, ApiWire
from tooldispatchd.providers.rest.pages import PageJob, Pages, ReadPage, page_in, read_page
from tooldispatchd.providers.rest.replies import (
    TEXT,
    ReplyJob,
    outcome_in,
    outcome_read,
    read_reply,
    refused,
    too_large,
)
from tooldispatchd.providers.rest.tokenstreams import PIECE_BYTES, StreamError, TokenStream
from tooldispatchd.providers.updates import Held
from tooldispatchd.wire.faults import Code, Fault

# A refusal is a sentence or an object; beyond it stand pages.
MAX_REFUSED_BYTES: Final = 64 * 1024
# One that is slow in coming is told without its words.
REFUSED_S: Final = 2.0
_EVENT_STREAM: Final = "text/event-stream"

# Of a body that is read in parts.
_PART_BYTES: Final = 64 * 1024

_decode: Final = msgspec.json.Decoder().decode


class _NoRoomError(Exception):
    """The daemon's memory has no room for more of an answer."""


class ApiCall:
    """One call of `tool`, of which the answer must match `output` and may have `max_content_bytes` as JSON.

    One that does not match is a fault, unless the call `warns` of it. `wanted` is what is wanted of it, `tell` is told
    of tokens as they come, and `said` gets the end of what came where the call is ended early.
    """

    def __init__(
        self,
        tool: RestTool,
        wire: ApiWire,
        *,
        output: Check,
        max_content_bytes: int,
        warns: bool,
        wanted: Wanted,
        share: Share,
        checkers: Running,
        turns: Turns,
        tell: Callable[[Update], None] | None,
        said: dict[str, object],
    ) -> None:
        self._tool = tool
        self._wire = wire
        self._output = output
        self._wanted = wanted
        self._job = ReplyJob(output.text, max_content_bytes, wanted.kind, warns=warns)
        self._held = Holding(share)
        self._share = share
        self._checkers = checkers
        self._turns = turns
        self._tell = tell
        self._said = said

    async def run(self, line: bytes | bytearray) -> Outcome:
        """How it ended, with the checked input `line`; nothing of it is left when this returns or is cancelled."""
        try:
            request = await self._request(line)
            if isinstance(request, Fault):
                return request.ran(may_have=False)
            pages = self._tool.spec.paginate
            return await (self._asked(request) if pages is None else self._paged(Pages(pages, request)))
        except WireError as error:
            return self._failed(error)
        except _NoRoomError:
            return self._share.fault
        finally:
            self._held.resize(0)

    async def _asked(self, request: BuiltRequest) -> Outcome:
        """The outcome of a request that has one answer."""
        spec = self._tool.spec
        accept = ANY_TYPE if spec.stream is None else f"{_EVENT_STREAM}, {ANY_TYPE}"
        async with self._wire.exchange(self._tool.builder.method, request, accept=accept) as reply:
            if not 200 <= reply.status < 300:
                return await self._refused(reply)
            if spec.stream is not None:
                return await self._streamed(reply, spec.stream)
            media = {"media_type": reply.media_type, "charset": reply.charset, "pick": spec.pick}
            body = await self._body(reply, 0)
        # The connection serves another call while this one's answer is read.
        return await self._answer(body, msgspec.structs.replace(self._job, **media))

    async def _request(self, line: bytes | bytearray) -> BuiltRequest | Fault:
        """The request that the input makes."""
        builder = self._tool.builder
        try:
            if is_light(line, ACCEPT):
                return builder.build(_decode(line))
        except UnsendableError as error:
            return _unsendable(error.pointer, error.why)
        try:
            head, body, _ = await self._checkers.run(build_request, builder.job(), line, turns=self._turns)
        except CheckerError as error:
            return _unchecked("the input", error)
        made = msgspec.msgpack.decode(head, type=RequestMade)
        if made.request is None:
            return _unsendable(made.pointer, made.why)
        return msgspec.structs.replace(made.request, body=body)

    # --- answers ---

    async def _body(self, reply: HttpReply, before: int) -> list[bytearray]:
        """The body, in parts; `before` bytes of others are held already. Raises `WireError`, `_NoRoomError`."""
        parts: list[bytearray] = []
        size = before
        while piece := await reply.receive():
            size += len(piece)
            if size > self._wire.max_bytes:
                reply.close()
                raise WireError("its answer goes on", was_sent=True, is_too_large=True)
            if not self._held.resize(size):
                raise _NoRoomError
            # Pieces of a byte or two are gathered; one array of all of them would be copied in one turn.
            if not parts or len(parts[-1]) >= _PART_BYTES:
                parts.append(bytearray())
            parts[-1] += piece
        return parts

    async def _refused(self, reply: HttpReply) -> Answer:
        body = bytearray()
        with trio.move_on_after(REFUSED_S), suppress(WireError):
            while len(body) < MAX_REFUSED_BYTES and (piece := await reply.receive()):
                body += piece
        masker, after_ms = self._wire.masker, reply.retry_after_ms
        return refused(reply.status, body, reply.media_type, reply.charset, after_ms=after_ms, masker=masker)

    async def _answer(self, parts: Sequence[bytes | bytearray], job: ReplyJob) -> Outcome:
        """The outcome that a body is, by whoever has the time to read it."""
        expression = self._tool.expression
        body = b"".join(parts) if sum(map(len, parts)) <= MAX_LIGHT_BYTES else None
        if body is not None and is_light(body, self._output):
            return outcome_in(body, job, self._output, expression)
        if expression is not None:
            return Fault(Code.TOOL_FAILED, "the answer is too large for an expression", {"limit": "expression"})
        try:
            read = await self._checkers.run(read_reply, msgspec.msgpack.encode(job), parts, turns=self._turns)
        except CheckerError as error:
            return _unchecked("the answer", error)
        return outcome_read(*read)

    def _with_details(self, outcome: Outcome, **details: object) -> Outcome:
        if isinstance(outcome, Fault) or not self._wanted.details:
            return outcome
        return msgspec.structs.replace(outcome, details=Raw(msgspec.json.encode(details)))

    # --- pages ---

    async def _paged(self, pages: Pages) -> Outcome:
        """What is on all pages, up to the bounds on their number and their bytes."""
        items: list[bytes | bytearray] = []
        has_more, url = True, None
        while has_more and not pages.is_full:
            request = pages.request()
            try:
                async with self._wire.exchange(self._method(pages), request, url=url) as reply:
                    if not 200 <= reply.status < 300:
                        return await self._refused(reply)
                    body = await self._body(reply, self._held.held)
            except WireError as error:
                if error.is_too_large and pages.taken:
                    break
                error.was_sent = error.was_sent or pages.taken > 0
                raise
            page = await self._page(body, reply.charset)
            if page.why is not None:
                return Fault(Code.TOOL_FAILED, f"the call failed at {self._wire.name}: {page.why}")
            items += [b",", page.items] if page.count else []
            has_more, url = pages.has_more(page, reply.headers, url or f"{reply.origin}{request.path}")
        outcome = await self._answer([b"[", *items[1:], b"]"], self._job)
        return self._with_details(outcome, pages=pages.taken, more=has_more)

    async def _page(self, parts: Sequence[bytes | bytearray], charset: str | None) -> ReadPage:
        spec = self._tool.spec
        job = PageJob(charset, spec.pick, None if spec.paginate is None else spec.paginate.cursor)
        body = b"".join(parts) if sum(map(len, parts)) <= MAX_LIGHT_BYTES else None
        if body is not None and is_light(body, ACCEPT):
            return page_in(body, job)
        try:
            head, items, _ = await self._checkers.run(read_page, msgspec.msgpack.encode(job), parts, turns=self._turns)
        except CheckerError as error:
            return ReadPage(why=f"a page of its answer cannot be read: {error.why}")
        return msgspec.structs.replace(msgspec.msgpack.decode(head, type=ReadPage), items=items)

    def _method(self, pages: Pages) -> str:
        # A link is a place to get, whatever was asked first.
        return "GET" if pages.spec.by == "link" and pages.taken else self._tool.builder.method

    # --- streams ---

    async def _streamed(self, reply: HttpReply, spec: RestStreamSpec) -> Outcome:
        """The answer at the end of a stream; its tokens are told as they come."""
        stream = TokenStream(spec, self._wire.max_bytes)
        held = None if self._tell is None else Held(partial(self._told, self._tell))
        try:
            await self._follow(reply, stream, held)
        except StreamError as error:
            return self._broken(stream, error.why, {} if error.limit is None else {"limit": error.limit})
        except WireError as error:
            return self._broken(stream, error.why, error.extras)
        except trio.Cancelled:
            self._said["stdout_tail"] = end_of(stream.text)
            raise
        finally:
            if held is not None:
                held.tell()
        return self._with_details(await self._stream_answer(stream), skipped=stream.skipped)

    async def _stream_answer(self, stream: TokenStream) -> Outcome:
        if stream.answer is not None:
            return await self._answer([stream.answer], self._job)
        if stream.skipped and not stream.text and not stream.is_done:
            why = f"its stream had no answer, and {stream.skipped} lines that are no objects"
            return self._broken(stream, why, {})
        if not stream.text:
            return await self._answer([b'""'], self._job)
        return await self._answer([stream.text], msgspec.structs.replace(self._job, media_type=TEXT))

    async def _follow(self, reply: HttpReply, stream: TokenStream, held: Held | None) -> None:
        """Read a stream to its end. Raises `StreamError`, `WireError`, `_NoRoomError`."""
        while not stream.is_done:
            chunk: bytes | None = None
            with trio.move_on_at(math.inf if held is None else held.tell_due(trio.current_time())):
                chunk = await reply.receive()
            for start in range(0, len(chunk or b""), PIECE_BYTES):
                self._take(stream.feed((chunk or b"")[start : start + PIECE_BYTES]), stream, held)
                await trio.lowlevel.checkpoint()
            if chunk == b"":
                self._take(stream.end(), stream, held)
                return

    def _told(self, tell: Callable[[Update], None], update: Update) -> None:
        tell(msgspec.structs.replace(update, content=self._wire.masker.mask(update.content or "")))

    def _take(self, tokens: str, stream: TokenStream, held: Held | None) -> None:
        if not self._held.resize(stream.held):
            raise _NoRoomError
        if tokens and held is not None:
            held.add(Update(content=tokens))

    def _broken(self, stream: TokenStream, why: str, extras: Mapping[str, object]) -> Fault:
        """A stream that failed, with the end of what came."""
        told = {"server": self._wire.name, "reason": why, **extras, "stdout_tail": end_of(stream.text)}
        return Fault(Code.TOOL_FAILED, f"the call failed at {self._wire.name}: {why}", told)

    # --- failures ---

    def _failed(self, error: WireError) -> Fault:
        if error.is_too_large:
            fault = too_large(self._wire.max_bytes)
            return msgspec.structs.replace(fault, extras={**fault.extras, **error.extras})
        told = {"server": self._wire.name, "reason": error.why, **error.extras}
        if error.was_sent:
            return Fault(Code.TOOL_FAILED, f"the call failed at {self._wire.name}: {error.why}", told)
        fault = Fault(Code.SERVER_UNAVAILABLE, f"{self._wire.name} is not available: {error.why}", told)
        return fault.ran(may_have=False)


def _unsendable(pointer: str, why: str) -> Fault:
    return fault_at(Code.INVALID_INPUT, [Violation(pointer, why)])


def _unchecked(what: str, error: CheckerError) -> Fault:
    limit: dict[str, object] = {} if error.limit is None else {"limit": error.limit}
    return Fault(Code.TOOL_FAILED, f"{what} cannot be checked: {error.why}", limit)
