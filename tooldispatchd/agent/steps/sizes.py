"""The steps that say how much of an answer a model gets: its bound, and what is left of its budget and its window.

    an answer ──▶ short enough ──────────────────────────────────▶ as it is
             └──▶ over `max_output` ──▶ stored ──▶ its beginning and a handle
             └──▶ over what is left ──▶ stored ──▶ `budget_exceeded`, with a handle

Where it cannot be stored it is cut, and says so. A stage of a chain is no answer that a model gets.
"""

import math
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.agent.calls.agentcall import MAX_OUTPUT, AgentCall
from tooldispatchd.agent.calls.call import Call
from tooldispatchd.agent.calls.spool import NO_ROOM, new_handle
from tooldispatchd.agent.calls.step import Step
from tooldispatchd.agent.steps.asides import aside_with
from tooldispatchd.agent.steps.shortening import ShortenedText, ShorteningJob, shorten
from tooldispatchd.calls.content import given_bytes, of_text
from tooldispatchd.calls.outcome import Answer, Outcome, utf8_size
from tooldispatchd.calls.outputs import StoredOutput
from tooldispatchd.calls.stages import StepOrder, Waits
from tooldispatchd.catalog.policyspec import Overflow
from tooldispatchd.checkers.pool import CheckerError
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ContentKind, QuotedText

# In netdata's words, which models have been shown.
EXCEEDED: Final = "(tool failed: context window budget exceeded)"
NO_CALLS: Final = "this agent has no calls left in its budget"
NO_CALLS_THIS_TURN: Final = "this agent has no calls left in this turn of its model; the next turn has new ones"
SIZE_LIMIT: Final = "size_limit_exceeded"
HOW_TO_READ: Final = "The answer is stored; read it with output_read, output_grep or output_json and this handle."

_encode: Final = msgspec.json.Encoder().encode
_read: Final = msgspec.msgpack.Decoder(ShortenedText).decode
_write: Final = msgspec.msgpack.Encoder().encode


class SizeStep(Step):
    """Bounds what a model gets of an answer; where no table says how much, its agent does."""

    __slots__ = ("_most_chars", "max_bytes", "overflow")

    def __init__(self, max_bytes: int | None = None, overflow: Overflow | None = None) -> None:
        super().__init__(StepOrder.SIZE)
        # A letter has four bytes at most.
        self._most_chars = (MAX_OUTPUT if max_bytes is None else max_bytes) // 4
        self.max_bytes: Final = max_bytes
        self.overflow: Final[Overflow] = overflow or "store"

    def give(self, call: Call, outcome: Outcome) -> Outcome | Waits | None:
        if isinstance(outcome, Fault) or not isinstance(call, AgentCall):
            return None
        is_roomy = call.context.is_roomy and call.asked_room == math.inf
        if is_roomy and type(outcome.content) is str and len(outcome.content) <= self._most_chars:
            return None
        size = given_bytes(outcome, call.wanted.kind)
        if outcome.is_shortened:
            # While its program ran.
            return None if _fits(call, size) else exceeded(call)
        most = self.most(call)
        is_over = size > most
        if not is_over and _fits(call, size):
            return None
        if is_over and self.overflow == "error" and not outcome.is_error:
            detail = f"the answer has {size:,} bytes, and a model should get {most:,} at most"
            return Fault(Code.TOOL_FAILED, detail, {"limit": "max_output"})
        room = 0
        if not call.is_read_again:
            # Its input has done its part, and makes room.
            call.line, room = b"", call.bytes_in
        is_stored = self.overflow == "store" or not is_over
        shortened = partial(_shortened, call, outcome, most if is_over else None, is_stored=is_stored)
        return aside_with(call, outcome, shortened, room=room)

    def most(self, call: AgentCall) -> int:
        """How many bytes of its answer a model should get."""
        return self.max_bytes or call.max_output


UNSTATED_SIZE: Final = SizeStep()


class BudgetStep(Step):
    """Refuses a call where its agent has none left, or no room for any answer."""

    __slots__ = ()

    def take(self, call: Call) -> Fault | None:
        budget = call.context.budget
        if budget is None or not isinstance(call, AgentCall):
            return None
        used_up = budget.take_call(call.turn)
        if used_up is None:
            return None
        limit, is_of_turn = used_up
        detail = EXCEEDED if limit != "calls" else NO_CALLS_THIS_TURN if is_of_turn else NO_CALLS
        return Fault(Code.BUDGET_EXCEEDED, detail, {"limit": limit}).ran(may_have=False)

    def leave(self, call: Call, outcome: Outcome) -> None:
        budget = call.context.budget
        if budget is None or not isinstance(call, AgentCall) or call.has_begun:
            return
        if not (isinstance(outcome, Fault) and outcome.code is Code.BUDGET_EXCEEDED):
            budget.give_back_call(call.turn)


BUDGET: Final = BudgetStep(StepOrder.BUDGET)


