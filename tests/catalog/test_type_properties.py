"""Properties of types over random ones, with the `jsonschema` library as the oracle of their schemas."""

import jsonschema
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.catalog.random_types import JSON_VALUES, STREAMED, TYPES, declarations, is_of, mutated, restated, values_of
from tooldispatchd.catalog.meanings import to_schema
from tooldispatchd.catalog.relations import SAME
from tooldispatchd.catalog.schemas import compile_check
from tooldispatchd.catalog.types import (
    WORDS,
    Primitive,
    Type,
    TypeTextError,
    parse_arrow,
    parse_type,
    show,
    show_arrow,
)

DECLARED = declarations()


@given(STREAMED)
def test_the_text_of_a_type_means_that_type(type_: Type) -> None:
    assert parse_type(show(type_)) == type_


@given(STREAMED, STREAMED)
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


@given(st.data(), TYPES, DECLARED)
def test_the_values_of_a_type_pass_its_schema(data: st.DataObject, type_: Type, declared: dict[str, Type]) -> None:
    schema = to_schema(type_, declared)
    check = compile_check(schema)
    values = values_of(type_, declared)
    assume(not values.is_empty)
    value = data.draw(values)
    assert jsonschema.Draft202012Validator(schema).is_valid(value)
    assert check.is_valid(value)
    assert check.violations(value) == []


@given(st.data(), TYPES, DECLARED)
def test_a_value_changed_somewhere_passes_only_where_it_is_still_of_the_type(
    data: st.DataObject, type_: Type, declared: dict[str, Type]
) -> None:
    schema = to_schema(type_, declared)
    check = compile_check(schema)
    values = values_of(type_, declared)
    assume(not values.is_empty)
    value = data.draw(values.flatmap(mutated))
    expected = is_of(value, type_, declared)
    assert jsonschema.Draft202012Validator(schema).is_valid(value) is expected
    assert check.is_valid(value) is expected
    assert (check.violations(value) == []) is expected


@given(TYPES, DECLARED, JSON_VALUES)
def test_any_value_passes_or_not_as_the_oracle_says(type_: Type, declared: dict[str, Type], value: object) -> None:
    schema = to_schema(type_, declared)
    expected = is_of(value, type_, declared)
    assert jsonschema.Draft202012Validator(schema).is_valid(value) is expected
    assert compile_check(schema).is_valid(value) is expected


@given(st.data(), STREAMED, DECLARED)
def test_a_type_said_in_other_words_is_the_same(data: st.DataObject, type_: Type, declared: dict[str, Type]) -> None:
    other = data.draw(restated(type_, declared))
    assert SAME.holds(type_, other, declared)
    assert SAME.holds(other, type_, declared)


@given(st.sampled_from(sorted(WORDS)))
def test_every_built_in_word_is_a_primitive(word: str) -> None:
    assert isinstance(parse_type(word), Primitive)
