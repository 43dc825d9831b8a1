"""The texts of a tool: short in lists, whole on demand."""

from typing import Any

import pytest

from tests.catalog.openapi.described import adapted, document
from tooldispatchd.catalog.openapi.adapter import LeftOut


@pytest.mark.parametrize(
    ("operation", "texts"),
    [
        ({}, {"description": "GET /x"}),
        ({"summary": "List."}, {"description": "List."}),
        ({"summary": "List.", "description": "Lists all."}, {"description": "List.", "doc": "Lists all."}),
        ({"description": "Lists all.\n\nSlowly."}, {"description": "Lists all.", "doc": "Lists all.\n\nSlowly."}),
        ({"description": "Lists\n all."}, {"description": "Lists all."}),
        ({"summary": "a" * 300}, {"description": "a" * 199 + "…"}),
        ({"summary": 5, "description": ["x"]}, {"description": "GET /x"}),
    ],
)
def test_the_first_line_is_the_description_and_the_whole_text_the_doc(
    operation: dict[str, Any], texts: dict[str, str]
) -> None:
    (tool,) = adapted(document({"/x": {"get": operation}})).tools.values()
    assert {key: tool[key] for key in ("description", "doc") if key in tool} == texts


@pytest.mark.parametrize(
    ("item", "operation", "why"),
    [
        ([{"get": {}}], "/x", "it is no object with operations"),
        ("get", "/x", "it is no object with operations"),
        ({"get": []}, "GET /x", "it is no operation at a path"),
        ({"get": {"parameters": {"name": "a", "in": "query"}}}, "GET /x", "its parameters are no list"),
        ({"parameters": {"a": 1}, "get": {}}, "GET /x", "its parameters are no list"),
    ],
)
def test_what_is_no_operation_is_left_out_with_a_reason(item: Any, operation: str, why: str) -> None:
    assert adapted(document({"/x": item})).left_out == (LeftOut(operation, why),)


def test_what_is_empty_is_passed_over() -> None:
    made = adapted(document({"/x": None, "/y": {"parameters": None, "get": {"parameters": None}}}))
    assert (list(made.tools), made.left_out) == (["t_get_y"], ())


def test_a_path_speaks_for_its_operations() -> None:
    (tool,) = adapted(document({"/x": {"summary": "All of x.", "get": {}}})).tools.values()
    assert tool["description"] == "All of x."
