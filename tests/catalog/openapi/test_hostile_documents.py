"""Documents of any content: whatever stands in one, there are tables or reasons, and never an exception."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.openapi.described import adapted
from tests.examples import examples
from tooldispatchd.catalog.specs import ToolSpec

PARAMETER = {"name": "q", "in": "query", "style": "form", "explode": True, "schema": {"$ref": "#/components/schemas/A"}}
MODERN: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "T"},
    "servers": [{"url": "https://{r}.example", "variables": {"r": {"default": "eu"}}}],
    "security": [{"k": []}],
    "paths": {
        "/a/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}, PARAMETER],
            "servers": [{"url": "/v2"}],
            "post": {
                "operationId": "post",
                "tags": ["t"],
                "summary": "S",
                "description": "D",
                "security": [{"k": []}, {}],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}},
                },
                "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}},
            },
            "put": {
                "requestBody": {
                    "content": {
                        "application/x-www-form-urlencoded": {
                            "schema": {
                                "type": "object",
                                "properties": {"a": {"type": "array", "items": {}}},
                                "required": ["a"],
                            },
                            "encoding": {"a": {"style": "form", "explode": False}},
                        }
                    }
                }
            },
            "patch": {
                "requestBody": {"content": {"multipart/form-data": {"schema": {"$ref": "#/components/schemas/A"}}}}
            },
        }
    },
    "components": {
        "schemas": {
            "A": {"type": "object", "properties": {"a": {"$ref": "#/components/schemas/A"}, "b": {"enum": [1]}}}
        },
        "securitySchemes": {"k": {"type": "apiKey", "in": "header", "name": "X"}},
    },
}
OLD: dict[str, Any] = {
    "swagger": "2.0",
    "host": "a.example",
    "schemes": ["https"],
    "consumes": ["application/json"],
    "paths": {
        "/a": {
            "post": {
                "parameters": [
                    {
                        "name": "q",
                        "in": "query",
                        "type": "array",
                        "items": {"type": "string"},
                        "collectionFormat": "csv",
                    },
                    {"name": "b", "in": "body", "schema": {"$ref": "#/definitions/A"}},
                ],
                "responses": {"200": {"schema": {"$ref": "#/definitions/A"}}},
            },
            "put": {"parameters": [{"name": "f", "in": "formData", "type": "file"}]},
        }
    },
    "definitions": {"A": {"type": "object", "properties": {"a": {"type": "integer"}}}},
    "securityDefinitions": {"k": {"type": "basic"}},
}
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        [
            "",
            "x",
            "#",
            "#/components/schemas/A",
            "https://x.example/#/a",
            "{",
            "query",
            "object",
            "null",
            "é$ {a}",
            "\x00\n",
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["$ref", "schema", "type", "a", "", "in"]), inner, max_size=2)
    ),
    max_leaves=5,
)

KEYS = [
    "",
    "/x\x00",
    "/{a}{b}",
    "/a?b={c}#d",
    "#",
    "x-y",
    "$ref",
    "n" * 300,
    "é",
    "$",
    "nullable",
    "default",
    "in",
    "post",
]


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return (
        [path, *(place for key, each in inner for place in places(each, (*path, key)))]
        if path
        else [place for key, each in inner for place in places(each, (key,))]
    )


@pytest.mark.parametrize("content", [MODERN, OLD], ids=["modern", "old"])
@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_a_document_with_anything_in_any_place_gives_tables_or_reasons(
    content: dict[str, Any], data: st.DataObject
) -> None:
    changed = copy.deepcopy(content)
    for _ in range(data.draw(st.integers(1, 2))):
        *around, last = data.draw(st.sampled_from(places(changed)))
        holder = changed
        for step in around:
            holder = holder[step]
        if isinstance(holder, dict) and data.draw(st.booleans()):
            holder[data.draw(st.sampled_from(KEYS))] = holder.pop(last)
        else:
            holder[last] = data.draw(ANYTHING)
    made = adapted(changed, flatten=True, token="x", url="https://docs.example/a.json")
    for tool in made.tools.values():
        spec = msgspec.convert(tool, ToolSpec)
        assert spec.rest is not None
        # A table has no null in it, and its texts are such as a file may hold.
        assert b":null" not in msgspec.json.encode(tool)
