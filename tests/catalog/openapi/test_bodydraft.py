"""Bodies: JSON under one field or merged, forms, texts and bytes, to the bytes."""

from typing import Any

import pytest

from tests.catalog.openapi.described import adapted, document, sent, the_tool
from tooldispatchd.catalog.openapi.adapter import LeftOut

PET = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {}}},
    "required": ["name"],
}


def tool_with(content: dict[str, Any], *, required: bool = True, parameters: Any = (), **keys: Any) -> dict[str, Any]:
    body = {"required": required, "content": content}
    return the_tool({"requestBody": body, "parameters": list(parameters)}, method="post", **keys)


def test_a_json_body_is_a_field() -> None:
    tool = tool_with({"application/json": {"schema": PET}})
    assert tool["input_schema"] == {
        "type": "object",
        "properties": {"body": PET},
        "required": ["body"],
        "additionalProperties": False,
    }
    assert sent(tool, {"body": {"name": "Rex"}})[4:] == (b'{"name":"Rex"}', "application/json")


def test_a_body_that_is_not_given_is_none() -> None:
    tool = tool_with({"application/json": {"schema": PET}}, required=False)
    assert sent(tool, {})[4:] == (b"", None)


@pytest.mark.parametrize(
    ("media_types", "chosen"),
    [
        (["application/xml", "application/json"], "application/json"),
        (["application/json-patch+json", "application/merge-patch+json"], "application/merge-patch+json"),
        (["application/vnd.api+json; ext=a"], "application/vnd.api+json"),
        (["*/*"], "application/json"),
        (["multipart/form-data", "application/json; charset=utf-8"], "application/json"),
    ],
)
def test_of_several_types_json_is_sent(media_types: list[str], chosen: str) -> None:
    tool = tool_with({media: {"schema": PET} for media in media_types})
    assert sent(tool, {"body": {"name": "Rex"}})[4:] == (b'{"name":"Rex"}', chosen)


def test_the_field_has_another_name_where_a_parameter_has_that() -> None:
    parameter = {"name": "body", "in": "query", "schema": {"type": "string"}}
    tool = tool_with({"application/json": {"schema": PET}}, parameters=[parameter])
    assert list(tool["input_schema"]["properties"]) == ["body", "_request_body"]
    request = sent(tool, {"body": "q", "_request_body": {"name": "Rex"}})
    assert (request[1], request[4]) == ("body=q", b'{"name":"Rex"}')


def test_a_flat_body_is_merged_where_the_table_says_so() -> None:
    tool = tool_with({"application/json": {"schema": PET}}, flatten=True)
    assert tool["input_schema"] == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {}}},
        "required": ["name"],
        "additionalProperties": False,
    }
    assert sent(tool, {"name": "Rex", "tags": [1]})[4] == b'{"name":"Rex","tags":[1]}'
    assert sent(tool, {"name": "Rex"})[4] == b'{"name":"Rex"}'


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "array"}}}},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}},
        {"allOf": [PET]},
        {"type": "array", "items": {}},
        {"type": "object"},
    ],
)
def test_a_body_that_is_not_flat_stays_one(schema: dict[str, Any]) -> None:
    tool = tool_with({"application/json": {"schema": schema}}, flatten=True)
    assert list(tool["input_schema"]["properties"]) == ["body"]


def test_a_body_one_of_whose_fields_is_a_parameter_stays_one() -> None:
    parameter = {"name": "name", "in": "query", "schema": {"type": "string"}}
    tool = tool_with({"application/json": {"schema": PET}}, parameters=[parameter], flatten=True)
    assert list(tool["input_schema"]["properties"]) == ["name", "body"]


def test_the_fields_of_a_form_are_fields_of_the_input() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "ids": {"type": "array", "items": {"type": "integer"}},
            "csv": {"type": "array", "items": {"type": "integer"}},
            "deep": {"type": "object", "properties": {"x": {"type": "object", "properties": {"y": {}}}}},
            "json": {"type": "array", "items": {"type": "object"}},
        },
        "required": ["a"],
    }
    encoding = {
        "csv": {"style": "form", "explode": False},
        "deep": {"style": "deepObject", "explode": True},
        "json": {"contentType": "application/json"},
    }
    tool = tool_with({"application/x-www-form-urlencoded": {"schema": schema, "encoding": encoding}})
    assert tool["input_schema"]["required"] == ["a"]
    values = {"a": "x y", "ids": [1, 2], "csv": [1, 2], "deep": {"x": {"y": 1}}, "json": [{}]}
    assert sent(tool, values)[4:] == (
        b"a=x+y&ids=1&ids=2&csv=1,2&deep%5Bx%5D%5By%5D=1&json=%5B%7B%7D%5D",
        "application/x-www-form-urlencoded",
    )


