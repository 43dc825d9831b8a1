import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.rest.placeholders import (
    ParameterSlot,
    excerpt_of,
    lone_slot,
    parameters_of,
    parse_parts,
)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ()),
        ("plain", ("plain",)),
        ("${parameters.city}", (ParameterSlot("city"),)),
        ("a/${parameters.city}/b", ("a/", ParameterSlot("city"), "/b")),
        ("${parameters.a}${parameters.b}", (ParameterSlot("a"), ParameterSlot("b"))),
        ("${parameters.filter[name]}", (ParameterSlot("filter[name]"),)),
        ("${parameters.$top}", (ParameterSlot("$top"),)),
        ("$$", ("$",)),
        ("$${parameters.city}", ("${parameters.city}",)),
        ("$$$${parameters.city}", ("$${parameters.city}",)),
        ("$$${parameters.city}", ("$", ParameterSlot("city"))),
        ("costs $5", ("costs $5",)),
        ("${parameters.}", ("${parameters.}",)),
        ("${parameters.open", ("${parameters.open",)),
        ("${parameter.x}", ("${parameter.x}",)),
    ],
)
def test_a_text_is_taken_apart_once(text: str, parts: tuple[object, ...]) -> None:
    assert parse_parts(text) == parts


@given(st.text())
def test_any_text_whose_dollars_are_doubled_is_itself(text: str) -> None:
    assert "".join(map(str, parse_parts(text.replace("$", "$$")))) == text


def test_a_text_that_is_one_placeholder_is_known() -> None:
    assert lone_slot(parse_parts("${parameters.x}")) == ParameterSlot("x")
    assert lone_slot(parse_parts(" ${parameters.x}")) is None
    assert lone_slot(parse_parts("")) is None


@pytest.mark.parametrize(
    ("text", "excerpt"),
    [
        ("${parameters.ctiy}", "${parameters.ctiy}\n             ^"),
        ("https://x/${parameters.ctiy}", "…${parameters.ctiy}\n              ^"),
        ("${parameters.ctiy}?key=secret", "${parameters.ctiy}…\n             ^"),
    ],
)
def test_an_excerpt_shows_the_placeholder_alone(text: str, excerpt: str) -> None:
    assert excerpt_of(text, "ctiy") == excerpt


@pytest.mark.parametrize(
    ("schema", "names", "required"),
    [
        ({"properties": {"a": {}, "b": {}}, "required": ["a"]}, ("a", "b"), {"a"}),
        ({"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}]}, ("b", "a"), {"a"}),
        (
            {"$ref": "#/$defs/P", "$defs": {"P": {"properties": {"a": {}}, "required": ["a"]}}},
            ("a",),
            {"a"},
        ),
        (
            {
                "oneOf": [
                    {"properties": {"a": {}, "b": {}}, "required": ["a", "b"]},
                    {"properties": {"a": {}}, "required": ["a"]},
                ]
            },
            ("a", "b"),
            {"a"},
        ),
        ({"$ref": "#/$defs/P", "$defs": {"P": {"$ref": "#/$defs/P"}}}, (), set()),
        ({"$ref": "other.json"}, (), set()),
        ({}, (), set()),
    ],
)
def test_the_parameters_are_what_the_schema_says(
    schema: dict[str, object], names: tuple[str, ...], required: set[str]
) -> None:
    found = parameters_of(schema)
    assert (set(found.names), set(found.required)) == (set(names), required)


@pytest.mark.parametrize(
    "schema",
    [
        {"contentEncoding": "base64"},
        {"type": "string", "format": "binary"},
        {"type": "string", "format": "byte"},
        {"type": "array", "items": {"contentEncoding": "base64"}},
    ],
)
def test_bytes_are_known_by_their_schema(schema: dict[str, object]) -> None:
    assert parameters_of({"properties": {"file": schema, "note": {"type": "string"}}}).files == {"file"}
