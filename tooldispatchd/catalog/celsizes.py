"""How large values are: bounds on their widths, depths and texts, and the look at an input that finds them.

What is looked at is bounded itself: a value beyond the bounds is refused while it is measured.
"""

from typing import Final

import msgspec

# What is looked at to know an input's size; beyond, its conversion alone would spend the budget.
MAX_VALUES: Final = 4_096
MAX_TEXT_BYTES: Final = 256 * 1024
MAX_NESTING: Final = 64

# The engine would end a text at the first, and refuses the second in words that help nobody.
NULL_CHARACTER: Final = "the input holds a text with a null character"
LONE_SURROGATE: Final = "the input holds a text with a lone surrogate, which is no character"


class Size(msgspec.Struct, frozen=True):
    """An upper bound of how large a value is.

    `width`: entries of one list or record; `text`: bytes of one text; `values`: all values within, itself and keys
    counted; `total`: bytes of all texts within; `item`: what stands in it, all entries and keys as one; `held`:
    how many of the values are lists and records.
    """

    width: int = 0
    text: int = 0
    values: int = 1
    total: int = 0
    item: "Size | None" = None
    held: int = 0


SCALAR: Final = Size()


class TooLargeError(ValueError):
    """A value beyond what is looked at, or an evaluation beyond the budget; the words are for a model."""


class UnfitTextError(ValueError):
    """A text that the engine cannot take as it is."""


def join(left: Size | None, right: Size | None) -> Size | None:
    """A bound of both."""
    if left is None or right is None or left == right:
        return left or right
    return Size(
        max(left.width, right.width),
        max(left.text, right.text),
        max(left.values, right.values),
        max(left.total, right.total),
        join(left.item, right.item),
        max(left.held, right.held),
    )


def scaled(size: Size, halvings: int) -> Size:
    """A bound of the same kind, with lists and texts shorter by a power of two."""
    item = None if size.item is None else scaled(size.item, halvings)
    values = max(size.values >> halvings, 1)
    return Size(
        size.width >> halvings, size.text >> halvings, values, size.total >> halvings, item, size.held >> halvings
    )


def is_within(small: Size | None, large: Size | None) -> bool:
    """Whether one bound holds for all that the other holds for."""
    while small is not None and small != large:
        if large is None or small.width > large.width or small.text > large.text:
            return False
        if small.values > large.values or small.total > large.total or small.held > large.held:
            return False
        small, large = small.item, large.item
    return True


def measure(value: object) -> Size:
    """The size of a JSON value. Raises `TooLargeError` early, `UnfitTextError` where a text is not for the engine."""
    meter = _Meter()
    meter.look(value)
    size: Size | None = None
    for width, text, values, total, held in reversed(meter.levels):
        size = Size(width, text, values, total, size, held)
    return size or SCALAR


class _Meter:
    """The largest of each level of a value: width, text, values, bytes of text, lists and records."""

    def __init__(self) -> None:
        self.levels: list[list[int]] = []
        self._values = 0
        self._total = 0

    def look(self, value: object) -> None:
        """Look at a whole value."""
        if isinstance(value, list | dict):
            self._look_in(value, 0)
        else:
            # Alone it is at the level where its list would be.
            self._look_in([value], 0)
            del self.levels[0]

    def _look_in(self, value: list[object] | dict[str, object], depth: int) -> tuple[int, int, int]:
        """How many values, bytes of text, lists and records are within one; it goes no deeper than `MAX_NESTING`."""
        if depth + 2 > len(self.levels):
            self._deepen(depth)
        parts = value if isinstance(value, list) else [*value, *value.values()]
        # Before anything of it is looked at: what is too wide is told at once.
        self._values += len(parts)
        if self._values > MAX_VALUES:
            raise TooLargeError(f"the input has more than {MAX_VALUES} values, the most that an expression takes")
        longest = total = inner = 0
        values, held = 1 + len(parts), 1
        for part in parts:
            if part.__class__ is str:
                size = len(part) if part.isascii() else bytes_of(part)
                if "\0" in part:
                    raise UnfitTextError(NULL_CHARACTER)
                total += size
                longest = max(longest, size)
            elif isinstance(part, dict | list):
                inner_values, inner_total, inner_held = self._look_in(part, depth + 1)
                held += inner_held
                values += inner_values - 1
                inner += inner_total
        self._total += total
        if self._total > MAX_TEXT_BYTES:
            why = f"the input has more than {MAX_TEXT_BYTES} bytes of text, the most that an expression takes"
            raise TooLargeError(why)
        self._note(depth, longest, [len(value), 0, values, total + inner, held])
        return values, total + inner, held

    def _deepen(self, depth: int) -> None:
        if depth + 1 >= MAX_NESTING:
            raise TooLargeError(f"the input is nested deeper than {MAX_NESTING}, the most that an expression takes")
        while len(self.levels) < depth + 2:
            self.levels.append([0, 0, 1, 0, 0])

    def _note(self, depth: int, longest: int, found: list[int]) -> None:
        """Let the levels bound a list or record at one, and the texts in it at the next."""
        deeper = self.levels[depth + 1]
        self.levels[depth] = list(map(max, self.levels[depth], found))
        deeper[1] = max(deeper[1], longest)
        deeper[3] = max(deeper[3], longest)


def bytes_of(text: str) -> int:
    """How many bytes of UTF-8 a text is. Raises `UnfitTextError` where it is no Unicode."""
    # A text beyond the bound is not encoded: its characters say enough.
    if text.isascii() or len(text) > MAX_TEXT_BYTES:
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise UnfitTextError(LONE_SURROGATE) from None
