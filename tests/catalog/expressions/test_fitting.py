import pytest

from tooldispatchd.catalog.expressions.door import ExpressionError, compile_expression
from tooldispatchd.catalog.expressions.made import misfit
from tooldispatchd.catalog.types import parse_arrow, parse_type

DECLARED = {"Tree": parse_type("{value: int, left?: Tree}")}


@pytest.mark.parametrize(
    ("made", "wanted", "why"),
    [
        ("int", "int", None),
        ("int", "number", None),
        ("number", "int", "number is not int"),
        ("json", "{a: int}", None),
        ("{a: json}", "{a: int}", None),
        ("{a: int}", "{a: int, b?: int}", None),
        ("{a: int}", "{a: int, b: int}", "field b is missing"),
        ("{b: int}", "{a: int}", "there is no field b in {a: int}"),
        ("{a: {b: string}}", "{a: {b: int}}", "field a: field b: string is not int"),
        ("[{a: int}]", "[{a: string}]", "items: field a: int is not string"),
        ("{a: int}", "string | {a: int}", None),
        ("{a: int}", "string | {b: int}", "{a: int} is none of string | {b: int}"),
        ("{value: int, left: {value: int}}", "Tree", None),
        ("{value: int, left: {value: bool}}", "Tree", "field left: field value: bool is not int"),
        ("[int]", "(int, int)", None),
        ("string", "[string]", "string is not [string]"),
    ],
)
def test_what_is_surely_not_of_a_type_is_told(made: str, wanted: str, why: str | None) -> None:
    assert misfit(parse_type(made), parse_type(wanted), DECLARED) == why


@pytest.mark.parametrize(
    ("arrow", "source", "why"),
    [
        ("{x: int} -> {a: int}", "{'b': x}", "there is no field b in {a: int}"),
        ("{x: int} -> {a: int, b: int}", "{'a': x}", "field b is missing"),
        ("{x: string} -> {a: bool, b: int}", "{'a': size(x) > 2, 'b': x}", "field b: string is not int"),
    ],
)
def test_a_record_that_an_expression_makes_is_checked_when_it_is_compiled(arrow: str, source: str, why: str) -> None:
    taken, given = parse_arrow(arrow)
    with pytest.raises(ExpressionError) as failed:
        compile_expression(source, input_type=taken, output_type=given, declared={})
    assert failed.value.why.endswith(f": {why}")


def test_a_field_that_the_expression_does_not_read_costs_a_failure_nothing() -> None:
    class Trap(list[object]):
        def __iter__(self) -> object:  # type: ignore[override]
            raise AssertionError("it was looked at")

    taken, given = parse_arrow("{s: string, xs: json} -> int")
    expression = compile_expression("int(s)", input_type=taken, output_type=given, declared={})
    result = expression.evaluate({"s": "no number", "xs": Trap([1])})
    assert "cannot convert" in str(result)
