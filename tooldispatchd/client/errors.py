"""Two kinds of errors that never mix: the daemon answered with a fault, or it cannot be spoken with."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET

from tooldispatchd.wire.faults import CATEGORY, LATER, Category
from tooldispatchd.wire.messages import ContentKind, ToolResp

# For a daemon of another make that leaves out a field which a fault always has.
_UNTOLD: Final = {"error": "internal_error", "category": "internal", "detail": "a fault without a detail"}


class ClientError(Exception):
    """The daemon cannot be reached, its channel has ended, or it did not answer in time."""


class FaultError(Exception):
    """A fault of the daemon; an error that a tool itself reports is an answer, and never raised.

    `fields` is the fault with its extras. `answer` is the whole answer to a call, whose `content` is for the model;
    None for other requests.
    """

    def __init__(self, fields: Mapping[str, object], answer: ToolResp | None = None) -> None:
        super().__init__(fields, answer)
        self.fields = fields
        self.answer = answer

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"

    @property
    def code(self) -> str:
        """One of the codes of the protocol, or one of a later version: then `category` says what to do."""
        return self._text("error")

    @property
    def category(self) -> str:
        """`config`, `invalid`, `not_found`, `denied`, `internal` or `unavailable`."""
        return self._text("category")

    @property
    def detail(self) -> str:
        """One sentence for a reader or a model."""
        return self._text("detail")

    @property
    def ran(self) -> str | None:
        """Whether anything of the tool may have been begun, `no` or `maybe`; None where no tool was found for it."""
        told = self.fields.get("ran")
        return told if isinstance(told, str) else None

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later, by the code; by the category where the code is a later version's.

        One whose tool may have run is for the caller to judge.
        """
        may_pass = self.code in LATER if self.code in CATEGORY else self.category == Category.UNAVAILABLE
        return may_pass and self.ran in {None, "no"}

    @property
    def retry_after_ms(self) -> float | None:
        """How long to wait before that, if the daemon knows."""
        told = self.fields.get("retry_after_ms")
        return float(told) if isinstance(told, int | float) and told >= 0 else None

    def _text(self, name: str) -> str:
        told = self.fields.get(name)
        return told if isinstance(told, str) else _UNTOLD[name]


def lost_error(why: str | None, *, is_call: bool) -> ClientError:
    """The error of a request that had no answer when its channel ended."""
    return ClientError(f"{why}; the call may have run, and is not sent again" if is_call else why)


def fault_of(answer: ToolResp) -> FaultError:
    """The fault that an answer tells: in `value` where its content is a text, else in the content."""
    said = answer.content if answer.kind is not ContentKind.TEXT or answer.value is UNSET else answer.value
    try:
        return FaultError(msgspec.json.decode(said, type=dict[str, object]), answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return FaultError({"detail": answer.content}, answer)
