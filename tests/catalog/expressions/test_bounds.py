"""Which expressions there may be, and which inputs they take: by count. `benchmarks/expressions.py` has the times."""

from itertools import pairwise

import pytest
from cel_expr_python import cel
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.expressions.bounds import (
    BUDGET_NS,
    TEXTS,
    VALUES,
    InputBounds,
    Size,
    Work,
    bounds_of,
    check_rules,
    look_at,
    work_ns,
)
from tooldispatchd.catalog.expressions.door import ExpressionError, FailedEvaluation, compile_expression
from tooldispatchd.catalog.expressions.engine import text_functions
from tooldispatchd.catalog.expressions.tree import Node, NodeError, Tree, read_tree
from tooldispatchd.catalog.types import parse_arrow, parse_type

CEL_TYPES = {"xs": "list<int>", "ys": "list<int>", "s": "string", "t": "string", "v": "dyn"}
TYPES = {
    "xs": parse_type("[int]"),
    "ys": parse_type("[int]"),
    "s": parse_type("string"),
    "t": parse_type("string"),
    "v": parse_type("json"),
}
RECORDS = "[{id: int, title: string, score: number}]"


def environment() -> cel.Env:
    types = {name: cel.Type(text) for name, text in CEL_TYPES.items()}
    return cel.NewEnv(variables=types, extensions=[text_functions()])


def tree(source: str) -> Tree:
    return read_tree(environment().compile(source).serialize())


def evaluate(source: str, arrow: str, value: object) -> object:
    input_type, output_type = parse_arrow(arrow)
    return compile_expression(source, input_type=input_type, output_type=output_type, declared={}).evaluate(value)


def refused(what: str) -> FailedEvaluation:
    return FailedEvaluation(f"the input has more than {what}, the most that this expression takes", limit="expression")


@pytest.mark.parametrize(
    ("source", "arrow", "column"),
    [
        ("xs.map(x, xs.map(y, x * y))", "[int] -> json", 11),
        ("xs.all(x, xs.exists(y, y == x))", "[int] -> bool", 11),
        ("xs.filter(x, x.tags.exists_one(t, t == 'a'))", "[{tags: [string]}] -> json", 14),
        ("v.map(r, r.map(x, x))", "json -> json", 10),
        ("xs.map(x, {'a': [1].filter(y, y > x)})", "[int] -> json", 17),
        ("xs.map(x, [x].all(y, y > 1), x)", "[int] -> json", 11),
    ],
)
def test_a_loop_within_a_loop_is_told_when_it_is_compiled(source: str, arrow: str, column: int) -> None:
    why = r"a loop \(map, filter, all, exists\) cannot stand within a loop; after one it can"
    with pytest.raises(ExpressionError, match=why) as raised:
        evaluate(source, arrow, [])
    assert (raised.value.line, raised.value.column) == (1, column)


@pytest.mark.parametrize(
    "source", ["xs.map(x, x).filter(x, x > 1).size()", "xs.map(x, x).size() + ys.map(y, y).size()"]
)
def test_loops_may_follow_each_other(source: str) -> None:
    assert evaluate(source, "{xs: [int], ys: [int]} -> int", {"xs": [2], "ys": [2]}) in {1, 2}


@pytest.mark.parametrize(
    "source",
    [
        "[[s]]" + "".join(f".map({a}, {a} + {a})" for a in "abcdefghijklm"),
        "[1,2,3,4,5,6,7,8]" + "".join(f".map({a}, [{a},{a},{a},{a}])" for a in "abcdefgh"),
        "s" + ".replace('', s)" * 5,
        f"[{', '.join('1' * 300)}].map(x, x)",
        "[" + ", ".join(["s.matches('a')"] * 300) + "]",
    ],
)
def test_what_is_too_much_for_every_input_is_told_when_it_is_compiled(source: str) -> None:
    why = "column 1: the expression would do too much work, even on 128 values and 64 bytes of text"
    with pytest.raises(ExpressionError, match=why):
        evaluate(source, "{s: string} -> json", {})


def test_a_function_that_is_not_of_the_list_is_told() -> None:
    with pytest.raises(NodeError, match="there is no function shuffle"):
        check_rules(Node("call", 1, "shuffle", ()))


