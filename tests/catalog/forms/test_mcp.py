import json

import pytest
from msgspec import Raw

from tooldispatchd.catalog.forms.form import render_mcp
from tooldispatchd.catalog.offered import Offered


def test_schemas_are_shown_as_they_are() -> None:
    schema: dict[str, object] = {"$ref": "#/$defs/A", "type": "object", "$defs": {"A": {"required": ["a"]}}}
    tool = Offered(name="t", title="T", description="Does it.", input_schema=schema, output_schema=schema)
    assert render_mcp(tool, "t").entry == {
        "name": "t",
        "title": "T",
        "description": "Does it.",
        "inputSchema": schema,
        "outputSchema": schema,
    }


def test_a_root_without_a_type_gets_one_and_an_output_that_is_no_object_is_left_out() -> None:
    tool = Offered(name="t", input_schema={}, output_schema={"type": "string"})
    assert render_mcp(tool, "t").entry == {"name": "t", "description": "", "inputSchema": {"type": "object"}}


def test_of_what_a_server_says_the_known_hints_are_passed_on() -> None:
    said = Raw(b'{"readOnlyHint": true, "destructiveHint": "no", "title": "A tool", "x": [1]}')
    tool = Offered(name="t", input_schema={"type": "object"}, annotations=said)
    assert render_mcp(tool, "t").entry["annotations"] == {"title": "A tool", "readOnlyHint": True}


@pytest.mark.parametrize("said", [b"null", b"[]", b"{}", b'{"title": 1}', b'{"title": "\xff"}', b"[" * 9_000])
def test_what_a_server_says_otherwise_is_left_out(said: bytes) -> None:
    tool = Offered(name="t", input_schema={"type": "object"}, annotations=Raw(said))
    assert "annotations" not in render_mcp(tool, "t").entry


@pytest.mark.parametrize("reference", ["#", "root", "urn:tool"])
def test_a_root_to_which_a_part_may_refer_gets_no_type_but_is_left_open(reference: str) -> None:
    tool = Offered(name="t", input_schema={"additionalProperties": {"$ref": reference}})
    shown = render_mcp(tool, "t")
    assert shown.entry["inputSchema"] == {"type": "object"}
    assert shown.notes == ("any object may stand at the root but is not described: it refers to itself, or is long",)


def test_icons_and_meta_are_shown_as_the_server_wrote_them() -> None:
    meta, icons = {"ui": {"resourceUri": "ui://clock"}}, [{"src": "data:,"}]
    said_meta, said_icons = Raw(json.dumps(meta).encode()), Raw(json.dumps(icons).encode())
    tool = Offered(name="t", input_schema={"type": "object"}, meta=said_meta, icons=said_icons)
    entry = render_mcp(tool, "t").entry
    assert (entry["_meta"], entry["icons"]) == (meta, icons)


@pytest.mark.parametrize("said", [b"1", b'"x"', b"null", b'["\xff"]'])
def test_meta_and_icons_of_another_type_are_left_out(said: bytes) -> None:
    tool = Offered(name="t", input_schema={"type": "object"}, meta=Raw(said), icons=Raw(said))
    assert not {"_meta", "icons"} & render_mcp(tool, "t").entry.keys()
