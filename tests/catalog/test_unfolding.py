"""What schemas unfold to, counted without unfolding them."""

import pytest

from tooldispatchd.catalog.unfolding import MAX_UNFOLDED, UnfoldError, Unfolding, unfold

Schema = dict[str, object]


def chain(levels: int, *keywords: str, width: int = 2) -> Schema:
    """Each definition names the next several times, under each of the keywords."""
    named: Schema = {
        f"n{level}": {keyword: [{"$ref": f"#/$defs/n{level + 1}"}] * width for keyword in keywords}
        for level in range(levels)
    }
    return {"$ref": "#/$defs/n0", "$defs": {**named, f"n{levels}": {"type": "integer"}}}


def twice(place: Schema) -> Schema:
    """A schema that asks the same of a child twice."""
    return {"allOf": [place, dict(place)]}


def ladder(levels: int) -> Schema:
    """Not recursive, but each level asks the next twice of the same child."""
    named: Schema = {
        f"n{level}": twice({"properties": {"a": {"$ref": f"#/$defs/n{level + 1}"}}}) for level in range(levels)
    }
    return {"$ref": "#/$defs/n0", "$defs": {**named, f"n{levels}": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "unfolding"),
    [
        (True, Unfolding(1, multiplies=False, has_unions=False, parts=1, weight=1)),
        ({"type": "string"}, Unfolding(1, multiplies=False, has_unions=False, parts=1, weight=1)),
        ({"properties": {"a": {}, "b": {}}}, Unfolding(1, multiplies=False, has_unions=False, parts=3, weight=3)),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            Unfolding(3, multiplies=False, has_unions=True, parts=3, weight=3),
        ),
        ({"items": {"$ref": "#"}}, Unfolding(1, multiplies=False, has_unions=False, parts=2, weight=1)),
        (
            {"patternProperties": {"a": {}, "b": {}}},
            Unfolding(2, multiplies=False, has_unions=False, parts=3, weight=2),
        ),
        (
            {"patternProperties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}},
            Unfolding(2, multiplies=True, has_unions=False, parts=3, weight=1_000_000),
        ),
    ],
)
def test_what_applies_at_one_place_is_counted(schema: Schema | bool, unfolding: Unfolding) -> None:
    assert unfold(schema) == unfolding


@pytest.mark.parametrize(
    "schema",
    [
        chain(30, "allOf"),
        chain(30, "oneOf"),
        chain(12, "allOf", "anyOf", width=6),
        ladder(30),
        {"$defs": {"n": twice({"not": {"$ref": "#/$defs/n"}})}, "$ref": "#/$defs/n"},
        {"$defs": {f"n{k}": {"not": {"$ref": f"#m{k + 1}"}, "if": {"$ref": f"#m{k + 1}"}, "$anchor": f"m{k}"}
                   for k in range(30)} | {"n30": {"$anchor": "m30"}}, "$ref": "#m0"},
        {"$defs": {f"n{k}": {"$id": f"https://example.com/n{k}", "allOf": [{"$ref": f"n{k + 1}"}] * 2}
                   for k in range(30)} | {"n30": {"$id": "https://example.com/n30"}}, "$ref": "https://example.com/n0"},
        {"definitions": {f"n{k}": {"dependencies": {"a": {"$ref": f"#/definitions/n{k + 1}"},
                                                    "b": {"$ref": f"#/definitions/n{k + 1}"}}}
                         for k in range(30)} | {"n30": {}}, "$ref": "#/definitions/n0"},
        {"$defs": {f"n{k}": {"allOf": [{"$ref": f"#/$defs/n{k + 1}"}], "unevaluatedProperties": False}
                   for k in range(30)} | {"n30": {}}, "$ref": "#/$defs/n0"},
    ],
)  # fmt: skip
def test_a_schema_that_doubles_at_each_of_its_levels_is_over_the_bound(schema: Schema) -> None:
    assert unfold(schema).applied > MAX_UNFOLDED


def test_a_bundle_of_more_resources_than_can_be_looked_at_is_an_error() -> None:
    resources: Schema = {f"n{k}": {"$id": f"u:{k}", "$ref": "#/$defs"} for k in range(200)}
    with pytest.raises(UnfoldError):
        unfold({"$defs": resources, "allOf": [{"$ref": f"#/$defs/n{k}"} for k in range(200)]})


def test_many_references_to_the_same_records_are_not_many_at_one_place() -> None:
    # As a description of an HTTP interface has them: all refer to a few that refer to each other.
    records: Schema = {
        f"R{k}": {
            "properties": {
                f"p{other}": {"anyOf": [{"$ref": f"#/components/schemas/R{other}"}, {"type": "null"}]}
                for other in range(k + 1, 40)
            }
        }
        for k in range(40)
    }
    assert unfold({"$ref": "#/components/schemas/R0", "components": {"schemas": records}}).applied < 10


def test_two_nested_unions_of_twenty_kinds_of_nodes_are_within_the_bound() -> None:
    either: Schema = {
        name: {"anyOf": [{"$ref": f"#/$defs/{name}{k}"} for k in range(20)]} for name in ("Expression", "Statement")
    }
    kinds: Schema = {
        f"{name}{k}": {
            "properties": {
                "kind": {"const": f"{name}{k}"},
                "inner": {"$ref": "#/$defs/Expression"},
                "body": {"type": "array", "items": {"$ref": "#/$defs/Statement"}},
            }
        }
        for name in ("Expression", "Statement")
        for k in range(20)
    }
    assert unfold({"$ref": "#/$defs/Statement", "$defs": {**either, **kinds}}).applied <= MAX_UNFOLDED


def test_an_example_with_an_identifier_is_no_resource() -> None:
    schema: Schema = {
        "$defs": {"A": {"type": "object", "examples": [{"id": "a"}, {"id": "b"}]}},
        "properties": {f"p{k}": {"$ref": "#/$defs/A"} for k in range(2_000)},
    }
    assert unfold(schema).applied == 1
