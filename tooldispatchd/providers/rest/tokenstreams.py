"""An answer that comes bit by bit: JSON objects as server-sent events or lines, of which some are tokens, one the end.

    chunk ──▶ events, or lines ──▶ objects ──▶ tokens, told at once ──▶ the answer: the last one's, or all tokens

What is no such object is passed over, and counted. `[DONE]` is an end too. A last line need not be ended.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.catalog.restspecs import RestStreamSpec
from tooldispatchd.http.eventstream import EventStream
from tooldispatchd.wire.lines import LineCutter, LongLine

# One event. A token is a word; the last event may have the whole answer.
MAX_EVENT_BYTES: Final = 1024 * 1024
# Of so much at a time, others have a turn in between: lines of two bytes take some milliseconds.
PIECE_BYTES: Final = 4 * 1024
DONE: Final = b"[DONE]"
_BLANKS: Final = b" \t\r\n"

_decode_text: Final = msgspec.json.Decoder(str).decode


# A member that is not there, and one that is null.
_ABSENT: Final = Raw(b"")
_NOTHING: Final = (_ABSENT, Raw(b"null"))


class StreamError(Exception):
    """A stream cannot be read further; `limit` is the bound that was passed, if one was."""

    def __init__(self, why: str, limit: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.limit = limit


class TokenStream:
    """One stream: pieces of it in, tokens out.

    `text` are all tokens so far, in UTF-8; `answer` what the last object says, as JSON; `skipped` counts what was no
    object. After its end (`is_done`) nothing is looked at.
    """

    def __init__(self, spec: RestStreamSpec, max_bytes: int) -> None:
        self.text = bytearray()
        self.answer: bytes | None = None
        self.is_done = False
        self.skipped = 0
        self._spec = spec
        self._members = _reader(spec.discriminator_field, spec.token_field, spec.answer_field)
        self._prefix = spec.line_prefix.encode()
        self._left = max_bytes
        limit = min(max_bytes, MAX_EVENT_BYTES)
        self._events = EventStream(limit) if spec.format == "sse" else None
        self._lines = LineCutter(limit)

    @property
    def held(self) -> int:
        """The bytes that lie here."""
        unread = self._lines.held if self._events is None else self._events.held
        return unread + len(self.text) + len(self.answer or b"")

    def feed(self, piece: bytes) -> str:
        """The tokens in a piece. Raises `StreamError`, and `EventTooLargeError` of the decoder."""
        self._left -= len(piece)
        tokens = "".join(self._tokens(piece))
        if self._left < 0 and not self.is_done:
            raise StreamError("its stream goes on for more bytes than may be read", "content_bytes")
        return tokens

    def end(self) -> str:
        """The tokens in what is left at the end."""
        return "".join(self._tokens(b"\n" if self._events is None else b"\n\n"))

    def _tokens(self, piece: bytes) -> Iterator[str]:
        for line in self._objects(piece):
            if self.is_done:
                return
            token = self._take(line)
            if token:
                self.text += token.encode()
                yield token

    def _objects(self, piece: bytes) -> Iterator[bytes | bytearray]:
        if self._events is not None:
            yield from (event.data for event in self._events.feed(piece))
            return
        for line in self._lines.cut(piece):
            if isinstance(line, LongLine):
                raise StreamError("a line of its stream is too long", "content_bytes")
            yield line.removeprefix(self._prefix)

    def _take(self, line: bytes | bytearray) -> str | None:
        """The token in a line, if it holds one."""
        line = line.strip(_BLANKS)
        if not line:
            return None
        if line == DONE:
            self.is_done = True
            return None
        spec = self._spec
        try:
            said, text, answer = self._members(line)
            kind = _decode_text(said)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.skipped += 1
            return None
        if kind == spec.done_value:
            self.is_done = True
            self.answer = None if answer in _NOTHING else bytes(answer)
        elif kind == spec.token_value:
            try:
                return _decode_text(text)
            except (msgspec.DecodeError, UnicodeDecodeError):
                self.skipped += 1
        return None


# As many as there are streams with names of their own.
@lru_cache(maxsize=64)
def _reader(*names: str) -> Callable[[bytes | bytearray], list[Raw]]:
    """What reads these members of an object, in this order, and passes over all others: a value of each of 90,000 takes
    100 times as long. Raises as a decoder does.
    """
    fields = {name: f"member_{number}" for number, name in enumerate(dict.fromkeys(names))}
    members = [(field, Raw, _ABSENT) for field in fields.values()]
    kind = msgspec.defstruct("StreamObject", members, rename={field: name for name, field in fields.items()})
    decode = msgspec.json.Decoder(kind).decode
    places = [fields[name] for name in names]
    return lambda line: [getattr(found, place) for found in (decode(line),) for place in places]
