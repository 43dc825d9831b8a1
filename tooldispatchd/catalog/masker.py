"""Known secrets are masked in what is logged, told and recorded. Pure.

A value is looked for as it is, as it stands in JSON, and in JSON that is a text in JSON, in a URL, and, where it has
several lines, line by line. What is shorter than `LEAST_CHARS` is not: it would be found where nobody meant it. A
report that would rather lose a word than show a short secret has it looked for as a word of its own.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from tooldispatchd.catalog.secrecy import MASK

LEAST_CHARS: Final = 6
# A line of a key; shorter ones are its head and its tail, which all keys have.
LEAST_LINE_CHARS: Final = 16


# Escapes that need not be, with which somebody's JSON may write a letter of a secret; ours has none.
_HIDING: Final = ("\\/", "\\u")


class Masker:
    """Masks the values it was made with, and those that it learns. Each is one search through the text, which is many
    times as fast as one pass that looks for all of them: nearly always there is none. The short ones of `words` are
    masked where they stand as words.
    """

    __slots__ = ("_bytes", "_forms", "_learnt", "_stated", "_words", "longest")

    def __init__(self, values: Iterable[str] = (), *, words: Iterable[str] = ()) -> None:
        self._stated = frozenset(values)
        self._learnt: dict[str, frozenset[str]] = {}
        short = sorted((word for word in words if 0 < len(word) < LEAST_CHARS), key=len, reverse=True)
        self._words = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, short))})(?!\w)") if short else None
        self._arrange()

    def __bool__(self) -> bool:
        return bool(self._forms or self._words)

    def __repr__(self) -> str:
        return f"Masker({len(self._forms)} forms)"

    @property
    def secrets(self) -> frozenset[str]:
        """All values that it masks."""
        return self._stated.union(*self._learnt.values())

    def learn(self, owner: str, values: Iterable[str]) -> None:
        """Mask these values too, in the place of those that the owner had before."""
        self._learnt[owner] = frozenset(values)
        self._arrange()

    def mask(self, text: str) -> str:
        """The text without the secrets."""
        if len(text) < LEAST_CHARS and self._words is None:
            return text
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return text if self._words is None else self._words.sub(MASK, text)

    def mask_json(self, text: str) -> str:
        """Likewise, of a text of JSON, which stays one: what looks like a secret may be digits of a number, or begin
        within an escape. Of any other text as `mask`.
        """
        masked = self.mask(text)
        has_none = masked == text
        if has_none and not (self._forms and any(escape in text for escape in _HIDING)):
            return text
        try:
            value = msgspec.json.decode(text)
            shown = self.mask_value(value)
            if has_none and shown == value and not _has_name_twice(text):
                return text
            return msgspec.json.encode(shown).decode()
        except (msgspec.DecodeError, ValueError, RecursionError):
            return masked

    def mask_bytes(self, line: bytes) -> bytes:
        """As `mask_json`, of a text in UTF-8."""
        is_escaped = self._bytes and any(escape.encode() in line for escape in _HIDING)
        if self._words is None and not is_escaped and not any(form in line for form in self._bytes):
            return line
        return self.mask_json(line.decode(errors="surrogateescape")).encode(errors="surrogateescape")

    def mask_cut(self, text: str) -> str:
        """Likewise, of a text that was cut from a longer one: also what is left of a secret at its ends."""
        text = self.mask(text)
        for form in self._forms:
            if (size := _end_of(form, text)) > 0:
                text = MASK + text[size:]
            if (size := _start_of(form, text)) > 0:
                text = text[:-size] + MASK
        return text

    def mask_value(self, value: object, *, is_cut: bool = False) -> object:
        """A value of JSON, with each text in it masked; it is not changed."""
        if isinstance(value, str):
            return self.mask_cut(value) if is_cut else self.mask(value)
        if isinstance(value, dict):
            mask = self.mask_cut if is_cut else self.mask
            return {mask(str(key)): self.mask_value(each, is_cut=is_cut) for key, each in value.items()}
        if isinstance(value, list):
            return [self.mask_value(each, is_cut=is_cut) for each in value]
        return value

    def _arrange(self) -> None:
        found = {form for value in self.secrets for form in _forms_of(value) if len(form) >= LEAST_CHARS}
        # The longest first: one that is a part of another must not leave the rest of that. Replaced whole, since the
        # audit's thread may be masking.
        self._forms = tuple(sorted(found, key=lambda form: (-len(form), form)))
        self._bytes = tuple(form.encode(errors="surrogateescape") for form in self._forms)
        self.longest = len(self._forms[0]) if self._forms else 0


NO_SECRETS: Final = Masker()


def _has_name_twice(text: str) -> bool:
    """Whether an object in this JSON has a name twice: of such a one a value has the last alone."""
    is_twice = False

    def look(pairs: list[tuple[str, object]]) -> None:
        nonlocal is_twice
        is_twice |= len(dict(pairs)) < len(pairs)

    # Numbers are not read: of very many digits Python makes none.
    json.loads(text, object_pairs_hook=look, parse_int=len, parse_float=len)
    return is_twice


def _forms_of(value: str) -> Iterator[str]:
    lines = [line.strip() for line in value.splitlines()]
    for each in (value, *(line for line in lines if len(lines) > 1 and len(line) >= LEAST_LINE_CHARS)):
        yield each
        yield "".join(map(_in_url, each))
        for once in _in_json(each):
            yield once
            yield from _in_json(once)


def _in_json(text: str) -> tuple[str, str]:
    return json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]


def _in_url(letter: str) -> str:
    """RFC 3986, 2.1 and 2.3."""
    if letter.isascii() and (letter.isalnum() or letter in "-._~"):
        return letter
    return "".join(f"%{byte:02X}" for byte in letter.encode(errors="replace"))


def _end_of(form: str, text: str) -> int:
    """How many characters at the start of the text are the end of the form, at least `LEAST_CHARS`; else 0."""
    at = form.find(text[:LEAST_CHARS], 1) if len(text) >= LEAST_CHARS else -1
    while at > 0:
        if text.startswith(form[at:]):
            return len(form) - at
        at = form.find(text[:LEAST_CHARS], at + 1)
    return 0


def _start_of(form: str, text: str) -> int:
    """How many characters at the end of the text are the start of the form, at least `LEAST_CHARS`; else 0."""
    last = text[-LEAST_CHARS:]
    at = form.rfind(last, 0, len(form) - 1) if len(text) >= LEAST_CHARS else -1
    while at >= 0:
        size = at + LEAST_CHARS
        if text.endswith(form[:size]):
            return size
        at = form.rfind(last, 0, size - 1)
    return 0
