"""What a success gives: names and types, and nothing that an API may outgrow."""

from typing import Any

import jsonschema_rs
import msgspec
import pytest

from tests.catalog.openapi.described import the_tool
from tooldispatchd.catalog.openapi.responses import MAX_OUTPUT_BYTES

ISSUE = {
    "type": "object",
    "required": ["id"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "state": {"type": "string", "enum": ["open"], "description": "d"},
        "labels": {"type": "array", "items": {"type": ["string", "null"]}},
        "secret": {"type": "string", "writeOnly": True},
        "any": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "maybe": {"oneOf": [{"type": "object"}, {"type": "null"}]},
    },
}
LOOSE = {
    "type": "object",
    "properties": {
        "id": {"type": ["integer", "null"]},
        "state": {"type": ["string", "null"]},
        "labels": {"type": ["array", "null"], "items": {"type": ["string", "null"]}},
        "any": {},
        "maybe": {"type": ["object", "null"]},
    },
}


def json(schema: Any) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def output(responses: dict[str, Any], **components: Any) -> Any:
    return the_tool({"responses": responses, "components": components}).get("output_schema")


def test_only_names_and_types_are_kept() -> None:
    assert output({"200": json(ISSUE), "404": json({"type": "string"})}) == LOOSE


@pytest.mark.parametrize(
    ("responses", "schema"),
    [
        ({"default": json({"type": "integer"})}, {"type": "integer"}),
        ({"2XX": json({"type": "integer"}), "default": json({"type": "string"})}, {"type": "integer"}),
        ({"200": json({"type": "integer"}), "204": {}}, {"type": ["integer", "null"]}),
        ({"200": json({"type": "integer"}), "201": json({"type": "integer"})}, {"type": "integer"}),
        ({"200": json({"type": "integer"}), "201": json({"type": "string"})}, None),
        ({"200": json({"type": "integer"}), "202": {"content": {"text/plain": {}}}}, None),
        ({"200": {"content": {"application/hal+json; v=1": {"schema": {"type": "integer"}}}}}, {"type": "integer"}),
        ({"200": {"content": {"*/*": {"schema": {"type": "integer"}}}}}, None),
        ({"200": {"$ref": "#/components/responses/no"}}, None),
        ({"204": {}}, None),
        ({"200": json({})}, None),
        ({}, None),
    ],
)
def test_the_schema_is_that_of_all_successes(responses: dict[str, Any], schema: Any) -> None:
    assert output(responses) == schema


def test_a_record_that_consists_of_several_has_the_fields_of_all() -> None:
    base = {"type": "object", "properties": {"id": {"type": "string"}}}
    schema = {"allOf": [{"$ref": "#/components/schemas/Base"}, {"properties": {"name": {"type": "string"}}}]}
    assert output({"200": json(schema)}, schemas={"Base": base}) == {
        "type": "object",
        "properties": {"id": {"type": ["string", "null"]}, "name": {"type": ["string", "null"]}},
    }


def test_a_recursive_answer_ends_where_there_is_no_more_room_and_a_large_one_as_well() -> None:
    tree = {"type": "object", "properties": {"down": {"$ref": "#/components/schemas/Tree"}}}
    made = output({"200": json({"$ref": "#/components/schemas/Tree"})}, schemas={"Tree": tree})
    assert msgspec.json.encode(made).count(b"down") == 5
    wide = {"type": "object", "properties": {f"field_{n}": tree for n in range(80)}}
    made = output({"200": json(wide)}, schemas={"Tree": tree})
    assert len(made["properties"]) == 80
    assert len(msgspec.json.encode(made)) < MAX_OUTPUT_BYTES
    assert output({"200": json({"type": "object", "properties": {f"field_{n}": {} for n in range(999)}})}) == {
        "type": "object"
    }


def test_whatever_a_document_admits_is_admitted() -> None:
    value = {"id": 5, "state": "closed", "labels": [None], "any": [], "maybe": None, "more": {}}
    assert jsonschema_rs.is_valid(LOOSE, value)


@pytest.mark.parametrize(
    ("media_types", "accept"),
    [
        (["application/json"], None),
        (["text/plain", "application/json; charset=utf-8"], None),
        (["*/*"], None),
        ([], None),
        (["application/vnd.api+json", "text/html"], "application/vnd.api+json, */*;q=0.1"),
        (["image/png"], "image/png, */*;q=0.1"),
        (["x\x00/y", "${parameters.id}", "é", "image/png"], "image/png, */*;q=0.1"),
    ],
)
def test_a_type_that_is_not_asked_for_by_default_is_asked_for(media_types: list[str], accept: str | None) -> None:
    tool = the_tool({"responses": {"200": {"content": {media: {} for media in media_types}}}})
    assert tool["rest"].get("headers", {}).get("Accept") == accept
    own = the_tool({"responses": {"200": {"content": {media: {} for media in media_types}}}}, headers={"accept": "x"})
    assert "headers" not in own["rest"]
