from tooldispatchd.catalog.forms.rendered import Notes, Schema
from tooldispatchd.catalog.forms.rewriting import rewrite


def rewritten(schema: Schema) -> tuple[Schema, tuple[str, ...]]:
    notes = Notes()
    return rewrite(schema, notes), notes.phrases()


def test_a_reference_is_written_out_where_it_stands() -> None:
    schema: Schema = {
        "properties": {"a": {"$ref": "#/$defs/x~1y%20z", "description": "An a."}},
        "$defs": {"x/y z": {"type": "string", "description": "Any."}},
    }
    assert rewritten(schema) == ({"properties": {"a": {"description": "An a.", "type": "string"}}}, ())


def test_recursion_is_cut_after_three_levels_and_noted_where_it_began() -> None:
    schema: Schema = {
        "properties": {"tree": {"$ref": "#/$defs/Tree"}},
        "$defs": {"Tree": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
    }
    levels: Schema = {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {}}}}
    assert rewritten(schema) == (
        {"properties": {"tree": levels}},
        ("recursion in /properties/tree is cut after 3 levels",),
    )


def test_what_leads_elsewhere_is_left_open_and_noted() -> None:
    assert rewritten({"items": {"$ref": "https://example.org/other.json"}}) == (
        {"items": {}},
        ("the reference at /items is left open: it leads elsewhere",),
    )


def test_a_resource_of_its_own_reads_its_references_against_itself() -> None:
    schema: Schema = {
        "properties": {"a": {"$id": "urn:x:a", "$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}}},
        "$defs": {"A": {"type": "integer"}},
    }
    assert rewritten(schema)[0] == {"properties": {"a": {"type": "string"}}}


def test_up_to_draft_7_what_stands_beside_a_reference_means_nothing() -> None:
    schema: Schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"a": {"$ref": "#/definitions/A", "maxLength": 2}},
        "definitions": {"A": {"type": "string"}},
    }
    assert rewritten(schema)[0] == {"properties": {"a": {"type": "string"}}}


def test_one_of_is_said_as_any_of_and_const_as_an_enum() -> None:
    assert rewritten({"oneOf": [{"const": "a"}, {"type": "null"}]}) == (
        {"anyOf": [{"enum": ["a"]}, {"type": "null"}]},
        ("oneOf at the root is said as anyOf",),
    )


def test_all_of_is_merged() -> None:
    schema: Schema = {
        "allOf": [
            {"type": ["number", "null"], "minimum": 1, "maximum": 9},
            {"type": ["integer", "string"], "minimum": 3},
        ],
    }
    assert rewritten(schema) == ({"type": "integer", "minimum": 3, "maximum": 9}, ())


def test_objects_are_merged_with_the_properties_of_both() -> None:
    schema: Schema = {
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "allOf": [
            {"properties": {"a": {"maxLength": 3}, "b": {}}, "required": ["b"], "additionalProperties": False},
        ],
    }
    assert rewritten(schema)[0] == {
        "properties": {"a": {"type": "string", "maxLength": 3}, "b": {}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }


def test_what_cannot_be_merged_is_dropped_and_noted() -> None:
    assert rewritten({"pattern": "^a", "allOf": [{"pattern": "b$"}]}) == (
        {"pattern": "^a"},
        ("one pattern of several at the root is dropped",),
    )


def test_a_tuple_is_an_array_of_any_of_its_items() -> None:
    schema: Schema = {
        "type": "array",
        "prefixItems": [{"type": "string"}, {"type": "integer"}, {"type": "string"}],
        "items": False,
        "minItems": 3,
    }
    assert rewritten(schema) == (
        {"type": "array", "minItems": 3, "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "maxItems": 3},
        ("the order of the items at the root is not kept: each may be any of them",),
    )


def test_a_property_that_may_not_stand_is_not_listed() -> None:
    schema: Schema = {"properties": {"a": False, "b": True}, "additionalProperties": False}
    assert rewritten(schema)[0] == {"properties": {"b": {}}, "additionalProperties": False}


def test_an_object_with_patterns_is_not_closed_any_more() -> None:
    assert rewritten({"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False}) == (
        {"type": "object"},
        ("patternProperties at the root is dropped",),
    )


def test_conditions_are_dropped_and_noted() -> None:
    schema: Schema = {"properties": {"a": {"type": "string", "not": {"const": "x"}}}, "if": {}, "then": {}}
    assert rewritten(schema) == (
        {"properties": {"a": {"type": "string"}}},
        ("if at the root is dropped", "not at /properties/a is dropped"),
    )


def test_draft_4_says_exclusive_with_a_boolean_which_is_relaxed() -> None:
    schema: Schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "minimum": 3,
        "exclusiveMinimum": True,
        "const": 5,
    }
    assert rewritten(schema)[0] == {"minimum": 3}


def test_what_is_too_deep_is_left_open() -> None:
    schema: Schema = {"type": "string"}
    for _ in range(40):
        schema = {"items": schema}
    shown, notes = rewritten(schema)
    for _ in range(32):
        shown = shown["items"]  # type: ignore[assignment]
    assert shown == {}
    assert [note.partition("… ")[2] for note in notes] == ["is left open: it is deeper than 32 levels"]


def test_notes_are_few_and_the_last_counts_the_others() -> None:
    schema: Schema = {"properties": {f"p{n:02}": {"not": {}} for n in range(40)}}
    notes = rewritten(schema)[1]
    assert len(notes) == 13
    assert notes[0] == "not at /properties/p00 is dropped"
    assert notes[-1] == "and 28 more"


def test_a_long_place_is_cut_in_a_note() -> None:
    notes = rewritten({"properties": {"x" * 500: {"not": {}}}})[1]
    assert [len(note) for note in notes] == [len("not at ") + 120 + len(" is dropped")]
