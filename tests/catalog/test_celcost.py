"""What an evaluation may cost: by count, never by a clock. `benchmarks/expressions.py` has the times."""

import pytest
from cel_expr_python import cel
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.celcost import BUDGET_NS, Prices, UnknownCostError, cost_ns
from tooldispatchd.catalog.celengine import text_functions
from tooldispatchd.catalog.celsizes import measure
from tooldispatchd.catalog.celsource import ExpressionError
from tooldispatchd.catalog.celtree import Node, read_tree
from tooldispatchd.catalog.expressions import FailedEvaluation, compile_expression
from tooldispatchd.catalog.types import parse_arrow

TYPES = {"xs": "list<int>", "ys": "list<int>", "s": "string", "t": "string", "v": "dyn"}


def root(source: str) -> Node:
    environment = cel.NewEnv(
        variables={name: cel.Type(text) for name, text in TYPES.items()}, extensions=[text_functions()]
    )
    return read_tree(environment.compile(source).serialize()).root


def cost(source: str, **values: object) -> float:
    return cost_ns(root(source), {name: measure(value) for name, value in values.items()})


def evaluate(source: str, arrow: str, value: object) -> object:
    input_type, output_type = parse_arrow(arrow)
    return compile_expression(source, input_type=input_type, output_type=output_type, declared={}).evaluate(value)


def is_refused(result: object) -> bool:
    return isinstance(result, FailedEvaluation) and result.limit == "expression" and not result.invalid_input


@pytest.mark.parametrize(
    ("source", "arrow", "value"),
    [
        # Macros within macros, over the same list, over what macros made, and over literals.
        ("xs.map(x, xs.map(y, x * y)).size()", "[int] -> int", [1] * 40),
        ("xs.all(x, xs.all(y, xs.all(z, x + y + z > 0)))", "[int] -> bool", [1] * 20),
        ("xs.all(x, xs.all(y, xs.all(z, xs.all(w, true))))", "[int] -> bool", [1] * 10),
        ("xs.map(x, x).map(x, x).map(x, x)", "[int] -> [int]", [1] * 120),
        (
            "xs.map(x, [x, x, x, x]).map(r, r.map(q, [q, q, q, q])).map(r, r.map(q, q.map(z, z)))",
            "[int] -> json",
            [1] * 60,
        ),
        ("[1, 2, 3, 4, 5, 6, 7, 8].map(a, xs.map(x, a * x))", "[int] -> [[int]]", [1] * 100),
        ("xs.filter(x, x > 0)", "[int] -> [int]", [1] * 400),
        ("v.map(r, r.map(x, x))", "json -> json", [[1] * 60] * 60),
        ("v.all(k, v.all(l, v[k] != v[l] || k == l))", "json -> bool", {f"k{place}": place for place in range(60)}),
        # One entry is large, so each may be.
        ("v.map(x, v)", "json -> json", [[1] * 200, *range(100)]),
        # Texts that grow.
        ("xs.map(x, s + s)", "{xs: [int], s: string} -> [string]", {"xs": [1] * 100, "s": "x" * 4_000}),
        ("[s]" + "".join(f".map({a}, {a} + {a})" for a in "abcdefgh"), "string -> [string]", "x" * 1_000),
        ("s + s + s + s + s + s + s + s", "string -> string", "x" * 100_000),
        ("[v, v, v, v, v, v, v, v].map(x, [x, x, x, x, x, x])", "json -> json", [1] * 50),
        # Searches.
        ("s.matches('(a|b)*a(a|b){20}c')", "string -> bool", "ab" * 2_000),
        ("xs.all(x, x.matches('a'))", "[string] -> bool", ["b"] * 200),
        ("s.contains(s + 'y')", "string -> bool", "x" * 20_000),
        ("xs.all(x, s.contains('y'))", "{xs: [int], s: string} -> bool", {"xs": [1] * 100, "s": "x" * 10_000}),
        ("xs.all(x, !(x in ys))", "{xs: [int], ys: [int]} -> bool", {"xs": [1] * 300, "ys": [2] * 300}),
        ("xs.all(x, v == v)", "{xs: [int], v: json} -> bool", {"xs": [1] * 50, "v": [[2] * 10] * 10}),
        ("int(s)", "string -> int", "1" * 100_000),
        ("s.indexOf(s + 'y')", "string -> int", "x" * 20_000),
        ("s.lastIndexOf('y' + s)", "string -> int", "é" * 10_000),
        ("s.replace('', s).size()", "string -> int", "x" * 2_000),
        ("s.split('').size()", "string -> int", "x" * 20_000),
        ("xs.join(s)", "{xs: [string], s: string} -> string", {"xs": ["x"] * 1_000, "s": "x" * 1_000}),
        ("xs.all(x, s.trim() == '')", "{xs: [int], s: string} -> bool", {"xs": [1] * 100, "s": "x" * 5_000}),
        ("xs.all(x, size(s) > 0)", "{xs: [int], s: string} -> bool", {"xs": [1] * 500, "s": "é" * 2_000}),
        # Inputs that are large or deep by themselves, even where little of them is read.
        ("xs", "[int] -> [int]", [1] * 3_000),
        # Each list and each record is made anew, whatever it holds.
        ("v", "json -> json", [{}] * 400),
        ("v == [{}]", "json -> bool", [{"a": {"b": {}}}] * 200),
        ("xs[0]", "[int] -> int", [1] * 100_000),
        ("s", "string -> string", "x" * 1_000_000),
        ("size(s)", "string -> int", "é" * 200_000),
        ("v.a", "json -> json", {"a": 1, "b": [[1] * 100] * 100}),
        ("input.a", "{a: int, v: json} -> int", {"a": 1, "v": [1] * 10_000}),
        # Both sides of what branches are counted.
        ("s == '' ? xs.map(x, xs.map(y, y)) : []", "{xs: [int], s: string} -> json", {"xs": [1] * 60, "s": "x"}),
    ],
)
def test_what_would_take_too_long_is_refused(source: str, arrow: str, value: object) -> None:
    assert is_refused(evaluate(source, arrow, value))


