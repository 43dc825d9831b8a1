"""What a server writes: its lines, to the requests that wait for them.

Answers are matched by number in any order. What nobody waits for (an unknown, a repeated or a late answer, a
notification) and what cannot be read is counted and has no other effect; a server's own requests are answered at once.
"""

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
    reply_line,
    request_number,
    split_batch,
)
from tooldispatchd.providers.mcp.server import McpTool, Server
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.lines import LineCutter, LongLine

# From here on the passes over a line are done one at a time, with a turn of the loop for others in between; one pass
# over this much takes about a millisecond.
LARGE_BYTES: Final = 256 * 1024
# Messages of a batch between two turns of the loop, for the same reason.
MESSAGES_PER_TURN: Final = 512


class Call:
    """A call that waits for its answer: of which tool, and who is told."""

    __slots__ = ("done", "tool")

    def __init__(self, tool: McpTool, done: Callable[[Outcome], None]) -> None:
        self.tool = tool
        self.done = done


class Exchange:
    """A request of the handshake; `reply` is None until it is answered, and a fault where the answer was too large."""

    __slots__ = ("reply",)

    def __init__(self) -> None:
        self.reply: Incoming | Fault | None = None


class Answers:
    """Lines in, completed requests out. `send` takes the lines with which a server's requests are answered."""

    __slots__ = ("_completed", "_cutter", "_send", "_server", "ignored", "pending", "skipped")

    def __init__(self, server: Server, *, send: Callable[[bytes], None]) -> None:
        self.pending: Pending[Call | Exchange] = Pending()
        self.skipped = 0
        self.ignored = 0
        self._server = server
        self._send = send
        self._cutter = LineCutter(server.max_line_bytes)
        self._completed = False

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
            entry.done(outcome_of(message, entry.tool, self._server))
        else:
            entry.reply = message
        return None

    def _take_request(self, message: Incoming) -> None:
        # Without an id it is a notification: logs, progress, changed lists. None of them changes a call.
        if isinstance(message.method, str) and not isinstance(message.id, UnsetType) and message.id is not None:
            self._send(reply_line(message.id, message.method))

    def _take_long(self, line: LongLine) -> None:
        self.skipped += 1
        number = peek_number(line.head)
        entry = None if number is None else self.pending.take(number)
        if isinstance(entry, Call):
            self._completed = True
            entry.done(too_large(self._server))
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
            entry.done(outcome)
        return None
