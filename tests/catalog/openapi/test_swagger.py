"""Swagger 2.0, operation by operation in the form of OpenAPI 3."""

from typing import Any

import pytest

from tests.catalog.openapi.described import adapted, sent
from tooldispatchd.catalog.openapi.adapter import LeftOut

STRING = {"type": "string"}
LIST = {"type": "array", "items": STRING}


def swagger(operation: dict[str, Any], path: str = "/x", method: str = "get", **more: Any) -> Any:
    return adapted({"swagger": "2.0", "host": "api.example", "paths": {path: {method: operation}}, **more}, token="x")


def the_tool(operation: dict[str, Any], path: str = "/x", method: str = "post", **more: Any) -> dict[str, Any]:
    made = swagger(operation, path, method, **more)
    assert made.left_out == ()
    (tool,) = made.tools.values()
    return dict(tool)


@pytest.mark.parametrize(
    ("keys", "base_url"),
    [
        ({}, "https://api.example"),
        ({"basePath": "/v2/"}, "https://api.example/v2"),
        ({"schemes": ["http"]}, "http://api.example"),
        ({"schemes": ["ws", "http", "https"]}, "https://api.example"),
    ],
)
def test_the_place_is_host_and_base_path(keys: dict[str, Any], base_url: str) -> None:
    assert swagger({}, **keys).api == {"base_url": base_url}


@pytest.mark.parametrize(
    ("style", "query"),
    [
        (None, "a=x,y"),
        ("csv", "a=x,y"),
        ("ssv", "a=x%20y"),
        ("pipes", "a=x%7Cy"),
        ("multi", "a=x&a=y"),
    ],
)
def test_lists_are_written_as_their_collection_format_says(style: str | None, query: str) -> None:
    parameter = {"name": "a", "in": "query", **LIST, **({} if style is None else {"collectionFormat": style})}
    assert sent(the_tool({"parameters": [parameter]}, method="get"), {"a": ["x", "y"]})[1] == query


def test_a_format_that_is_not_known_leaves_the_parameter_out() -> None:
    parameter = {"name": "a", "in": "query", "collectionFormat": "tsv", **LIST}
    assert swagger({"parameters": [parameter]}).notes == {
        "t_get_x": ["parameter a: no request is written with the style tsv"]
    }
    assert swagger({"parameters": [{**parameter, "in": "header"}]}).notes == {
        "t_get_x": ["parameter a: no request is written with the style tsv"]
    }


def test_a_parameter_s_own_keywords_are_its_schema() -> None:
    parameter = {
        "name": "a",
        "in": "query",
        "type": "integer",
        "minimum": 1,
        "exclusiveMinimum": True,
        "x-nullable": True,
    }
    tool = the_tool({"parameters": [parameter]}, method="get")
    assert tool["input_schema"]["properties"] == {"a": {"type": ["integer", "null"], "exclusiveMinimum": 1}}


def test_a_body_has_its_types_of_the_document() -> None:
    body = {"name": "pet", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}}
    tool = the_tool(
        {"parameters": [body], "consumes": ["application/xml", "application/json"]},
        definitions={
            "Pet": {"type": "object", "properties": {"id": {"type": "integer", "readOnly": True}, "name": STRING}}
        },
    )
    assert tool["input_schema"]["properties"] == {"body": {"type": "object", "properties": {"name": STRING}}}
    assert sent(tool, {"body": {"name": "Rex"}})[4:] == (b'{"name":"Rex"}', "application/json")


def test_fields_of_a_form_are_a_form_and_with_a_file_one_of_parts() -> None:
    fields = [
        {"name": "a", "in": "formData", "required": True, **STRING},
        {"name": "many", "in": "formData", "collectionFormat": "multi", **LIST},
    ]
    tool = the_tool({"parameters": fields})
    assert sent(tool, {"a": "1", "many": ["x", "y"]})[4] == b"a=1&many=x&many=y"
    assert tool["input_schema"]["required"] == ["a"]
    file = {"name": "file", "in": "formData", "type": "file"}
    media_type = sent(the_tool({"parameters": [*fields, file]}), {"a": "1", "file": "aGk="})[5]
    assert media_type is not None
    assert media_type.startswith("multipart/form-data")
    consumed = sent(the_tool({"parameters": fields, "consumes": ["multipart/form-data"]}), {"a": "1"})[5]
    assert consumed is not None
    assert consumed.startswith("multipart/form-data")


def test_parameters_and_responses_may_be_shared() -> None:
    tool = the_tool(
        {"parameters": [{"$ref": "#/parameters/q"}], "responses": {"200": {"$ref": "#/responses/ok"}}},
        method="get",
        parameters={"q": {"name": "q", "in": "query", **STRING}},
        responses={"ok": {"schema": {"type": "object", "properties": {"id": STRING}}}},
    )
    assert tool["input_schema"]["properties"] == {"q": STRING}
    assert tool["output_schema"] == {"type": "object", "properties": {"id": {"type": ["string", "null"]}}}


def test_security_definitions_are_schemes() -> None:
    made = adapted(
        {
            "swagger": "2.0",
            "host": "api.example",
            "paths": {"/a": {"get": {"security": [{"b": []}]}}, "/c": {"get": {"security": [{"o": []}]}}},
            "securityDefinitions": {"b": {"type": "basic"}, "o": {"type": "oauth2", "flow": "implicit"}},
        },
        basic={"user": "u"},
    )
    assert list(made.tools) == ["t_get_a"]
    assert made.left_out == (LeftOut("GET /c", 'it needs a bearer token: token_env = "…"'),)
