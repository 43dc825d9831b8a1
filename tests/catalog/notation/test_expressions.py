import pytest

from tests.catalog.notation.reading import read, table
from tooldispatchd.catalog.expressions.door import ExpressionError, compile_expression
from tooldispatchd.catalog.notation.places import SourcePosition
from tooldispatchd.catalog.types import parse_type

VERDICT = "{verdict: bool, score: int, draft: string, urgent?: bool, type: string, tags: [string]}"


def cel(expression: str) -> object:
    """The CEL text of an expression in `map(…)`."""
    return table(f"let f : A -> B = map({expression})", "tools", "f", "map")


def evaluated(expression: str, source: str, target: str, value: object) -> object:
    """What the engine makes of the expression."""
    text = cel(expression)
    assert isinstance(text, str)
    return compile_expression(
        text, input_type=parse_type(source), output_type=parse_type(target), declared={}
    ).evaluate(value)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("score * 2", "score * 2"),
        ("verdict = false", "verdict == false"),
        ("a == b", "a == b"),
        ("a != b && a <= b && a >= b", "a != b && a <= b && a >= b"),
        ("a=b", "a==b"),
        ("not verdict", "!verdict"),
        ("not not a", "!!a"),
        ("not(a = b)", "!(a == b)"),
        (".", "input"),
        (". = 3", "input == 3"),
        (".[1].grounded", "input[1].grounded"),
        (".verdict", "input.verdict"),
        ("size(.) + .x", "size(input) + input.x"),
        ("[., .a]", "[input, input.a]"),
        ("x.not", "x.not"),
        ("f(x).y.z", "f(x).y.z"),
        ("xs[0].y", "xs[0].y"),
        (". in xs", "input in xs"),
        ("{verdict, score: s}", '{"verdict": verdict, "score": s}'),
        ("{a: 1 b: 2}", '{"a": 1, "b": 2}'),
        ("{a b c}", '{"a": a, "b": b, "c": c}'),
        ("{a: x.y b}", '{"a": x.y, "b": b}'),
        ("{a: {b: {c}}}", '{"a": {"b": {"c": c}}}'),
        ('{"a b": 1, c: [2]}', '{"a b": 1, "c": [2]}'),
        ("{a: x in xs, b: not y}", '{"a": x in xs, "b": !y}'),
        ("{a: x in xs b: (1) c: [1] d}", '{"a": x in xs, "b": (1), "c": [1], "d": d}'),
        ("{type, int: 1}", '{"type": input.type, "int": 1}'),
        ("{a: c ? x : y}", '{"a": c ? x : y}'),
        ("{}", "{}"),
        ("{not a: 1}", "{!a: 1}"),
        ("Name{a: 1}", "Name{a: 1}"),
        ("xs.map(x, {x})", 'xs.map(x, {"x": x})'),
        ("xs.all(x, x.a = 1)", "xs.all(x, x.a == 1)"),
        ("score-2", "score-2"),
        ("-x - -1.5e3", "-x - -1.5e3"),
        ("0x1F + 1u + .5", "0x1F + 1u + .5"),
        ("\"a = b\" + 'not . {c}'", "\"a = b\" + 'not . {c}'"),
        ('"a ) \\" b"', '"a ) \\" b"'),
        ('"""a " = \n b"""', '"""a " = \n b"""'),
        ("r'\\' + b\"=\"", "r'\\' + b\"=\""),
        ("'''a = '''", "'''a = '''"),
        (" a\n + b ", "a\n + b"),
        ("a // = b\n + c", "a\n + c"),
        ("a (* = (* b *) *) = c # )\n", "a   == c"),
        ("(* (a *) b", "b"),
        ("c ? {a} : {b: 1}", 'c ? {"a": a} : {"b": 1}'),
        ("a + # one\n  # two\n (* three *)  \n b", "a +\n\n\n b"),
        ("a\r\n + b", "a\n + b"),
    ],
)
def test_what_is_written_shorter_becomes_cel(written: str, expected: str) -> None:
    assert cel(written) == expected


@pytest.mark.parametrize(
    ("expression", "source", "target", "value", "result"),
    [
        ("score * 2", "int", "int", 21, 42),
        ("{verdict, score: score * 2}", VERDICT, "{verdict: bool, score: int}",
         {"verdict": True, "score": 2, "draft": "", "type": "t", "tags": []}, {"verdict": True, "score": 4}),
        ("verdict = false && not (score >= 85)", VERDICT, "bool",
         {"verdict": False, "score": 2, "draft": "", "type": "t", "tags": []}, True),
        ("{type draft: draft + \"!\"}", VERDICT, "{type: string, draft: string}",
         {"verdict": False, "score": 2, "draft": "d", "type": "t", "tags": []}, {"type": "t", "draft": "d!"}),
        ("tags.exists(t, t = \"new\") ? .draft : \"\"", VERDICT, "string",
         {"verdict": False, "score": 2, "draft": "d", "type": "t", "tags": ["new"]}, "d"),
        ("[. , . + 1]", "int", "[int]", 1, [1, 2]),
        ("size(.)", "string", "int", "abc", 3),
        ("{a: . b: [.]}", "string", "{a: string, b: [string]}", "x", {"a": "x", "b": ["x"]}),
    ],
)  # fmt: skip
def test_the_engine_takes_what_becomes_of_it(
    expression: str, source: str, target: str, value: object, result: object
) -> None:
    assert evaluated(expression, source, target, value) == result


def test_an_error_of_the_engine_is_found_in_the_file() -> None:
    notation = read("let f : int -> {a: int} =\n  map({\n    a: 1 (* one *) + (not .)\n  })")
    text = table("let f : int -> {a: int} =\n  map({\n    a: 1 (* one *) + (not .)\n  })", "tools", "f", "map")
    assert isinstance(text, str)
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text, input_type=parse_type("int"), output_type=parse_type("{a: int}"), declared={})
    assert notation.place_in(("tools", "f", "map"), caught.value.line, caught.value.column) == SourcePosition(
        "f.plumb", 3, 23
    )


def test_the_middle_of_a_word_is_found_in_the_file() -> None:
    notation = read("let f = filter(not  score.total > 1)")
    assert notation.place_in(("processes", "f", "filter"), 1, 4) == SourcePosition("f.plumb", 1, 23)
    assert notation.place_in(("processes", "f", "filter"), 9, 9) == SourcePosition("f.plumb", 1, 35)
    assert notation.place_in(("processes", "f", "filter"), 0, 0) == SourcePosition("f.plumb", 1, 16)


@pytest.mark.parametrize(
    "expression", ["{and: x or: y}", "{and}", "{x, and, y}", ".and", "a.or && b", "x == -y", "a=!b"]
)
def test_words_of_other_languages_are_names_where_no_operand_is_joined(expression: str) -> None:
    assert read(f"let f = map({expression})").problems == ()
