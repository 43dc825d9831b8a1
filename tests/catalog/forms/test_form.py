"""Every form, on the same tools: what providers publish is kept, and nothing that a tool takes is refused."""

import copy
import json

import jsonschema
import jsonschema_rs
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mcp.types import Tool

from tests.catalog.forms.constraints import ENTRIES, OPENAI_STRICT, Schema, parts, read_back
from tests.catalog.forms.random_schemas import OBJECTS, soup
from tests.catalog.random_types import TYPES, declarations, values_of
from tests.examples import examples
from tooldispatchd.catalog.forms.form import CUTS, FORMS, render
from tooldispatchd.catalog.forms.merging import types_of
from tooldispatchd.catalog.forms.propertynames import PROPERTY_NAMES, shown_properties
from tooldispatchd.catalog.forms.rendered import MAX_NOTE, MAX_NOTES, Rendered
from tooldispatchd.catalog.forms.rewriting import MAX_PARTS
from tooldispatchd.catalog.meanings import to_schema
from tooldispatchd.catalog.offered import Offered, show_schema
from tooldispatchd.catalog.schemakeywords import subschemas
from tooldispatchd.catalog.schemas import SchemaError, compile_check

# Python takes a second for a schema of 2,500 properties.
SCHEMAS = jsonschema_rs.Draft202012Validator(
    {"$ref": "https://json-schema.org/draft/2020-12/schema"}, validate_formats=True
)
REWRITING = sorted(FORMS - {"plain", "text", "mcp"})


def tool(schema: Schema) -> Offered:
    return Offered(name="t", description="Does it.", input_schema=schema)


def shown_by(form: str, entry: dict[str, object]) -> Schema:
    """The schema in an entry, as JSON Schema."""
    if form == "openai":
        entry = entry["function"]  # type: ignore[assignment]
    key = {"anthropic": "input_schema", "plain": "input_schema", "text": "input_schema", "mcp": "inputSchema"}.get(
        form, "parameters"
    )
    schema = entry.get(key, {"type": "object"})
    assert isinstance(schema, dict)
    return read_back(schema) if form == "google" and key in entry else schema


def check_constraints(form: str, schema: Schema) -> None:
    for cut in CUTS:
        check_rendered(form, cut(form, tool(schema), "t"))


def check_rendered(form: str, rendered: Rendered) -> None:
    jsonschema.Draft202012Validator(ENTRIES[form]).validate(rendered.entry)
    assert len(rendered.notes) <= MAX_NOTES + 1
    assert all(0 < len(note) <= MAX_NOTE for note in rendered.notes)
    shown = shown_by(form, rendered.entry)
    if form in {"anthropic", "openai", "openai_responses", "mcp"}:
        SCHEMAS.validate(shown)
    if form == "anthropic":
        assert not any("$ref" in part for part in parts(shown) if isinstance(part, dict))
    if form == "mcp":
        Tool.model_validate(rendered.entry)
    if form.startswith("openai"):
        strict = (rendered.entry.get("function") or rendered.entry)["strict"]  # type: ignore[index]
        assert not strict or jsonschema.Draft202012Validator(OPENAI_STRICT).is_valid(shown)
        arrays = [part for part in subschemas(shown) if "array" in types_of(part)]
        assert all(isinstance(part.get("items"), dict) for part in arrays)


def check_soundness(form: str, schema: Schema, value: object) -> None:
    if form in PROPERTY_NAMES and isinstance(value, dict):
        # As a model that was shown it writes it.
        shown_as = shown_properties(schema)
        is_taken = PROPERTY_NAMES[form].fullmatch
        value = {name if is_taken(name) else shown_as.get(name, name): each for name, each in value.items()}
    for cut in CUTS:
        shown = shown_by(form, cut(form, tool(schema), "t").entry)
        assert compile_check(shown).is_valid(value), (schema, shown, value)


@given(TYPES, declarations())
def test_every_type_is_shown_within_what_the_providers_publish(type_: object, declared: dict[str, object]) -> None:
    schema, _ = show_schema(to_schema(type_, declared))  # type: ignore[arg-type]
    for form in sorted(FORMS):
        check_constraints(form, schema)


@given(st.data(), TYPES, declarations())
def test_every_value_of_a_type_is_admitted_as_it_is_shown(
    data: st.DataObject, type_: object, declared: dict[str, object]
) -> None:
    values = values_of(type_, declared)  # type: ignore[arg-type]
    assume(not values.is_empty)
    value = data.draw(values)
    schema, wrapped = show_schema(to_schema(type_, declared))  # type: ignore[arg-type]
    for form in sorted(FORMS):
        check_soundness(form, schema, {"input": value} if wrapped else value)


@settings(max_examples=examples(150))
@given(soup())
def test_any_schema_is_shown_within_what_the_providers_publish(schema: Schema) -> None:
    assume(compiles(schema))
    for form in REWRITING:
        check_constraints(form, schema)


@settings(max_examples=examples(150))
@given(soup(), st.lists(OBJECTS, min_size=8, max_size=8))
def test_every_object_that_a_schema_admits_is_admitted_as_it_is_shown(schema: Schema, values: list[object]) -> None:
    assume(compiles(schema))
    check = compile_check(schema)
    for value in [{}, *values]:
        if check.is_valid(value):
            for form in sorted(FORMS):
                check_soundness(form, schema, value)


