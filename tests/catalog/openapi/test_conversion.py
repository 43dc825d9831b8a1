"""Schemas of OpenAPI as JSON Schemas: keyword by keyword, with references, and within bounds."""

from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.openapi.apidocument import ApiDocument, UnfitError
from tooldispatchd.catalog.openapi.conversion import MAX_INPUT_BYTES, Conversion, short

Schema = dict[str, Any]


def conversion(schemas: Schema | None = None, *, is_old: bool = False) -> Conversion:
    return Conversion(ApiDocument(msgspec.json.encode({"components": {"schemas": schemas or {}}})), is_old=is_old)


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"nullable": True, "x": 1}, {}),
        (
            {"type": "string", "enum": ["a", None], "nullable": True},
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
        ),
        (
            {"type": "string", "enum": ["a"], "x-nullable": True, "description": "d"},
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}], "description": "d"},
        ),
        (
            {"allOf": [{"type": "string"}], "nullable": True},
            {"anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]},
        ),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, {"type": "number", "exclusiveMinimum": 1}),
        ({"type": "number", "maximum": 1, "exclusiveMaximum": False}, {"type": "number", "maximum": 1}),
        ({"type": "string", "example": "abc"}, {"type": "string", "examples": ["abc"]}),
        ({"type": "string", "example": "a" * 200}, {"type": "string"}),
        ({"type": "file"}, {"type": "string"}),
    ],
)
def test_what_3_0_says_in_its_own_way(old: Schema, new: Schema) -> None:
    assert conversion(is_old=True).convert(old, set()) == new


@pytest.mark.parametrize(
    ("written", "made"),
    [
        (True, {}),
        (False, {"not": {}}),
        (
            {"type": ["string", "null"], "enum": ["a", None]},
            {"anyOf": [{"type": ["string", "null"], "enum": ["a"]}, {"type": "null"}]},
        ),
        ({"const": 5}, {"enum": [5]}),
        ({"const": None}, {"type": "null"}),
        ({"type": "string", "enum": ["a", 1, True]}, {"type": "string", "enum": ["a"]}),
        ({"type": "integer", "enum": ["1", "2"]}, {"type": "integer"}),
        ({"type": "boolean", "enum": [True, 1]}, {"type": "boolean", "enum": [True]}),
        ({"type": "any"}, {}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"required": True, "type": "object"}, {"type": "object"}),
        (
            {"type": "object", "properties": {"a": {"readOnly": True}, "b": {}}, "required": ["a", "b", "b", 1, "c"]},
            {"type": "object", "properties": {"b": {}}, "required": ["b", "c"]},
        ),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        (
            {"oneOf": [{"type": "string"}], "anyOf": [{"type": "integer"}]},
            {"allOf": [{"anyOf": [{"type": "string"}]}, {"anyOf": [{"type": "integer"}]}]},
        ),
        ({"minLength": 1.0, "maxLength": -1, "minItems": "3", "pattern": 5, "format": 1}, {"minLength": 1}),
        ({"multipleOf": 0}, {}),
        ({"type": "string", "pattern": "^(?!a).*$"}, {"type": "string"}),
        ({"type": "string", "pattern": "^a+$"}, {"type": "string", "pattern": "^a+$"}),
        ({"type": "array", "items": [{}]}, {"type": "array"}),
        ({"default": None, "title": "T", "xml": {}, "discriminator": {}, "x-a": 1}, {}),
        ({"default": 5, "deprecated": True, "examples": ["a", "b"]}, {"default": 5, "examples": ["a"]}),
        ({"additionalProperties": {"type": "integer"}}, {"additionalProperties": {"type": "integer"}}),
        ({"prefixItems": [{"type": "string"}], "items": False}, {"prefixItems": [{"type": "string"}], "items": False}),
        (
            {"dependentRequired": {"a": ["b", 1]}, "patternProperties": {"^x": {}}},
            {"dependentRequired": {"a": ["b"]}, "patternProperties": {"^x": {}}},
        ),
        ({"description": " two\n lines "}, {"description": "two lines"}),
    ],
)
def test_each_keyword_stands_where_its_value_is_what_it_should_be(written: Any, made: Schema) -> None:
    assert conversion().convert(written, set()) == made


