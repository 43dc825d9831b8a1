"""The largest input that an expression takes: found once, when it is loaded, and compared with each input in one pass.

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
from msgspec.structs import astuple

from tooldispatchd.catalog.expressions.door import FailedEvaluation
from tooldispatchd.catalog.expressions.literals import GETTERS, match_ns
from tooldispatchd.catalog.expressions.tree import Made, Node, NodeError, Tree, gathered, nodes_in
from tooldispatchd.catalog.meanings import Declared, resolve
from tooldispatchd.catalog.types import JSON, ListOf, Primitive, Record, Type

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
# Numbers and times from texts, and texts from times.
CONVERT_NS: Final = 1_600
# For each byte of the text and each of what is searched for: naive search, at its worst.
SEARCH_NS: Final = 0.012
FOUND_NS: Final = 50
EQUAL_NS: Final = 60
EQUAL_SCALAR_NS: Final = 15
EQUAL_BYTE_NS: Final = 0.2
# A number or a time as text.
NUMBER_TEXT: Final = 40

_SCALARS: Final = frozenset({"BOOL", "INT", "UINT", "DOUBLE", "NULL"})
# CEL's own names of the types that are one of our words.
_MADE: Final = {"int": "INT", "number": "DOUBLE", "string": "STRING", "bool": "BOOL", "unit": "NULL"}
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
    """An upper bound of what a node makes: `values` and bytes of `text` in all rounds of its loop together.

    `width` bounds the entries of any list or record within it, `longest` the bytes of any text.
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
            # The engine would tell of a key that stands there twice only when it runs.
            keys: set[str] = set()
            for key in node.parts[::2]:
                if key.kind == "constant" and key.text is not None:
                    if key.text in keys:
                        raise NodeError(f'a record has "{key.text[:80]}" twice', key)
                    keys.add(key.text)
        if node.kind == "call" and name not in _OPERATORS and name not in FUNCTIONS:
            raise NodeError(f"there is no function {name}", node)
        if node.kind == "loop":
            inner = next((part for body in node.parts[1:] for part in nodes_in(body) if part.kind == "loop"), None)
            if inner is not None:
                raise NodeError("a loop (map, filter, all, exists) cannot stand within a loop; after one it can", inner)


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
        """The size of what a node makes in all rounds; `inner` has the sizes of the variables of its loop."""
        self.spent += NODE_NS * rounds
        name = node.text or ""
        if node.kind == "constant":
            length = byte_length(name)
            size = Size(rounds, rounds * length, 0, length)
        elif node.kind == "name":
            given = self._given
            size = inner.get(name) or Size(rounds * given.values, rounds * given.text, given.width, given.longest)
        elif node.kind == "loop":
            size = self._loop(node)
        else:
            parts = [self.visit(part, inner, rounds) for part in node.parts]
            if node.kind == "select":
                size = parts[0]
            elif node.kind == "call":
                size = self._call(node, parts, rounds)
            else:
                self.spent += PART_NS * rounds * len(parts)
                both = _together(parts)
                width = max([len(parts), *(part.width for part in parts)])
                longest = max([0, *(part.longest for part in parts)])
                size = Size(both.values + (1 + HELD) * rounds, both.text, width, longest)
        # Of some types a value is surely smaller than what it was made of.
        made = self._type_of(node)
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
        type_ = _type_read(node, self._variables, self._declared)
        meaning = None if type_ is None else resolve(type_, self._declared)
        return Made(_MADE.get(meaning.word, "DYN") if isinstance(meaning, Primitive) else "DYN")

    def _loop(self, node: Node) -> Size:
        over, first, condition, step, result = node.parts
        ranged = self.visit(over, {}, 1)
        self.visit(first, {}, 1)
        rounds = ranged.width
        # The gathered list starts empty: its size is the sum of what the rounds add, which the step's size is.
        inner = {node.names[0]: ranged, node.names[1]: Size(0)}
        kept = dict(self._variables)
        over_type = _type_read(over, self._variables, self._declared)
        self._variables[node.names[0]] = _type_within(over_type, self._declared)
        self.spent += ROUND_NS * rounds + (COPY_NS * rounds * rounds if first.kind == "list" else 0)
        self.visit(condition, inner, rounds)
        gathered = self.visit(step, inner, rounds)
        self.visit(result, inner, 1)
        self._variables = kept
        # Each round adds a list of one entry. Only the entry stays.
        values = gathered.values - (1 + HELD) * (rounds - 1) if first.kind == "list" else gathered.values
        return Size(values, gathered.text, max(rounds, gathered.width), gathered.longest)

    def _call(self, node: Node, parts: list[Size], rounds: float) -> Size:
        name, both = node.text or "", _together(parts)
        match name:
            case "_[_]":
                return parts[0]
            case "_?_:_":
                return Size(*(max(pair) for pair in zip(astuple(parts[1]), astuple(parts[2]), strict=True)))
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
            # Values of different sizes differ at once.
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
        """The size of what `replace` and `split` make. They may find what they search for wherever it fits."""
        wanted = node.parts[1]
        text, longest = parts[0].text, parts[0].longest
        # An empty text is found between all characters, and a text that is no literal may be empty.
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
    """The cost of a search that nearly succeeds at each place, in all rounds."""
    return SEARCH_NS * min(among.text * wanted.longest, among.longest * wanted.text)


