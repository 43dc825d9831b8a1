"""Schemas of foreign programs: what is repaired, what is left unchecked, and what makes one unusable."""

import json
from typing import Any, Final

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.foreignschemas import NoObjectError, read_foreign, read_own
from tooldispatchd.catalog.schemas import ExternalReferenceError, SchemaBoundError

STRING = {"type": "string"}
DRAFT_04 = "http://json-schema.org/draft-04/schema#"
NAMED: Final = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
DRAFT_07 = "http://json-schema.org/draft-07/schema#"
LOOK = "(?=a)"


def record(part: object, **more: object) -> dict[str, Any]:
    return {"type": "object", "properties": {"n": part}, **more}


def read(schema: object, *, is_input: bool = True) -> Any:
    return read_foreign(json.loads(json.dumps(schema)), is_input=is_input)[0]


# --- what has one meaning ---


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"type": "object", "properties": []}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": None, "required": None}, {"type": "object"}),
        (record(None), record({})),
        (record([]), record({})),
        (record("string"), record(STRING)),
        (record(["string", "null"]), record({"type": ["string", "null"]})),
        (record(STRING, additionalProperties="false"), record(STRING, additionalProperties=False)),
        (record({**STRING, "enum": None, "pattern": None, "const": None}), record(STRING)),
        (record({"items": None, "anyOf": None, "examples": None}), record({})),
        (record({"type": ["string", None]}), record({"type": ["string", "null"]})),
        (record({"type": "integer|null"}), record({"type": ["integer", "null"]})),
        (record({"type": "string?"}), record({"type": ["null", "string"]})),
        (record({"type": "STRING"}), record(STRING)),
        (record({"type": ["str", "int"]}), record({"type": ["string", "integer"]})),
        (record({"type": ["string", "string"]}), record(STRING)),
        (record({"type": "float"}), record({"type": "number"})),
        (record({"type": "any"}), record({})),
        (record({"type": ["any", "null"]}), record({})),
        (record({**STRING, "nullable": True}), record({"type": ["string", "null"], "nullable": True})),
        (record({"enum": ["a"], "nullable": True}), record({"enum": ["a", None], "nullable": True})),
        (
            record({"allOf": [STRING], "nullable": True}),
            record({"anyOf": [{"allOf": [STRING]}, {"type": "null"}], "nullable": True}),
        ),
        (
            record({"oneOf": [STRING], "nullable": True}),
            record({"oneOf": [STRING, {"type": "null"}], "nullable": True}),
        ),
        (record(STRING, required="n"), record(STRING, required=["n"])),
        (record(STRING, required={"n": True, "m": False}), record(STRING, required=["n"])),
        (record(STRING, required=["n", "n"]), record(STRING, required=["n"])),
        (record({**STRING, "required": True}), record(STRING, required=["n"])),
        (record({**STRING, "required": False}), record(STRING)),
        ({"properties": {"n": STRING, "required": ["n"]}}, record(STRING, required=["n"])),
        ({"properties": record(STRING, required=["n"])}, record(STRING, required=["n"])),
        ({"type": "object", "properties": [{"name": "n", **STRING}]}, record(STRING)),
        (record({"minLength": "1", "maximum": "1.5"}), record({"minLength": 1, "maximum": 1.5})),
        (record({"minLength": 2.0}), record({"minLength": 2})),
        (record({"uniqueItems": "true"}), record({"uniqueItems": True})),
        (
            record({"examples": "x", "title": 5, "description": ["a", "b"]}),
            record({"examples": ["x"], "title": "5", "description": "a\nb"}),
        ),
        (record({"allOf": STRING}), record({"allOf": [STRING]})),
        (record({"anyOf": [STRING, None]}), record({"anyOf": [STRING, {"type": "null"}]})),
        # Older drafts, with and without their name.
        (record({"minimum": 1, "exclusiveMinimum": True}), record({"exclusiveMinimum": 1})),
        (record({"maximum": 1, "exclusiveMaximum": False}), record({"maximum": 1})),
        (record({"items": [STRING]}), record({"prefixItems": [STRING]})),
        (record({"items": [STRING], "additionalItems": False}), record({"prefixItems": [STRING], "items": False})),
        (record(STRING, dependencies={"n": ["m"]}), record(STRING, dependentRequired={"n": ["m"]})),
        (record(STRING, dependencies={"n": STRING}), record(STRING, dependentSchemas={"n": STRING})),
        ({"$schema": DRAFT_07, **record({"items": [STRING]})}, NAMED | record({"prefixItems": [STRING]})),
        ({"$schema": DRAFT_07, **record({"$ref": "#", "type": "string"})}, NAMED | record({"$ref": "#"})),
        ({"$schema": DRAFT_04, "id": "http://a.example/s", **record(STRING)}, NAMED | record(STRING)),
        # References.
        (
            record({"$ref": "#/definitions/X"}, **{"$defs": {"X": STRING}}),
            record({"$ref": "#/$defs/X"}, **{"$defs": {"X": STRING}}),
        ),
        (record({"$ref": "X"}, **{"$defs": {"X": STRING}}), record({"$ref": "#/$defs/X"}, **{"$defs": {"X": STRING}})),
        (
            record({"$ref": "definitions/X"}, definitions={"X": STRING}),
            record({"$ref": "#/definitions/X"}, definitions={"X": STRING}),
        ),
        (
            {"id": "urn:a", **record({"id": "urn:b", **STRING}), "allOf": [{"$ref": "urn:b"}, {"$ref": "urn:a"}]},
            {
                "id": "urn:a",
                **record({"id": "urn:b", **STRING}),
                "allOf": [{"$ref": "#/properties/n"}, {"$ref": "#"}],
            },
        ),
        (
            record({"$ref": "#/$defs/X Y"}, **{"$defs": {"X Y": STRING}}),
            record({"$ref": "#/$defs/X%20Y"}, **{"$defs": {"X Y": STRING}}),
        ),
        (
            record({"items": [STRING]}, allOf=[{"$ref": "#/properties/n/items/0"}]),
            record({"prefixItems": [STRING]}, allOf=[{"$ref": "#/properties/n/prefixItems/0"}]),
        ),
        # A root that says nothing takes an object.
        (None, {"type": "object"}),
        ([], {"type": "object"}),
        ({}, {"type": "object"}),
        (True, {"type": "object"}),
        ({"type": None}, {"type": "object"}),
        ({"type": ["object", "null"]}, {"type": "object"}),
    ],
)
def test_a_slip_with_one_meaning_is_read_so_and_nothing_is_told(written: object, meant: object) -> None:
    made = read(written)
    assert (made.shown, made.checked, made.unchecked) == (meant, meant, ())


