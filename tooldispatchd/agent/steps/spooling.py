"""The text of a program that goes to the spool while the program runs, once it is longer than a model should get.

    stdout ──▶ held, up to `max_output` ──▶ the file ──▶ the program has ended ──▶ read by a checker ──▶ handle and head

So the daemon holds no more of it than a model would get. That works for texts which nothing else has to look at whole:
what a schema says more of than that it is a string, what is masked, and what may be given again, is held.
"""

from functools import partial
from typing import Final

import msgspec

from tooldispatchd.agent.calls.agentcall import AgentCall
from tooldispatchd.agent.calls.call import Call
from tooldispatchd.agent.calls.plans import CommandPlan, SpooledOutput
from tooldispatchd.agent.calls.spool import SpoolFile, new_handle
from tooldispatchd.agent.steps.shortening import MAX_HEAD_BYTES, ShortenedText, SpooledJob, read_spooled
from tooldispatchd.agent.steps.sizes import SizeStep, text_instead, uncut
from tooldispatchd.calls.content import of_text
from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.calls.outputs import StoredOutput
from tooldispatchd.calls.stages import StepOrder
from tooldispatchd.checkers.pool import CheckerError
from tooldispatchd.providers.process.running import Command
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ContentKind

# What has been held is written in one turn of the loop: so much in half a millisecond.
MOST_HELD: Final = 1024 * 1024
# These look at an answer whole.
_LOOKING: Final = {StepOrder.REDACT, StepOrder.CACHE}

_read: Final = msgspec.msgpack.Decoder(ShortenedText).decode
_write: Final = msgspec.msgpack.Encoder().encode


def let_spool(plan: CommandPlan) -> None:
    """Have the plan's calls spool their texts, where its steps leave that to be done."""
    size = next(step for step in plan.steps if isinstance(step, SizeStep))
    if plan.gives_text and size.overflow == "store" and _LOOKING.isdisjoint(step.order for step in plan.steps):
        plan.spooled = partial(_spooled, size)


def _spooled(size: SizeStep, call: Call, command: Command) -> SpooledOutput | None:
    # A stage of a chain gives its text to the next one; and whose agent reads that much has it held anyway.
    if not isinstance(call, AgentCall) or size.most(call) > MOST_HELD:
        return None
    return SpooledText(call, command, size.most(call))


class SpooledText:
    """The text of one run of `command`, of which a model should get `most` bytes."""

    __slots__ = ("_call", "_command", "_file", "_head", "_most", "after_bytes")

    def __init__(self, call: AgentCall, command: Command, most: int) -> None:
        # A newline at its end is no part of the text.
        self.after_bytes = most + 1
        self._call = call
        self._command = command
        self._most = most
        self._file = SpoolFile(call.context.spool, call.context.outputs)
        # For where it cannot be stored.
        self._head = b""

    @property
    def has_begun(self) -> bool:
        """Whether it is that long."""
        return self._file.size > 0

    def add(self, chunk: bytes | bytearray) -> None:
        """What comes next of it."""
        if not self.has_begun:
            self._head = bytes(chunk[:MAX_HEAD_BYTES])
        self._file.write(chunk)

    async def answer(self) -> Outcome:
        """What stands in its place, once it is whole."""
        call, file = self._call, self._file
        file.close()
        job = _write(SpooledJob(self._command.output, file.path))
        payload = self._head if file.path is None else b""
        try:
            run, turns = call.context.checking.run, call.context.account.turns
            reply, _, _ = await run(read_spooled, job, payload, turns=turns)
        except CheckerError as error:
            return uncut(file.size, error)
        found = _read(reply)
        if found.unreadable is not None:
            return Fault(Code.TOOL_FAILED, f"'{self._command.argv[0]}' {found.unreadable}")
        # What is no UTF-8 in a transcript is longer as text.
        if found.why_not is None and file.hold(found.size) and file.path is not None:
            call.stored = StoredOutput(new_handle(), file.path, found.size, found.lines, found.tokens)
            file.keep(call.stored)
            call.context.session.has_stored()
        else:
            why_not = found.why_not or file.why_not
            found = msgspec.structs.replace(found, size=file.size, lines=file.ends + 1, why_not=why_not)
        text = text_instead(call, found, self._most)
        kind = ContentKind.BLOCKS if call.wanted.kind is ContentKind.BLOCKS else ContentKind.TEXT
        return msgspec.structs.replace(of_text(text, kind), is_shortened=True)

    def close(self) -> None:
        """Nothing of it is left, unless it is stored."""
        self._file.drop("it has ended")
