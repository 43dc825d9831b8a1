"""The largest input that an expression takes: found once, when it is loaded, and held against each input in one look.

The engine has no clock, and one evaluation stops everything else that the daemon does. So an expression has no loop
within a loop, its patterns and time zones are literals, and its input is bounded by `VALUES` and `TEXTS`, of which it
gets the largest pair that keeps its evaluation within `BUDGET_NS`. That is counted over the checked tree, with sizes in
the place of values, and never by a clock: the same input always gets the same answer.

A loop visits its body once, with the sizes of all its rounds together: what a loop's variable holds in all rounds is no
more than the list that it goes over, and what comes from outside of the loop is there in each round.

The prices are nanoseconds, rounded up from the least of many runs. What decides most is that `map` and `filter` copy
the list that they gather in each round. `benchmarks/expressions.py` measures how long an evaluation at its bound takes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from tooldispatchd.catalog.expressions.door import FailedEvaluation
from tooldispatchd.catalog.expressions.literals import GETTERS, match_ns
from tooldispatchd.catalog.expressions.made import made_name, type_read, type_within
from tooldispatchd.catalog.expressions.tree import Made, Node, NodeError, Tree, nodes_in
from tooldispatchd.catalog.expressions.values import UnfitTextError, byte_length
from tooldispatchd.catalog.meanings import Declared
from tooldispatchd.catalog.types import Type

LIMIT: Final = "expression"
# What one evaluation may take from everybody else. No input is the worst in all that is counted: most take half of it.
BUDGET_NS: Final = 1_000_000
# Values in all, and entries of one list or record: a hundred records of three fields. What goes in and out takes half
# of the budget; a loop squares the entries, and 128 leave room for two loops in a row.
VALUES: Final = ((1_024, 1_024), (1_024, 128), (512, 64), (256, 32), (128, 16))
# Bytes of text.
TEXTS: Final = tuple(1 << power for power in range(16, 5, -1))
# Within every recursion of ours and of the engine.
MAX_NESTING: Final = 64
# A list or a record is made anew on both ways, which costs as much as three values do.
HELD: Final = 3

CALL_NS: Final = 3_000
VALUE_IN_NS: Final = 250
VALUE_OUT_NS: Final = 280
BYTE_NS: Final = 1.2
NODE_NS: Final = 30
ROUND_NS: Final = 50
COPY_NS: Final = 12.5
PART_NS: Final = 80
FUNCTION_NS: Final = 600
# Times and numbers from texts, and texts of them.
CONVERT_NS: Final = 1_600
SEARCH_NS: Final = 0.012
FOUND_NS: Final = 50
EQUAL_NS: Final = 60
EQUAL_BYTE_NS: Final = 0.2
EQUAL_SCALAR_NS: Final = 15
# A number or a time as text.
NUMBER_TEXT: Final = 40

_SCALARS: Final = frozenset({"BOOL", "INT", "UINT", "DOUBLE", "NULL"})
_FLAT: Final = _SCALARS | {"STRING"}
_PARSES: Final = frozenset({"string", "int", "uint", "double", "bool", "timestamp", "duration"})
_SEARCHES: Final = frozenset({"contains", "indexOf", "lastIndexOf"})
# For each byte of the texts: `size` looks at bytes, `trim` at characters, `int` at what they say.
_READ_NS: Final = {
    **dict.fromkeys(("dyn", "type"), 0),
    **dict.fromkeys(("size", "startsWith", "endsWith"), 1),
    "contains": 3,
    **dict.fromkeys(("bytes", "charAt", "indexOf", "lastIndexOf", "lowerAscii", "upperAscii"), 5),
    **dict.fromkeys(("reverse", "substring", "trim"), 5),
    **dict.fromkeys(_PARSES, 10),
    **dict.fromkeys(("replace", "split"), 5),
    **dict.fromkeys(GETTERS, 0),
}
_MACROS: Final = frozenset({"has", "all", "exists", "exists_one", "map", "filter"})
FUNCTIONS: Final = tuple(sorted({"matches", "join"} | _READ_NS.keys() | _MACROS))
"""Every function and macro that an expression may use (docs/expressions.md)."""
_COMPARES: Final = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
_OPERATORS: Final = _COMPARES | {
    "@in", "_&&_", "_||_", "!_", "-_", "_+_", "_-_", "_*_", "_/_", "_%_", "_?_:_", "_[_]", "@not_strictly_false",
}  # fmt: skip


class InputBounds(msgspec.Struct, frozen=True):
    """The largest input of one expression: values in all, entries of one list or record, bytes of all its texts."""

    values: int
    entries: int
    text: int


class Size(msgspec.Struct, frozen=True):
    """At most so large is what a node makes: values and bytes of text in all rounds of its loop together.

    `width` is the most entries that a list or record within it has, `longest` the most bytes that one text has.
    """

    values: float
    text: float = 0
    width: float = 0
    longest: float = 0


def check_rules(root: Node) -> None:
    """Raise `NodeError` where a tree does what no expression may, whatever its input."""
    for node in nodes_in(root):
        name = node.text or ""
        if node.kind == "map" and name:
            raise NodeError(f"{name} is a message, which is not for tools", node)
        if node.kind == "map":
            _refuse_doubled_key(node)
        if node.kind == "call" and name not in _OPERATORS and name not in FUNCTIONS:
            raise NodeError(f"there is no function {name}", node)
        if node.kind == "loop":
            inner = next((part for body in node.parts[1:] for part in nodes_in(body) if part.kind == "loop"), None)
            if inner is not None:
                raise NodeError("a loop (map, filter, all, exists) cannot stand within a loop; after one it can", inner)


def _refuse_doubled_key(record: Node) -> None:
    # The engine would tell it only when it runs.
    seen: set[str] = set()
    for key in record.parts[::2]:
        if key.kind == "constant" and key.text is not None:
            if key.text in seen:
                raise NodeError(f'a record has "{key.text[:80]}" twice', key)
            seen.add(key.text)


def bounds_of(tree: Tree, variables: Mapping[str, Type], declared: Declared) -> InputBounds:
    """The largest input that an expression takes. Raises `NodeError` where it could not even take the smallest.

    `variables` are the types of the names that it reads.
    """
    places = [(row, column) for row in range(len(VALUES)) for column in range(len(TEXTS))]
    # Three halvings of the texts come before one of the values: most expressions pass their texts on.
    for row, column in sorted(places, key=lambda place: place[0] * 3 + place[1]):
        bounds = InputBounds(*VALUES[row], TEXTS[column])
        if work_ns(tree, bounds, variables, declared) <= BUDGET_NS:
            return bounds
    least = f"{VALUES[-1][0]} values and {TEXTS[-1]} bytes of text"
    raise NodeError(f"the expression would do too much work, even on {least}", tree.root)


def work_ns(tree: Tree, bounds: InputBounds, variables: Mapping[str, Type], declared: Declared) -> float:
    """What one evaluation costs at most on inputs within the bounds, in nanoseconds."""
    work = Work(tree, Size(bounds.values, bounds.text, bounds.entries, bounds.text), variables, declared)
    made = work.visit(tree.root, {}, 1)
    carried = bounds.values * VALUE_IN_NS + made.values * VALUE_OUT_NS + (bounds.text + made.text) * BYTE_NS
    return CALL_NS + carried + work.spent


class Work:
    """One walk over a tree: what has been spent so far, in nanoseconds."""

    def __init__(self, tree: Tree, given: Size, variables: Mapping[str, Type], declared: Declared) -> None:
        self.spent: float = 0
        self._tree = tree
        self._given = given
        self._variables = dict(variables)
        self._declared = declared

    def visit(self, node: Node, inner: Mapping[str, Size], rounds: float) -> Size:
        """What a node makes in so many rounds; `inner` are the variables of the loop around it."""
        self.spent += NODE_NS * rounds
        made = self._type_of(node)
        size = self._made(node, inner, rounds)
        if made.name in _SCALARS:
            return Size(rounds)
        if made.name == "STRING":
            return Size(rounds, size.text, 0, size.longest)
        if made.name == "LIST" and made.inner[0].name in _FLAT:
            return Size(min(size.values, rounds * (1 + HELD + size.width)), size.text, size.width, size.longest)
        return size

    def _type_of(self, node: Node) -> Made:
        made = self._tree.type_of(node)
        if made.name != "DYN":
            return made
        type_ = type_read(node, self._variables, self._declared)
        return Made(made_name(type_, self._declared))

    def _made(self, node: Node, inner: Mapping[str, Size], rounds: float) -> Size:
        name = node.text or ""
        match node.kind:
            case "constant":
                length = byte_length(name)
                return Size(rounds, rounds * length, 0, length)
            case "name":
                given = self._given
                return inner.get(name) or Size(rounds * given.values, rounds * given.text, given.width, given.longest)
            case "loop":
                return self._loop(node)
        parts = [self.visit(part, inner, rounds) for part in node.parts]
        match node.kind:
            case "select":
                return parts[0]
            case "call":
                return self._call(node, parts, rounds)
            case _:
                self.spent += PART_NS * rounds * len(parts)
                both = _together(parts)
                width = max([len(parts), *(part.width for part in parts)])
                longest = max([0, *(part.longest for part in parts)])
                return Size(both.values + (1 + HELD) * rounds, both.text, width, longest)

    def _loop(self, node: Node) -> Size:
        over, first, condition, step, result = node.parts
        ranged = self.visit(over, {}, 1)
        self.visit(first, {}, 1)
        rounds = ranged.width
        # Each round puts to what was gathered before, which is counted by what all rounds put to it.
        inner = {node.names[0]: ranged, node.names[1]: Size(0)}
        kept = dict(self._variables)
        over_type = type_read(over, self._variables, self._declared)
        self._variables[node.names[0]] = type_within(over_type, self._declared)
        self.spent += ROUND_NS * rounds + (COPY_NS * rounds * rounds if first.kind == "list" else 0)
        self.visit(condition, inner, rounds)
        gathered = self.visit(step, inner, rounds)
        self.visit(result, inner, 1)
        self._variables = kept
        # What is put to a list is put there as a list of one.
        values = gathered.values - (1 + HELD) * (rounds - 1) if first.kind == "list" else gathered.values
        return Size(values, gathered.text, max(rounds, gathered.width), gathered.longest)

    def _call(self, node: Node, parts: list[Size], rounds: float) -> Size:
        name, both = node.text or "", _together(parts)
        match name:
            case "_[_]":
                return parts[0]
            case "_?_:_":
                return Size(*(max(pair) for pair in zip(_fields(parts[1]), _fields(parts[2]), strict=True)))
            case "matches":
                self.spent += match_ns(node.parts[-1].text or "", parts[0].text, rounds)
                return both
            case "replace" | "split":
                return self._found(node, parts, rounds)
            case "join":
                entries = rounds * parts[0].width
                between = parts[1].longest if len(parts) > 1 else 0
                text = parts[0].text + entries * between
                self.spent += FUNCTION_NS * rounds + FOUND_NS * entries + BYTE_NS * text
                return Size(rounds, text, 0, text)
        if name == "@in":
            self.spent += both.text * EQUAL_BYTE_NS + both.values * self._equal_ns(node)
        elif name in _COMPARES:
            # What is longer differs.
            least = min(part.values for part in parts)
            self.spent += min(part.text for part in parts) * EQUAL_BYTE_NS + least * self._equal_ns(node)
        elif name == "_+_":
            self.spent += both.text * BYTE_NS + both.values * COPY_NS
        elif name not in _OPERATORS:
            is_dear = name in _PARSES and self._type_of(node.parts[0]).name not in _SCALARS
            self.spent += (CONVERT_NS if is_dear else FUNCTION_NS) * rounds + both.text * _READ_NS[name]
        if name in _SEARCHES:
            self.spent += _search_ns(*parts[:2])
        extra = NUMBER_TEXT if name == "string" else 0
        return Size(both.values, both.text + rounds * extra, both.width, both.longest + extra)

    def _equal_ns(self, node: Node) -> float:
        """What it costs to compare one value: less where all are numbers or texts."""
        made = [self._tree.type_of(part) for part in node.parts]
        kinds = {kind.inner[0].name if kind.name == "LIST" else kind.name for kind in made}
        return EQUAL_SCALAR_NS if kinds <= _FLAT else EQUAL_NS

    def _found(self, node: Node, parts: list[Size], rounds: float) -> Size:
        """What `replace` and `split` make: they find as often as what they look for fits into the text."""
        wanted = node.parts[1]
        text, longest = parts[0].text, parts[0].longest
        # What is empty is found between all characters, and what is no literal may be empty.
        least = byte_length(wanted.text or "") if wanted.kind == "constant" else 0
        found, most = (text / least, longest / least) if least else (text + rounds, longest + 1)
        self.spent += FUNCTION_NS * rounds + _READ_NS[node.text or ""] * text + FOUND_NS * found
        self.spent += _search_ns(*parts[:2])
        if node.text == "split":
            # A list of texts costs less on its way out than other values do.
            return Size((1 + HELD) * rounds + found / 2, text, most + 1, longest)
        grown = max(parts[2].longest - least, 0)
        self.spent += BYTE_NS * (text + found * grown)
        return Size(rounds, text + found * grown, 0, longest + most * grown)


def _search_ns(among: Size, wanted: Size) -> float:
    """What it costs to search for what is nearly found at each place: each byte of the one for each of the other."""
    return SEARCH_NS * min(among.text * wanted.longest, among.longest * wanted.text)


def _fields(size: Size) -> tuple[float, float, float, float]:
    return size.values, size.text, size.width, size.longest


def _together(parts: list[Size]) -> Size:
    return Size(*(sum(column) for column in zip(*map(_fields, parts), strict=True))) if parts else Size(0)


class TooLargeError(ValueError):
    """An input beyond the bounds; the words are for a model."""


_CONTAINERS: Final = (list, dict)
_VARYING: Final = frozenset({str, list, dict})
Look = Callable[[object], FailedEvaluation | None]


def look_at(bounds: InputBounds, names: tuple[str, ...] | None) -> Look:
    """The look at each input: at the fields that the expression reads, or (None) at the whole."""
    most_values, most_entries, most_text = bounds.values - len(names or ("",)), bounds.entries, bounds.text

    def look(value: object) -> FailedEvaluation | None:
        fields: dict[str, object] = value  # type: ignore[assignment]  # where there are names, the input is a record
        # Most inputs are short texts and lists of numbers: a call for each would cost more than this look.
        values, text = most_values, most_text
        for part in (value,) if names is None else map(fields.get, names):
            if part.__class__ is str:
                text -= len(part)
                if text < 0 or not part.isascii() or "\0" in part:
                    break
            elif part.__class__ is list:
                values -= HELD + len(part)
                if values < 0 or len(part) > most_entries or not _VARYING.isdisjoint(map(type, part)):
                    break
            elif part.__class__ is dict:
                break
        else:
            return None
        return _look_closely(bounds, [value] if names is None else [fields.get(name) for name in names])

    return look


def _look_closely(bounds: InputBounds, parts: Sequence[object]) -> FailedEvaluation | None:
    try:
        _count(parts, bounds, bounds.values, bounds.text, 0)
    except TooLargeError as error:
        return FailedEvaluation(str(error), limit=LIMIT)
    except UnfitTextError as error:
        return FailedEvaluation(str(error), invalid_input=True)
    return None


def _count(parts: Sequence[object], bounds: InputBounds, values: int, text: int, depth: int) -> tuple[int, int]:
    """How many values and bytes of text are left after these. Raises `TooLargeError` early, and `UnfitTextError`."""
    values -= len(parts)
    if values < 0:
        raise _too_large(f"more than {bounds.values} values")
    for part in parts:
        if part.__class__ is str:
            text -= len(part) if part.isascii() else byte_length(part, bounds.text)
            if "\0" in part:
                raise UnfitTextError("the input holds a text with a null character")
        elif isinstance(part, _CONTAINERS):
            # Before anything in it is looked at: what is too wide is told at once.
            if len(part) > bounds.entries:
                raise _too_large(f"more than {bounds.entries} entries in one list or record")
            if depth >= MAX_NESTING:
                raise _too_large(f"more than {MAX_NESTING} lists and records within each other")
            inner = part if isinstance(part, list) else (*part, *part.values())
            values, text = _count(inner, bounds, values - HELD, text, depth + 1)
    if text < 0:
        raise _too_large(f"more than {bounds.text} bytes of text")
    return values, text


def _too_large(what: str) -> TooLargeError:
    return TooLargeError(f"the input has {what}, the most that this expression takes")