def test_a_right_schema_stays_as_it_is() -> None:
    schema = record(
        {"$ref": "#/$defs/a", "default": None, "minLength": 1},
        required=["n"],
        additionalProperties=False,
        **{"$defs": {"a": {"enum": [None, 1], "const": 1, "x-own": [None]}}},
    )
    assert read(schema).shown == schema


# --- what has none ---


@pytest.mark.parametrize(
    ("part", "left", "place"),
    [
        ({"type": ""}, {}, "type"),
        ({"type": ["nope", "string"]}, {}, "type"),
        ({"type": {"type": "string"}}, {}, "type"),
        ({**STRING, "minLength": -1}, STRING, "minLength"),
        ({**STRING, "maxLength": 1.5}, STRING, "maxLength"),
        ({"maximum": "x"}, {}, "maximum"),
        ({"multipleOf": 0}, {}, "multipleOf"),
        ({"enum": "a"}, {}, "enum"),
        ({"enum": []}, {}, "enum"),
        ({"anyOf": []}, {}, "anyOf"),
        ({"items": 5}, {}, "items"),
        ({"format": 5}, {}, "format"),
        ({"exclusiveMinimum": True}, {}, "exclusiveMinimum"),
        ({"required": True, "properties": 7}, {}, "properties"),
        ({"required": ["a", 7]}, {"required": ["a"]}, "required"),
        ({"oneOf": [STRING, 7]}, {"anyOf": [STRING, {}]}, "oneOf/1"),
        ({"not": {"type": "nope"}}, {}, "not/type"),
        ({"if": {"enum": 1}, "then": STRING}, {}, "if/enum"),
        ({"$ref": "#/$defs/none"}, {}, "$ref"),
        ({"$ref": 7}, {}, "$ref"),
        ({"$ref": "Missing"}, {}, "$ref"),
        ({"$ref": "a b"}, {}, "$ref"),
        ({"properties": {"a": "the name"}}, {"properties": {"a": {"description": "the name"}}}, "properties/a"),
    ],
)
def test_a_slip_without_a_meaning_is_left_out_and_told_with_its_place(part: object, left: object, place: str) -> None:
    made = read(record(part))
    expected = record(left, required=["n"]) if isinstance(part, dict) and part.get("required") is True else record(left)
    assert (made.shown, made.checked) == (expected, expected)
    (told,) = made.unchecked
    assert told.startswith(f"/properties/n/{place} (")