@given(soup())
def test_rendering_is_the_same_each_time_and_leaves_the_schema_as_it_was(schema: Schema) -> None:
    assume(compiles(schema))
    before = copy.deepcopy(schema)
    for form in sorted(FORMS):
        first = render(form, tool(schema), "t")
        second = render(form, tool(copy.deepcopy(schema)), "t")
        assert first == second
        assert json.dumps(first.entry) == json.dumps(second.entry)
    assert schema == before


def compiles(schema: Schema) -> bool:
    try:
        compile_check(schema)
    except SchemaError:
        return False
    return True


def chain(length: int) -> Schema:
    """Definitions that double: written out, 2 to the power of `length`."""
    doubled: Schema = {
        f"D{n}": {"type": "array", "prefixItems": [{"$ref": f"#/$defs/D{n + 1}"}] * 2} for n in range(length)
    }
    return {"$ref": "#/$defs/D0", "$defs": {**doubled, f"D{length}": {"type": "string", "description": "x" * 500}}}


def grammar(kinds: int) -> Schema:
    """Kinds of nodes, each with a field of each kind."""
    fields = {f"k{n}": {"$ref": f"#/$defs/K{n}"} for n in range(kinds)}
    defs = {f"K{n}": {"type": "object", "properties": fields, "additionalProperties": False} for n in range(kinds)}
    return {"type": "object", "properties": fields, "$defs": defs}


def nested(levels: int) -> Schema:
    schema: Schema = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


NASTY: dict[str, Schema] = {
    "nothing": {},
    "an object": {"type": "object"},
    "no properties": {"type": "object", "properties": {}, "additionalProperties": False},
    "a reference bomb": {"type": "object", "properties": {"a": chain(30)}, "$defs": chain(30)["$defs"]},
    "a grammar": grammar(25),
    "a loop of references": {"properties": {"a": {"$ref": "#/properties/a"}}},
    "itself": {"$ref": "#"},
    "a cycle through allOf": {
        "type": "object",
        "$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}] * 3}},
        "$ref": "#/$defs/A",
    },
    "a long chain": {
        "type": "object",
        "$defs": {f"D{n}": {"$ref": f"#/$defs/D{n + 1}"} for n in range(900)},
        "properties": {"a": {"$ref": "#/$defs/D0"}},
    },
    "a deep one": nested(30),
    "a huge union": {"type": "object", "properties": {"a": {"oneOf": [{"const": n} for n in range(2_500)]}}},
    "a huge union at the root": {"anyOf": [{"properties": {f"p{n}": {"type": "string"}}} for n in range(1_500)]},
    "a huge enum": {"type": "object", "properties": {"a": {"enum": [f"value {n}" for n in range(5_000)]}}},
    "many properties": {"type": "object", "properties": {f"p{n}": {} for n in range(2_500)}},
    "many required properties": {
        "type": "object",
        "properties": {f"p {n}": {"type": "integer"} for n in range(900)},
        "required": [f"p {n}" for n in range(900)],
        "additionalProperties": False,
    },
    "long texts": {
        "type": "object",
        "properties": {f"p{n}": {"$ref": "#/$defs/A"} for n in range(300)},
        "$defs": {"A": {"description": "x" * 100_000, "type": "array", "maxItems": 3}},
    },
    "false everywhere": {
        "type": "object",
        "properties": {"a": False},
        "additionalProperties": False,
        "required": ["a"],
    },
    "an array of anything": {"type": "object", "properties": {"a": {"type": "array"}, "b": {"items": {"items": {}}}}},
    "an array of two types": {"type": "object", "properties": {"a": {"type": ["string", "array"]}}},
    "an object in an array": {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}},
    "an empty string": {"type": "object", "properties": {"a": {"enum": ["", "b"]}, "b": {"const": None}}},
    "an old tuple": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {"type": "array", "items": [{"type": "string"}], "additionalItems": False}},
    },
    "names that no provider takes": {"type": "object", "properties": {"a b": {}, "x" * 80: {}, "é": {}, "": {}}},
}


@pytest.mark.parametrize("form", REWRITING)
@pytest.mark.parametrize("schema", NASTY.values(), ids=NASTY.keys())
def test_a_nasty_schema_is_shown_within_what_the_providers_publish(form: str, schema: Schema) -> None:
    check_constraints(form, schema)


@pytest.mark.parametrize("form", REWRITING)
@pytest.mark.parametrize("name", ["a reference bomb", "a grammar", "a cycle through allOf", "long texts"])
def test_what_grows_without_end_is_shown_bounded(form: str, name: str) -> None:
    entry = render(form, tool(NASTY[name]), "t").entry
    assert sum(1 for _ in parts(entry)) < 5 * MAX_PARTS
    assert len(json.dumps(entry)) < 256 * 1024


@pytest.mark.parametrize("form", REWRITING)
def test_every_part_of_a_grammar_gets_its_share(form: str) -> None:
    shown = shown_by(form, render(form, tool(grammar(18)), "t").entry)
    properties = shown["properties"]
    assert isinstance(properties, dict)
    assert all("properties" in properties[f"k{n}"] for n in range(18))


@pytest.mark.parametrize("form", ["anthropic", "openai_responses", "google"])
def test_a_name_that_no_form_takes_is_told_before_the_description(form: str) -> None:
    offered = Offered(name="docs:查询\n", description="Does it.", input_schema={"type": "object"})
    assert render(form, offered, "docs_x").entry["description"] == "查询 : Does it."


def test_a_form_that_there_is_not_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        render("yaml", tool({}), "t")
