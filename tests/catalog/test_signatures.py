import msgspec
import pytest

from tooldispatchd.catalog.forms.form import FORMS, render
from tooldispatchd.catalog.fromschema import structure_of
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.relations import STATED_INPUT, STATED_OUTPUT
from tooldispatchd.catalog.signatures import stated_misfit
from tooldispatchd.catalog.types import Type, parse_type, show

HIT = {
    "title": "Hit",
    "type": "object",
    "properties": {"title": {"type": "string"}, "score": {"type": "number", "default": 1.0}},
    "required": ["title"],
}
INPUT: dict[str, object] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "default": 10},
        "kind": {"$ref": "#/$defs/Kind", "default": "a"},
    },
    "required": ["text"],
    "additionalProperties": False,
    "$defs": {"Kind": {"enum": ["a", "b"]}},
}
HITS: dict[str, object] = {"type": "array", "items": {"$ref": "#/$defs/Hit"}, "$defs": {"Hit": HIT}}
TREE: dict[str, object] = {
    "$ref": "#/$defs/Tree",
    "$defs": {
        "Tree": {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/Tree"}, "right": {"$ref": "#/$defs/Tree"}},
            "required": ["left", "right"],
        }
    },
}


def shown(schema: dict[str, object]) -> str:
    type_, _ = structure_of(schema)
    return show(type_)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({}, "json"),
        ({"type": "integer", "minimum": 3}, "int"),
        ({"type": "string", "format": "date-time"}, "string"),
        ({"type": "string", "contentEncoding": "base64"}, "string"),
        ({"enum": ["a", "b"]}, "string"),
        ({"enum": ["a", 1, None]}, "string | int | unit"),
        ({"const": True}, "bool"),
        ({"type": ["integer", "null"]}, "int | unit"),
        ({"anyOf": [{"type": "string"}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}]}, "string | int | unit"),
        ({"anyOf": [{"type": "string"}, {}]}, "json"),
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "[int]"),
        ({"type": "array"}, "[json]"),
        (
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "items": False},
            "(int, string)",
        ),
        ({"type": "array", "prefixItems": [], "items": False}, "json"),
        ({"type": "object"}, "json"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "json"),
        ({"type": "object", "properties": {}, "additionalProperties": False}, "{}"),
        ({"type": "object", "properties": {"no name": {}}}, "json"),
        (HIT, "{title: string, score?: number}"),
        ({"$ref": "https://elsewhere.example/"}, "json"),
        ({"not": {"type": "string"}}, "json"),
    ],
)
def test_a_schema_is_near_to_a_type_of_its_structure(schema: dict[str, object], text: str) -> None:
    assert shown(schema) == text


def test_a_definition_is_a_name_that_nobody_declared() -> None:
    type_, names = structure_of(HITS)

    assert show(type_) == "[:Hit]"
    assert {name: show(each) for name, each in names.items()} == {":Hit": "{title: string, score?: number}"}


def test_a_definition_of_itself_is_any_json() -> None:
    _, names = structure_of({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}})

    assert show(names[":A"]) == "json"


@pytest.mark.parametrize(
    "text",
    [
        "{text: string, limit?: int, kind?: string}",
        "{text: string}",
        "{text: string, limit: int}",
        "{text: json}",
        "Query",
        "json",
    ],
)
def test_a_stated_input_may_say_less_and_ask_for_more(text: str) -> None:
    assert (
        stated_misfit(parse_type(text), INPUT, STATED_INPUT, {"Query": parse_type("{text: string, limit?: int}")})
        is None
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{text: int}", "field text: int is not string"),
        ("{text: string, more: int}", "field more: there is none in {text: string, limit?: int, kind?: Kind}"),
        ("{limit?: int}", "field text: there is none in {limit?: int}"),
        ("{text?: string}", "field text: optional is not required"),
        ("string", "string is not {text: string, limit?: int, kind?: Kind}"),
    ],
)
def test_a_stated_input_that_the_function_does_not_take_is_told(text: str, why: str) -> None:
    assert stated_misfit(parse_type(text), INPUT, STATED_INPUT, {}) == why


@pytest.mark.parametrize("text", ["[{title: string, score: number}]", "[{title: string, score?: number}]", "[json]"])
def test_a_stated_result_may_require_what_has_a_default(text: str) -> None:
    assert stated_misfit(parse_type(text), HITS, STATED_OUTPUT, {}) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[{title: string}]", "items: field score: there is none in {title: string}"),
        ("[string]", "items: string is not {title: string, score?: number}"),
        ("int", "int is not [Hit]"),
        ("[(Hit, int)]", "items: (Hit, int) is not {title: string, score?: number}"),
    ],
)
def test_a_stated_result_that_the_function_does_not_give_is_told(text: str, why: str) -> None:
    assert stated_misfit(parse_type(text), HITS, STATED_OUTPUT, {"Hit": parse_type("int")}) == why


def test_a_stated_schema_is_compared_by_its_structure() -> None:
    stated: dict[str, object] = {
        "type": "object",
        "properties": {"text": {"$ref": "#/$defs/Kind"}},
        "required": ["text"],
        "$defs": {"Kind": {"type": "string", "minLength": 1}},
    }

    assert stated_misfit(stated, INPUT, STATED_INPUT, {}) is None
    assert stated_misfit({**stated, "required": []}, INPUT, STATED_INPUT, {}) == "field text: optional is not required"


def test_a_type_that_holds_itself_twice_is_compared_in_no_time() -> None:
    declared: dict[str, Type] = {"Twin": parse_type("{left: Twin, right: Twin}")}

    assert stated_misfit(parse_type("Twin"), TREE, STATED_OUTPUT, declared) is None
    assert stated_misfit(TREE, TREE, STATED_OUTPUT, {}) is None


@pytest.mark.parametrize("form", sorted(FORMS))
def test_what_stands_in_definitions_is_shown_in_every_form(form: str) -> None:
    tool = Offered(name="search", input_schema=INPUT, output_schema=HITS)

    rendered = render(form, tool, "search")

    shown = msgspec.json.encode(rendered.entry).decode()
    assert '"enum":["a","b"]' in shown
    assert rendered.notes == () or form == "google"
