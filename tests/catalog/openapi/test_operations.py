"""The texts of a tool: short in lists, whole on demand."""

from typing import Any

import pytest

from tests.catalog.openapi.described import adapted, document


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


def test_a_path_speaks_for_its_operations() -> None:
    (tool,) = adapted(document({"/x": {"summary": "All of x.", "get": {}}})).tools.values()
    assert tool["description"] == "All of x."
