"""What the dearest schemas that `compile_check` lets pass cost, in lines of Python that run: the same everywhere."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Protocol

import pytest

from tooldispatchd.catalog.forms.form import FORMS, NOT_DESCRIBED, render, render_open
from tooldispatchd.catalog.forms.rendered import MAX_PATH, Rendered, Schema, pointer
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.schemas import bound_schema

# Some 35 ns each where nothing counts them: ten milliseconds.
MAX_STEPS = 300_000
# Those that do more than to pass the schema on; `openai_responses` has what `openai` has.
WORKING = ["anthropic", "google", "openai"]


class TraceFunction(Protocol):
    """What `sys.settrace` takes."""

    def __call__(self, frame: FrameType, event: str, argument: object, /) -> "TraceFunction": ...


def lines_of(show: Callable[[str, Offered, str], object], form: str, schema: Schema) -> int:
    """How many lines run to show a tool, one that is repeated counted as often."""
    shown = tool(schema)
    lines = 0

    def count(_frame: FrameType, event: str, _argument: object) -> TraceFunction:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        show(form, shown, "t")
    finally:
        sys.settrace(before)
    return lines


def tool(schema: Schema) -> Offered:
    return Offered(name="t", title="T", description="A tool.", input_schema=schema, output_schema=schema)


def record(properties: dict[str, object], **keywords: object) -> Schema:
    return {"type": "object", "properties": properties, **keywords}


def referring(times: int, target: object) -> Schema:
    return {**record({f"a{n}": {"$ref": "#/$defs/d"} for n in range(times)}), "$defs": {"d": target}}


def levels(count: int, width: int, leaf: Schema, keyword: str) -> Schema:
    """Each level refers to the next as often as it is wide."""
    defs: Schema = {f"d{count}": leaf}
    for level in range(count):
        inner: list[object] = [{"$ref": f"#/$defs/d{level + 1}"} for _ in range(width)]
        defs[f"d{level}"] = {
            keyword: {f"x{place}": part for place, part in enumerate(inner)} if keyword == "properties" else inner
        }
    return {**record({"a": {"$ref": "#/$defs/d0"}}), "$defs": defs}


def nested(count: int, leaf: Schema, wrap: Callable[[Schema], Schema]) -> Schema:
    for _ in range(count):
        leaf = wrap(leaf)
    return leaf


def many(count: int, **schema: object) -> Schema:
    return record({f"p{n}": dict(schema) for n in range(count)})


ANY = ["string", "number", "object", "array", "null", "boolean"]
HOSTILE: dict[str, Schema] = {
    "alternatives of a property each": {"type": "object", "anyOf": [many(1, n=n) for n in range(3_000)]},
    "alternatives of other properties": {
        "type": "object",
        "anyOf": [record({f"p{n}": {}}) for n in range(1_000)],
    },
    "alternatives with rests": {
        "type": "object",
        "anyOf": [record({f"p{n}": {}}, additionalProperties={"maxLength": n}) for n in range(300)],
    },
    "alternatives beside properties": {
        "type": "object",
        "anyOf": [{**many(240), "anyOf": [record({f"q{n}": {}}) for n in range(240)]}],
    },
    "closed alternatives": {
        "type": "object",
        "anyOf": [record({f"p{n}": {}}, required=[f"p{n}"], additionalProperties=False) for n in range(330)],
    },
    "alternatives that require much": {"type": "object", "anyOf": [{"required": [f"p{n}" for n in range(44)]}] * 44},
    "members": {"type": "object", "allOf": [record({f"p{n}": {}}) for n in range(330)]},
    "members of arrays": record({"a": {"allOf": [nested(12, {}, lambda inner: {"items": inner})] * 70}}),
    "values": record({"a": {"enum": list(range(10_000))}}),
    "values in values": record({"a": {"enum": [[[[n]]] for n in range(900)]}}),
    "values of all types": many(200, enum=[1, "a", [1], None, {}, 1.5, True]),
    "5,000 properties": many(5_000, type="string"),
    "20,000 properties": many(20_000),
    "60,000 alternatives": record({"a": {"anyOf": [{}] * 60_000}}),
    "closed properties": record({f"p{n}": many(48) for n in range(100)}, additionalProperties=False),
    "properties of all types": many(990, type=ANY),
    "arrays of arrays": many(333, type="array", items={"type": "array", "items": {"type": ["array", "object"]}}),
    "titled properties": many(900, title="anything"),
    "long descriptions": many(4, description="x" * 60_000),
    "long names": record(
        {"n" * 3_000: nested(28, many(900, format="uri", **{"not": {}}), lambda i: record({"n" * 3_000: i}))}
    ),
    "references to many values": referring(900, {"enum": list(range(40_000))}),
    "references to a large default": referring(900, {"default": list(range(40_000))}),
    "references to defaults in defaults": referring(
        900, nested(25, {"default": [1] * 40_000}, lambda i: {"default": [i]})
    ),
    "references to a list of types": referring(900, {"type": ["string"] * 20_000}),
    "references to many alternatives": referring(900, {"anyOf": [{}] * 20_000, "oneOf": [{}] * 20_000}),
    "references to many names": referring(900, {"required": [str(n) for n in range(25_000)]}),
    "references to many properties": referring(900, many(10_000)),
    "a bomb of properties": levels(30, 10, {"type": "string"}, "properties"),
    "a bomb of alternatives": levels(30, 10, {"type": "string"}, "anyOf"),
    "a bomb of members": levels(30, 10, many(50), "allOf"),
    "chains of references": {
        **record({f"a{n}": {"$ref": "#/$defs/c0"} for n in range(60)}),
        "$defs": {f"c{n}": {"$ref": f"#/$defs/c{n + 1}"} for n in range(30)},
    },
    "long references": record({f"a{n}": {"$ref": "#/$defs/" + "%41/" * 60 + str(n)} for n in range(700)}),
    "itself": record({f"a{n}": {"$ref": "#"} for n in range(200)}),
}


@pytest.mark.parametrize("form", WORKING)
@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_schema_costs_no_more_than_the_allowance(form: str, schema: Schema) -> None:
    bound_schema(schema)
    assert lines_of(render, form, schema) < MAX_STEPS


@pytest.mark.parametrize("form", WORKING)
def test_joining_alternatives_costs_as_much_as_there_are(form: str) -> None:
    few, more = (
        lines_of(render, form, {"type": "object", "anyOf": [record({f"p{n}": {}}) for n in range(count)]})
        for count in (40, 160)
    )
    assert more < 6 * few


@pytest.mark.parametrize("form", ["anthropic", "openai"])
def test_alternatives_are_joined_in_their_order(form: str) -> None:
    schema: Schema = {
        "type": "object",
        "anyOf": [
            record({"a": {"type": "string"}}, additionalProperties={"type": "null"}, required=["a", "b"]),
            record(
                {"b": {"type": "integer"}, "a": {"type": "number"}}, additionalProperties=False, required=["b", "a"]
            ),
            record({"b": {"type": "boolean"}}, additionalProperties={"type": "null"}, required=["b"]),
        ],
    }
    entry = render(form, tool(schema), "t").entry
    shown = entry["input_schema"] if form == "anthropic" else entry["function"]["parameters"]  # type: ignore[index]  # as rendered
    assert shown["properties"] == {  # type: ignore[index]  # as rendered
        "a": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
        "b": {"anyOf": [{"type": "null"}, {"type": "integer"}, {"type": "boolean"}]},
    }
    assert shown["required"] == ["b"]  # type: ignore[index]  # as rendered


OPEN: dict[str, dict[str, object]] = {
    "plain": {
        "name": "n",
        "title": "T",
        "description": "A tool.",
        "input_schema": {"type": "object", "properties": {}},
    },
    "text": {
        "name": "n",
        "title": "T",
        "description": "A tool.",
        "input_schema": {"type": "object", "properties": {}},
    },
    "anthropic": {"name": "n", "description": "A tool.", "input_schema": {"type": "object", "properties": {}}},
    "openai": {
        "type": "function",
        "function": {
            "name": "n",
            "description": "A tool.",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        },
    },
    "openai_responses": {
        "type": "function",
        "name": "n",
        "description": "A tool.",
        "parameters": {"type": "object", "properties": {}},
        "strict": False,
    },
    "google": {"name": "n", "description": "A tool."},
    "mcp": {"name": "n", "title": "T", "description": "A tool.", "inputSchema": {"type": "object", "properties": {}}},
}


@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_tool_may_be_shown_with_its_input_open(form: str) -> None:
    assert render_open(form, tool(many(10, type="string")), "n") == Rendered(OPEN[form], (NOT_DESCRIBED,))


@pytest.mark.parametrize("form", sorted(FORMS))
def test_showing_an_input_open_costs_the_same_for_every_tool(form: str) -> None:
    small, large = (lines_of(render_open, form, schema) for schema in (many(0), many(5_000)))
    assert small == large < 300


def test_the_pointer_to_a_place_with_long_names_is_cut() -> None:
    assert pointer(("~" * 5_000, "a")) == "/" + ("~0" * MAX_PATH)[: MAX_PATH - 2] + "…"
    assert pointer(("a/b", "c")) == "/a~1b/c"
