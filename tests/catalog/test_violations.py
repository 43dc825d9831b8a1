"""What is said of a value that breaks its schema, as models read it."""

import pytest

from tooldispatchd.catalog.schemas import compile_check
from tooldispatchd.catalog.violations import MAX_EXPLAINED, Violation

NULL: dict[str, object] = {"type": "null"}
LEVEL: dict[str, object] = {"type": "integer", "minimum": 1, "maximum": 10}
# As pydantic writes `Optional[Annotated[int, Field(ge=1, le=10)]]`, `Optional[Literal[…]]`, a tagged union, and so on.
PLACES = [f"place {number}" for number in range(50)]


def told(schema: dict[str, object], value: object) -> list[tuple[str, str]]:
    """What is told of an object whose property `p` has that schema and that value."""
    check = compile_check({"type": "object", "properties": {"p": schema}, "$defs": {"Level": LEVEL}})
    return [(each.path, each.message) for each in check.violations({"p": value})]


def tagged(tag: str, **properties: object) -> dict[str, object]:
    named: dict[str, object] = {"type": {"const": tag, "type": "string"}, **properties}
    return {"type": "object", "properties": named, "required": list(named), "additionalProperties": False}


SHAPES: dict[str, object] = {
    "oneOf": [tagged("circle", radius={"type": "number", "exclusiveMinimum": 0}), tagged("text", text={"minLength": 2})]
}


@pytest.mark.parametrize("union", ["anyOf", "oneOf"])
@pytest.mark.parametrize("level", [LEVEL, {"$ref": "#/$defs/Level"}, {"allOf": [LEVEL]}])
def test_a_value_out_of_range_says_the_bound_within_a_union_too(union: str, level: object) -> None:
    assert told({union: [level, NULL]}, 50) == [("/p", "50 is greater than the maximum of 10")]
    assert told({union: [NULL, level]}, 0) == [("/p", "0 is less than the minimum of 1")]


@pytest.mark.parametrize(
    ("schema", "value", "path", "message"),
    [
        ({"anyOf": [LEVEL, NULL]}, "x", "/p", '"x" is not of types "integer", "null"'),
        ({"anyOf": [{"type": ["integer", "null"]}, NULL]}, {}, "/p", '{} is not of types "null", "integer"'),
        ({"anyOf": [{"anyOf": [LEVEL, {"type": "string", "maxLength": 2}]}, NULL]}, 11, "/p", "11 is greater than"),
        ({"anyOf": [{"type": "array", "items": LEVEL}, LEVEL]}, [1, 12], "/p/1", "12 is greater than the maximum"),
        ({"anyOf": [{"const": "auto"}, LEVEL]}, 50, "/p", "50 is greater than the maximum of 10"),
        ({"anyOf": [{"enum": ["a", "b"], "type": "string"}, NULL]}, "c", "/p", '"c" is not one of "a" or "b"'),
        ({"anyOf": [{"const": "a"}, {"const": "b"}, NULL]}, "c", "/p", '"c" is not one of "a" or "b"'),
        (SHAPES, {"type": "circle", "radius": 0}, "/p/radius", "0 is less than or equal to the minimum of 0"),
        (SHAPES, {"type": "text", "text": "a"}, "/p/text", '"a" is shorter than 2 characters'),
        (SHAPES, {"type": "text"}, "/p", '"text" is a required property'),
        (SHAPES, {"type": "line"}, "/p/type", '"line" is not one of "circle" or "text"'),
        ({"anyOf": [SHAPES, NULL]}, {"type": "line"}, "/p/type", '"line" is not one of "circle" or "text"'),
    ],
)
def test_of_a_union_the_alternative_that_fits_best_is_told(
    schema: dict[str, object], value: object, path: str, message: str
) -> None:
    ((at, said),) = told(schema, value)
    assert (at, said[: len(message)]) == (path, message)


def test_alternatives_that_fit_equally_well_are_told_together() -> None:
    either: dict[str, object] = {
        "anyOf": [{"type": "object", "required": ["id"]}, {"type": "object", "required": ["name"]}]
    }
    assert told(either, {}) == [("/p", '"id" is a required property, or "name" is a required property')]


def test_a_wrong_choice_lists_all_up_to_twenty_and_else_the_nearest() -> None:
    twenty = PLACES[:20]
    ((_, said),) = told({"enum": twenty}, "plaice 3")
    assert all(f'"{name}"' in said for name in twenty)
    ((_, said),) = told({"anyOf": [{"enum": PLACES}, NULL]}, "plaice 33")
    assert said.startswith('"plaice 33" is not one of the 50 values; the nearest are "place 33", ')
    assert told({"enum": PLACES}, 7) == [
        ("/p", '7 is not one of the 50 values; such as "place 0", "place 1", "place 2", "place 3", "place 4"')
    ]


@pytest.mark.parametrize("level", [LEVEL, {"anyOf": [LEVEL, NULL]}])
def test_in_a_value_with_many_parts_the_bound_is_said_too(level: dict[str, object]) -> None:
    many: dict[str, object] = {
        "type": "array",
        "items": {"oneOf": [tagged("point", at=level), tagged("text", text={"type": "string"})]},
    }
    value = [{"type": "point", "at": 1}] * MAX_EXPLAINED + [{"type": "point", "at": 11}]
    assert compile_check(many).violations(value) == [
        Violation(f"/{MAX_EXPLAINED}/at", "11 is greater than the maximum of 10")
    ]


def test_in_a_recursive_filter_the_bound_is_said_too() -> None:
    both = {"type": "array", "items": {"$ref": "#/$defs/filter"}}
    options = [tagged("and", of=both), tagged("or", of=both), tagged("level", level=LEVEL)]
    schema: dict[str, object] = {"$ref": "#/$defs/filter", "$defs": {"filter": {"anyOf": options}}}
    value = {"type": "or", "of": [{"type": "and", "of": [{"type": "level", "level": 70}]}]}
    assert compile_check(schema).violations(value) == [
        Violation("/of/0/of/0/level", "70 is greater than the maximum of 10")
    ]
