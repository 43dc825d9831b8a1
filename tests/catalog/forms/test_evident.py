"""Schemas with types beside their enums and without references, which say what they said before."""

import copy

import pytest
from hypothesis import assume, given

from tests.catalog.forms.random_schemas import OBJECTS, soup
from tooldispatchd.catalog.forms.evident import MAX_CHARS, evident
from tooldispatchd.catalog.forms.form import FORMS, render
from tooldispatchd.catalog.forms.rendered import Schema
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.schemas import SchemaError, compile_check

# As pydantic writes a function's `color: Color = Color.RED, size: Literal[1, 2], shape: Shape | None = None`.
FUNCTION: Schema = {
    "$defs": {
        "Color": {"enum": ["red", "blue"], "title": "Color"},
        "Shape": {
            "type": "object",
            "properties": {"color": {"$ref": "#/$defs/Color"}},
            "required": ["color"],
            "additionalProperties": False,
        },
    },
    "type": "object",
    "properties": {
        "color": {"$ref": "#/$defs/Color", "default": "red", "description": "Of the edge."},
        "size": {"enum": [1, 2]},
        "shape": {"anyOf": [{"$ref": "#/$defs/Shape"}, {"type": "null"}], "default": None},
    },
}
COLOR: Schema = {"type": "string", "enum": ["red", "blue"], "title": "Color"}
TREE: Schema = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/Tree"}, "color": {"$ref": "#/$defs/Color"}},
    "$defs": {
        "Tree": {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/Tree"}, "color": {"$ref": "#/$defs/Color"}},
        },
        "Color": {"enum": ["red", "blue"], "title": "Color"},
    },
}


def test_definitions_stand_where_they_are_used_with_what_stands_beside_them() -> None:
    before = copy.deepcopy(FUNCTION)
    assert evident(FUNCTION) == {
        "type": "object",
        "properties": {
            "color": {**COLOR, "default": "red", "description": "Of the edge."},
            "size": {"type": "integer", "enum": [1, 2]},
            "shape": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {"color": COLOR},
                        "required": ["color"],
                        "additionalProperties": False,
                    },
                    {"type": "null"},
                ],
                "default": None,
            },
        },
    }
    assert before == FUNCTION


@pytest.mark.parametrize(
    ("part", "types"),
    [
        ({"enum": ["a", None]}, ["string", "null"]),
        ({"enum": [1, 2.5, True]}, ["integer", "number", "boolean"]),
        ({"const": {"a": 1}}, "object"),
        ({"enum": [[1]]}, "array"),
    ],
)
def test_an_enum_has_the_types_of_its_values(part: Schema, types: object) -> None:
    assert evident({"properties": {"p": part}}) == {"properties": {"p": {"type": types, **part}}}


def test_a_schema_that_is_evident_is_the_same_one() -> None:
    schema: Schema = {"type": "object", "properties": {"p": {"type": "string", "enum": ["a"]}}}
    assert evident(schema) is schema


def test_what_is_recursive_keeps_its_reference_and_nothing_else_does() -> None:
    left = {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}, "color": COLOR}}
    assert evident(TREE) == {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Tree"}, "color": COLOR},
        "$defs": {"Tree": left},
    }


def test_a_reference_to_the_root_or_to_another_document_stays() -> None:
    schema: Schema = {"type": "object", "properties": {"inner": {"$ref": "#"}, "other": {"$ref": "urn:x"}}}
    assert evident(schema) == schema


def test_a_root_that_is_a_reference_becomes_what_it_means() -> None:
    schema: Schema = {
        "type": "object",
        "$ref": "#/definitions/Args",
        "definitions": {"Args": {"properties": {"a": {}}}},
    }
    assert evident(schema) == {"type": "object", "properties": {"a": {}}}


def test_what_stands_beside_a_reference_and_would_mean_more_in_its_place_stands_around_it() -> None:
    schema: Schema = {
        "$ref": "#/$defs/a",
        "additionalProperties": False,
        "$defs": {"a": {"properties": {"x": {"type": "string"}}}},
    }
    assert evident(schema) == {"additionalProperties": False, "allOf": [{"properties": {"x": {"type": "string"}}}]}


def test_where_writing_out_explodes_the_references_stay() -> None:
    levels: Schema = {f"d{n}": {"properties": {key: {"$ref": f"#/$defs/d{n + 1}"} for key in "ab"}} for n in range(25)}
    bomb: Schema = {"type": "object", "$ref": "#/$defs/d0", "$defs": {**levels, "d25": {"enum": ["leaf"]}}}
    shown = evident(bomb)
    assert {**shown, "$defs": {}} == {**bomb, "$defs": {}}
    assert shown["$defs"] == {**levels, "d25": {"type": "string", "enum": ["leaf"]}}
    long: Schema = {
        "properties": {f"p{n}": {"$ref": "#/$defs/long"} for n in range(10)},
        "$defs": {"long": {"type": "string", "description": "x" * (MAX_CHARS // 9)}},
    }
    assert evident(long) == long


def test_a_chain_of_references_is_followed_no_deeper_than_a_schema_may_be() -> None:
    chain: Schema = {f"c{n}": {"$ref": f"#/$defs/c{n + 1}"} for n in range(500)}
    schema: Schema = {"properties": {"p": {"$ref": "#/$defs/c0"}}, "$defs": {**chain, "c500": {"type": "string"}}}
    assert evident(schema) == schema


@pytest.mark.parametrize("form", sorted(FORMS))
def test_no_form_shows_a_reference_where_nothing_is_recursive(form: str) -> None:
    tool = Offered(name="t", description="Does it.", input_schema=FUNCTION, output_schema=FUNCTION)
    entry = render(form, tool, "t").entry
    assert "$ref" not in str(entry)
    assert "$defs" not in str(entry)


@pytest.mark.parametrize("form", ["openai", "openai_responses"])
def test_a_function_of_enums_and_records_is_strict(form: str) -> None:
    required = ["color", "size", "shape"]
    parts = {name: {"$ref": "#/$defs/Color"} for name in required[:1]} | {
        "size": {"enum": [1, 2]},
        "shape": {"anyOf": [{"$ref": "#/$defs/Shape"}, {"type": "null"}]},
    }
    schema: Schema = {**FUNCTION, "properties": parts, "required": required, "additionalProperties": False}
    entry = render(form, Offered(name="t", description="Does it.", input_schema=schema), "t").entry
    assert entry.get("function", entry)["strict"] is True  # type: ignore[index]  # as rendered


@given(soup(), OBJECTS)
def test_an_evident_schema_admits_what_it_admitted(schema: Schema, value: object) -> None:
    try:
        check = compile_check(schema)
    except SchemaError:
        assume(False)
    assert compile_check(evident(schema)).is_valid(value) is check.is_valid(value)
