"""Whether two types go together, and where they differ first: `json` goes with everything, all else by structure.

Types are graphs with cycles, so pairs of them are compared: every pair that can be reached is taken to agree until it
is found that it cannot, and what depends on it is looked at again. What is left agrees, recursive types included.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from tooldispatchd.catalog.meanings import Declared, Node, Option, check_names, graph, options_of, resolve, same
from tooldispatchd.catalog.types import Product, Record, Stream, Type, show

# Pairs of options looked at, 2 µs each at most. Past it two types are compatible only where they are the same.
MAX_STEPS: Final = 100_000
MAX_SHOWN: Final = 80
# Steps of the way to a difference that are named; a person follows no more.
MAX_WAY: Final = 8

_Pair = tuple[int, int]


def compatible(left: Type, right: Type, declared: Declared) -> bool:
    """Whether two types have one structure, `json` on either side, at any depth, standing for any type.

    A union that holds `json` is `json`; of other unions, each option must have a compatible one on the other side.
    Raises `TypeNameError`.
    """
    comparison = _Comparison(left, right, declared)
    if comparison.is_too_large:
        return same(left, right, declared)
    return (0, 1) not in comparison.refuted


def difference(left: Type, right: Type, declared: Declared) -> str | None:
    """Where two types differ first (`field limit: int is not string`), at most 8 steps deep; None if compatible.

    Raises `TypeNameError`.
    """
    comparison = _Comparison(left, right, declared)
    if comparison.is_too_large:
        return None if same(left, right, declared) else _is_not(resolve(left, declared), resolve(right, declared))
    if (0, 1) not in comparison.refuted:
        return None
    return comparison.difference()


class _TooLargeError(Exception):
    """More pairs than are worth the wait."""


class _Comparison:
    """Two types' pairs of nodes; `refuted` holds those that are not compatible, in the order in which it was found."""

    def __init__(self, left: Type, right: Type, declared: Declared) -> None:
        check_names(left, declared)
        check_names(right, declared)
        self._declared = declared
        self._types, self._nodes = graph(left, right, declared)
        self._is_json = [any(label == "json" for label, _ in node) for node in self._nodes]
        self._parents: defaultdict[_Pair, list[_Pair]] = defaultdict(list)
        self._steps = 0
        self.refuted: dict[_Pair, int] = {}
        self.is_too_large = False
        try:
            self._refute(self._reach())
        except _TooLargeError:
            self.is_too_large = True

    def _reach(self) -> list[_Pair]:
        """Every pair that the first one depends on, itself included; who depends on each is noted."""
        order = [(0, 1)]
        known = set(order)
        # `order` grows while it is walked, and ends: there are finitely many pairs.
        for pair in order:
            if self._is_plain(pair):
                continue
            for child in self._children(pair):
                self._parents[child].append(pair)
                if child not in known:
                    known.add(child)
                    order.append(child)
        return order

    def _refute(self, waiting: list[_Pair]) -> None:
        """Refute what cannot agree, wave by wave, until a wave refutes nothing."""
        while waiting:
            affected: dict[_Pair, None] = {}
            for pair in waiting:
                if pair not in self.refuted and not self._agrees(pair):
                    self.refuted[pair] = len(self.refuted)
                    affected.update(dict.fromkeys(self._parents[pair]))
            waiting = list(affected)

    def _is_plain(self, pair: _Pair) -> bool:
        """Whether a pair agrees without a look at its parts."""
        left, right = pair
        return left == right or self._is_json[left] or self._is_json[right]

    def _children(self, pair: _Pair) -> Iterator[_Pair]:
        """The pairs of parts of each two options that are of one kind."""
        left, right = self._count(pair)
        for label, inner in left:
            for other_label, others in right:
                if label == other_label:
                    yield from zip(inner, others, strict=True)

    def _agrees(self, pair: _Pair) -> bool:
        if self._is_plain(pair):
            return True
        left, right = self._count(pair)
        return all(any(self._fits(one, other) for other in right) for one in left) and all(
            any(self._fits(one, other) for one in left) for other in right
        )

    def _fits(self, one: Option, other: Option) -> bool:
        """Whether two options are of one kind and no pair of their parts is refuted."""
        return one[0] == other[0] and self.refuted.keys().isdisjoint(zip(one[1], other[1], strict=True))

    def _count(self, pair: _Pair) -> tuple[Node, Node]:
        """The nodes of a pair, whose options are about to be compared each with each."""
        left, right = self._nodes[pair[0]], self._nodes[pair[1]]
        self._steps += len(left) * len(right)
        if self._steps > MAX_STEPS:
            raise _TooLargeError
        return left, right

    def difference(self) -> str:
        """The way from the first pair, which is refuted, to the first parts that are not compatible, in words."""
        way: list[str] = []
        pair = (0, 1)
        while len(way) < MAX_WAY:
            found = self._lone_options(pair)
            if found is None:
                break
            (left, (label, inner)), (right, (other_label, others)) = found
            if label != other_label:
                return ": ".join([*way, _apart(left, right)])
            # Only what was refuted earlier can be the reason, and so the way has an end.
            reasons = (
                (name, child)
                for name, child in zip(_part_names(left), zip(inner, others, strict=True), strict=True)
                if self.refuted.get(child, len(self.refuted)) < self.refuted[pair]
            )
            name, pair = next(reasons)
            way.append(name)
        left, right = (resolve(self._types[place], self._declared) for place in pair)
        return ": ".join([*way, _is_not(left, right)])

    def _lone_options(self, pair: _Pair) -> tuple[tuple[Type, Option], tuple[Type, Option]] | None:
        """The one option on each side that fits none on the other; None where there are more or fewer of them."""
        sides = [
            list(zip(options_of(self._types[place], self._declared), self._nodes[place], strict=True)) for place in pair
        ]
        left = [one for one in sides[0] if not any(self._fits(one[1], other[1]) for other in sides[1])]
        right = [one for one in sides[1] if not any(self._fits(other[1], one[1]) for other in sides[0])]
        return (left[0], right[0]) if len(left) == len(right) == 1 else None


def _part_names(type_: Type) -> list[str]:
    """What a person calls the parts of a type, in the order in which `graph` has them."""
    match type_:
        case Record(fields):
            return [f"field {name}" for name in sorted(field.name for field in fields)]
        case Product(items):
            return [f"item {number}" for number in range(1, len(items) + 1)]
        case Stream():
            return ["messages"]
        case _:
            return ["items"]


def _apart(left: Type, right: Type) -> str:
    """How two types of different kinds, or records of different fields, differ."""
    if not isinstance(left, Record) or not isinstance(right, Record):
        return _is_not(left, right)
    fields, others = ({field.name: field for field in record.fields} for record in (left, right))
    for name in sorted({*fields, *others}):
        if name not in fields or name not in others:
            return f"field {name}: there is none in {_cut(left if name in others else right)}"
        if fields[name].optional != others[name].optional:
            words = ("optional", "required") if fields[name].optional else ("required", "optional")
            return f"field {name}: {words[0]} is not {words[1]}"
    raise AssertionError("records of the same fields are of one kind")


def _is_not(left: Type, right: Type) -> str:
    return f"{_cut(left)} is not {_cut(right)}"


def _cut(type_: Type) -> str:
    text = show(type_)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
