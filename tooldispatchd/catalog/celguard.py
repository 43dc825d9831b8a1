"""What stands before an evaluation: a look at the input's texts and size, and at what the evaluation would cost.

An expression over numbers and booleans alone has one cost, known when it is loaded: nothing stands before it. One over
texts has a length that surely passes. For all else the input is measured at each call and held against the largest that
has passed; only a larger one is billed anew.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from tooldispatchd.catalog.celcost import BUDGET_NS, Prices, cost_ns
from tooldispatchd.catalog.celsizes import (
    SCALAR,
    Size,
    TooLargeError,
    UnfitTextError,
    is_within,
    join,
    measure,
    scaled,
)
from tooldispatchd.catalog.celtree import Node
from tooldispatchd.catalog.meanings import Declared, resolve
from tooldispatchd.catalog.types import ListOf, Primitive, Record, Type, Union, parts

# Texts and lists up to one of these pairs of lengths, the longest that the budget allows, pass with no further look.
_QUICK: Final = ((16_384, 1_024), (4_096, 256), (1_024, 64), (256, 16), (64, 4))
_NOTHING: Final = (0, 0)
# Halvings tried to tell how much of an input would have passed.
_HALVINGS: Final = 12


class FailedEvaluation(msgspec.Struct, frozen=True):
    """An evaluation that gave no value, and why, in words for a model.

    `invalid_input` where the input is to blame: an integer outside 64 bits, a null character or a lone surrogate in a
    text, which the engine cannot hold. `limit` names the bound that was met: `expression`, or None.
    """

    why: str
    invalid_input: bool = False
    limit: str | None = None


LIMIT: Final = "expression"
Look = Callable[[object], FailedEvaluation | None]


def is_fixed(type_: Type, declared: Declared) -> bool:
    """Whether all values of a type are of one size: numbers, booleans and null."""
    return _words(type_, declared) <= {"int", "number", "bool", "unit"}


def _words(type_: Type, declared: Declared) -> set[str]:
    meaning = resolve(type_, declared)
    options = meaning.options if isinstance(meaning, Union) else (meaning,)
    resolved = [resolve(option, declared) for option in options]
    return {option.word if isinstance(option, Primitive) else "json" for option in resolved}


def _is_flat(type_: Type, declared: Declared) -> bool:
    """Whether a value of a type is one text, or a list of values of one size, or of one size itself."""
    meaning = resolve(type_, declared)
    if isinstance(meaning, ListOf):
        return is_fixed(meaning.item, declared)
    return _words(type_, declared) <= {"int", "number", "bool", "unit", "string"}


class Guard:
    """The bound of one expression. `fields` are the variables that it reads, with their types.

    `whole` are the names that mean the whole input: at most `input` where that is a record.
    """

    def __init__(
        self, root: Node, *, fields: Mapping[str, Type], whole: tuple[str, ...], declared: Declared, prices: Prices
    ) -> None:
        self._root = root
        self._whole = whole
        self._prices = prices
        self._declared = declared
        self._sizes = dict.fromkeys((*fields, *whole), SCALAR)
        self._read = tuple(name for name, type_ in fields.items() if not is_fixed(type_, declared))
        self._is_flat = all(_is_flat(fields[name], declared) for name in self._read)
        self._accepted: dict[str, Size] = {}

    def least_ns(self) -> float:
        """What an evaluation costs with nothing in its lists and texts. Raises `UnknownCostError`."""
        return self._cost(self._sizes)

    def look_at_fields(self) -> Look | None:
        """The look at an input that is a record, of which only fields are read; None where none is needed."""
        if not self._read:
            return None
        return self._look_at_parts(self._read, self._quick(())) if self._is_flat else self._look

    def look_at_whole(self, type_: Type) -> Look | None:
        """The look at an input that is read as a whole; None where none is needed."""
        meaning = resolve(type_, self._declared)
        if is_fixed(type_, self._declared):
            return None
        # An open record may have fields of which nothing is known.
        if meaning.__class__ is Record and all(_is_flat(part, self._declared) for part in parts(meaning)):
            return self._look_at_record(meaning)
        return self._look_at_one(self._quick(())) if _is_flat(type_, self._declared) else self._look

    def _look_at_record(self, record: Record) -> Look | None:
        varying = tuple(field.name for field in record.fields if not is_fixed(field.type, self._declared))
        names = tuple(field.name for field in record.fields)
        return self._look_at_parts(varying, self._quick(names)) if varying else None

    def _look_at_parts(self, names: tuple[str, ...], quick: tuple[int, int]) -> Look:
        longest, widest = quick
        look = self._look

        def look_at_parts(value: object) -> FailedEvaluation | None:
            fields: dict[str, object] = value  # type: ignore[assignment]  # checked before: the input is a record
            for name in names:
                part = fields.get(name)
                if part.__class__ is str:
                    if len(part) > longest or "\0" in part:
                        return look(value)
                elif part.__class__ is list and len(part) > widest:
                    return look(value)
            return None

        return look_at_parts if longest else look

    def _look_at_one(self, quick: tuple[int, int]) -> Look:
        longest, widest = quick
        look = self._look

        def look_at_one(value: object) -> FailedEvaluation | None:
            if value.__class__ is str:
                return look(value) if len(value) > longest or "\0" in value else None
            return look(value) if value.__class__ is list and len(value) > widest else None

        return look_at_one if longest else look

    def _quick(self, names: tuple[str, ...]) -> tuple[int, int]:
        """How many characters each text and values each list may have that surely pass; none where too few do.

        `names` are the fields of the whole, where that is a record.
        """
        # A character has four bytes at most.
        named = [4 * len(name) for name in names]
        for longest, widest in _QUICK:
            # A list of numbers and a text as well: one bound for both.
            large = Size(widest, 4 * longest, 1 + widest, 4 * longest, SCALAR, 1)
            whole = large
            if named:
                text, total = max(4 * longest, *named), len(named) * 4 * longest + sum(named)
                item = Size(widest, text, 1 + widest, text, SCALAR, 1)
                whole = Size(len(named), 0, 1 + len(named) * (2 + widest), total, item, 1 + len(named))
            sizes = self._sizes | dict.fromkeys(self._read, large) | dict.fromkeys(self._whole, whole)
            if self._cost(sizes) <= BUDGET_NS:
                return longest, widest
        return _NOTHING

    def _look(self, value: object) -> FailedEvaluation | None:
        """Measure what is read, and refuse what is too large."""
        try:
            sizes = self._measure(value)
        except TooLargeError as error:
            return FailedEvaluation(str(error), limit=LIMIT)
        except UnfitTextError as error:
            return FailedEvaluation(str(error), invalid_input=True)
        accepted = self._accepted
        if accepted and all(is_within(size, accepted[name]) for name, size in sizes.items()):
            return None
        if self._cost(sizes) > BUDGET_NS:
            return FailedEvaluation(self._refusal(sizes), limit=LIMIT)
        # Both together, where they pass: inputs that are large in turns at different places are billed once.
        both = {name: join(size, accepted.get(name)) or size for name, size in sizes.items()}
        self._accepted = both if self._cost(both) <= BUDGET_NS else sizes
        return None

    def _measure(self, value: object) -> dict[str, Size]:
        sizes = dict(self._sizes)
        if self._whole:
            size = measure(value)
            # The fields are parts of the whole.
            sizes = dict.fromkeys(sizes, size.item or SCALAR) | dict.fromkeys(self._whole, size)
        elif isinstance(value, dict):
            sizes |= {name: measure(value[name]) for name in self._read if name in value}
        return sizes

    def _cost(self, sizes: Mapping[str, Size]) -> float:
        return cost_ns(self._root, sizes, self._prices)

    def _refusal(self, sizes: Mapping[str, Size]) -> str:
        name, largest = max(sizes.items(), key=lambda entry: (entry[1].values, entry[1].total))
        if largest.values > 1:
            what, many = "values", largest.values
        else:
            what, many = "bytes of text", largest.total
        why = f'the expression would do too much work on this input: "{name}" has {many} {what}'
        for halvings in range(1, _HALVINGS):
            if self._cost({key: scaled(size, halvings) for key, size in sizes.items()}) <= BUDGET_NS:
                return f"{why}; about {many >> halvings} would pass"
        return why
