from tooldispatchd.catalog.offered import show_schema
from tooldispatchd.catalog.schemas import compile_check


def test_an_object_is_shown_as_it_is() -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"input": {}}}
    assert show_schema(schema) == (schema, False)


def test_another_schema_is_shown_under_input() -> None:
    assert show_schema({"type": "integer"}) == (
        {
            "type": "object",
            "properties": {"input": {"type": "integer"}},
            "required": ["input"],
            "additionalProperties": False,
        },
        True,
    )


def test_definitions_move_to_the_root_and_references_still_find_them() -> None:
    schema: dict[str, object] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "array",
        "items": {"$ref": "#/$defs/Tree"},
        "$defs": {"Tree": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
    }
    shown, wrapped = show_schema(schema)
    assert wrapped
    assert list(shown) == ["type", "properties", "required", "additionalProperties", "$schema", "$defs"]
    assert shown["$defs"] == schema["$defs"]
    check = compile_check(shown)
    assert check.is_valid({"input": [[[]], []]})
    assert not check.is_valid({"input": [[1]]})


def test_references_to_other_places_are_written_anew() -> None:
    schema: dict[str, object] = {
        "type": ["array", "null"],
        "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#/contains"}]},
        "contains": {"type": "integer"},
        "minContains": 0,
    }
    shown, _ = show_schema(schema)
    assert shown["properties"] == {
        "input": {
            **schema,
            "items": {"anyOf": [{"$ref": "#/properties/input"}, {"$ref": "#/properties/input/contains"}]},
        }
    }
    check = compile_check(shown)
    assert check.is_valid({"input": [1, [2, None]]})
    assert not check.is_valid({"input": [1, ["x"]]})


def test_only_references_are_rewritten() -> None:
    schema: dict[str, object] = {
        "anyOf": [
            {"const": {"$ref": "#"}},
            {"properties": {"$ref": {"type": "string"}, "const": {"$ref": "#/x"}}, "default": {"$ref": "#"}},
        ]
    }
    shown, _ = show_schema(schema)
    assert shown["properties"] == {
        "input": {
            "anyOf": [
                {"const": {"$ref": "#"}},
                {
                    "properties": {"$ref": {"type": "string"}, "const": {"$ref": "#/properties/input/x"}},
                    "default": {"$ref": "#"},
                },
            ]
        }
    }


def test_a_schema_with_an_id_keeps_its_references_and_definitions() -> None:
    schema: dict[str, object] = {
        "$id": "https://example.com/list",
        "type": "array",
        "items": {"$ref": "#/$defs/a"},
        "$defs": {"a": {"type": "integer"}},
    }
    shown, _ = show_schema(schema)
    assert shown["properties"] == {"input": schema}
    check = compile_check(shown)
    assert check.is_valid({"input": [1]})
    assert not check.is_valid({"input": ["x"]})
