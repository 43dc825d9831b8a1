"""How two types go together, by one of a few rules, and where they differ first.

Types are graphs with cycles, so pairs of them are compared: each pair that is reached is taken to agree until it is
found that it cannot, and is then looked at no more. What is left agrees, recursive types included. All errors of names
are raised as `TypeNameError`.
"""

from itertools import product
from typing import Final

import msgspec

from tooldispatchd.catalog.meanings import Declared, check_names, options_of, resolve
from tooldispatchd.catalog.problems import cut
from tooldispatchd.catalog.types import JSON, ListOf, Primitive, Product, Record, Stream, Type, parts, show

# Pairs of options looked at, 2 µs each at most. Types that need more go together only where they are written alike.
MAX_STEPS: Final = 200_000
MAX_SHOWN: Final = 80
# Steps of the way to a difference that are named; a person follows no more.
MAX_WAY: Final = 8

_Pair = tuple[int, int]
# What must go together for two options to: a name for a person, and the pair.
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


class _Comparison:
    """Two types' pairs; `_refuted` holds those that do not agree, in the order in which that was found."""

    def __init__(self, rule: Relation, left: Type, right: Type, declared: Declared) -> None:
        self._rule = rule
        self._declared = declared
        self._numbers: dict[Type, int] = {left: 0, right: 1}
        self._types = [left, right]
        # Of each pair that is not settled at sight: what each left option and each right one would need to agree.
        self._needs: dict[_Pair, list[list[list[_Part] | str]]] = {}
        self._refuted: dict[_Pair, int] = {}
        self._steps = 0
        self._reach()
        self._refute()

    def _reach(self) -> None:
        rule = self._rule
        options: dict[int, list[Type]] = {}
        waiting = [(0, 1)]
        while waiting:
            pair = waiting.pop()
            if pair in self._needs:
                continue
            for number in pair:
                if number not in options:
                    options[number] = options_of(self._types[number], self._declared)
            lefts, rights = (options[number] for number in pair)
            is_any = rule.json_is_any and (JSON in lefts or JSON in rights)
            if pair[0] == pair[1] or is_any or (rule.is_guess and len(lefts) > 1):
                # They agree without a look at their parts.
                self._needs[pair] = []
                continue
            self._spend(len(lefts) * len(rights))
            needs = self._needs[pair] = [[self._needed(one, other) for other in rights] for one in lefts]
            waiting += [child for row in needs for need in row if isinstance(need, list) for _, child in need]

    def _refute(self) -> None:
        is_changed = True
        while is_changed:
            is_changed = False
            # What was reached last is what others depend on: mostly one round finds everything.
            for pair, needs in reversed(self._needs.items()):
                if not needs or pair in self._refuted:
                    continue
                self._spend(len(needs) * len(needs[0]))
                fits = [[self._fits(need) for need in row] for row in needs]
                agrees = all(map(any, fits)) and (self._rule.is_guess or all(map(any, zip(*fits, strict=True))))
                if not agrees:
                    self._refuted[pair] = len(self._refuted)
                    is_changed = True

    def _fits(self, need: list[_Part] | str) -> bool:
        return isinstance(need, list) and not any(child in self._refuted for _, child in need)

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise _TooLargeError

    def _pair(self, left: Type, right: Type) -> _Pair:
        for type_ in (left, right):
            if type_ not in self._numbers:
                self._numbers[type_] = len(self._types)
                self._types.append(type_)
        return self._numbers[left], self._numbers[right]

    # --- two options, none of them a name or a union ---

    def _needed(self, one: Type, other: Type) -> list[_Part] | str:
        """The parts that must agree for two options to; or, where they cannot, why."""
        match one, other:
            case Record(), Record():
                return self._fields(one, other)
            case Primitive(), Primitive() if one == other:
                return []
            case (Primitive("int"), Primitive("number")) | (ListOf(), Product()) if self._rule.is_guess:
                return []
            case (ListOf(), ListOf()) | (Stream(), Stream()) | (Product(), Product()):
                inner, others = parts(one), parts(other)
                if len(inner) == len(others):
                    pairs = [self._pair(*two) for two in zip(inner, others, strict=True)]
                    names = ["messages" if isinstance(one, Stream) else "items"]
                    if isinstance(one, Product):
                        names = [f"item {number}" for number in range(1, len(pairs) + 1)]
                    return list(zip(names, pairs, strict=True))
        return _is_not(one, other)

    def _fields(self, left: Record, right: Record) -> list[_Part] | str:
        rule = self._rule
        fields, others = ({field.name: field for field in record.fields} for record in (left, right))
        needed = []
        for name in sorted({*fields, *others}):
            mine, its = fields.get(name), others.get(name)
            if mine is None and its is not None and its.optional and rule.may_omit:
                continue
            if mine is None or its is None:
                return f"field {name}: there is none in {cut(show(left if mine is None else right), MAX_SHOWN)}"
            if mine.optional != its.optional and not rule.is_guess and not (its.optional and rule.may_require):
                words = ("optional", "required") if mine.optional else ("required", "optional")
                return f"field {name}: {words[0]} is not {words[1]}"
            needed.append((f"field {name}", self._pair(mine.type, its.type)))
        return needed

    # --- in words ---

    def difference(self) -> str | None:
        """The way from the first pair to the first parts that do not agree; None where all do."""
        pair = (0, 1)
        if pair not in self._refuted:
            return None
        way: list[str] = []
        while len(way) < MAX_WAY:
            need = self._lone_need(pair)
            if need is None:
                break
            if isinstance(need, str):
                return ": ".join([*way, need])
            # Only what was refuted earlier can be the reason, and so the way has an end.
            name, pair = next(
                part for part in need if self._refuted.get(part[1], len(self._refuted)) < self._refuted[pair]
            )
            way.append(name)
        left, right = (resolve(self._types[number], self._declared) for number in pair)
        return ": ".join([*way, _is_not(left, right)])

    def _lone_need(self, pair: _Pair) -> list[_Part] | str | None:
        """What the only options without a partner would need to agree; None unless there is one on each side."""
        needs = self._needs[pair]
        places = product(range(len(needs)), range(len(needs[0])))
        fitting = [(row, column) for row, column in places if self._fits(needs[row][column])]
        rows = set(range(len(needs))).difference(row for row, _ in fitting)
        columns = set(range(len(needs[0]))).difference(column for _, column in fitting)
        return needs[rows.pop()][columns.pop()] if len(rows) == len(columns) == 1 else None


def _is_not(left: Type, right: Type) -> str:
    return f"{cut(show(left), MAX_SHOWN)} is not {cut(show(right), MAX_SHOWN)}"