@pytest.mark.parametrize("pattern", [LOOK, "^.{1,5000}$", r"^[\w-\.]+@", "(", "a" * 1_025])
def test_a_pattern_that_is_not_matched_is_shown_and_not_checked(pattern: str) -> None:
    schema = record({**STRING, "pattern": pattern, "minLength": 1})
    made = read(schema)
    assert made.shown == schema
    assert made.checked == record({**STRING, "minLength": 1})
    assert made.unchecked[0].startswith("/properties/n/pattern (")


@pytest.mark.parametrize(
    ("part", "left"),
    [
        ({"not": {"pattern": LOOK}}, {}),
        ({"if": {"pattern": LOOK}, "else": STRING}, {}),
        ({"oneOf": [{"pattern": LOOK}, STRING]}, {"anyOf": [{}, STRING]}),
        (
            {"oneOf": [{"pattern": LOOK}, STRING], "anyOf": [STRING]},
            {"anyOf": [STRING], "allOf": [{"anyOf": [{}, STRING]}]},
        ),
        ({"contains": {"pattern": LOOK}, "maxContains": 1}, {"contains": {}}),
        (
            {"patternProperties": {LOOK: STRING, "^x": STRING}, "additionalProperties": False},
            {"patternProperties": {"^x": STRING}},
        ),
        ({"$defs": {"a": {"pattern": LOOK}}, "not": {"$ref": "#/properties/n/$defs/a"}}, {"$defs": {"a": {}}}),
    ],
)
def test_without_a_keyword_below_nothing_more_is_refused(part: object, left: object) -> None:
    assert read(record(part)).checked == record(left)


def test_patterns_over_the_bound_on_all_of_them_are_not_checked() -> None:
    made = read(record({"allOf": [{"pattern": "a" * 1_000}] * 17}))
    assert made.checked["properties"]["n"]["allOf"].count({}) == 1
    assert len(made.unchecked) == 1


def test_so_many_places_are_told_and_the_rest_counted() -> None:
    made = read({"type": "object", "properties": {f"p{at}": {"pattern": LOOK} for at in range(9)}})
    first, *others = made.unchecked
    assert first.startswith("/properties/p0/pattern, /properties/p1/pattern, ")
    assert others == ["4 more places"]


def test_an_output_may_be_anything_and_lie_elsewhere() -> None:
    assert read({"type": "array", "items": {"$ref": "http://a.example/s.json"}}, is_input=False).checked == {
        "type": "array",
        "items": {},
    }
    assert read(7, is_input=False).checked == {}


# --- what nobody can call ---


@pytest.mark.parametrize("schema", [7, "object", False, [1], {"type": "string"}, {"type": ["array", "null"]}])
def test_an_input_that_is_no_object_is_unusable(schema: object) -> None:
    with pytest.raises(NoObjectError):
        read(schema)


def test_an_input_that_lies_elsewhere_is_unusable() -> None:
    with pytest.raises(ExternalReferenceError):
        read(record({"$ref": "http://a.example/s.json#/a"}))


