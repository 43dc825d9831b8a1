import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.random_types import FIELD_NAMES, JSON_VALUES, TYPES, declarations, is_of
from tooldispatchd.catalog.fromschema import MAX_DESCRIBED, describe, exact_type
from tooldispatchd.catalog.meanings import check_names, resolve, to_schema
from tooldispatchd.catalog.relations import SAME
from tooldispatchd.catalog.types import Named, Type, parse_type, show

TREE = {
    "type": "object",
    "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
    "required": ["children"],
    "additionalProperties": False,
}


@given(TYPES, declarations())
def test_the_schema_of_a_type_is_read_back_as_the_same_type(type_: Type, declared: dict[str, Type]) -> None:
    schema = to_schema(type_, declared)
    found = exact_type(schema)
    assert found is not None
    back, names = found
    assert names.items() <= declared.items()
    assert SAME.holds(back, type_, declared)
    assert back == resolve(type_, declared)
    assert to_schema(back, names) == schema
    assert describe(schema) == show(back) or len(show(back)) > MAX_DESCRIBED


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (True, "json"),
        ({}, "json"),
        ({"title": "Any", "x-order": 1}, "json"),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "string"}, "string"),
        ({"type": "string", "description": "A day.", "format": "date", "examples": ["2020-01-01"]}, "string"),
        ({"type": ["string", "null"]}, "string | unit"),
        ({"type": ["string"]}, "string"),
        ({"type": "array"}, "[json]"),
        ({"anyOf": [{"type": "integer"}]}, "int"),
        ({"anyOf": [{"type": "integer"}, {"anyOf": [{"type": "null"}, True]}]}, "int | unit | json"),
        ({"type": "object", "additionalProperties": False}, "{}"),
        (
            {"type": "array", "prefixItems": [{}, {"type": "null"}], "items": False, "minItems": 2},
            "(json, unit)",
        ),
        ({"type": "null", "$defs": {"Unused": {"type": "string", "pattern": "a"}}}, "unit"),
    ],
)
def test_a_schema_that_says_what_a_type_says_is_that_type(schema: object, text: str) -> None:
    assert exact_type(schema) == (parse_type(text), {})
    assert describe(schema) == text


@pytest.mark.parametrize(
    ("schema", "description"),
    [
        (False, "json"),
        (7, "json"),
        ("string", "json"),
        ({"type": "text"}, "json"),
        ({"type": 3}, "json"),
        ({"type": []}, "json"),
        ({"type": "object"}, "{…}"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "{…}"),
        ({"properties": {"a": {"type": "string"}}}, "json"),
        ({"type": "integer", "minimum": 1}, "int"),
        ({"type": "string", "enum": ["a", "b"]}, "string"),
        ({"enum": ["a", None, 2, 0.5, True, [], {}]}, "string | unit | int | number | bool | [json] | {…}"),
        ({"const": "a"}, "string"),
        ({"anyOf": []}, "json"),
        ({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}, "string | unit"),
        ({"oneOf": [{"type": "string"}, {"type": "null"}, {"type": "string"}]}, "string | unit"),
        ({"anyOf": [{"type": "string"}, {"not": {}}]}, "json"),
        ({"allOf": [{"type": "string"}, {"minLength": 1}]}, "string"),
        ({"type": "array", "items": {"type": "string"}, "minItems": 1}, "[string]"),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, "[json]"),
        (
            {
                "type": "array",
                "prefixItems": [{"type": "string"}, {"type": "null"}],
                "items": False,
                "minItems": 2,
                "uniqueItems": True,
            },
            "(string, unit)",
        ),
        (
            {
                "type": "object",
                "properties": {"text": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
                "required": ["text"],
            },
            "{text: string, limit?: int, …}",
        ),
        (
            {"type": "object", "properties": {"a b": {}}, "required": ["a b", "c"], "additionalProperties": False},
            '{"a b": json, c: json}',
        ),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "type": "object",
                "properties": {"a": {"$ref": "#/definitions/A"}, "b": {"$ref": "#"}},
                "additionalProperties": False,
                "definitions": {"A": {"type": "string"}},
            },
            "{a?: A, b?: json}",
        ),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, "A"),
        ({"$ref": "#/$defs/A"}, "json"),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}}, "{…}"),
        ({"$ref": "#/$defs/int", "$defs": {"int": {"type": "string"}}}, "string"),
        ({"$ref": "https://example.org/schema"}, "json"),
        ({"$id": "https://example.org/schema", "type": "string"}, "string"),
        ({"type": "object", "additionalProperties": False, "required": ["a"]}, "{a: json}"),
        ({"type": ["object", "null"], "properties": {"a": {"type": "null"}}}, "{a?: unit, …} | unit"),
    ],
)
def test_a_schema_that_no_type_says_is_only_described(schema: object, description: str) -> None:
    assert exact_type(schema) is None
    assert describe(schema) == description


