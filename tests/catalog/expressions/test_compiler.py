from collections.abc import Mapping

import pytest

from tooldispatchd.catalog.expressions.compiler import CompiledExpression, EngineValue, ExpressionRun, Scope
from tooldispatchd.catalog.expressions.door import (
    Expression,
    ExpressionError,
    FailedEvaluation,
    compile_expression,
    compile_predicate,
)
from tooldispatchd.catalog.types import parse_arrow, parse_type

DECLARED = {
    "Pos": parse_type("{lat: number, lon?: number}"),
    "Tree": parse_type("{n: int, kids: [Tree]}"),
    "Nest": parse_type("[Nest]"),
}

UNEXACT = "a number cannot hold an integer of the input exactly: declare it as int, json or string"


def compiled(source: str, arrow: str) -> Expression:
    input_type, output_type = parse_arrow(arrow)
    return compile_expression(source, input_type=input_type, output_type=output_type, declared=DECLARED)


def run(source: str, arrow: str, value: object) -> object:
    return compiled(source, arrow).evaluate(value)


@pytest.mark.parametrize(
    ("source", "arrow", "value", "result"),
    [
        # One free name, or `input`, is an input that is no record.
        ("score * 2", "int -> int", 21, 42),
        ("input * 2", "int -> int", 21, 42),
        ("score + input", "int -> int", 1, 2),
        ("7", "int -> int", 1, 7),
        ("xs.map(x, x * 2)", "[int] -> [int]", [1, 2], [2, 4]),
        ("person.name", "json -> json", {"name": "Ann"}, "Ann"),
        ("v == null ? 0 : int(v)", "int | unit -> int", None, 0),
        ("// the input\n'score: ' + string(score)", "int -> string", 1, "score: 1"),
        # The fields of a record are variables.
        ("a + b", "{a: int, b: int} -> int", {"a": 1, "b": 2}, 3),
        ("input.a + b", "{a: int, b: int} -> int", {"a": 1, "b": 2}, 3),
        ("input", "{input: int} -> {input: int}", {"input": 1}, {"input": 1}),
        ("input.input", "{input: int} -> int", {"input": 1}, 1),
        ("pos.lat * 2.0 + input.pos.lat", "{pos: Pos} -> number", {"pos": {"lat": 1.5}}, 4.5),
        ("kids.size() + n", "Tree -> int", {"n": 1, "kids": [{"n": 2, "kids": []}]}, 2),
        ("xs.map(a, a + 1)", "{xs: [int], a: string} -> [int]", {"xs": [1], "a": "x"}, [2]),
        ("pos.all(key, key != 'x')", "{pos: Pos} -> bool", {"pos": {"lat": 1}}, True),
        ("size", "{size: int} -> int", {"size": 3}, 3),
        # Fields whose names are no identifiers, or the engine's own.
        ('input["in"] + input["a-b"]', "{in: int, a-b: int} -> int", {"in": 1, "a-b": 2}, 3),
        ("input.int + int(1.0)", "{int: int} -> int", {"int": 1}, 2),
        ('input["package"]', "{package: int} -> int", {"package": 1}, 1),
        # An optional field.
        ("has(input.limit) ? limit : 5", "{limit?: int} -> int", {}, 5),
        ("has(input.limit) ? limit : 5", "{limit?: int} -> int", {"limit": 3}, 3),
        ("has(input.limit) ? input.limit : 5", "{limit?: int} -> int", {}, 5),
        ("has(pos.lon) ? pos.lon : 0.0", "{pos: Pos} -> number", {"pos": {"lat": 1.0}}, 0.0),
        ("has(pos.lat)", "{pos: Pos} -> bool", {"pos": {"lat": 1.0}}, True),
        # Numbers: a whole float is an int where an int is declared, an int is a double where a number is.
        ("score * 2", "int -> int", 21.0, 42),
        ("a * 2", "{a: int} -> int", {"a": 21.0}, 42),
        ("xs", "[int] -> [int]", [1.0], [1]),
        ("score * 2.0", "number -> number", 21, 42.0),
        ("score * 2.0", "number -> number", 2**70, 2.0**71),
        ("pos.lat * 2.0", "{pos: Pos} -> number", {"pos": {"lat": 1}}, 2.0),
        ("xs.map(x, x.lat * 2.0)", "[Pos] -> [number]", [{"lat": 1}], [2.0]),
        ("v == null ? 0.0 : v * 2.0", "number | unit -> number", 1, 2.0),
        ("pair[0] * 2.0", "(number, string) -> number", [1, "x"], 2.0),
        ("input.v * 2.0", "{v: {w: int} | number} -> number", {"v": 1}, 2.0),
        ("input.v.w + 1", "{v: {w: int} | number} -> json", {"v": {"w": 1.0}}, 2),
        # Results: a string that reads like the engine's errors, whole values, keys in the order of the output.
        ("s", "string -> string", "INVALID_ARGUMENT: x", "INVALID_ARGUMENT: x"),
        ("s", "json -> json", "UNKNOWN: x", "UNKNOWN: x"),
        ("input", "json -> json", {"b": [1, 2.5, None, True, "é"]}, {"b": [1, 2.5, None, True, "é"]}),
        ("null", "int -> unit", 1, None),
        ("[a, 'x']", "{a: int} -> (int, string)", {"a": 1}, [1, "x"]),
        ("'x' + s", "string -> json", "y", "xy"),
        ("1u", "int -> int", 1, 1),
        # Defined where other languages differ: division goes toward zero, and what decides needs no other side.
        ("-7 / 2", "int -> int", 1, -3),
        ("-7 % 2", "int -> int", 1, -1),
        ("int(n)", "number -> int", -1.9, -1),
        ("true || 1 / n == 1", "int -> bool", 0, True),
        ("v == 1", "json -> bool", 1.0, True),
        ("v == 'a'", "json -> bool", 1, False),
        ("string(timestamp(s))", "string -> string", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("string(duration(s))", "string -> string", "1h", "3600s"),
        ("string(bytes(s))", "string -> string", "é", "é"),
    ],
)
def test_an_expression_gives_its_value(source: str, arrow: str, value: object, result: object) -> None:
    assert run(source, arrow, value) == result


def test_a_result_keeps_the_kind_of_its_numbers() -> None:
    assert type(run("score * 2", "int -> int", 21.0)) is int
    assert type(run("score", "number -> number", 21)) is float
    assert type(run("s > 0", "int -> bool", 1)) is bool


def test_the_keys_of_a_result_stand_in_the_order_of_the_output_and_others_in_theirs() -> None:
    result = run("{'b': 1, 'd': {'y': 1, 'x': 2}, 'c': 'x', 'a': 2}", "int -> {c: string, a: int, b: int, d: json}", 1)
    assert list(result) == ["c", "a", "b", "d"]  # type: ignore[call-overload]
    assert list(result["d"]) == ["x", "y"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("source", "arrow", "value", "why"),
    [
        ("1 / n", "int -> int", 0, "divide by zero"),
        ("[1 / n]", "int -> [int]", 0, "divide by zero"),
        ("{'a': 1 / n, 'b': 'x'}", "int -> json", 0, "divide by zero"),
        ("string(1 / n)", "int -> string", 0, "divide by zero"),
        ("n * 2", "int -> int", 2**62, "integer overflow"),
        ("limit", "{limit?: int} -> int", {}, 'the input has no "limit"'),
        ("input.limit", "{limit?: int} -> int", {}, 'there is no field "limit"'),
        ("pos.lon", "{pos: Pos} -> number", {"pos": {"lat": 1}}, 'there is no field "lon"'),
        ("v.x", "json -> json", {}, 'there is no field "x"'),
        ("v[0]", "json -> json", [], "there is no item 0: the list has 0"),
        ("n * 10.0", "number -> number", 1e308, "the result holds inf, which JSON cannot say"),
        ("n / n", "number -> number", 0.0, "the result holds nan, which JSON cannot say"),
        ("[n / n]", "number -> [number]", 0.0, "the result holds nan, which JSON cannot say"),
        ("dyn(b'x')", "int -> json", 1, "the result holds a value that JSON cannot say: bytearray"),
        ("[dyn(duration('1s'))]", "int -> json", 1, "the result holds a value that JSON cannot say: timedelta"),
        ("{dyn(1): 2}", "int -> json", 1, "the result holds a map whose keys are no strings"),
        ("n / 0", "int -> int", 1, "divide by zero"),
        ("n % 0", "int -> int", 1, "modulus by zero"),
        ("-n", "int -> int", -(2**63), "integer overflow"),
        ("n / 0.0", "number -> number", 1, "the result holds inf, which JSON cannot say"),
        ("double(s)", "string -> number", "1e999", "the result holds inf, which JSON cannot say"),
        ("int(n)", "number -> int", 1e300, "double out of int64 range"),
        ("1u - 2u", "int -> int", 1, "unsigned integer overflow"),
        ("uint(n)", "int -> int", -1, "int64 out of uint64 range"),
        ("18446744073709551615u", "int -> int", 1, "the result holds an integer outside 64 bits"),
        ("v + 1", "json -> json", None, "+ does not take (unit, int)"),
        ("v * 2", "json -> json", 1.5, "* does not take (number, int)"),
        ("v ? 1 : 2", "json -> int", 1, "a condition made no bool"),
        ("v.a", "json -> json", 1, "a field was asked of a value that is no record"),
        ("size(v)", "json -> json", 1, "size does not take (int)"),
        ("{s: 1, s: 2}", "string -> json", "a", "duplicate key in map"),
        ("{v: 1}", "json -> json", 1, "the result holds a map whose keys are no strings"),
        ("xs[3]", "[int] -> int", [1], "there is no item 3: the list has 1"),
        ("xs[-1]", "[int] -> int", [1], "there is no item -1: the list has 1"),
        ("int(s)", "string -> int", "x", "cannot convert string to int"),
        ("int(s)", "string -> int", "9223372036854775808", "cannot convert string to int"),
        ("double(s)", "string -> number", "x", "cannot convert string to double"),
        ("bool(s)", "string -> bool", "maybe", "Type conversion error from 'string' to 'bool'"),
        ("string(timestamp(s))", "string -> string", "soon", "String to Timestamp conversion failed"),
        ("string(duration(s))", "string -> string", "soon", "String to Duration conversion failed"),
        ("string(b'\\xff')", "int -> string", 1, "malformed UTF-8 bytes"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s') > timestamp(0)", "int -> bool", 1, "timestamp overflow"),
    ],
)
def test_a_failed_evaluation_is_a_value(source: str, arrow: str, value: object, why: str) -> None:
    assert run(source, arrow, value) == FailedEvaluation(why)


@pytest.mark.parametrize(
    ("source", "arrow", "value", "why"),
    [
        ("n", "int -> int", 2**63, "an integer outside 64 bits"),
        ("n", "int -> int", -(2**63) - 1, "an integer outside 64 bits"),
        ("a", "{a: int} -> int", {"a": 2**63}, "/a: an integer outside 64 bits"),
        ("input.a + 1", "{a: int} -> int", {"a": 2**63}, "/a: an integer outside 64 bits"),
        ("input", "json -> json", [{"x": 2**64}], "/0/x: an integer outside 64 bits"),
        ("n", "number -> number", 2**53 + 1, UNEXACT),
        ("n", "{n: number} -> number", {"n": -(2**53) - 1}, UNEXACT),
        ("ns", "{ns: [number]} -> [number]", {"ns": [1, 2**60 + 1]}, UNEXACT),
        ("n", "number -> number", 10**400, "an integer of the input is too large for a number"),
        ("s + s", "string -> string", "\ud800", "the input holds a text with a lone surrogate, which is no character"),
        ("v", "json -> json", ["\udc00"], "the input holds a text with a lone surrogate, which is no character"),
    ],
)
def test_an_integer_outside_64_bits_is_the_inputs_fault(source: str, arrow: str, value: object, why: str) -> None:
    assert run(source, arrow, value) == FailedEvaluation(why, invalid_input=True)


@pytest.mark.parametrize(
    ("source", "arrow", "value"),
    [
        ("s", "string -> string", "a\0b"),
        ("size(s)", "string -> int", "\0"),
        ("xs.size()", "[string] -> int", ["a", "b\0"]),
        ("v", "json -> json", {"a": [{"b\0": 1}]}),
        ("input", "{s: string, n: int} -> json", {"s": "\0", "n": 1}),
        ("t + s", "{s: string, t: string} -> string", {"s": "\0", "t": ""}),
    ],
)
def test_a_text_that_the_engine_would_cut_is_refused(source: str, arrow: str, value: object) -> None:
    assert run(source, arrow, value) == FailedEvaluation(
        "the input holds a text with a null character", invalid_input=True
    )


def test_a_null_character_in_a_field_that_is_not_read_does_no_harm() -> None:
    assert run("n", "{s: string, n: int} -> int", {"s": "\0", "n": 1}) == 1
    assert run("n > 0 ? 'a\\u0000b' : ''", "int -> string", 1) == "a\0b"


@pytest.mark.parametrize("edge", [2**63 - 1, -(2**63)])
def test_the_widest_integers_pass(edge: int) -> None:
    assert run("n", "int -> int", edge) == edge


@pytest.mark.parametrize(
    ("source", "arrow", "why"),
    [
        ("scor * 2", "{score: int} -> int", 'column 1: nothing is named "scor"; did you mean "score"?'),
        ("zzz", "{a: int, b: int} -> int", 'column 1: nothing is named "zzz"; there are a, b'),
        ("zzz", "{} -> int", 'column 1: nothing is named "zzz"'),
        (
            "input.pos.lat + input.pos.lo",
            "{pos: Pos} -> number",
            'column 26: nothing is named "input.pos.lo"; did you mean "input.pos.lon"?',
        ),
        ("1 +\n  bar", "{a: int} -> int", 'line 2, column 3: nothing is named "bar"; there are a'),
        ("'é😀' + foo", "{a: int} -> string", 'column 8: nothing is named "foo"; there are a'),
        ("a + b", "int -> int", "column 1: the input is int, so one free name stands for it: there are a, b"),
        ("frob(input)", "int -> int", "column 1: there is no function frob"),
        (
            "text.substr(1)",
            "string -> string",
            "column 6: there is no function substr; did you mean substring?",
        ),
        (
            "name.upper()",
            "{name: string} -> string",
            "column 6: there is no function upper; did you mean upperAscii?",
        ),
        ("1 +\n  frob(a, 1)", "{a: int} -> int", "line 2, column 3: there is no function frob"),
        ("1 +", "int -> int", "column 4: Syntax error: mismatched input '<EOF>'"),
        (" ", "int -> int", "column 1: an expression is expected"),
        ("\0", "int -> int", "column 1: an expression is text without null characters and lone surrogates"),
        ("'\ud800'", "int -> int", "column 1: an expression is text without null characters and lone surrogates"),
        ("9223372036854775808", "int -> int", "column 1: invalid int literal"),
        ("{'a': 1,\n 'a': 2}", "int -> json", 'line 2, column 2: a record has "a" twice'),
        ("n + 1u", "int -> int", "column 3: + does not take (int, uint)"),
        ("s.matches('(')", "string -> bool", "column 11: invalid regular expression: missing ): ("),
        (
            "s.matches(s)",
            "string -> bool",
            "column 1: matches needs a pattern that stands in the expression as one text",
        ),
        (
            "s\n.matches('\\\\pL{300}')",
            "string -> bool",
            "line 2, column 10: this pattern would take too much work, whatever the text",
        ),
        (
            "// one\n\n  'a' + 'b'",
            "int -> int",
            "line 3, column 3: the expression makes string, but the tool's output is int",
        ),
        (
            "n >\n 1 ? 'a' : 'b'",
            "int -> int",
            "column 1: the expression makes string, but the tool's output is int",
        ),
        ("  duration('1s')", "int -> json", "column 3: the expression makes duration, which JSON cannot say"),
        (
            "google.protobuf.Struct{fields: {}}.size()",
            "int -> int",
            "column 1: google.protobuf.Struct is a message, which is not for tools",
        ),
        ("1" * 8_193, "int -> int", "column 1: an expression has at most 8192 characters"),
        ("(" * 40 + "1" + ")" * 40, "int -> int", "column 1: Expression recursion limit exceeded. limit: 32"),
        ("package", "{package: int} -> int", "column 1: reserved identifier: package"),
        ("has(limit)", "{limit?: int} -> bool", 'column 5: has() takes a field of a record: write "has(input.x)"'),
        (
            "score * 2",
            "number -> number",
            "column 7: * does not take (number, int); int and number do not mix: write 2.0 for 2, or double(x) for x",
        ),
        (
            "pos.lat * 2",
            "{pos: Pos} -> number",
            "column 9: * does not take (number, int); int and number do not mix: write 2.0 for 2, or double(x) for x",
        ),
        ("name + 1", "{name: string} -> string", "column 6: + does not take (string, int)"),
        ("b ? 'x' : 1", "bool -> json", "column 3: ? : does not take (bool, string, int)"),
        ("a.b", "{a: int} -> int", "column 2: expression of type 'int' cannot be the operand of a select operation"),
    ],
)
def test_a_wrong_expression_is_told_when_it_is_compiled(source: str, arrow: str, why: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compiled(source, arrow)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("source", "arrow", "why"),
    [
        (
            "n * 2.0",
            "number -> int",
            "the expression makes number, but the tool's output is int; int(x) makes an int of it",
        ),
        ("'x'", "int -> int", "the expression makes string, but the tool's output is int"),
        ("[n]", "int -> [string]", "the expression makes [int], but the tool's output is [string]"),
        ("[n, n]", "int -> (int, string)", "the expression makes [int], but the tool's output is (int, string)"),
        (
            "{'a': n}",
            "int -> {a: string}",
            "the expression makes a record of int, but the tool's output is {a: string}",
        ),
        ("{'a': n, 'b': 'x'}", "int -> [int]", "the expression makes a record, but the tool's output is [int]"),
        ("n", "int -> Pos", "the expression makes int, but the tool's output is Pos"),
        ("n", "int -> string | bool", "the expression makes int, but the tool's output is string | bool"),
        ("null", "int -> {}", "the expression makes unit, but the tool's output is {}"),
        ("b'x'", "int -> json", "the expression makes bytes, which JSON cannot say"),
        ("duration('1s')", "int -> string", "the expression makes duration, which JSON cannot say"),
        ("type(n)", "int -> json", "the expression makes type, which JSON cannot say"),
        ("{1: n}", "int -> json", "the expression makes a record of int, which JSON cannot say"),
    ],
)
def test_an_expression_of_another_type_is_told_when_it_is_compiled(source: str, arrow: str, why: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compiled(source, arrow)
    assert caught.value.why == why


@pytest.mark.parametrize(
    ("source", "arrow"),
    [
        ("n", "int -> number"),
        ("{'a': n}", "int -> {a: int, b?: string}"),
        ("{'a': n, 'b': 'x'}", "int -> {a: int, b: string}"),
        ("v", "json -> int"),
        ("[]", "int -> [string]"),
        ("n", "int -> string | number"),
        ("[[]]", "int -> Nest"),
    ],
)
def test_what_may_be_right_is_left_to_the_output_check(source: str, arrow: str) -> None:
    assert compiled(source, arrow)


@pytest.mark.parametrize(
    ("source", "input_type", "output"),
    [
        ("n * 2", "int", "int"),
        ("n * 2.0", "number", "number"),
        ("1u", "int", "int"),
        ("string(n)", "int", "string"),
        ("n > 1", "int", "bool"),
        ("null", "int", "unit"),
        ("v", "json", "json"),
        ("v.a", "json", "json"),
        ("pos", "{pos: Pos}", "json"),
        ("pos.lat", "{pos: Pos}", "number"),
        ("has(input.a) ? a : 1", "{a?: int}", "int"),
        ("xs.filter(x, x > 1)", "[int]", "[int]"),
        ("xs.map(x, {'a': x})", "[int]", "[{a: int}]"),
        ("xs.all(x, x > 1)", "[int]", "bool"),
        ("[[1.0]]", "int", "[[number]]"),
        ("[]", "int", "[json]"),
        ("{}", "int", "{}"),
        ("{'a': n, 'b': [n], 'c': {'d': 'x'}}", "int", "{a: int, b: [int], c: {d: string}}"),
        ("n > 1 ? {'a': 1} : {'a': 2}", "int", "{a: int}"),
        ("n > 1 ? {'a': 1} : {'b': 2}", "int", "json"),
        ("{s: 1}", "string", "json"),
        ("{'a b': 1}", "int", "json"),
    ],
)
def test_an_expression_without_an_output_type_says_it_itself(source: str, input_type: str, output: str) -> None:
    expression = compile_expression(source, input_type=parse_type(input_type), declared=DECLARED)
    assert expression.output == parse_type(output)


def test_an_expression_with_an_output_type_keeps_it() -> None:
    assert compiled("n", "int -> number").output == parse_type("number")


@pytest.mark.parametrize(
    ("source", "input_type", "value", "result"),
    [
        ("n > 1", "int", 2, True),
        ("v.keep", "json", {"keep": False}, False),
        ("v.keep", "json", {"keep": 1}, FailedEvaluation("the expression made no bool of this input")),
        ("v.keep", "json", {}, FailedEvaluation('there is no field "keep"')),
    ],
)
def test_a_predicate_gives_a_bool_or_a_failure(source: str, input_type: str, value: object, result: object) -> None:
    expression = compile_predicate(source, input_type=parse_type(input_type), declared=DECLARED)
    assert expression.evaluate(value) == result
    assert expression.output == parse_type("bool")


def test_a_predicate_that_makes_no_bool_is_told_when_it_is_compiled() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_predicate(" n + 1", input_type=parse_type("int"), declared={})
    assert str(caught.value) == "column 2: the expression makes int, but a filter asks for a bool"


def test_a_value_of_any_depth_is_a_value_or_a_failure() -> None:
    deep: object = 1
    for _ in range(900):
        deep = [deep]
    assert isinstance(run("v", "json -> json", deep), FailedEvaluation | list)
    assert isinstance(run("[v, v]", "Nest -> json", deep), FailedEvaluation | list)


@pytest.mark.parametrize(
    ("arrow", "source", "why"),
    [
        ("{x: int} -> {a: int}", "{'b': x}", "field a: there is none in {b: int}"),
        ("{x: int} -> {a: int, b: int}", "{'a': x}", "field b: there is none in {a: int}"),
        ("{x: string} -> {a: bool, b: int}", "{'a': size(x) > 2, 'b': x}", "field b: string is not int"),
    ],
)
def test_a_record_that_an_expression_makes_is_checked_when_it_is_compiled(arrow: str, source: str, why: str) -> None:
    taken, given = parse_arrow(arrow)
    with pytest.raises(ExpressionError) as failed:
        compile_expression(source, input_type=taken, output_type=given, declared={})
    assert failed.value.why.endswith(f": {why}")


class CountedRuns:
    """A compiled expression that counts its runs."""

    def __init__(self, compiled: CompiledExpression) -> None:
        self.count = 0
        self._compiled = compiled

    def eval(self, *, data: Mapping[str, object]) -> EngineValue:
        self.count += 1
        return self._compiled.eval(data=data)

    def serialize(self) -> bytes:
        return self._compiled.serialize()


@pytest.mark.parametrize(
    ("source", "arrow", "value"),
    [
        ("xs.map(x, x / 0)", "[int] -> [int]", [1]),
        ("s.substring(9)", "string -> string", "a"),
        ("[s.substring(9)]", "string -> json", "a"),
        ("1 / n", "int -> int", 0),
    ],
)
def test_an_evaluation_that_fails_is_not_run_again(source: str, arrow: str, value: object) -> None:
    input_type, output_type = parse_arrow(arrow)
    scope = Scope(source, input_type, {})
    counted = CountedRuns(scope.compile_to_run())
    made = scope.check_types().root
    evaluate = ExpressionRun(scope, counted, output_type).fast_path(scope.check_types().type_of(made))
    assert isinstance(evaluate(value), FailedEvaluation)
    assert counted.count == 1


@pytest.mark.parametrize(
    ("source", "arrow", "value", "result"),
    [
        ("xs.map(x, x * 2)", "[int] -> [int]", [1, 2.0], [2, 4]),
        ("xs.map(x, x * 2.0)", "[number] -> [number]", [1, 2.5], [2.0, 5.0]),
        ("s + string(n)", "{s: string, n: int} -> string", {"s": "x", "n": 1.0}, "x1"),
    ],
)
def test_numbers_are_exact_in_what_is_looked_at(source: str, arrow: str, value: object, result: object) -> None:
    assert repr(run(source, arrow, value)) == repr(result)