# --- properties ---

OLDER = st.recursive(
    st.sampled_from(
        [
            {"type": "integer"},
            STRING,
            {"minimum": 1, "exclusiveMaximum": 3},
            {"enum": [1, "a", None]},
            {"$ref": "#/definitions/d", "type": "string"},
            True,
        ]
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "items": inner | st.lists(inner, min_size=1, max_size=2),
            "additionalItems": inner,
            "properties": st.fixed_dictionaries({"a": inner}),
            "dependencies": st.fixed_dictionaries({"a": inner | st.just(["b"])}),
            "prefixItems": st.just([False]),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
        },
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.none() | st.integers(0, 4) | st.sampled_from(["a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=6,
)


@given(OLDER, OLDER, VALUES)
def test_a_schema_of_draft_7_says_what_the_oracle_says(part: Any, definition: Any, value: object) -> None:
    # `$ref` alone could lead to itself.
    definition = {"type": ["integer", "array"]} if "$ref" in json.dumps(definition) else definition
    schema = {"$schema": DRAFT_07, "properties": {"n": part}, "definitions": {"d": definition}}
    _, check = read_foreign(json.loads(json.dumps(schema)), is_input=True)
    assert check.is_valid({"n": value}) is jsonschema.Draft7Validator(schema).is_valid({"n": value})


KEYS = st.sampled_from(
    [
        *("type", "properties", "required", "items", "prefixItems", "enum", "const", "anyOf", "oneOf", "not", "if"),
        *("$ref", "$defs", "definitions", "$id", "id", "$anchor", "$schema", "pattern", "patternProperties", "minimum"),
        *("exclusiveMinimum", "minLength", "multipleOf", "uniqueItems", "additionalProperties", "dependencies"),
        *("dependentRequired", "dependentSchemas", "contains", "examples", "default", "title", "format", "n"),
        *("unevaluatedProperties", "$dynamicRef", "$recursiveRef", "contentSchema", "additionalItems", "nullable"),
    ]
)
WORDS = st.sampled_from(
    [
        *(
            "object",
            "string",
            "any",
            "",
            "n",
            "1",
            "true",
            "#",
            "#/properties/n",
            "#/$defs/n",
            "#n",
            "http://a/b",
            "n.json",
        ),
        *(LOOK, "(", "^a", DRAFT_04, DRAFT_07, "https://json-schema.org/draft/2019-09/schema", "a b", "%", "\ue000"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=25,
)


@given(JSON, st.booleans())
def test_any_json_is_a_schema_that_is_right_or_has_one_of_three_reasons(schema: object, is_input: bool) -> None:
    text = json.dumps(schema)
    try:
        made, check = read_foreign(json.loads(text), is_input=is_input)
    except NoObjectError:
        assert is_input
        return
    except ExternalReferenceError:
        assert is_input
        assert "ref" in text or "Ref" in text
        return
    except SchemaBoundError:
        return
    jsonschema.Draft202012Validator.check_schema(made.checked)
    check.is_valid({"n": 1})
    assert json.loads(json.dumps(made.shown)) == made.shown
    assert len(made.unchecked) <= 6


# --- an operator's own ---


def test_of_an_operators_schema_only_patterns_that_are_right_are_left_unchecked() -> None:
    read_so = read_own(record({"pattern": LOOK, "minLength": 1}))
    assert read_so is not None
    assert read_so[0].checked == record({"minLength": 1})
    assert read_own(record({"pattern": "("})) is None
    assert read_own(record({"pattern": LOOK, "type": "nope"})) is None
    assert read_own({"type": "object", "properties": []}) is None


@pytest.mark.parametrize("pattern", ["(?i)^a", "(?P<y>a)", "^a}?$"])
def test_patterns_that_older_drafts_alone_refuse_are_checked(pattern: str) -> None:
    read_so = read_own({"$schema": DRAFT_07, **record({"pattern": pattern})})
    assert read_so is not None
    assert (read_so[0].unchecked, read_so[1].is_valid({"n": "b"})) == ((), False)