def test_a_field_that_no_form_says_is_left_out_alone_or_with_its_operation() -> None:
    nested = {"type": "array", "items": {"type": "object"}}
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "n": nested}}
    content = {"application/x-www-form-urlencoded": {"schema": schema}}
    paths = {"/x": {"post": {"requestBody": {"required": True, "content": content}}}}
    why = "field n of its form: its lists or records hold others, which cannot be written there"
    assert adapted(document(paths)).notes == {"t_post_x": [why]}
    schema["required"] = ["n"]
    assert adapted(document(paths)).left_out == (LeftOut("POST /x", why),)


@pytest.mark.parametrize(
    "file",
    [
        {"type": "string", "format": "binary"},
        {"type": "string", "contentMediaType": "image/png"},
        {"contentMediaType": "image/png"},
    ],
)
def test_a_file_of_a_form_is_a_text_in_base64(file: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"file": file, "about": PET, "files": {"type": "array", "items": file}}}
    tool = tool_with({"multipart/form-data": {"schema": schema}})
    assert tool["input_schema"]["properties"]["file"] == {
        "type": "string",
        "contentEncoding": "base64",
        "description": "A file, in base64.",
    }
    body = sent(tool, {"file": "aGk=", "about": {"name": "Rex"}, "files": ["aGk=", "aG8="]})[4]
    assert body.count(b"\r\n\r\nhi\r\n") == 2
    assert body.count(b"\r\n\r\nho\r\n") == 1
    assert b'Content-Type: application/json\r\n\r\n{"name":"Rex"}' in body


@pytest.mark.parametrize(
    ("content", "value", "sent_as"),
    [
        ({"text/plain": {}}, "hé", ("hé".encode(), "text/plain; charset=utf-8")),
        ({"text/x-markdown": {}}, "# a", (b"# a", "text/x-markdown")),
        ({"application/octet-stream": {}}, "aGk=", (b"hi", "application/octet-stream")),
        ({"image/png": {"schema": {"type": "string", "format": "binary"}}}, "aGk=", (b"hi", "image/png")),
        ({"application/zip": {"schema": {"type": "string", "format": "binary"}}}, "aGk=", (b"hi", "application/zip")),
        ({"image/*": {}}, "aGk=", (b"hi", "application/octet-stream")),
        ({"image/png": {"schema": {"type": "string", "format": "byte"}}}, "aGk=", (b"aGk=", "image/png")),
    ],
)
def test_texts_and_bytes_are_one_field(content: dict[str, Any], value: str, sent_as: tuple[bytes, str]) -> None:
    assert sent(tool_with(content), {"body": value})[4:] == sent_as


@pytest.mark.parametrize(
    ("method", "content", "why"),
    [
        ("post", {"application/xml": {}, "text/xml": {}}, "no body of type application/xml or text/xml is written"),
        ("post", {"application/octet-stream": {"schema": PET}}, "no body of type application/octet-stream is written"),
        ("get", {"application/json": {}}, "GET has no body"),
        ("post", {"multipart/form-data": {"schema": {"allOf": [PET]}}}, "the form that is its body is no plain record"),
        ("post", {"multipart/form-data": {"schema": {"$ref": "#/no"}}}, "its reference #/no leads nowhere"),
    ],
)
def test_an_operation_with_another_body_is_left_out(method: str, content: dict[str, Any], why: str) -> None:
    made = adapted(document({"/x": {method: {"requestBody": {"required": True, "content": content}}}}))
    assert made.left_out == (LeftOut(f"{method.upper()} /x", why),)


def test_a_body_that_a_get_may_go_without_it_goes_without() -> None:
    tool = the_tool({"requestBody": {"content": {"application/json": {"schema": PET}}}})
    assert tool["input_schema"]["properties"] == {}


def test_a_style_of_a_part_leaves_it_out() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {}}, "b": {"type": "string"}}}
    content = {"multipart/form-data": {"schema": schema, "encoding": {"a": {"style": "form"}, "b": {"style": "form"}}}}
    made = adapted(document({"/x": {"post": {"requestBody": {"content": content}}}}))
    assert made.notes == {"t_post_x": ["part a of its body: a part is written in no style"]}
    assert list(made.tools) == ["t_post_x"]
