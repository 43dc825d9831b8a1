"""Random types over random declared names, recursive ones included; their values, and values changed somewhere."""

import math
from typing import Final

from hypothesis import strategies as st

from tooldispatchd.catalog.meanings import Declared, leads_to_itself, options_of, resolve
from tooldispatchd.catalog.types import Field, ListOf, Named, Primitive, Product, Record, Stream, Type, Union

NAMES: Final = ["Tree", "web.Page", "x-1"]
FIELD_NAMES: Final = st.sampled_from(["a", "b", "in", "int", "a-b", "_x", "Tree"])
PRIMITIVES: Final = st.sampled_from(["int", "number", "string", "bool", "unit", "json"]).map(Primitive)  # type: ignore[arg-type]
JSON_VALUES: Final[st.SearchStrategy[object]] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, 1.5, -2.0])
    | st.sampled_from(["", "a", "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELD_NAMES, inner, max_size=3),
    max_leaves=8,
)
# How deep a value goes before it takes the shortest way to an end.
DEPTH: Final = 4


def union_of(options: list[Type]) -> Type:
    """The union of types, some of which may be unions."""
    flat = [inner for option in options for inner in (option.options if isinstance(option, Union) else (option,))]
    return Union(tuple(flat))


def _larger(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    fields = st.dictionaries(FIELD_NAMES, st.tuples(inner, st.booleans()), max_size=3)
    return st.one_of(
        inner.map(ListOf),
        fields.map(lambda fields: Record(tuple(Field(name, *rest) for name, rest in fields.items()))),
        st.lists(inner, min_size=2, max_size=3).map(lambda items: Product(tuple(items))),
        st.lists(inner, min_size=2, max_size=3).map(union_of),
    )


def _over(names: list[str], leaves: st.SearchStrategy[Type], max_leaves: int) -> st.SearchStrategy[Type]:
    return st.recursive(leaves | st.sampled_from(names).map(Named), _larger, max_leaves=max_leaves)


_BODIES: Final = _over(NAMES, PRIMITIVES, 3)
TYPES: Final = _over(NAMES, PRIMITIVES, 6)
"""Types without streams over `NAMES`."""

STREAMED: Final = st.recursive(TYPES, lambda inner: _larger(inner) | inner.map(Stream), max_leaves=4)
"""Types with streams anywhere."""


@st.composite
def declarations(draw: st.DrawFn) -> dict[str, Type]:
    """A meaning for each of `NAMES`, often recursive, never declared as itself."""
    declared: dict[str, Type] = {name: draw(_BODIES) for name in NAMES}
    for name in NAMES:
        if leads_to_itself(name, declared):
            declared[name] = ListOf(declared[name])
    return declared


@st.composite
def restated(draw: st.DrawFn, type_: Type, declared: Declared, depth: int = DEPTH) -> Type:
    """Another type of the same meaning: names replaced by what they mean, fields and options in another order."""

    def again(part: Type) -> Type:
        return draw(restated(part, declared, depth - 1))

    match type_:
        case Named(name):
            return again(declared[name]) if depth > 0 and draw(st.booleans()) else type_
        case Record(fields):
            shuffled = draw(st.permutations(fields))
            return Record(tuple(Field(field.name, again(field.type), field.optional) for field in shuffled))
        case Union(options):
            return union_of([again(option) for option in draw(st.permutations([*options, options[0]]))])
        case ListOf(item):
            return ListOf(again(item))
        case Product(items):
            return Product(tuple(map(again, items)))
        case Stream(item):
            return Stream(again(item))
        case Primitive():
            return type_


def values_of(type_: Type, declared: Declared) -> st.SearchStrategy[object]:
    """Values of a type; none where it has none that is finite (`A = {a: A}`)."""
    heights = _heights(declared)
    if math.isinf(_height(type_, heights)):
        return st.nothing()
    return _values(type_, declared, heights, DEPTH)


def _heights(declared: Declared) -> dict[str, float]:
    """How deep the shallowest value of each name is; infinite where it has none."""
    heights = dict.fromkeys(declared, math.inf)
    for _ in declared:
        heights = {name: _height(type_, heights) for name, type_ in declared.items()}
    return heights


def _height(type_: Type, heights: dict[str, float]) -> float:
    match type_:
        case Named(name):
            return heights[name]
        case Record(fields):
            return 1 + max((_height(field.type, heights) for field in fields if not field.optional), default=0)
        case Product(items):
            return 1 + max(_height(item, heights) for item in items)
        case Union(options):
            return min(_height(option, heights) for option in options)
        case _:
            return 0


_WORDS: Final[dict[str, st.SearchStrategy[object]]] = {
    "int": st.integers(-5, 5),
    "number": st.integers(-5, 5) | st.floats(-5, 5),
    "string": st.text(max_size=3),
    "bool": st.booleans(),
    "unit": st.none(),
    "json": JSON_VALUES,
}


def _values(type_: Type, declared: Declared, heights: dict[str, float], depth: int) -> st.SearchStrategy[object]:
    def inner(part: Type) -> st.SearchStrategy[object]:
        return st.deferred(lambda: _values(part, declared, heights, depth - 1))

    def is_shown(part: Type) -> bool:
        return depth > 0 and not math.isinf(_height(part, heights))

    match type_:
        case Primitive(word):
            return _WORDS[word]
        case Named(name):
            return _values(declared[name], declared, heights, depth)
        case ListOf(item):
            return st.lists(inner(item), max_size=2) if is_shown(item) else st.just([])
        case Record(fields):
            needed = {field.name: inner(field.type) for field in fields if not field.optional}
            optional = {field.name: inner(field.type) for field in fields if field.optional and is_shown(field.type)}
            return st.fixed_dictionaries(needed, optional=optional)
        case Product(items):
            return st.tuples(*map(inner, items)).map(list)
        case Union(options):
            chosen = [option for option in options if is_shown(option)]
            shortest = min(options, key=lambda option: _height(option, heights))
            return st.one_of(*(_values(option, declared, heights, depth) for option in chosen or [shortest]))
        case Stream():
            return st.nothing()


def is_of(value: object, type_: Type, declared: Declared) -> bool:
    """Whether a value is of a type, as the notation says it: what both validators are held to."""
    return any(_is_of_option(value, option, declared) for option in options_of(type_, declared))


def _is_of_option(value: object, type_: Type, declared: Declared) -> bool:
    match type_:
        case Primitive(word):
            return _is_of_word(value, word)
        case ListOf(item):
            return isinstance(value, list) and all(is_of(part, item, declared) for part in value)
        case Record(fields):
            known = {field.name: field for field in fields}
            return (
                isinstance(value, dict)
                and all(name in known and is_of(part, known[name].type, declared) for name, part in value.items())
                and all(field.optional or field.name in value for field in fields)
            )
        case Product(items):
            return (
                isinstance(value, list)
                and len(value) == len(items)
                and all(is_of(part, item, declared) for part, item in zip(value, items, strict=True))
            )
        case _:
            raise AssertionError(f"no option: {resolve(type_, declared)}")


def _is_of_word(value: object, word: str) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match word:
        case "int":
            # An integer is a number without a fraction, however it is written.
            return is_number and value % 1 == 0  # type: ignore[operator]  # a number, as just found
        case "number":
            return is_number
        case "string":
            return isinstance(value, str)
        case "bool":
            return isinstance(value, bool)
        case "unit":
            return value is None
        case _:
            return True


@st.composite
def mutated(draw: st.DrawFn, value: object) -> object:
    """A value changed at one place: something else in its place, a part more, or a part less."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        name = draw(st.sampled_from(sorted(value)))
        return {**value, name: draw(mutated(value[name]))}
    if isinstance(value, list) and value and draw(st.booleans()):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], draw(mutated(value[place])), *value[place + 1 :]]
    if isinstance(value, dict) and value and draw(st.booleans()):
        dropped = draw(st.sampled_from(sorted(value)))
        return {name: part for name, part in value.items() if name != dropped}
    if isinstance(value, dict) and draw(st.booleans()):
        return {**value, draw(FIELD_NAMES): draw(JSON_VALUES)}
    if isinstance(value, list) and draw(st.booleans()):
        return draw(st.sampled_from([value[:-1], [*value, None], [*value, *value]]))
    return draw(JSON_VALUES)
