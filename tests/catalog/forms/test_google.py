from tooldispatchd.catalog.forms.google import render_google
from tooldispatchd.catalog.forms.rendered import Rendered, Schema
from tooldispatchd.catalog.offered import Offered


def rendered(schema: Schema) -> Rendered:
    return render_google(Offered(name="t", description="Does it.", input_schema=schema), "t")


def shown(schema: object) -> object:
    """How a property's schema is shown."""
    parameters = rendered({"type": "object", "properties": {"a": schema}}).entry["parameters"]
    assert isinstance(parameters, dict)
    return parameters["properties"]["a"]


def test_a_function_without_parameters_has_none() -> None:
    closed: Schema = {"type": "object", "properties": {}, "additionalProperties": False}
    assert rendered(closed) == Rendered({"name": "t", "description": "Does it."})


def test_an_object_of_any_properties_has_none_either_and_a_note() -> None:
    assert rendered({"type": "object"}) == Rendered(
        {"name": "t", "description": "Does it."},
        ("any object may stand at the root but its form can name no parameters",),
    )


def test_types_are_upper_case_and_null_is_nullable() -> None:
    assert shown({"type": ["integer", "null"], "minimum": 1, "format": "int32"}) == {
        "type": "INTEGER",
        "minimum": 1,
        "format": "int32",
        "nullable": True,
    }


def test_several_types_are_alternatives_which_stand_alone() -> None:
    assert shown({"type": ["string", "number"], "description": "Either.", "maxLength": 3, "maximum": 4}) == {
        "anyOf": [
            {"type": "STRING", "description": "Either.", "maxLength": 3},
            {"type": "NUMBER", "maximum": 4},
        ]
    }


def test_what_is_said_of_alternatives_is_said_with_the_first() -> None:
    schema: Schema = {
        "description": "Which.",
        "oneOf": [{"type": "boolean", "description": "All or none."}, {"type": "array", "items": {"type": "string"}}],
    }
    assert shown(schema) == {
        "anyOf": [
            {"type": "BOOLEAN", "description": "Which. All or none."},
            {"type": "ARRAY", "items": {"type": "STRING"}},
        ]
    }


def test_an_enum_of_strings_is_one_and_others_are_told_in_words() -> None:
    assert shown({"enum": ["a", "b", None]}) == {
        "type": "STRING",
        "format": "enum",
        "enum": ["a", "b"],
        "nullable": True,
    }
    assert shown({"enum": [1, 2], "description": "How many."}) == {
        "type": "INTEGER",
        "description": "How many. One of: 1, 2.",
    }
    assert shown({"enum": ["", "a"]}) == {"type": "STRING", "description": 'One of: "", "a".'}


def test_a_format_that_is_not_taken_is_dropped_and_noted() -> None:
    schema: Schema = {
        "type": "object",
        "properties": {
            "day": {"type": "string", "format": "date"},
            "when": {"type": "string", "format": "date-time"},
        },
    }
    assert rendered(schema) == Rendered(
        {
            "name": "t",
            "description": "Does it.",
            "parameters": {
                "type": "OBJECT",
                "properties": {"day": {"type": "STRING"}, "when": {"type": "STRING", "format": "date-time"}},
            },
        },
        ("the format date at /properties/day is dropped",),
    )


def test_an_exclusive_limit_is_relaxed() -> None:
    assert shown({"type": "number", "exclusiveMinimum": 0}) == {"type": "NUMBER", "minimum": 0}


def test_anything_is_any_of_the_types() -> None:
    scalars = [{"type": "STRING", "nullable": True}, {"type": "NUMBER"}, {"type": "BOOLEAN"}, {"type": "OBJECT"}]
    assert shown(True) == {"anyOf": [*scalars, {"type": "ARRAY", "items": {"anyOf": scalars}}]}


def test_of_very_many_properties_that_may_be_anything_a_page_is_listed() -> None:
    properties = {f"p{n:03}": True for n in range(100)} | {"z": {"type": "string"}}
    answer = rendered({"type": "object", "properties": properties, "required": ["p099", "z"]})
    parameters = answer.entry["parameters"]
    assert isinstance(parameters, dict)
    assert list(parameters["properties"]) == [f"p{n:03}" for n in range(64)] + ["z"]
    assert parameters["required"] == ["z"]
    assert answer.notes[0] == "of the properties that may be anything, in the root only 64 are listed"


def test_a_parameter_whose_name_is_not_taken_is_left_out_and_noted() -> None:
    schema: Schema = {
        "type": "object",
        "properties": {"a-b": {"type": "string"}, "ab": {"type": "object", "properties": {"c-d": {"type": "null"}}}},
        "required": ["a-b", "ab"],
    }
    answer = rendered(schema)
    assert answer.entry["parameters"] == {
        "type": "OBJECT",
        "properties": {"ab": {"type": "OBJECT", "properties": {"c-d": {"type": "NULL"}}}},
        "required": ["ab"],
    }
    assert answer.notes == ("the property /properties/a-b is left out: the form does not take its name",)
