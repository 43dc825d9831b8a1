"""How two types go together, by one of a few rules, and where they differ first.

Types are graphs with cycles, so pairs of them are compared: each pair that is reached is taken to agree until it is
found that it cannot, and is then looked at no more. What is left agrees, recursive types included. All errors of names
are raised as `TypeNameError`.
"""

from collections.abc import Iterator
from heapq import merge
from itertools import groupby, product
from typing import Final

import msgspec

from tooldispatchd.catalog.meanings import Declared, check_names, options_of, resolve
from tooldispatchd.catalog.problems import cut
from tooldispatchd.catalog.types import JSON, ListOf, Primitive, Product, Record, Stream, Type, show

# Pairs of options, and of parts of theirs, that are looked at: 2 µs each, and so 0.2 s in all. Types that need more go
# together only where they are written alike. Two unions of some 150 lists do.
MAX_STEPS: Final = 100_000
MAX_SHOWN: Final = 80
# Steps of the way to a difference that are named; a person follows no more.
MAX_WAY: Final = 8

_Pair = tuple[int, int]
# What must go together for two options to: its name, and the pair.
_Part = tuple[str, _Pair]


class Relation(msgspec.Struct, frozen=True):
    """When a left type goes with a right one. Without any of these: where both have one structure.

    A declared name is what it stands for, fields and options may stand in any order, and of two unions each option
    must have one on the other side that it goes with.
    """

    json_is_any: bool = False
    """`json` on either side, at any depth, stands for any type; so does a union that holds it."""
    may_require: bool = False
    """A field that the left requires may be optional on the right."""
    may_omit: bool = False
    """The left may lack fields that are optional on the right."""
    is_guess: bool = False
    """It is enough that some value may be of both: no required field of the right is lacking, one option fits."""

    def holds(self, left: Type, right: Type, declared: Declared) -> bool:
        return self.difference(left, right, declared) is None

    def difference(self, left: Type, right: Type, declared: Declared) -> str | None:
        """Where the types differ first (`field limit: int is not string`), at most 8 steps deep; None if they agree."""
        check_names(left, declared)
        check_names(right, declared)
        left, right = resolve(left, declared), resolve(right, declared)
        if left == right:
            return None
        try:
            return _Comparison(self, left, right, declared).difference()
        except _TooLargeError:
            return f"{_is_not(left, right)}, as far as types of this size are compared"


SAME: Final = Relation()
"""Both mean the same structure."""
COMPATIBLE: Final = Relation(json_is_any=True)
"""Both may mean the same structure: `json` promises nothing."""
STATED_INPUT: Final = Relation(json_is_any=True, may_require=True, may_omit=True)
"""A tool may say that it takes the left where its function takes the right: it passes on less, and asks for more."""
STATED_OUTPUT: Final = Relation(json_is_any=True, may_require=True)
"""A tool may say that it gives the left where its function gives the right, whose defaults are always written."""
MADE: Final = Relation(json_is_any=True, may_omit=True, is_guess=True)
"""What an expression makes, as far as that is known, may be of the type that is wanted. An int is a number."""


class _TooLargeError(Exception):
    """More pairs than are worth the wait."""


class _Option(msgspec.Struct, frozen=True):
    """A type that is no name and no union, and by name each part of it: whether it is optional, and its number.

    A type's hash and its text take as long as it is large, so each is numbered once and none is shown before the end.
    """

    type: Type
    parts: dict[str, tuple[bool, int]]


