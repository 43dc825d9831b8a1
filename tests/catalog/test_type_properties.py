"""Properties of types over random ones, with the `jsonschema` library as the oracle of their schemas."""

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.meanings import same, to_schema
from tooldispatchd.catalog.schemas import compile_check
from tooldispatchd.catalog.types import (
    WORDS,
    Field,
    ListOf,
    Named,
    Primitive,
    Product,
    Record,
    Stream,
    Type,
    TypeTextError,
    Union,
    parse_arrow,
    parse_type,
    show,
    show_arrow,
)

DECLARED: dict[str, Type] = {
    "Tree": parse_type("{value: int, children: [Tree]}"),
    "Name": parse_type("string"),
    "List": parse_type("unit | (json, List)"),
}
FIELD_NAMES = st.sampled_from(["a", "b", "in", "int", "a-b", "_x", "Tree"])
PRIMITIVES = st.sampled_from(["int", "number", "string", "bool", "unit", "json"]).map(Primitive)  # type: ignore[arg-type]


def union_of(options: list[Type]) -> Type:
    flat = [inner for option in options for inner in (option.options if isinstance(option, Union) else (option,))]
    return Union(tuple(flat))


def larger(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    fields = st.dictionaries(FIELD_NAMES, st.tuples(inner, st.booleans()), max_size=3)
    return st.one_of(
        inner.map(ListOf),
        fields.map(lambda fields: Record(tuple(Field(name, *rest) for name, rest in fields.items()))),
        st.lists(inner, min_size=2, max_size=3).map(lambda items: Product(tuple(items))),
        st.lists(inner, min_size=2, max_size=3).map(union_of),
    )


NAMES = st.sampled_from(sorted(DECLARED)).map(Named)
TYPES: st.SearchStrategy[Type] = st.recursive(PRIMITIVES | NAMES, larger, max_leaves=8)
STREAMS = TYPES | TYPES.map(Stream)
JSON_VALUES: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, 1.5, -2.0])
    | st.sampled_from(["", "a", "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELD_NAMES, inner, max_size=3),
    max_leaves=8,
)


def values_of(type_: Type, depth: int = 0) -> st.SearchStrategy[object]:
    """Values of a type; recursive ones end soon."""
    match type_:
        case Primitive(word):
            return {
                "int": st.integers(-5, 5),
                "number": st.integers(-5, 5) | st.floats(-5, 5),
                "string": st.text(max_size=3),
                "bool": st.booleans(),
                "unit": st.none(),
                "json": JSON_VALUES,
            }[word]
        case Named("Tree") if depth > 2:
            return st.just({"value": 0, "children": []})
        case Named("List") if depth > 2:
            return st.none()
        case Named(name):
            return values_of(DECLARED[name], depth + 1)
        case ListOf(item):
            return st.lists(st.deferred(lambda: values_of(item, depth + 1)), max_size=2)
        case Record(fields):
            needed = {field.name: values_of(field.type, depth + 1) for field in fields if not field.optional}
            optional = {field.name: values_of(field.type, depth + 1) for field in fields if field.optional}
            return st.fixed_dictionaries(needed, optional=optional)
        case Product(items):
            return st.tuples(*(values_of(item, depth + 1) for item in items)).map(list)
        case Union(options):
            return st.one_of(*(values_of(option, depth + 1) for option in options))
        case Stream():
            raise AssertionError("no values")


@given(STREAMS)
def test_the_text_of_a_type_means_that_type(type_: Type) -> None:
    assert parse_type(show(type_)) == type_


@given(STREAMS, STREAMS)
def test_the_text_of_an_arrow_means_both_types(source: Type, target: Type) -> None:
    assert parse_arrow(show_arrow(source, target)) == (source, target)


@given(st.text(alphabet="{}[]()|!?:,-> \nabTé_." + "int", max_size=40) | st.text(max_size=20))
def test_any_text_is_a_type_or_an_error_with_a_column_in_it(text: str) -> None:
    try:
        type_ = parse_type(text)
    except TypeTextError as error:
        column = error.column
    else:
        assert parse_type(show(type_)) == type_
        column = 1
    assert 1 <= column <= len(text) + 1


@given(st.data(), TYPES)
def test_the_values_of_a_type_pass_its_schema(data: st.DataObject, type_: Type) -> None:
    check = compile_check(to_schema(type_, DECLARED))
    value = data.draw(values_of(type_))
    assert check.is_valid(value)
    assert check.violations(value) == []


@given(TYPES, JSON_VALUES)
def test_any_value_passes_or_not_as_the_oracle_says(type_: Type, value: object) -> None:
    schema = to_schema(type_, DECLARED)
    check = compile_check(schema)
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert check.is_valid(value) is expected
    assert (check.violations(value) == []) is expected


@given(st.data(), TYPES, JSON_VALUES)
def test_a_value_with_a_field_changed_passes_or_not_as_the_oracle_says(
    data: st.DataObject, type_: Type, part: object
) -> None:
    schema = to_schema(type_, DECLARED)
    value = data.draw(values_of(type_))
    if isinstance(value, dict):
        value = {**value, data.draw(FIELD_NAMES): part}
    elif isinstance(value, list):
        value = [*value, part]
    assert compile_check(schema).is_valid(value) is jsonschema.Draft202012Validator(schema).is_valid(value)


@given(TYPES)
def test_a_type_is_the_same_as_itself_and_as_its_double(type_: Type) -> None:
    assert same(type_, type_, DECLARED)
    assert same(type_, Union((type_, type_)), DECLARED)
    assert not same(type_, ListOf(type_), DECLARED)


@given(st.sampled_from(sorted(WORDS)))
def test_every_built_in_word_is_a_primitive(word: str) -> None:
    assert isinstance(parse_type(word), Primitive)