def exceeded(call: AgentCall) -> Fault:
    """The answer does not fit into what is left; the finished result, where it could be kept."""
    kept = {} if call.stored is None else call.stored.fields()
    return Fault(Code.BUDGET_EXCEEDED, EXCEEDED, {"limit": call.room_limit, **kept})


def exceeded_window(size: int) -> Fault:
    """Make the fault of an answer that is larger than what its agent's window has left."""
    return Fault(Code.BUDGET_EXCEEDED, EXCEEDED, {"limit": "window", "bytes": size})


def _fits(call: AgentCall, size: int) -> bool:
    """Whether there is room for so much of an answer; its budget has paid for it then."""
    if size > call.room:
        return False
    if call.context.budget is not None:
        call.context.budget.spend(call.turn, size)
    return True


async def _shortened(call: AgentCall, answer: Answer, most: int | None, *, is_stored: bool) -> Outcome:
    """What stands in the place of an answer; `most` is None where it is only over what is left."""
    try:
        found, others = await _stored(call, answer, most or 0, is_stored=is_stored)
    except CheckerError as error:
        return uncut(utf8_size(answer.content), error)
    if most is None:
        return exceeded(call)
    told = _told(answer, text_instead(call, found, most), others)
    # What other calls have been given meanwhile may have left no room for the beginning either.
    return told if _fits(call, utf8_size(told.content)) else exceeded(call)


def uncut(size: int, error: CheckerError) -> Fault:
    """No checker could cut an answer of that size."""
    detail = f"the answer has {size:,} bytes, and cannot be cut: {error.why}"
    return Fault(Code.TOOL_FAILED, detail, {"limit": "max_output"})


def text_instead(call: AgentCall, found: ShortenedText, most: int) -> str:
    """What a model gets in the place of a text that is too long."""
    if call.stored is not None:
        return _handle_message(call.stored, found, most)
    why = "" if found.why_not is None else f", and could not be stored: {found.why_not}"
    note = f"\n… the rest of {found.size:,} bytes, {found.lines:,} lines is left out{why} …"
    return found.head.encode()[: most - len(note.encode())].decode(errors="ignore") + note


async def _stored(
    call: AgentCall, answer: Answer, head_bytes: int, *, is_stored: bool
) -> tuple[ShortenedText, bytearray]:
    """Have a checker cut the answer and write it down. Raises `CheckerError`."""
    content, blocks = answer.content, answer.blocks
    size, outputs, spool = utf8_size(content), call.context.outputs, call.context.spool
    path = why_not = None
    if is_stored:
        forgotten = outputs.reserve(size)
        if forgotten is None:
            why_not = NO_ROOM
        else:
            spool.remove(forgotten)
            try:
                path = spool.new_path()
            except OSError as error:
                outputs.give_back(size)
                why_not = error.strerror or str(error)
    quoted = content.literal if isinstance(content, QuotedText) else content.encode()
    beside = blocks.literal if isinstance(blocks, QuotedText) else b"" if blocks is None else blocks
    job = ShorteningJob(
        content_size=len(quoted),
        is_quoted=isinstance(content, QuotedText),
        is_json=answer.kind is ContentKind.JSON,
        path=path,
        head_bytes=head_bytes,
    )
    is_kept = False
    try:
        run, turns = call.context.checking.run, call.context.account.turns
        reply, others, _ = await run(shorten, _write(job), (quoted, memoryview(beside)), turns=turns)
        found = _read(reply)
        if path is not None and found.why_not is None:
            call.stored = StoredOutput(new_handle(), path, found.size, found.lines, found.tokens)
            # Of a string in JSON its own bytes are fewer.
            outputs.give_back(size - found.size)
            outputs.keep(call.stored)
            is_kept = True
            call.context.session.has_stored()
    finally:
        if path is not None and not is_kept:
            outputs.give_back(size)
            spool.discard((path,), size)
    return (found if why_not is None else msgspec.structs.replace(found, why_not=why_not)), others


def _handle_message(stored: StoredOutput, found: ShortenedText, most: int) -> str:
    """What is told of a stored answer: netdata's object, and as much of the beginning as has room."""
    told: dict[str, object] = {"handle": stored.handle, "reason": SIZE_LIMIT, **stored.fields()}
    head = found.head
    while True:
        message = _encode({"tool_output": {**told, "head": head, "note": HOW_TO_READ}})
        if len(message) <= most or not head:
            return message.decode()
        # Escapes may make it longer than it is.
        head = head[: len(head) * most // (2 * len(message))]


def _told(answer: Answer, text: str, others: bytearray) -> Answer:
    """The answer that says `text` in its place; of its parts those stay that are no texts."""
    kind = ContentKind.TEXT if answer.blocks is None else ContentKind.BLOCKS
    made = of_text(text, kind, is_error=answer.is_error)
    if isinstance(made.blocks, Raw) and len(others) > len("[]"):
        made = msgspec.structs.replace(
            made, blocks=Raw(bytes(made.blocks)[:-1] + b"," + others[1:]), largest_part=answer.largest_part
        )
    return msgspec.structs.replace(made, details=answer.details, is_shortened=True)
