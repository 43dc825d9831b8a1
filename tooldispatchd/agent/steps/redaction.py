"""The step that masks known secrets in answers; and updates of calls that take it."""

from functools import partial
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.agent.calls.call import Call
from tooldispatchd.agent.calls.step import Step
from tooldispatchd.agent.steps.asides import aside_with
from tooldispatchd.calls.outcome import Answer, Outcome, Update
from tooldispatchd.calls.stages import StepOrder, Waits
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.checkers.pool import CheckerError
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ContentKind, QuotedText

_write: Final = msgspec.msgpack.Encoder().encode


class RedactStep(Step):
    """Masks an answer: a short one at once, a long one in a checker, where it is read as one must be that is JSON."""

    __slots__ = ("_masker",)

    def __init__(self, masker: Masker) -> None:
        super().__init__(StepOrder.REDACT)
        self._masker = masker

    def give(self, call: Call, outcome: Outcome) -> Outcome | Waits | None:
        # Faults are masked where they are told, of whatever tool.
        if isinstance(outcome, Fault) or not self._masker:
            return None
        if isinstance(outcome.content, QuotedText) or isinstance(outcome.blocks, QuotedText):
            return aside_with(call, outcome, partial(self._masked_aside, call, outcome))
        return self._masked(outcome)

    def update(self, update: Update) -> Update:
        """An update, masked by itself: a secret that comes in two of them, or in two parts of one, is not found."""
        message, content = (
            None if text is None else self._masker.mask(text) for text in (update.message, update.content)
        )
        return msgspec.structs.replace(update, message=message, content=content)

    def _masked(self, answer: Answer) -> Answer:
        """All that is short in it; what is long stays."""
        content = answer.content
        if isinstance(content, str):
            content = _mask(self._masker, content, is_json=answer.kind is ContentKind.JSON)
        return msgspec.structs.replace(
            answer,
            content=content,
            value=None if answer.value is None else self._masker.mask_json(answer.value),
            blocks=self._raw(answer.blocks) if isinstance(answer.blocks, Raw) else answer.blocks,
            details=None if answer.details is None else self._raw(answer.details),
        )

    def _raw(self, text: Raw) -> Raw:
        return Raw(self._masker.mask_json(bytes(text).decode()).encode())

    async def _masked_aside(self, call: Call, answer: Answer) -> Outcome:
        content, blocks = answer.content, answer.blocks
        long = [each.literal if isinstance(each, QuotedText) else b"" for each in (content, blocks)]
        job = MaskingJob(self._masker.secrets, len(long[0]), is_json=answer.kind is ContentKind.JSON)
        try:
            run, turns = call.context.checking.run, call.context.account.turns
            size, masked, others = await run(mask_long, _write(job), long, turns=turns)
        except CheckerError as error:
            return Fault(Code.TOOL_FAILED, f"secrets in the answer cannot be masked: {error.why}", {"limit": "check"})
        if isinstance(content, QuotedText):
            content = QuotedText(masked, int(size))
        if isinstance(blocks, QuotedText):
            blocks = QuotedText(others, len(others))
        return self._masked(msgspec.structs.replace(answer, content=content, blocks=blocks))


def _mask(masker: Masker, text: str, *, is_json: bool) -> str:
    return masker.mask_json(text) if is_json else masker.mask(text)


# --- in the checker's process ---


class MaskingJob(msgspec.Struct, frozen=True):
    """The first `content_size` bytes of the payload are a content, quoted, the others its parts; either may be none."""

    secrets: frozenset[str]
    content_size: int
    is_json: bool


def mask_long(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes, bytes]:
    """Mask a long content, and long parts: the content's size in UTF-8, it as it was quoted, and the parts."""
    job = msgspec.msgpack.decode(arguments, type=MaskingJob)
    masker, quoted, parts = Masker(job.secrets), payload[: job.content_size], payload[job.content_size :]
    text = _mask(masker, msgspec.json.decode(quoted, type=str), is_json=job.is_json) if quoted else ""
    return b"%d" % len(text.encode()), msgspec.json.encode(text), masker.mask_json(parts.decode()).encode()
