import pytest

from tooldispatchd.catalog.expressions.values import NotJsonError, WideIntegerError, exactly, tidy
from tooldispatchd.catalog.types import parse_type

DECLARED = {"Tree": parse_type("{n: number, kids: [Tree]}"), "Nest": parse_type("[Nest] | number")}


@pytest.mark.parametrize(
    ("type_", "value", "exact"),
    [
        ("number", 1, "1.0"),
        ("int", 1.0, "1"),
        ("int", 1.5, "1.5"),
        ("int | number", 1, "1"),
        ("bool | int", True, "True"),
        ("json", 1.0, "1.0"),
        ("[number]", [1, 2.5], "[1.0, 2.5]"),
        ("(int, number)", [1.0, 1], "[1, 1.0]"),
        ("(int, number)", [1.0], "[1.0]"),
        ("{a: number, b?: string}", {"a": 1, "c": 1}, "{'a': 1.0, 'c': 1}"),
        ("{a: {b: int}} | string", {"a": {"b": 1.0}}, "{'a': {'b': 1}}"),
        ("Tree", {"n": 1, "kids": [{"n": 2, "kids": []}]}, "{'n': 1.0, 'kids': [{'n': 2.0, 'kids': []}]}"),
        ("Nest", [[1], 2], "[[1.0], 2.0]"),
    ],
)
def test_numbers_become_what_their_type_says(type_: str, value: object, exact: str) -> None:
    assert repr(exactly(parse_type(type_), DECLARED)(value)) == exact


@pytest.mark.parametrize(
    ("type_", "value"),
    [("[number]", [1.0]), ("{a: int}", {"a": 1}), ("Tree", {"n": 1.0, "kids": []}), ("string", "x"), ("[json]", [1])],
)
def test_a_value_whose_numbers_are_right_is_given_back_itself(type_: str, value: object) -> None:
    assert exactly(parse_type(type_), DECLARED)(value) is value


def test_the_value_that_is_converted_is_left_as_it_was() -> None:
    value = {"a": [1]}
    exactly(parse_type("{a: [number]}"), {})(value)
    assert repr(value) == "{'a': [1]}"


def test_an_integer_beyond_every_number_is_refused() -> None:
    with pytest.raises(WideIntegerError):
        exactly(parse_type("[number]"), {})([10**400])


@pytest.mark.parametrize(
    "value", [float("nan"), [float("-inf")], {1: 2}, {"a": b"x"}, [2**63], {"a": {"b": {None: 1}}}, object()]
)
def test_what_json_cannot_say_is_refused(value: object) -> None:
    with pytest.raises(NotJsonError):
        tidy(value, None, {})
