"""The step that masks known secrets in answers; and updates of calls that take it."""

from functools import partial

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.agent.calls.call import Call, Step
from tooldispatchd.calls.outcome import Answer, Outcome, Update
from tooldispatchd.calls.stages import StepOrder, Waits
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.messages import ContentKind, QuotedText


class RedactStep(Step):
    """Masks an answer: a short one at once, a long one in a task that lets others go on between its passes."""

    __slots__ = ("_masker",)

    def __init__(self, masker: Masker) -> None:
        super().__init__(StepOrder.REDACT)
        self._masker = masker

    def give(self, call: Call, outcome: Outcome) -> Outcome | Waits | None:
        # Faults are masked where they are told, of whatever tool.
        if isinstance(outcome, Fault):
            return None
        if isinstance(outcome.content, QuotedText) or isinstance(outcome.blocks, QuotedText):
            return call.aside(partial(self._masked_in_turns, outcome), given=outcome)
        return self._masked(outcome)

    def update(self, update: Update) -> Update:
        """An update, masked. A secret that comes in two parts of a content is not found."""
        message, content = (
            None if text is None else self._masker.mask(text) for text in (update.message, update.content)
        )
        return msgspec.structs.replace(update, message=message, content=content)

    def _masked(self, answer: Answer) -> Answer:
        """All that is short in it; what is long stays."""
        content = answer.content
        if isinstance(content, str):
            content = self._json(content) if answer.kind is ContentKind.JSON else self._masker.mask(content)
        return msgspec.structs.replace(
            answer,
            content=content,
            value=None if answer.value is None else self._json(answer.value),
            blocks=self._raw(answer.blocks) if isinstance(answer.blocks, Raw) else answer.blocks,
            details=None if answer.details is None else self._raw(answer.details),
        )

    def _raw(self, text: Raw) -> Raw:
        return Raw(self._json(bytes(text).decode()).encode())

    def _json(self, text: str) -> str:
        """A text of JSON, which stays one: digits of a number may be a secret's, and are no secret there."""
        masked = self._masker.mask(text)
        if masked == text:
            return text
        try:
            return msgspec.json.encode(self._masker.mask_value(msgspec.json.decode(text))).decode()
        except (msgspec.DecodeError, RecursionError):
            return masked

    async def _masked_in_turns(self, answer: Answer) -> Outcome:
        content, blocks = answer.content, answer.blocks
        if isinstance(content, QuotedText):
            content = await self._long(content)
        if isinstance(blocks, QuotedText):
            blocks = await self._long(blocks)
        return self._masked(msgspec.structs.replace(answer, content=content, blocks=blocks))

    async def _long(self, text: QuotedText) -> QuotedText:
        held: list[bytes | bytearray] = [text.literal]
        for _ in self._masker.passes(held):
            await trio.lowlevel.checkpoint()
        # What is masked is longer than what stands in its place.
        return QuotedText(held[0], max(0, text.size - (len(text.literal) - len(held[0]))))
