"""How a call ends: an `Answer` from a tool, or a `Fault` of the daemon; and what it may say before, an `Update`.

A provider returns one of the two as a value; what it raises is a defect, and the call's guard answers it with
`internal_error`.
"""

from collections.abc import Callable, Sized
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.catalog.outputs import Output
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.messages import ContentKind, QuotedText

# A line of a program, or the parameters of a server's notification.
MAX_UPDATE_BYTES: Final = 64 * 1024


class Answer(msgspec.Struct, frozen=True):
    """A tool's own answer. `is_error` is true only where the tool itself said that it failed (MCP `isError`).

    `kind` says what the content is; of `BLOCKS` the parts are a JSON list, of which the largest has so many bytes.
    `value` is the result as JSON where the content is another text of it. `details`, a JSON object, are for the agent's
    runtime. One that `is_shortened` says something else in its place, since it was too long. `warning` says what is
    wrong with one that is given all the same.
    """

    content: str | QuotedText
    is_error: bool = False
    kind: ContentKind = ContentKind.JSON
    blocks: Raw | QuotedText | None = None
    largest_part: int = 0
    value: str | None = None
    details: Raw | None = None
    is_shortened: bool = False
    warning: str | None = None

    @property
    def size(self) -> int:
        """Of all of it, in bytes."""
        size = utf8_size(self.content)
        if self.blocks is not None:
            size += len(self.blocks)
        return size if self.details is None else size + len(self.details)

    @property
    def buffers(self) -> list[Sized]:
        """All that may be large in it."""
        texts = (self.content, self.blocks, self.value, self.details)
        return [text.literal if isinstance(text, QuotedText) else text for text in texts if text is not None]


def utf8_size(text: str | QuotedText) -> int:
    """Its bytes in UTF-8."""
    if type(text) is str and text.isascii():
        return len(text)
    return text.size if isinstance(text, QuotedText) else len(text.encode())


class Update(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How far a running call is: `progress` of `total` in units of the tool's own, words, or a part of the content.

    A hook is told it so, and may give it back.
    """

    progress: float | None = None
    total: float | None = None
    message: str | None = None
    content: str | None = None


class UnreadableError(Exception):
    """A tool's output is no answer; the message goes on after its name. `limit` names a bound that was passed."""

    def __init__(self, why: str, limit: str | None = None) -> None:
        super().__init__(why)
        self.limit = limit


class LeftBeside(msgspec.Struct, frozen=True):
    """What a tool leaves beside its value, each a JSON object: for its agent's runtime, and for its own next call."""

    details: Raw | None = None
    state: bytes | None = None


NOTHING_LEFT: Final = LeftBeside()


class Unread(msgspec.Struct, frozen=True):
    """A tool's output that is too large to be read in the dispatch thread.

    `text`, maybe in parts, is in the mode `output`, and as JSON it may have `max_bytes`. `fault` is what is told where
    it cannot be read; `stderr` is the end of what it wrote there. Its value `is_parts`, a list of typed parts, or any.
    A file is of the `media_type`.
    """

    text: bytes | bytearray | tuple[bytes | bytearray, ...]
    output: Output
    max_bytes: int
    fault: Callable[[UnreadableError], Fault]
    stderr: str = ""
    left: LeftBeside = NOTHING_LEFT
    media_type: str = ""
    is_parts: bool = False


Outcome = Answer | Fault


def content_in(outcome: Outcome, kind: ContentKind | None = None) -> str | QuotedText:
    """Give the content of the answer, or of the response that tells of the fault in the kind that was asked for."""
    if not isinstance(outcome, Fault):
        return outcome.content
    return outcome.text() if kind is ContentKind.TEXT else outcome.content()


def log_fields(outcome: Outcome) -> dict[str, object]:
    """The log fields of a call's end; `fault` is the code of a fault of the daemon, `bytes` the size of the answer."""
    if isinstance(outcome, Fault):
        return {"is_error": True, "fault": outcome.code.value, "bytes": utf8_size(outcome.content())}
    warned = {} if outcome.warning is None else {"warning": outcome.warning}
    return {"is_error": outcome.is_error, "bytes": outcome.size, **warned}