def test_what_has_no_parts_stands_in_the_place_of_its_reference() -> None:
    uses: set[str] = set()
    assert conversion({"Id": {"type": "string"}}).convert({"type": "array", "items": ref("Id")}, uses) == {
        "type": "array",
        "items": {"type": "string"},
    }
    assert uses == set()


def test_a_schema_that_refers_to_itself_is_a_definition() -> None:
    made = conversion({"Tree": {"type": "object", "properties": {"down": {"type": "array", "items": ref("Tree")}}}})
    uses: set[str] = set()
    root: Schema = {"type": "object", "properties": {"tree": made.convert(ref("Tree"), uses)}}
    assert made.whole(root, uses) == (
        {
            "type": "object",
            "properties": {"tree": {"$ref": "#/$defs/Tree"}},
            "$defs": {
                "Tree": {
                    "type": "object",
                    "properties": {"down": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
                }
            },
        },
        False,
    )


def test_a_definition_may_stand_in_place_with_a_description_of_its_own() -> None:
    made = conversion({"A": {"type": "object", "properties": {"b": ref("B")}}, "B": {"type": "array", "items": {}}})
    uses: set[str] = set()
    assert made.in_place({**ref("A"), "description": "mine"}, uses) == {
        "type": "object",
        "properties": {"b": {"$ref": "#/$defs/B"}},
        "description": "mine",
    }
    assert uses == {"B"}


def test_beside_a_reference_all_counts_but_in_3_0() -> None:
    schemas = {"A": {"type": "array", "items": {}}}
    written = {**ref("A"), "maxItems": 3, "description": "d"}
    assert conversion(schemas).convert(written, set()) == {"$ref": "#/$defs/A", "maxItems": 3, "description": "d"}
    assert conversion(schemas, is_old=True).convert(written, set()) == {"$ref": "#/$defs/A", "description": "d"}


def test_a_property_is_read_only_wherever_that_is_said() -> None:
    schemas = {"A": {"type": "object", "readOnly": True}, "B": {"allOf": [ref("A"), {"description": "d"}]}}
    parts = {"own": {"readOnly": True}, "a": ref("A"), "b": ref("B"), "c": {"allOf": [{"readOnly": True}]}, "kept": {}}
    made = conversion(schemas).convert({"type": "object", "properties": parts, "required": ["a", "kept"]}, set())
    assert made == {"type": "object", "properties": {"kept": {}}, "required": ["kept"]}


def test_two_definitions_of_one_name_have_two() -> None:
    content = {"components": {"schemas": {"A": {"items": {}}}, "responses": {"A": {"allOf": []}}}}
    made = Conversion(ApiDocument(msgspec.json.encode(content)), is_old=False)
    uses: set[str] = set()
    made.convert({"allOf": [ref("A"), {"$ref": "#/components/responses/A"}]}, uses)
    assert uses == {"A", "A_2"}


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("#/components/schemas/No", "its reference #/components/schemas/No leads nowhere"),
        ("https://x.example/a.json#/A", "it refers to https://x.example/a.json, which is no file beside the document"),
        ("#anchor", "its reference #anchor is no pointer into the document"),
        ("#/components/schemas/Loop", "its reference #/components/schemas/Loop leads back to itself"),
        (
            "#/components/schemas/Far0",
            "its reference #/components/schemas/Far16 stands behind 16 others, each of which leads to the next",
        ),
    ],
)
def test_a_reference_that_leads_nowhere_is_unfit_wherever_it_stands(reference: str, why: str) -> None:
    far = {f"Far{number}": ref(f"Far{number + 1}") for number in range(20)}
    schemas = {"Loop": ref("Loop"), **far, "A": {"items": {"items": {"$ref": reference}}}}
    with pytest.raises(UnfitError) as direct:
        conversion(schemas).convert({"$ref": reference}, set())
    assert str(direct.value) == why
    made, uses = conversion(schemas), set[str]()
    made.convert(ref("A"), uses)
    with pytest.raises(UnfitError) as within:
        made.whole({}, uses)
    assert str(within.value) == why


