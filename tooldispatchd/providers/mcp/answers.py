"""Matches the messages of a server to the requests that wait for them.

Answers are matched by number in any order, and progress by the same number to those calls that want updates. An answer
without a request (unknown, repeated or late) and a message that cannot be read are counted and have no other effect.
The server's own requests and notifications go to `ServerRequests`.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec
import trio
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.calls.connection import Pending
from tooldispatchd.calls.content import AS_JSON, Wanted
from tooldispatchd.calls.memory import Holding, Share
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.catalog.schemas import ACCEPT, is_light
from tooldispatchd.checkers.pool import CheckerError, Running
from tooldispatchd.providers.mcp.asking import InputRound, ServerRequests
from tooldispatchd.providers.mcp.content import failed, found_in, job_for, outcome_of, read_large
from tooldispatchd.providers.mcp.link import NO_ROOM, LinkError
from tooldispatchd.providers.mcp.logmessages import BoundLog, beginning_of, log_message
from tooldispatchd.providers.mcp.messages import (
    HEADER_MISMATCH,
    METHOD_NOT_FOUND,
    Incoming,
    InputRequired,
    error_in,
    error_words,
    peek_last_number,
    peek_number,
    read_message,
    read_progress,
    request_number,
    split_batch,
    without_mark,
)
from tooldispatchd.providers.mcp.server import McpTool, Server, too_large
from tooldispatchd.providers.updates import INTERVAL_S, Held
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.lines import END_BYTES, HEAD_BYTES, LineCutter, LongLine, Text

# Messages of a batch, or lines of a chunk, between two turns of the loop: a chunk may hold some ten thousand of them.
MESSAGES_PER_TURN: Final = 128
# A program that has written so many lines and no message is no server; one that starts may write some hundred.
MAX_STRAY_LINES: Final = 10_000


class PendingCall(msgspec.Struct, eq=False):
    """A call of `tool` with `arguments`, a compact JSON object, until it is answered.

    `tool` is one of those that the server offers, or one of them with another output and `Result`. `wanted` is what is
    wanted of its answer. `done` gets the outcome exactly once, unless the call is cancelled or expires before. `held`
    gets the server's progress before that; what it tells must neither raise nor call the connection. `meta` is passed
    on as it is. `origin` is what the agent's side is given when the server must know more for this call.
    """

    tool: McpTool
    done: Callable[[Outcome], None]
    arguments: Text = b"{}"
    wanted: Wanted = AS_JSON
    origin: object = None
    held: Held | None = None
    meta: dict[str, object] | None = None
    number: int = 0
    """Of its request. This, `arguments` and `meta` are kept for a request that must be sent once more."""
    rounds: int = 0
    """How often that was."""
    round: InputRound | None = None
    """While the agent is asked what the server needs to know."""
    skipped: int = 0
    """So many lines that were no messages had come when it was sent."""
    noise: str = ""
    """What came since and was no message, where it is given up."""
    extend: Callable[[], None] | None = None
    """Called at each progress."""
    heard_at: float = -math.inf
    """When the latest came."""
    tells: Callable[[], None] | None = None
    """Called before it is told something."""

    def tell_update(self) -> None:
        """Tell what is held of its updates."""
        if self.held is not None:
            if self.tells is not None:
                self.tells()
            self.held.tell()

    def finish(self, outcome: Outcome) -> None:
        """Tell the last update and the outcome; once, when the call has left the pending ones."""
        if self.tells is not None:
            self.tells()
        if self.held is not None:
            self.held.tell()
        self.done(outcome)


class PendingRequest:
    """A request of the connection itself; `reply` is None until it is answered, and a fault where it will not be."""

    __slots__ = ("number", "reply")

    def __init__(self) -> None:
        self.number = 0
        self.reply: Incoming | Fault | None = None


# A call that needs one more request: what the server wants to know first, or None where its list of tools was outdated.
More = Callable[[PendingCall, InputRequired | None], None]


class Answers:
    """Messages in, completed requests out.

    It is the `Inbox` of a connection's links. `taken` is called after each piece of input, and before each turn of the
    loop within one: what was completed until then need not wait for the rest. `has_completed` says that a call was
    completed, `has_replied` that a request of the connection itself was; the reader clears them. `due` is when
    `tell_updates` should be called, in trio's time; infinite where no call has any to be told. `has_heard` says that
    there was any message, `stray` is the beginning of the first line that was none.
    """

    __slots__ = (
        "_asked",
        "_changed",
        "_cutter",
        "_ended",
        "_half",
        "_last_stray_at",
        "_lines",
        "_log",
        "_long_may_answer",
        "_more",
        "_next",
        "_server",
        "_taken",
        "checkers",
        "due",
        "has_completed",
        "has_heard",
        "has_replied",
        "ignored",
        "last_stray",
        "pending",
        "share",
        "skipped",
        "stray",
    )

    def __init__(
        self,
        server: Server,
        share: Share,
        *,
        asked: ServerRequests,
        more: More,
        checkers: Running,
        taken: Callable[[], None],
        log: BoundLog,
    ) -> None:
        self.share = share
        self.pending: Pending[PendingCall | PendingRequest] = Pending()
        self.skipped = 0
        self.stray = self.last_stray = ""
        self._last_stray_at = 0
        self.ignored = 0
        self.has_completed = False
        self.has_heard = False
        self.has_replied = False
        self._server = server
        self._asked = asked
        self._more = more
        self.checkers = checkers
        self._taken = taken
        self._log = log
        self._cutter = LineCutter(server.max_line_bytes)
        self._half = Holding(share)  # of a line whose end has not come
        # Those that have come and wait for a turn of the loop; and the end of a line over the bound among them.
        self._lines: deque[bytes | bytearray | LongLine] = deque()
        self._ended = b""
        self.due = math.inf
        self._next = -math.inf
        self._changed: set[int] = set()
        self._long_may_answer = False

    async def take_chunk(self, chunk: bytes) -> None:
        """Deal with what was read of a stream of lines.

        Runs without a turn of the loop unless a large line is there, or very many. Raises `LinkError` where there is no
        room for more of a line.
        """
        if not self.take_now(chunk):
            await self.take_rest()

    def take_now(self, chunk: bytes = b"") -> bool:
        """As `take_chunk`, without a turn of the loop; false where `take_rest` is to go on."""
        lines = self._lines
        if chunk:
            lines.extend(self._cutter.cut(chunk))
            self._ended = self._cutter.ended
        left = MESSAGES_PER_TURN
        while lines and left:
            line = lines[0]
            if type(line) is LongLine:
                self._skip_long(line)
            elif not (is_light(line, ACCEPT) and self._take_light(line)):  # type: ignore[arg-type]  # it is none
                break
            lines.popleft()
            left -= 1
        if not lines:
            self._end_chunk()
        self._taken()
        return not lines

    async def take_rest(self) -> None:
        """Deal with the lines that `take_now` has left."""
        while self._lines:
            line = self._lines.popleft()
            if isinstance(line, LongLine):
                self._skip_long(line)
            elif is_light(line, ACCEPT):
                await self._take_slowly(line)
            else:
                try:
                    await self._take_heavy(line)
                finally:
                    self.share.let_go(line)
            await trio.lowlevel.checkpoint()
            self.take_now()
        self._taken()

    def _skip_long(self, line: LongLine) -> None:
        self.skipped += 1
        # The number of a server's own request is no number of ours.
        self._long_may_answer = b'"method"' not in line.head
        if (number := peek_number(line.head)) is not None:
            self._fail(number, too_large(self._server))

    def _end_chunk(self) -> None:
        ended, self._ended = self._ended, b""
        # Of a line over the bound many servers write at its end which request it answers.
        if ended and self._long_may_answer and (number := peek_last_number(ended)) is not None:
            self._fail(number, too_large(self._server))
        # Only now: a line was held until it had been dealt with.
        if self._cutter.held != self._half.held and not self._half.resize(self._cutter.held):
            raise LinkError(NO_ROOM, self.share.fault.extras)

    def renew(self) -> None:
        """Begin a new stream of lines: drop half a line that the earlier one left."""
        self._cutter = LineCutter(self._server.max_line_bytes)
        self._lines.clear()
        self._half.resize(0)

    async def take(self, text: bytes | Raw, number: int | None = None) -> None:
        """Deal with one whole message, or a batch; its owner lets go of it afterwards, also where this is cancelled."""
        text = without_mark(text) or text
        if not is_light(text, ACCEPT):
            await self._take_heavy(text)
        elif not self._take_light(text, number):
            await self._take_slowly(text, number)
        self._taken()

    def take_message(self, message: Incoming) -> None:
        """Deal with one message that is read already, and light."""
        self._take_message(message)
        self._taken()

    def fail(self, number: int, fault: Fault, *, is_unbegun: bool = False) -> None:
        """As `Inbox.fail`."""
        self._fail(number, fault, is_unbegun=is_unbegun)
        self._taken()

    def is_waiting(self, number: int) -> bool:
        return number in self.pending

    def debug(self, event: str, **fields: object) -> None:
        """Log what happens on the link's way."""
        self._log.debug(event, server=self._server.name, **fields)

    def _take_light(self, text: bytes | bytearray | Raw, asked: int | None = None) -> bool:
        """Deal with one message; false for what `_take_slowly` is to deal with."""
        message = read_message(text)
        if message is not None:
            self.has_heard = True
            if self._server.traced:
                log_message(self._log, "message received", message, len(text))
            return self._take_message(message, asked)
        line = bytes(text)
        if line.lstrip().startswith(b"["):
            return False
        self._skip_stray(line)
        return True

    async def _take_slowly(self, text: bytes | bytearray | Raw, asked: int | None = None) -> None:
        """Deal with a light text that `_take_light` cannot: a batch, or an answer that a checker must look at."""
        line = bytes(text)
        if not line.lstrip().startswith(b"["):
            await self._take_heavy(text, is_traced=True)
            return
        batch = split_batch(line)
        if batch is None:
            self._skip_stray(line)
            return
        for count, raw in enumerate(batch, 1):
            message = read_message(raw)
            if message is None:
                self.skipped += 1
            elif not self._take_message(message, asked):
                await self._take_heavy(raw)
            if count % MESSAGES_PER_TURN == 0:
                await self._turn()

    def _skip_stray(self, line: bytes) -> None:
        """Note a line that is no message. Raises `LinkError` where a server says nothing else."""
        if not line.strip():
            return
        self.skipped += 1
        self.last_stray, self._last_stray_at = beginning_of(line), self.skipped
        self.stray = self.stray or self.last_stray
        # Not where a log shows a message: that itself may still come.
        number = peek_number(line[:HEAD_BYTES])
        if number is None and line.startswith(b"{"):
            number = peek_last_number(line[-END_BYTES:])
        if number is not None and number in self.pending and b'"method"' not in line:
            self._fail(number, failed(self._server, f'its answer is a line that is no message: "{self.last_stray}"'))
        if self.skipped >= MAX_STRAY_LINES and not self.has_heard:
            raise LinkError(f"it speaks no JSON-RPC: {self.strays}")

    @property
    def strays(self) -> str:
        """How many lines were no messages, in words, with the first of them."""
        lines, are = ("1 line", "is") if self.skipped == 1 else (f"{self.skipped:,} lines", "are")
        return f'{lines} that {are} no message, the first is "{self.stray}"'

    def noise_since(self, call: PendingCall) -> str:
        """Tell of a line that was no message since `call` was sent, which may have been its answer; "" for none."""
        return f'it wrote a line that is no message: "{self.last_stray}"' if self._last_stray_at > call.skipped else ""

    def _fail(self, number: int, fault: Fault, *, is_unbegun: bool = False) -> None:
        entry = self.pending.take(number)
        if isinstance(entry, PendingCall):
            self.has_completed = True
            # Before a later round the server had begun.
            entry.finish(fault.ran(may_have=False) if is_unbegun and not entry.rounds else fault)
        elif entry is not None:
            self._reply(entry, fault)

    def tell_updates(self, now: float) -> None:
        """Tell what is held of all calls. At once for all: so each is told at most once in the interval too."""
        changed, self._changed = self._changed, set()
        self.due = math.inf
        self._next = now + INTERVAL_S
        for number in changed:
            entry = self.pending.get(number)
            if isinstance(entry, PendingCall):
                entry.tell_update()

    def _take_message(self, message: Incoming, asked: int | None = None) -> bool:
        """Deal with one message that is read; false for an answer that a checker must look at.

        Without an id it answers the request `asked`, in whose response it came, and an error the only call there is.
        """
        if message.method is not UNSET:
            if not isinstance(message.id, UnsetType) and message.id is not None:
                self._asked.take_request(message)
            elif message.method == "notifications/progress":
                self._take_progress(message)
            else:
                self._asked.take_notification(message)
            return True
        number = message.id if isinstance(message.id, int) else self._number_of(message, asked)
        entry = None if number is None else self.pending.get(number)
        if number is None or entry is None:
            self.ignored += 1
            return True
        if isinstance(entry, PendingCall):
            output = entry.tool.output
            if output is not None and isinstance(message.result, Raw) and not is_light(message.result, output):
                return False
            self.pending.take(number)
            outcome = outcome_of(message, entry.tool, self._server, entry.wanted)
            if type(outcome) is Answer:
                self.has_completed = True
                entry.finish(outcome)
            else:
                self._finish(entry, outcome)
        else:
            self.pending.take(number)
            self._reply(entry, message)
        return True

    def _number_of(self, message: Incoming, asked: int | None) -> int | None:
        if message.id is not None and message.id is not UNSET:
            return request_number(message.id)
        error = error_in(message)
        if error is not None and asked is None:
            return self._only_call(error)
        return None if error is None and not isinstance(message.result, Raw) else asked

    def _only_call(self, error: Raw) -> int | None:
        """Find the call that an error without an id answers: the only one, but for an unknown notification."""
        if error_words(error)[1] == METHOD_NOT_FOUND:
            return None
        calls = [number for number, entry in self.pending.entries() if isinstance(entry, PendingCall)]
        return calls[0] if len(calls) == 1 else None

    def _finish(self, call: PendingCall, outcome: Outcome | InputRequired) -> None:
        if isinstance(outcome, InputRequired):
            self._more(call, outcome)
        elif isinstance(outcome, Fault) and outcome.extras.get("rpc_code") == HEADER_MISMATCH and not call.rounds:
            # Its list of tools is newer than ours, so that headers and body differ (MCP 2026-07-28).
            self._more(call, None)
        else:
            self.has_completed = True
            call.finish(outcome)

    def _reply(self, exchange: PendingRequest, reply: Incoming | Fault) -> None:
        self.has_replied = True
        exchange.reply = reply

    def _take_progress(self, message: Incoming) -> None:
        progress = read_progress(message.params)
        if progress is None:
            self.skipped += 1
            return
        number, update = progress
        entry = None if number is None else self.pending.get(number)
        if number is None or not isinstance(entry, PendingCall):
            return
        entry.heard_at = trio.current_time()
        if entry.extend is not None:
            entry.extend()
        if entry.held is not None:
            entry.held.add(update)
            self._changed.add(number)
            self.due = self._next

    async def _take_heavy(self, line: bytes | bytearray | Raw, *, is_traced: bool = False) -> None:
        """Have a checker read a message; the input behind it waits, and so the server is slowed down."""
        # The number of the request that it seems to answer, at its head or at its end.
        view = memoryview(line)
        number = peek_number(bytes(view[:HEAD_BYTES]))
        if number is None:
            number = peek_last_number(bytes(view[-END_BYTES:]))
        try:
            with trio.fail_after(self._server.call_s):
                found = await self._read(line, number)
                if isinstance(found, Incoming) and not isinstance(found.method, str):
                    answered = request_number(found.id)
                    if answered != number and self._call(answered) is not None:
                        number = answered
                        found = await self._read(line, number)
        except (CheckerError, trio.TooSlowError) as error:
            why = error.why if isinstance(error, CheckerError) else f"that took more than {self._server.call_s:g} s"
            self.skipped += 1
            if number is not None:
                self._fail(number, failed(self._server, f"its answer cannot be checked: {why}"))
            return
        if self._server.traced and not is_traced and found is not None:
            message = found if isinstance(found, Incoming) else Incoming(id=number)
            log_message(self._log, "message received", message, len(line))
        if isinstance(found, Incoming):
            self._take_message(found)
        elif found is None:
            self.skipped += 1
        else:
            # It may have been cancelled, or the connection ended, meanwhile.
            entry = None if number is None else self.pending.take(number)
            if isinstance(entry, PendingCall):
                self._finish(entry, found)

    def _call(self, number: int | None) -> PendingCall | None:
        entry = None if number is None else self.pending.get(number)
        return entry if isinstance(entry, PendingCall) else None

    async def _read(self, line: bytes | bytearray | Raw, number: int | None) -> Incoming | Outcome | None:
        call = self._call(number)
        # What was completed until now need not wait.
        self._taken()
        job = job_for(self._server, number, call.tool, call.wanted) if call else job_for(self._server, number, None)
        self.share.add(len(line))
        try:
            reply, content, parts = await self.checkers.run(read_large, job, memoryview(line), turns=(self, self))
        finally:
            self.share.add(-len(line))
        return found_in(reply, content, parts, line)

    async def _turn(self) -> None:
        """Let others have a turn of the loop; what is completed leaves before."""
        self._taken()
        await trio.lowlevel.checkpoint()