@pytest.mark.parametrize(
    ("source", "arrow", "value", "result"),
    [
        ("xs.map(x, x * 2)", "[int] -> [int]", [1] * 128, [2] * 128),
        ("xs.filter(x, x > 1)", "[int] -> [int]", [1] * 100, []),
        ("xs.all(x, x > 0)", "[int] -> bool", [1] * 1_000, True),
        ("7 in xs", "[int] -> bool", [1] * 1_000, False),
        ("size(s)", "string -> int", "x" * 65_536, 65_536),
        ("s + s", "string -> string", "ab" * 8_192, "ab" * 16_384),
        ("s.contains('z')", "string -> bool", "x" * 32_768, False),
        ("s.matches('^[a-z]+$')", "string -> bool", "x" * 32_768, True),
        ("xs.filter(x, x.matches('^ERROR'))", "[string] -> [string]", ["ERROR a", "b"] * 32, ["ERROR a"] * 32),
        ("xs.filter(x, x.score > 1.0)", f"{RECORDS} -> json", [{"id": 1, "title": "a", "score": 1.0}] * 100, []),
        (
            "xs.filter(x, x.score > 1.0).map(x, x.id)",
            f"{RECORDS} -> [int]",
            [{"id": 1, "title": "a", "score": 2.0}] * 100,
            [1] * 100,
        ),
        (
            "xs.map(x, {'a': x.id, 'b': x.title})",
            f"{RECORDS} -> json",
            [{"id": 1, "title": "a", "score": 2.0}] * 100,
            [{"a": 1, "b": "a"}] * 100,
        ),
        ("v", "json -> json", {"a": [{"b": 1}] * 100}, {"a": [{"b": 1}] * 100}),
        ("s.replace(',', ';')", "string -> string", "a," * 1_000, "a;" * 1_000),
        ("s.split(',')", "string -> [string]", "a," * 500 + "a", ["a"] * 501),
    ],
)
def test_what_ordinary_tools_do_is_within_the_bounds(source: str, arrow: str, value: object, result: object) -> None:
    assert evaluate(source, arrow, value) == result


@pytest.mark.parametrize(
    ("source", "arrow", "value", "what"),
    [
        ("xs", "[int] -> [int]", [1] * 1_025, "1024 entries in one list or record"),
        ("xs.map(x, x)", "[int] -> [int]", [1] * 129, "128 entries in one list or record"),
        ("v.map(k, k)", "json -> json", dict.fromkeys(map(str, range(129))), "128 entries in one list or record"),
        ("v", "json -> json", [[1] * 100] * 11, "1024 values"),
        # Each list and each record is made anew, whatever it holds.
        ("v", "json -> json", [{}] * 256, "1024 values"),
        ("s", "string -> string", "x" * 65_537, "65536 bytes of text"),
        ("s", "string -> string", "é" * 40_000, "65536 bytes of text"),
        ("v", "json -> json", ["é" * 1_000] * 40, "65536 bytes of text"),
        ("v", "json -> json", {"x" * 70_000: 1}, "65536 bytes of text"),
        # What is read is counted together, wherever it stands.
        ("s + t", "{s: string, t: string} -> json", {"s": "x" * 60_000, "t": "x" * 9_000}, "65536 bytes of text"),
        ("size(xs) + size(ys)", "{xs: [int], ys: [int]} -> int", {"xs": [1] * 600, "ys": [1] * 600}, "1024 values"),
        ("input.a", "{a: int, v: json} -> int", {"a": 1, "v": [[1] * 100] * 10}, "1024 values"),
        # What multiplies its text takes less of it.
        ("s.matches('(a|b)*a(a|b){20}c')", "string -> bool", "ab" * 500, "256 bytes of text"),
        ("s.contains(s + 'y')", "string -> bool", "x" * 20_000, "4096 bytes of text"),
        ("s.split('').map(x, x)", "string -> json", "x" * 1_000, "128 bytes of text"),
    ],
)  # fmt: skip
def test_an_input_beyond_the_bounds_is_refused(source: str, arrow: str, value: object, what: str) -> None:
    assert evaluate(source, arrow, value) == refused(what)


def test_a_deep_input_is_refused() -> None:
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    assert evaluate("v", "json -> json", deep) == refused("64 lists and records within each other")


@pytest.mark.parametrize("value", ["a\0", ["\0"], {"\0": 1}, [1, "a\0"]])
def test_a_text_that_the_engine_would_cut_is_refused(value: object) -> None:
    look = look_at(InputBounds(800, 800, 65_536), None)
    assert look(value) == FailedEvaluation("the input holds a text with a null character", invalid_input=True)