class _Comparison:
    """Two types' pairs; `_refuted` holds those that do not agree, in the order in which that was found."""

    def __init__(self, rule: Relation, left: Type, right: Type, declared: Declared) -> None:
        self._rule = rule
        self._declared = declared
        self._numbers: dict[Type, int] = {left: 0, right: 1}
        self._types = [left, right]
        self._options: dict[int, list[_Option]] = {}
        # Of each pair that is not settled at sight: what each left option and each right one would need to agree, or
        # the name of the field that does not let them; it is empty where they are of different kinds.
        self._needs: dict[_Pair, list[list[list[_Part] | str]]] = {}
        self._refuted: dict[_Pair, int] = {}
        self._steps = 0
        self._reach()
        self._refute()

    def _reach(self) -> None:
        rule = self._rule
        waiting = [(0, 1)]
        while waiting:
            pair = waiting.pop()
            if pair in self._needs:
                continue
            lefts, rights = map(self._opened, pair)
            is_any = rule.json_is_any and any(option.type == JSON for option in (*lefts, *rights))
            if pair[0] == pair[1] or is_any or (rule.is_guess and len(lefts) > 1):
                # They agree without a look at their parts.
                self._needs[pair] = []
                continue
            needs = self._needs[pair] = [[self._needed(one, other) for other in rights] for one in lefts]
            waiting += [child for row in needs for need in row if isinstance(need, list) for _, child in need]

    def _refute(self) -> None:
        is_changed = True
        while is_changed:
            is_changed = False
            # What was reached last is what others depend on: mostly one round finds everything.
            for pair, needs in reversed(self._needs.items()):
                self._spend(1)
                if not needs or pair in self._refuted:
                    continue
                fits = [[self._fits(need) for need in row] for row in needs]
                agrees = all(map(any, fits)) and (self._rule.is_guess or all(map(any, zip(*fits, strict=True))))
                if not agrees:
                    self._refuted[pair] = len(self._refuted)
                    is_changed = True

    def _fits(self, need: list[_Part] | str) -> bool:
        if isinstance(need, str):
            self._spend(1)
            return False
        self._spend(1 + len(need))
        return not any(child in self._refuted for _, child in need)

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise _TooLargeError

    def _opened(self, number: int) -> list[_Option]:
        if number not in self._options:
            types = options_of(self._types[number], self._declared)
            self._options[number] = [_Option(type_, dict(self._parts(type_))) for type_ in types]
        return self._options[number]

    def _parts(self, type_: Type) -> Iterator[tuple[str, tuple[bool, int]]]:
        match type_:
            case Record(fields):
                for field in sorted(fields, key=lambda field: field.name):
                    yield f"field {field.name}", (field.optional, self._number(field.type))
            case Product(items):
                for place, item in enumerate(items, 1):
                    yield f"item {place}", (False, self._number(item))
            case ListOf(item):
                yield "items", (False, self._number(item))
            case Stream(item):
                yield "messages", (False, self._number(item))

    def _number(self, type_: Type) -> int:
        number = self._numbers.setdefault(type_, len(self._types))
        if number == len(self._types):
            self._types.append(type_)
        return number

    # --- two options ---

    def _needed(self, one: _Option, other: _Option) -> list[_Part] | str:
        """The parts that must agree for two options to; or, where they cannot, the name of a field or nothing."""
        self._spend(1)
        match one.type, other.type:
            case (Primitive("int"), Primitive("number")) | (ListOf(), Product()) if self._rule.is_guess:
                return []
            case Primitive(), Primitive():
                return [] if one.type == other.type else ""
            case Record(), Record():
                return self._fields(one, other)
            case (ListOf(), ListOf()) | (Stream(), Stream()) | (Product(), Product()):
                if len(one.parts) == len(other.parts):
                    self._spend(len(one.parts))
                    pairs = zip(one.parts.items(), other.parts.values(), strict=True)
                    return [(name, (mine, its)) for (name, (_, mine)), (_, its) in pairs]
        return ""

    def _fields(self, one: _Option, other: _Option) -> list[_Part] | str:
        rule = self._rule
        needed = []
        # Up to the first that does not let them: of many records most differ there in their first fields.
        for name, _ in groupby(merge(one.parts, other.parts)):
            self._spend(1)
            mine, its = one.parts.get(name), other.parts.get(name)
            if mine is None and its is not None and its[0] and rule.may_omit:
                continue
            if mine is None or its is None:
                return name
            if mine[0] != its[0] and not rule.is_guess and not (its[0] and rule.may_require):
                return name
            needed.append((name, (mine[1], its[1])))
        return needed

    # --- in words ---

    def difference(self) -> str | None:
        """The way from the first pair to the first parts that do not agree; None where all do."""
        pair = (0, 1)
        if pair not in self._refuted:
            return None
        way: list[str] = []
        while len(way) < MAX_WAY:
            lone = self._lone(pair)
            if lone is None:
                break
            one, other, need = lone
            if isinstance(need, str):
                return ": ".join([*way, _why(one, other, need)])
            # Only what was refuted earlier can be the reason, and so the way has an end.
            name, pair = next(
                part for part in need if self._refuted.get(part[1], len(self._refuted)) < self._refuted[pair]
            )
            way.append(name)
        left, right = (resolve(self._types[number], self._declared) for number in pair)
        return ": ".join([*way, _is_not(left, right)])

    def _lone(self, pair: _Pair) -> tuple[_Option, _Option, list[_Part] | str] | None:
        """The only options without a partner, and what they would need to agree; None unless each side has one."""
        needs = self._needs[pair]
        places = product(range(len(needs)), range(len(needs[0])))
        fitting = [(row, column) for row, column in places if self._fits(needs[row][column])]
        rows = set(range(len(needs))).difference(row for row, _ in fitting)
        columns = set(range(len(needs[0]))).difference(column for _, column in fitting)
        if not len(rows) == len(columns) == 1:
            return None
        row, column = rows.pop(), columns.pop()
        return self._opened(pair[0])[row], self._opened(pair[1])[column], needs[row][column]


def _why(one: _Option, other: _Option, field: str) -> str:
    """Why two options cannot go together: for this field, or for their kinds where it is empty."""
    if not field:
        return _is_not(one.type, other.type)
    lacking = next((option.type for option in (one, other) if field not in option.parts), None)
    if lacking is not None:
        return f"{field}: there is none in {cut(show(lacking), MAX_SHOWN)}"
    return f"{field}: optional is not required" if one.parts[field][0] else f"{field}: required is not optional"


def _is_not(left: Type, right: Type) -> str:
    return f"{cut(show(left), MAX_SHOWN)} is not {cut(show(right), MAX_SHOWN)}"