def test_a_definition_is_a_declared_type() -> None:
    schema = {"$ref": "#/$defs/Tree", "$defs": {"Tree": TREE}}
    assert exact_type(schema) == (Named("Tree"), {"Tree": parse_type("{children: [Tree]}")})
    assert describe(schema) == "{children: [Tree]}"


def test_a_long_record_is_described_by_its_first_fields() -> None:
    fields = {f"field{number}": {"type": "object"} for number in range(20)}
    text = ", ".join(f"field{number}?: {{…}}" for number in range(10))
    assert describe({"type": "object", "properties": fields}) == f"{{{text}, …}}"


def test_a_deep_schema_is_described_down_to_where_there_is_room() -> None:
    schema: dict[str, object] = {"type": "string"}
    for _ in range(300):
        schema = {"type": "object", "properties": {"a_long_enough_name": schema, "b": schema}}
    assert describe(schema) == (
        "{a_long_enough_name?: {a_long_enough_name?: {…}, b?: {…}, …}, b?: {a_long_enough_name?: {…}, b?: {…}, …}, …}"
    )
    assert exact_type(schema) is None


def test_a_closed_schema_nested_too_deep_is_no_type() -> None:
    schema: object = True
    for _ in range(10_000):
        schema = {"type": "array", "items": schema}
    assert exact_type(schema) is None
    assert describe(schema) == "[[[[[[[…]]]]]]]"


def test_a_schema_of_thousands_of_definitions_is_read_in_a_moment() -> None:
    definitions: dict[str, object] = {f"T{place}": {"$ref": f"#/$defs/T{place + 1}"} for place in range(6_000)}
    assert exact_type({"$ref": "#/$defs/T0", "$defs": {**definitions, "T6000": {"$ref": "#/$defs/T0"}}}) is None
    assert describe({"$ref": "#/$defs/T0", "$defs": {**definitions, "T6000": {"type": "string"}}}) == "string"


def test_a_description_is_never_long() -> None:
    schema = {"type": "object", "properties": {"a" * 5_000: {"type": "string"}}}
    assert len(describe(schema)) == MAX_DESCRIBED


KEYWORDS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", "array", "integer", "string", "null", ["object", "null"]]),
        "required": st.lists(FIELD_NAMES, max_size=2, unique=True),
        "additionalProperties": st.just(False),
        "minItems": st.integers(0, 3),
        "maxItems": st.integers(0, 3),
        "minimum": st.integers(0, 3),
        "enum": st.lists(JSON_VALUES, min_size=1, max_size=2),
        "title": st.just("A title"),
    },
)


def _larger(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    parts = st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(FIELD_NAMES, inner, max_size=2),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
        },
    )
    return st.builds(lambda own, parts: {**own, **parts}, KEYWORDS, parts)


SCHEMAS = st.recursive(KEYWORDS | st.booleans(), _larger, max_leaves=5)


@given(SCHEMAS, st.lists(JSON_VALUES, min_size=1, max_size=5))
def test_the_type_of_any_schema_has_the_schemas_values(schema: object, values: list[object]) -> None:
    found = exact_type(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for value in values if found else ():
        assert is_of(value, *found) is validator.is_valid(value)  # type: ignore[misc]  # it is found


@given(SCHEMAS, st.lists(JSON_VALUES, min_size=1, max_size=5))
def test_what_a_description_says_is_true_of_every_value(schema: object, values: list[object]) -> None:
    text = describe(schema)
    assert 0 < len(text) <= MAX_DESCRIBED
    if "…" not in text:
        described = parse_type(text)
        validator = jsonschema.Draft202012Validator(schema)
        for value in values:
            assert is_of(value, described, {}) or not validator.is_valid(value)


@given(
    st.recursive(
        JSON_VALUES,
        lambda inner: st.dictionaries(
            st.sampled_from(["type", "$ref", "$schema", "$defs", "anyOf", "enum", "items", "required"]),
            inner,
            max_size=4,
        ),
    )
)
def test_anything_is_described_and_is_a_type_or_not(anything: object) -> None:
    assert 0 < len(describe(anything)) <= MAX_DESCRIBED
    found = exact_type(anything)
    if found:
        check_names(*found)