def test_a_reference_may_lead_into_a_file_beside_the_document() -> None:
    files = {"b.json": msgspec.json.encode({"x": {"type": "integer"}})}
    made = Conversion(ApiDocument(b"{}", files), is_old=False)
    assert made.convert({"$ref": "b.json#/x"}, set()) == {"type": "integer"}


def test_equal_parts_are_one_object() -> None:
    made = conversion()
    one = made.convert({"type": "integer", "description": "A page."}, set())
    assert made.convert({"description": "A page.", "type": "integer"}, set()) is one


def test_what_is_nested_too_deep_is_any_json() -> None:
    schema: Schema = {"type": "string"}
    for _ in range(200):
        schema = {"type": "array", "items": schema}
    made: Any = conversion().convert(schema, set())
    depth = 0
    while "items" in made:
        made, depth = made["items"], depth + 1
    assert depth == 24
    assert made == {}


def test_what_there_is_no_room_for_is_said_by_its_kind_alone() -> None:
    large = {
        "type": "object",
        "description": "Large.",
        "properties": {f"p{n}": {"type": "string"} for n in range(1_500)},
    }
    made = conversion({"Large": large, "Small": {"type": "object", "properties": {"large": ref("Large")}}})
    uses: set[str] = set()
    made.convert(ref("Small"), uses)
    whole, is_cut = made.whole({"type": "object"}, uses)
    assert is_cut
    assert whole == {
        "type": "object",
        "$defs": {
            "Small": {"type": "object", "properties": {"large": {"$ref": "#/$defs/Large"}}},
            "Large": {"type": "object", "description": "Large."},
        },
    }
    assert len(msgspec.json.encode(whole)) < MAX_INPUT_BYTES


def test_of_thousands_of_schemas_those_that_cannot_be_compiled_are_found() -> None:
    made = conversion()
    union = {"anyOf": [{"type": "object", "properties": {str(n): {}}} for n in range(600)]}
    roots: dict[str, Schema] = {f"t{n}": {"type": "object"} for n in range(50)}
    roots["bad"] = {"properties": {"x": union}}
    assert made.unusable(roots) == {
        "bad": "its input's schema cannot be used: "
        "the schema unfolds to too much: to more than 512 subschemas at one place"
    }


@pytest.mark.parametrize(
    ("text", "limit", "made"),
    [
        ("One. Two.", 20, "One. Two."),
        ("A first sentence. And a second one.", 30, "A first sentence."),
        ("Some words without an end", 15, "Some words…"),
        ("x" * 50, 10, "x" * 9 + "…"),
    ],
)
def test_a_long_text_ends_with_a_sentence_or_a_word(text: str, limit: int, made: str) -> None:
    assert short(text, limit) == made


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=3) | st.sampled_from(["string", "object"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("type", "properties", "items", "enum", "required", "allOf", "oneOf", "anyOf", "nullable", "not"),
                    *(
                        "minimum",
                        "exclusiveMinimum",
                        "minLength",
                        "pattern",
                        "additionalProperties",
                        "default",
                        "const",
                    ),
                    *("description", "prefixItems", "dependentRequired", "patternProperties", "$ref", "readOnly", "if"),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=30,
)


@given(schema=JSON, is_old=st.booleans())
def test_whatever_a_document_has_in_the_place_of_a_schema_can_be_compiled_or_is_unfit(
    schema: Any, is_old: bool
) -> None:
    made = conversion({"A": schema, "B": {"properties": {"x": ref("A")}}}, is_old=is_old)
    uses: set[str] = set()
    try:
        whole, _ = made.whole({"properties": {"b": made.convert(ref("B"), uses)}}, uses)
    except UnfitError:
        return
    jsonschema_rs.meta.validate(whole)
    assert made.unusable({"x": whole}) == {}
    # TOML has no null.
    assert not holds_null(whole)


def holds_null(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(holds_null, value.values() if isinstance(value, dict) else value))
    return value is None