def _together(parts: list[Size]) -> Size:
    return Size(*(sum(column) for column in zip(*map(astuple, parts), strict=True))) if parts else Size(0)


def _type_read(node: Node, variables: Mapping[str, Type], declared: Declared) -> Type | None:
    """The declared type of a part of the input, which CEL sees as a dynamic value; None where it is not known."""
    if node.kind == "name":
        return variables.get(node.text or "")
    if node.kind == "loop":
        over, item = _type_read(node.parts[0], variables, declared), gathered(node.parts[3])
        inner = {**variables, node.names[0]: _type_within(over, declared)}
        type_ = None if item is None else _type_read(item, inner, declared)
        return type_ and ListOf(type_)
    if node.kind != "select" and node.text != "_[_]":
        return None
    type_ = _type_read(node.parts[0], variables, declared)
    meaning = None if type_ is None else resolve(type_, declared)
    if isinstance(meaning, Record):
        named = node if node.kind == "select" else node.parts[1]
        is_known = named.kind in {"select", "constant"} and named.text is not None
        return next((field.type for field in meaning.fields if is_known and field.name == named.text), None)
    return meaning.item if isinstance(meaning, ListOf) else None


def _type_within(type_: Type | None, declared: Declared) -> Type:
    """The type of what a loop over a value sees: the entries of a list, the keys of a record."""
    meaning = JSON if type_ is None else resolve(type_, declared)
    if isinstance(meaning, Record):
        return Primitive("string")
    return meaning.item if isinstance(meaning, ListOf) else JSON


class TooLargeError(ValueError):
    """An input beyond the bounds; the words are for a model."""


class UnfitTextError(ValueError):
    """A text of the input that the engine cannot take as it is."""


def byte_length(text: str, most: int | None = None) -> int:
    """How many bytes of UTF-8 a text has; for a text of more than `most`, some number above it.

    Raises `UnfitTextError`.
    """
    # A text of too many characters need not be encoded to know that it has too many bytes.
    if text.isascii() or (most is not None and len(text) > most):
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise UnfitTextError("the input holds a text with a lone surrogate, which is no character") from None


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
        parts = [value] if names is None else [fields.get(name) for name in names]
        try:
            _count(parts, bounds, bounds.values, bounds.text, 0)
        except TooLargeError as error:
            return FailedEvaluation(str(error), limit=LIMIT)
        except UnfitTextError as error:
            return FailedEvaluation(str(error), invalid_input=True)
        return None

    return look


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
            # Check the width before anything in it is looked at.
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
