"""Known secrets are masked in what is logged, told and recorded. Pure.

A value is looked for as it is, as it stands in JSON, in a URL, and, where it has several lines, line by line. What is
shorter than `LEAST_CHARS` is not: it would be found where nobody meant it.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Final

from tooldispatchd.catalog.secrecy import MASK

LEAST_CHARS: Final = 6
# A line of a key; shorter ones are its head and its tail, which all keys have.
LEAST_LINE_CHARS: Final = 16


class Masker:
    """Masks the values it was made with. Each is one search through the text, which is many times as fast as one pass
    that looks for all of them: nearly always there is none.
    """

    __slots__ = ("_bytes", "_forms", "longest")

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._know({form for value in values for form in _forms_of(value) if len(form) >= LEAST_CHARS})

    def _know(self, forms: Iterable[str]) -> None:
        # The longest first: one that is a part of another must not leave the rest of that.
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        self._bytes = tuple((form.encode(errors="surrogateescape"), MASK.encode()) for form in self._forms)
        self.longest = len(self._forms[0]) if self._forms else 0

    def __bool__(self) -> bool:
        return bool(self._forms)

    def __repr__(self) -> str:
        return f"Masker({len(self._forms)} forms)"

    def mask(self, text: str) -> str:
        """The text without the secrets."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return text

    def mask_bytes(self, text: bytes) -> bytes:
        """Likewise, of a text in UTF-8."""
        held: list[bytes | bytearray] = [text]
        for _ in self.passes(held):
            pass
        return bytes(held[0])

    def passes(self, held: list[bytes | bytearray]) -> Iterator[None]:
        """Likewise, of the one text in `held`: a pass through it for each step, some milliseconds for 64 MiB."""
        for form, mask in self._bytes:
            if form in held[0]:
                held[0] = held[0].replace(form, mask)
            yield

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
            return {key: self.mask_value(each, is_cut=is_cut) for key, each in value.items()}
        if isinstance(value, list):
            return [self.mask_value(each, is_cut=is_cut) for each in value]
        return value


NO_SECRETS: Final = Masker()


class CoveringMasker(Masker):
    """Masks what any of several maskers does, which may be others later on: a log outlives a configuration."""

    __slots__ = ()

    def cover(self, maskers: Iterable[Masker]) -> None:
        """From now on mask what these do. Threads may use it meanwhile."""
        self._know({form for masker in maskers for form in masker._forms})


def _forms_of(value: str) -> Iterator[str]:
    lines = [line.strip() for line in value.splitlines()]
    for each in (value, *(line for line in lines if len(lines) > 1 and len(line) >= LEAST_LINE_CHARS)):
        yield each
        yield json.dumps(each)[1:-1]
        yield json.dumps(each, ensure_ascii=False)[1:-1]
        yield "".join(map(_in_url, each))


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
