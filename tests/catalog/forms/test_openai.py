import pytest

from tooldispatchd.catalog.forms.openai import render_openai, render_openai_responses
from tooldispatchd.catalog.forms.rendered import Schema
from tooldispatchd.catalog.offered import Offered


def shown(schema: Schema) -> Schema:
    """The function as the responses API has it, without its name, type and description."""
    entry = render_openai_responses(Offered(name="t", input_schema=schema), "t").entry
    return {key: entry[key] for key in ("parameters", "strict")}


def closed(properties: Schema, **others: object) -> Schema:
    """An object of exactly these properties."""
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False, **others}


def nested(levels: int) -> Schema:
    schema = closed({"a": {"type": "string"}})
    for _ in range(levels - 1):
        schema = closed({"a": schema})
    return schema


TREE = closed({"kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}})

STRICT: dict[str, Schema] = {
    "no properties": closed({}),
    "types": closed(
        {"a": {"type": "string"}, "b": {"type": ["integer", "null"], "minimum": 0}, "c": {"type": "boolean"}}
    ),
    "an enum": closed({"a": {"type": "string", "enum": ["x", "y"], "description": "An a."}}),
    "alternatives": closed({"a": {"anyOf": [{"type": "string", "format": "uuid"}, closed({"b": {"type": "null"}})]}}),
    "recursion": closed({"tree": {"$ref": "#/$defs/Tree"}}, **{"$defs": {"Tree": TREE}}),
    "ten levels": nested(10),
    "a thousand values": closed({"a": {"type": "integer", "enum": list(range(1_000))}}),
}

LOOSE: dict[str, Schema] = {
    "an optional property": closed({"a": {"type": "string"}}, required=[]),
    "an open object": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
    "a format that is not taken": closed({"a": {"type": "string", "format": "uri"}}),
    "a keyword that is not taken": closed({"a": {"type": "string", "maxLength": 3}}),
    "a part without a type": closed({"a": {"enum": ["x"]}}),
    "eleven levels": nested(11),
    "over a thousand values": closed({"a": {"type": "integer", "enum": list(range(1_001))}}),
    "a long enum of long values": closed({"a": {"type": "string", "enum": [f"{n:0100}" for n in range(251)]}}),
    "many properties": closed({f"p{n}": {"type": "null"} for n in range(5_001)}),
    "long names": closed({"x" * 120_001: {"type": "null"}}),
}


@pytest.mark.parametrize("schema", STRICT.values(), ids=STRICT.keys())
def test_a_schema_of_strict_mode_is_shown_as_it_is_and_strict(schema: Schema) -> None:
    assert shown(schema) == {"parameters": schema, "strict": True}


def test_a_schema_with_look_around_is_not_strict() -> None:
    schema = closed({"to": {"type": "string", "pattern": "^(?!a)"}})
    assert shown(schema) == {"parameters": schema, "strict": False}


def test_an_object_without_properties_says_in_strict_mode_that_none_is_required() -> None:
    empty: Schema = {"type": "object", "properties": {}, "additionalProperties": False}
    schema = closed({"a": empty, "b": {"type": "array", "items": empty}})
    assert shown(empty) == {"parameters": closed({}), "strict": True}
    assert shown(schema)["parameters"] == closed({"a": closed({}), "b": {"type": "array", "items": closed({})}})
    assert "required" not in empty


@pytest.mark.parametrize("schema", LOOSE.values(), ids=LOOSE.keys())
def test_any_other_object_is_shown_as_it_is_and_not_strict(schema: Schema) -> None:
    assert shown(schema) == {"parameters": schema, "strict": False}


def test_an_object_and_an_array_get_the_keywords_that_must_be_there() -> None:
    assert shown(
        {"type": "object", "additionalProperties": {"type": "array", "items": {"type": ["array", "null"]}}}
    ) == {
        "parameters": {
            "type": "object",
            "properties": {},
            "additionalProperties": {"type": "array", "items": {"type": ["array", "null"], "items": {}}},
        },
        "strict": False,
    }


def test_the_alternatives_of_a_root_are_one_object_that_requires_what_all_require() -> None:
    schema: Schema = {
        "type": "object",
        "properties": {"id": {"type": "integer"}},
        "required": ["id"],
        "oneOf": [
            closed({"id": {}, "kind": {"const": "a"}, "x": {"type": "string"}}),
            closed({"id": {}, "kind": {"const": "b"}}),
        ],
    }
    assert shown(schema)["parameters"] == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "kind": {"anyOf": [{"enum": ["a"]}, {"enum": ["b"]}]},
            "x": {"type": "string"},
        },
        "required": ["id", "kind"],
        "additionalProperties": False,
    }


def test_what_an_open_alternative_does_not_say_stays_open() -> None:
    schema: Schema = {"type": "object", "anyOf": [{"properties": {"a": {"type": "string"}}}, {"required": ["b"]}]}
    assert shown(schema)["parameters"] == {
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "string"}, {}]}},
    }


def test_chat_completions_nest_the_function_and_take_a_short_description() -> None:
    rendered = render_openai(Offered(name="t", description="x" * 1_025, input_schema=closed({})), "spelled")
    assert rendered.entry == {
        "type": "function",
        "function": {
            "name": "spelled",
            "description": "x" * 1_023 + "…",
            "parameters": closed({}),
            "strict": True,
        },
    }
    assert rendered.notes == ("the description, 1025 characters, in the root is cut to 1024",)


def test_responses_take_a_long_description() -> None:
    rendered = render_openai_responses(Offered(name="t", description="x" * 5_000, input_schema=closed({})), "t")
    assert rendered.entry["description"] == "x" * 5_000
    assert rendered.notes == ()