@pytest.mark.parametrize("value", ["\ud800", [{"a": "\udfff"}]])
def test_a_text_that_is_no_unicode_is_refused(value: object) -> None:
    look = look_at(InputBounds(800, 800, 65_536), None)
    why = "the input holds a text with a lone surrogate, which is no character"
    assert look(value) == FailedEvaluation(why, invalid_input=True)


def test_what_is_not_read_is_not_counted() -> None:
    value = {"a": 1, "xs": [1] * 100_000, "s": "x" * 1_000_000}
    assert evaluate("a + 1", "{a: int, xs: [int], s: string} -> int", value) == 2


def test_an_input_that_just_passes_is_counted_like_one_that_is_looked_at_closely() -> None:
    look = look_at(InputBounds(16, 10, 8), None)
    assert look([1] * 10) is None
    assert look(["ab"] * 4 + [1] * 6) is None
    assert look([1] * 11) == refused("10 entries in one list or record")
    assert look([[], [], []]) is None
    assert look([[], [], [], []]) == refused("16 values")
    assert look("é" * 4) is None
    assert look("é" * 5) == refused("8 bytes of text")


SOURCES = (
    "xs.map(x, x + 1)", "xs.filter(x, x in ys)", "s + t", "[s, t]", "s.contains(t)", "xs + ys", "v", "v == v",
    "[v].map(x, [x, x])", "string(bytes(s))", "s.matches('a+')", "size(s) > size(xs)", "xs.map(x, [ys, ys])",
    "{'a': xs, 'b': s}", "has(v.a) ? v.a : v", "xs == ys ? s : t", "s.substring(0)", "s.charAt(0)", "s.indexOf(t)",
    "s.replace(t, s)", "s.replace('', t)", "s.replace('a', 'bb')", "s.split(t)", "s.split('')", "s.split('').join(t)",
    "[s, t].join(s)", "s.trim() + t.reverse()", "s.split('a').map(x, x.upperAscii())", "v.a.map(x, [x, s])",
    "v.b.map(k, v.b[k])", "[s].map(a, a + a).map(b, b + b)", "xs.map(x, v).filter(w, has(w.a))",
)  # fmt: skip
NUMBERS = st.lists(st.integers(0, 3), max_size=12)
TEXT = st.text("ab", max_size=30)


def sized(value: object) -> tuple[int, int]:
    """Values and bytes of text, as the look counts them."""
    if isinstance(value, str):
        return 1, len(value.encode())
    if isinstance(value, list | dict):
        parts = [sized(part) for part in (value if isinstance(value, list) else [*value, *value.values()])]
        return 4 + sum(part[0] for part in parts), sum(part[1] for part in parts)
    return 1, 0


@given(st.sampled_from(SOURCES), NUMBERS, NUMBERS, TEXT, TEXT)
def test_what_is_made_is_never_larger_than_was_counted(
    source: str, xs: list[int], ys: list[int], s: str, t: str
) -> None:
    values = {"xs": xs, "ys": ys, "s": s, "t": t, "v": {"a": xs, "b": {"c": s}}}
    made = sized(environment().compile(source).eval(data=values).plain_value())
    given_values, given_text = sized(values)
    bounds = InputBounds(given_values, 12, given_text)
    # A list of texts, as `split` makes it, is counted as half, since it costs less on its way out.
    counted = counted_size(source, bounds)
    assert made[0] <= counted[0] * (2 if "split" in source else 1)
    assert made[1] <= counted[1]


def counted_size(source: str, bounds: InputBounds) -> tuple[float, float]:
    work = Work(tree(source), Size(bounds.values, bounds.text, bounds.entries, bounds.text), TYPES, {})
    size = work.visit(tree(source).root, {}, 1)
    return size.values, size.text


@pytest.mark.parametrize("source", SOURCES)
def test_smaller_bounds_never_cost_more(source: str) -> None:
    read = tree(source)
    for larger, smaller in pairwise(VALUES):
        for text in TEXTS:
            most, less = InputBounds(*larger, text), InputBounds(*smaller, text // 2)
            assert work_ns(read, less, TYPES, {}) <= work_ns(read, most, TYPES, {})


@pytest.mark.parametrize("source", SOURCES)
def test_the_bounds_keep_the_evaluation_within_the_budget(source: str) -> None:
    read = tree(source)
    assert work_ns(read, bounds_of(read, TYPES, {}), TYPES, {}) <= BUDGET_NS