@pytest.mark.parametrize(
    ("source", "arrow", "value", "result"),
    [
        ("xs.map(x, x * 2)", "[int] -> [int]", [1] * 140, [2] * 140),
        ("xs.filter(x, x > 1)", "[int] -> [int]", [1] * 140, []),
        ("xs.all(x, x > 0)", "[int] -> bool", [1] * 900, True),
        ("xs.exists(x, x == 2)", "[int] -> bool", [1] * 900, False),
        ("7 in xs", "[int] -> bool", [1] * 1_000, False),
        ("xs.map(x, xs.map(y, x * y)).size()", "[int] -> int", [1] * 20, 20),
        ("size(s)", "string -> int", "x" * 65_536, 65_536),
        ("s + s", "string -> string", "ab" * 4_096, "ab" * 8_192),
        ("s.contains('z')", "string -> bool", "x" * 32_768, False),
        ("s.matches('^[a-z]+$')", "string -> bool", "x" * 1_500, True),
        (
            "xs.filter(x, x.score > 1.0).map(x, x.id)",
            "[{id: int, score: number}] -> [int]",
            [{"id": 1, "score": 2}] * 50,
            [1] * 50,
        ),
        ("v", "json -> json", {"a": [{"b": 1}] * 60}, {"a": [{"b": 1}] * 60}),
        ("n > 0 ? (n > 1 ? (n > 2 ? 3 : 2) : 1) : 0", "int -> int", 2, 2),
    ],
)
def test_what_ordinary_tools_do_is_within_the_budget(source: str, arrow: str, value: object, result: object) -> None:
    assert evaluate(source, arrow, value) == result


@pytest.mark.parametrize(
    ("source", "arrow"),
    [
        (f"[{', '.join('1' * 60)}].map(a, [{', '.join('1' * 60)}].map(b, a + b))", "int -> json"),
        ("[" + ", ".join(["s.matches('a')"] * 300) + "]", "string -> [bool]"),
        (
            f"[{', '.join('1' * 20)}].map(a, [{', '.join('1' * 20)}].map(b, timestamp(0).getHours('Europe/Paris')))",
            "int -> json",
        ),
        ("[[s]]" + "".join(f".map({a}, {a} + {a})" for a in "abcdefghijklm"), "string -> json"),
        ("[1,2,3,4,5,6,7,8]" + "".join(f".map({a}, [{a},{a},{a},{a}])" for a in "abcdefgh"), "int -> json"),
    ],
)
def test_an_expression_that_is_too_dear_for_any_input_is_told_when_it_is_compiled(source: str, arrow: str) -> None:
    with pytest.raises(ExpressionError, match="column 1: the expression would do too much work, whatever the input"):
        evaluate(source, arrow, 1)


def test_a_refusal_says_what_is_too_large_and_how_much_would_pass() -> None:
    assert evaluate("xs.map(x, x * 2)", "{xs: [int]} -> [int]", {"xs": [1] * 500}) == FailedEvaluation(
        'the expression would do too much work on this input: "xs" has 501 values; about 125 would pass',
        limit="expression",
    )


