"""How long an evaluation may take, bounded before it runs: by what the expression does and by how large its input is.

The engine has no clock, and its own budget of iterations lets one evaluation block the whole process for seconds. So
the checked tree is walked with sizes in the place of values: for each node, how large what it makes can be, and what
making it costs at most, times the iterations of the loops around it. Sums and products only, all of them monotone: an
input no larger than one that passed passes. What costs more than `BUDGET_NS` is refused, by count and never by a clock,
so that the same input always gets the same answer.

The prices are nanoseconds, rounded up from the least of many runs (`benchmarks/expressions.py`). What decides most:
`map` and `filter` copy the list that they gather at each step, which makes them quadratic (18 ns an entry and step),
and each `matches` compiles its pattern anew.

| bound | value | reason |
|---|---|---|
| `BUDGET_NS` | 0.5 ms, counted | what one agent may take from all others at once |
| `MAX_VALUES` | 4,096 values read | converting more takes longer than the budget |
| `MAX_TEXT_BYTES` | 256 KiB of text read | likewise |
| `MAX_NESTING` | 64 levels read | within every recursion of ours and of the engine |
| source | 8 KiB (`expressions.MAX_SOURCE`), 32 levels (the engine) | an expression is a line or a few |

What that leaves, each alone: a `map` or `filter` of about 150 numbers or 50 records of three fields; `all` or `exists`
over about 1,000; two of them nested over about 40 each; 200 KB of ASCII text passed on, 100 KB measured with `size`,
5 KB searched for what is as long; 2 KB matched with a short pattern, any length up to 64 KB with plain words.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from tooldispatchd.catalog.celpatterns import match_ns
from tooldispatchd.catalog.celsizes import SCALAR, Size, bytes_of, join
from tooldispatchd.catalog.celtree import Node
from tooldispatchd.catalog.celzones import GETTERS

# Half a millisecond of a thread that serves everybody: a `map` of about 150 entries, an `all` of about 2,000.
BUDGET_NS: Final = 500_000
CALL_NS: Final = 3_000
NODE_NS: Final = 25
LOOP_NS: Final = 50
COPY_NS: Final = 18
VALUE_IN_NS: Final = 220
VALUE_OUT_NS: Final = 120
# Making numbers what the declared type says, and looking through a result: both only where types are not known before.
EXACT_NS: Final = 100
TIDY_NS: Final = 400
BYTE_NS: Final = 1.2
# A list or a record itself is made anew on both ways, beside what stands in it.
HELD_IN_NS: Final = 1_100
HELD_OUT_NS: Final = 900
EQUAL_NS: Final = 300
FIND_NS: Final = 6
FIND_AGAIN_NS: Final = 0.015
# The engine's extension for texts looks at each character by itself, and makes each part of a text anew.
CHARACTER_NS: Final = 16
LOOK_AGAIN_NS: Final = 0.03
PART_NS: Final = 150
CONVERT_NS: Final = 28
DECODE_NS: Final = 6
CALENDAR_NS: Final = 400
ZONED_NS: Final = 700
# A number, a time or a duration as text.
NUMBER_TEXT: Final = 40


class Prices(msgspec.Struct, frozen=True):
    """What one value costs on its way in and on its way out, in nanoseconds."""

    value_in: float = VALUE_IN_NS
    value_out: float = VALUE_OUT_NS


PLAIN: Final = Prices()


class UnknownCostError(ValueError):
    """A node whose cost cannot be bounded; `node` is it."""

    def __init__(self, why: str, node: Node) -> None:
        super().__init__(why)
        self.node = node


def cost_ns(root: Node, sizes: Mapping[str, Size], prices: Prices = PLAIN) -> float:
    """What one evaluation costs at most, in nanoseconds, up to where it is surely beyond `BUDGET_NS`.

    `sizes` are the variables'. Raises `UnknownCostError` where nothing bounds it.
    """
    bill = _Bill()
    bill.spent = CALL_NS + sum(
        size.values * prices.value_in + size.held * HELD_IN_NS + size.total * BYTE_NS for size in sizes.values()
    )
    try:
        made = bill.visit(root, sizes, 1)
    except _OverBudgetError:
        return bill.spent
    return bill.spent + made.values * prices.value_out + made.held * HELD_OUT_NS + made.total * BYTE_NS


class _OverBudgetError(Exception):
    """The walk need not go on."""


class _Bill:
    """One walk over a tree: the sum so far."""

    def __init__(self) -> None:
        self.spent: float = 0

    def visit(self, node: Node, sizes: Mapping[str, Size], times: int) -> Size:
        """The size of what a node makes; its cost, and that of what stands in it, is spent `times` times."""
        self.spent += NODE_NS * times
        if self.spent > BUDGET_NS:
            raise _OverBudgetError
        match node.kind:
            case "constant":
                size = bytes_of(node.text or "")
                return Size(0, size, 1, size)
            case "name":
                return sizes.get(node.text or "", SCALAR)
            case "loop":
                return self._loop(node, sizes, times)
            case "map" if node.text is not None:
                raise UnknownCostError(f"{node.text} is a message, which is not for tools", node)
        parts = [self.visit(part, sizes, times) for part in node.parts]
        match node.kind:
            case "select":
                return parts[0].item or SCALAR
            case "call":
                return self._call(node, parts, times)
            case _:
                width = len(parts) if node.kind == "list" else len(parts) // 2
                self.spent += times * width * LOOP_NS
                return _gathered(width, parts)

    def _loop(self, node: Node, sizes: Mapping[str, Size], times: int) -> Size:
        over, first, condition, step, result = node.parts
        ranged = self.visit(over, sizes, times)
        self.visit(first, sizes, times)
        count = ranged.width
        inner = {**sizes, node.names[0]: ranged.item or SCALAR, node.names[1]: SCALAR}
        rounds = times * count
        self.spent += LOOP_NS * rounds
        self.visit(condition, inner, rounds)
        if first.kind == "constant":
            self.visit(step, inner, rounds)
            self.visit(result, inner, times)
            return SCALAR
        item = self._gather(step, inner, rounds)
        self.spent += rounds * count * COPY_NS
        if item is inner[node.names[0]]:
            # Of the entries themselves: together they are no larger than the whole was.
            return ranged
        return Size(count, 0, 1 + count * item.values, count * item.total, item, 1 + count * item.held)

    def _gather(self, step: Node, sizes: Mapping[str, Size], times: int) -> Size:
        """The size of one entry that a step of `map` or `filter` puts to the list gathered so far."""
        self.spent += NODE_NS * times
        if step.kind == "call" and step.text == "_?_:_":
            self.visit(step.parts[0], sizes, times)
            return self._gather(step.parts[1], sizes, times)
        if step.kind == "call" and step.text == "_+_" and step.parts[1].kind == "list" and step.parts[1].parts:
            return self.visit(step.parts[1].parts[0], sizes, times)
        raise UnknownCostError("what this gathers cannot be bounded", step)

    def _call(self, node: Node, parts: list[Size], times: int) -> Size:
        name = node.text or ""
        if name in _FREE:
            return SCALAR
        if name in _SIMPLE:
            size, cost = _SIMPLE[name](parts)
        elif name == "matches":
            size, cost = SCALAR, match_ns(_pattern_of(node), parts[0].text)
        elif name in GETTERS:
            # A zone stands in the expression (`celzones`): what it costs to find again is known.
            size, cost = SCALAR, ZONED_NS if len(parts) > 1 else CALENDAR_NS
        else:
            raise UnknownCostError(f"what {name} costs cannot be bounded", node)
        self.spent += times * cost
        return size


def _gathered(width: int, parts: list[Size]) -> Size:
    item: Size | None = None
    for part in parts:
        item = join(item, part)
    values, held = 1 + sum(part.values for part in parts), 1 + sum(part.held for part in parts)
    return Size(width, 0, values, sum(part.total for part in parts), item, held)


# Nothing to copy or to search: what they cost is within the price of a node.
_FREE: Final = frozenset({
    "_&&_", "_||_", "!_", "-_", "_-_", "_*_", "_/_", "_%_", "@not_strictly_false", "type",
})  # fmt: skip
_Priced = tuple[Size, float]


def _join_priced(parts: list[Size]) -> _Priced:
    """`+`: numbers, texts or lists, of which it makes a new one."""
    left, right = parts
    size = Size(
        left.width + right.width,
        left.text + right.text,
        left.values + right.values - 1,
        left.total + right.total,
        join(left.item, right.item),
        left.held + right.held,
    )
    return size, size.text * BYTE_NS + size.width * COPY_NS * 2


def _choice_priced(parts: list[Size]) -> _Priced:
    return join(parts[1], parts[2]) or SCALAR, 0


def _equal_priced(parts: list[Size]) -> _Priced:
    return SCALAR, _equal_ns(*parts)


def _equal_ns(left: Size, right: Size) -> float:
    values = min(left.values, right.values)
    return (values - 1) * EQUAL_NS + min(left.total, right.total) * 0.2


def _order_priced(parts: list[Size]) -> _Priced:
    return SCALAR, min(parts[0].text, parts[1].text) * 0.2


def _in_priced(parts: list[Size]) -> _Priced:
    wanted, among = parts
    return SCALAR, among.width * (LOOP_NS + _equal_ns(wanted, among.item or SCALAR))


def _item_priced(parts: list[Size]) -> _Priced:
    return parts[0].item or SCALAR, NODE_NS + parts[1].text * 0.5


def _size_priced(parts: list[Size]) -> _Priced:
    return SCALAR, parts[0].text * BYTE_NS


def _text_priced(parts: list[Size]) -> _Priced:
    length = parts[0].text + NUMBER_TEXT
    return Size(0, length, 1, length), 300 + parts[0].text * DECODE_NS


def _number_priced(parts: list[Size]) -> _Priced:
    return SCALAR, 300 + parts[0].text * CONVERT_NS


def _same_priced(parts: list[Size]) -> _Priced:
    return parts[0], 0


def _contains_priced(parts: list[Size]) -> _Priced:
    text, wanted = parts[0].text, parts[1].text
    return SCALAR, text * FIND_NS + text * min(text, wanted) * FIND_AGAIN_NS


def _part_priced(parts: list[Size]) -> _Priced:
    """A text no longer than the one that it is made of."""
    length = parts[0].text
    return Size(0, length, 1, length), 300 + length * CHARACTER_NS


def _character_priced(parts: list[Size]) -> _Priced:
    return Size(0, 4, 1, 4), 300 + parts[0].text * CHARACTER_NS


def _search_ns(text: int, wanted: int) -> float:
    return 300 + text * CHARACTER_NS + text * min(text, wanted) * LOOK_AGAIN_NS


def _index_priced(parts: list[Size]) -> _Priced:
    return SCALAR, _search_ns(parts[0].text, parts[1].text)


def _replace_priced(parts: list[Size]) -> _Priced:
    # The text that is replaced may be empty, and so be found between all characters.
    found = parts[0].text + 1
    length = parts[0].text + found * parts[2].text
    cost = _search_ns(parts[0].text, parts[1].text) + found * PART_NS + length * BYTE_NS
    return Size(0, length, 1, length), cost


def _split_priced(parts: list[Size]) -> _Priced:
    text = parts[0].text
    cost = _search_ns(text, parts[1].text) + (text + 1) * PART_NS
    return Size(text + 1, 0, 2 + text, text, Size(0, text, 1, text), 1), cost


def _joined_priced(parts: list[Size]) -> _Priced:
    between = parts[1].text if len(parts) > 1 else 0
    length = parts[0].total + parts[0].width * between
    return Size(0, length, 1, length), 300 + parts[0].width * PART_NS + length * BYTE_NS


_SIMPLE: Final = {
    "_+_": _join_priced,
    "_?_:_": _choice_priced,
    "_==_": _equal_priced,
    "_!=_": _equal_priced,
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_", "startsWith", "endsWith"), _order_priced),
    "@in": _in_priced,
    "_[_]": _item_priced,
    "size": _size_priced,
    **dict.fromkeys(("string", "bytes"), _text_priced),
    **dict.fromkeys(("int", "uint", "double", "bool", "timestamp", "duration"), _number_priced),
    "dyn": _same_priced,
    "contains": _contains_priced,
    **dict.fromkeys(("substring", "lowerAscii", "upperAscii", "trim", "reverse"), _part_priced),
    "charAt": _character_priced,
    **dict.fromkeys(("indexOf", "lastIndexOf"), _index_priced),
    "replace": _replace_priced,
    "split": _split_priced,
    "join": _joined_priced,
}
FUNCTIONS: Final = tuple(
    sorted(
        {name for name in _SIMPLE if name.isidentifier()}
        | {"matches", "type", "has", "all", "exists", "exists_one", "map", "filter"}
        | GETTERS
    )
)
"""Every function and macro that an expression may use (docs/expressions.md)."""


def patterns_in(root: Node) -> list[tuple[Node, str]]:
    """Every `matches` of a tree with its pattern. Raises `UnknownCostError` where a pattern is no constant."""
    found = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting.extend(node.parts)
        if node.kind == "call" and node.text == "matches":
            found.append((node, _pattern_of(node)))
    return found


def _pattern_of(node: Node) -> str:
    pattern = node.parts[-1]
    if pattern.kind != "constant" or pattern.text is None:
        raise UnknownCostError("matches needs a pattern that stands in the expression as one text", node)
    return pattern.text
