"""What a server writes: its lines, to the requests that wait for them.

Answers are matched by number in any order, and progress by the same number to those calls that want updates. What
nobody waits for (an unknown, a repeated or a late answer) and what cannot be read is counted and has no other effect,
as other notifications have none; a server's own requests are answered at once.
"""

import math
from collections.abc import Callable
from typing import Final

import trio
from msgspec import Raw, UnsetType

from tooldispatchd.calls.connection import Pending
from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.providers.mcp.content import outcome_in_steps, outcome_of, too_large
from tooldispatchd.providers.mcp.messages import (
    Incoming,
    peek_number,
    read_message,
    read_progress,
    reply_line,
    request_number,
    split_batch,
)
from tooldispatchd.providers.mcp.server import McpTool, Server
from tooldispatchd.providers.updates import INTERVAL_S, Held
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.lines import LineCutter, LongLine

# From here on the passes over a line are done one at a time, with a turn of the loop for others in between; one pass
# over this much takes about a millisecond.
LARGE_BYTES: Final = 256 * 1024
# Messages of a batch between two turns of the loop, for the same reason.
MESSAGES_PER_TURN: Final = 512


class Call:
    """A call that waits for its answer: of which tool, who is told, and the updates before that, where wanted."""

    __slots__ = ("_done", "held", "tool")

    def __init__(self, tool: McpTool, done: Callable[[Outcome], None], held: Held | None = None) -> None:
        self.tool = tool
        self.held = held
        self._done = done

    def finish(self, outcome: Outcome) -> None:
        """Tell the last update and the outcome; once, when the call has left the pending ones."""
        if self.held is not None:
            self.held.tell()
        self._done(outcome)


class Exchange:
    """A request of the handshake; `reply` is None until it is answered, and a fault where the answer was too large."""

    __slots__ = ("reply",)

    def __init__(self) -> None:
        self.reply: Incoming | Fault | None = None


class Answers:
    """Lines in, completed requests out. `send` takes the lines with which a server's requests are answered.

    `due` is when `tell_updates` should be called, in trio's time; infinite where no call has any to be told.
    """

    __slots__ = (
        "_changed",
        "_completed",
        "_cutter",
        "_next",
        "_send",
        "_server",
        "due",
        "ignored",
        "pending",
        "skipped",
    )

    def __init__(self, server: Server, *, send: Callable[[bytes], None]) -> None:
        self.pending: Pending[Call | Exchange] = Pending()
        self.skipped = 0
        self.ignored = 0
        self._server = server
        self._send = send
        self._cutter = LineCutter(server.max_line_bytes)
        self._completed = False
        self.due = math.inf
        self._next = -math.inf
        self._changed: set[int] = set()

    async def take(self, chunk: bytes) -> bool:
        """Deal with what was read; whether a call was completed.

        Runs without a turn of the loop unless there is a large line among it.
        """
        self._completed = False
        for line in self._cutter.cut(chunk):
            if isinstance(line, LongLine):
                self._take_long(line)
            elif len(line) < LARGE_BYTES:
                message = read_message(line)
                if message is not None:
                    self._take_message(message)
                    continue
                await self._take_odd(line)
            else:
                await self._take_large(line)
        return self._completed

    def tell_updates(self, now: float) -> None:
        """Tell what is held of all calls. At once for all: so each is told at most once in the interval too."""
        changed, self._changed = self._changed, set()
        self.due = math.inf
        self._next = now + INTERVAL_S
        for number in changed:
            entry = self.pending.get(number)
            if isinstance(entry, Call) and entry.held is not None:
                entry.held.tell()

    def _take_message(self, message: Incoming) -> None:
        if isinstance(message.method, str):
            return self._take_request(message)
        id_ = message.id
        number = id_ if type(id_) is int else request_number(id_)
        entry = None if number is None else self.pending.take(number)
        if entry is None:
            self.ignored += 1
        elif isinstance(entry, Call):
            self._completed = True
            entry.finish(outcome_of(message, entry.tool, self._server))
        else:
            entry.reply = message
        return None

    def _take_request(self, message: Incoming) -> None:
        if not isinstance(message.method, str):
            return
        if not isinstance(message.id, UnsetType) and message.id is not None:
            self._send(reply_line(message.id, message.method))
        elif message.method == "notifications/progress":
            self._take_progress(message)

    def _take_progress(self, message: Incoming) -> None:
        progress = read_progress(message.params)
        if progress is None:
            self.skipped += 1
            return
        number, update = progress
        entry = None if number is None else self.pending.get(number)
        if number is not None and isinstance(entry, Call) and entry.held is not None:
            entry.held.add(update)
            self._changed.add(number)
            self.due = self._next

    def _take_long(self, line: LongLine) -> None:
        self.skipped += 1
        number = peek_number(line.head)
        entry = None if number is None else self.pending.take(number)
        if isinstance(entry, Call):
            self._completed = True
            entry.finish(too_large(self._server))
        elif entry is not None:
            entry.reply = too_large(self._server)

    async def _take_odd(self, line: bytes) -> None:
        batch = split_batch(line)
        if batch is None:
            self.skipped += 1 if line.strip() else 0
            return
        for count, raw in enumerate(batch, 1):
            message = read_message(raw)
            if message is None:
                self.skipped += 1
            else:
                self._take_message(message)
            if count % MESSAGES_PER_TURN == 0:
                await trio.lowlevel.checkpoint()

    async def _take_large(self, line: bytes | Raw) -> None:
        message = read_message(line)
        await trio.lowlevel.checkpoint()
        if message is None:
            return await self._take_odd(bytes(line))
        number = request_number(message.id)
        entry = None if number is None or isinstance(message.method, str) else self.pending.get(number)
        if number is None or not isinstance(entry, Call):
            return self._take_message(message)
        steps = outcome_in_steps(message, entry.tool, self._server)
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                outcome: Outcome = ended.value
                break
            await trio.lowlevel.checkpoint()
        # It may have been cancelled, or the connection ended, in the turns between.
        if self.pending.take(number) is not None:
            self._completed = True
            entry.finish(outcome)
        return None