def test_a_refusal_of_a_text_counts_its_bytes() -> None:
    assert evaluate("s.contains(s)", "string -> bool", "x" * 20_000) == FailedEvaluation(
        'the expression would do too much work on this input: "s" has 20000 bytes of text; about 5000 would pass',
        limit="expression",
    )


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([1] * 5_000, "the input has more than 4096 values, the most that an expression takes"),
        ("x" * 300_000, "the input has more than 262144 bytes of text, the most that an expression takes"),
    ],
)
def test_an_input_beyond_what_is_looked_at_is_refused(value: object, why: str) -> None:
    assert evaluate("v", "json -> json", value) == FailedEvaluation(why, limit="expression")


def test_a_deep_input_is_refused() -> None:
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    why = "the input is nested deeper than 64, the most that an expression takes"
    assert evaluate("v", "json -> json", deep) == FailedEvaluation(why, limit="expression")


def test_what_is_not_read_is_not_counted() -> None:
    value = {"a": 1, "xs": [1] * 100_000, "s": "x" * 1_000_000}
    assert evaluate("a + 1", "{a: int, xs: [int], s: string} -> int", value) == 2


def test_a_refusal_depends_on_the_input_alone_and_not_on_those_before() -> None:
    input_type, output_type = parse_arrow("{xs: [int], ys: [int]} -> bool")
    expression = compile_expression(
        "xs.all(x, ys.all(y, x + y > 0))", input_type=input_type, output_type=output_type, declared={}
    )
    wide, high = {"xs": [1] * 300, "ys": [1]}, {"xs": [1], "ys": [1] * 300}
    both = {"xs": [1] * 300, "ys": [1] * 300}
    outcomes = [expression.evaluate(value) for value in (wide, high, both, wide, high)]
    assert [outcome is True for outcome in outcomes] == [True, True, False, True, True]
    assert is_refused(outcomes[2])


def test_a_loop_costs_its_body_times_its_entries() -> None:
    one, ten, hundred = (cost("xs.all(x, x > 0)", xs=[1] * count) for count in (1, 10, 100))
    assert hundred - ten == pytest.approx(10 * (ten - one))


def test_gathering_is_quadratic() -> None:
    assert cost("xs.map(x, x)", xs=[1] * 120) > 3 * cost("xs.map(x, x)", xs=[1] * 60)


def test_what_cannot_be_bounded_is_told() -> None:
    strange = Node("call", 1, "shuffle", ())
    with pytest.raises(UnknownCostError, match="what shuffle costs cannot be bounded"):
        cost_ns(strange, {})


SOURCES = (
    "xs.map(x, x + 1)", "xs.filter(x, x in ys)", "xs.all(x, ys.exists(y, y == x))", "s + t", "[s, t]", "s.contains(t)",
    "xs + ys", "v", "v == v", "[v].map(x, [x, x])", "string(bytes(s))", "s.matches('a+')", "size(s) > size(xs)",
    "xs.map(x, ys.map(y, [x, y]))", "{'a': xs, 'b': s}", "has(v.a) ? v.a : v", "xs == ys ? s : t",
    "s.substring(0)", "s.charAt(0)", "s.indexOf(t)", "s.lastIndexOf(t)", "s.replace(t, s)", "s.replace('', t)",
    "s.split(t)", "s.split('')", "s.split('').join(t)", "[s, t].join(s)", "s.trim() + t.reverse()",
    "s.split('a').map(x, x.upperAscii())", "s.lowerAscii()",
)  # fmt: skip
NUMBERS = st.lists(st.integers(0, 3), max_size=12)
TEXTS = st.text("ab", max_size=30)


@given(st.sampled_from(SOURCES), NUMBERS, NUMBERS, TEXTS, TEXTS)
def test_a_larger_input_never_costs_less(source: str, xs: list[int], ys: list[int], s: str, t: str) -> None:
    small = cost(source, xs=xs, ys=ys, s=s, t=t, v={"a": xs})
    large = cost(source, xs=[*xs, 1], ys=[*ys, 1], s=s + "a", t=t + "a", v={"a": [*xs, s], "b": 1})
    assert small <= large


@given(st.sampled_from(SOURCES), NUMBERS, NUMBERS, TEXTS, TEXTS)
def test_what_is_made_is_never_larger_than_was_counted(
    source: str, xs: list[int], ys: list[int], s: str, t: str
) -> None:
    values = {"xs": xs, "ys": ys, "s": s, "t": t, "v": {"a": xs, "b": {"c": s}}}
    environment = cel.NewEnv(
        variables={name: cel.Type(text) for name, text in TYPES.items()}, extensions=[text_functions()]
    )
    made = measure(environment.compile(source).eval(data=values).plain_value())
    sizes = {name: measure(value) for name, value in values.items()}
    # Two bills that differ in the price of a value that is made tell how many values were counted.
    free, priced = (cost_ns(root(source), sizes, Prices(0, price)) for price in (0, 1))
    assert priced - free >= made.values - 0.001


def test_the_budget_is_half_a_millisecond() -> None:
    assert BUDGET_NS == 500_000
