import subprocess
import sys

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.expressions.test_compiler import compiled
from tooldispatchd.catalog.expressions.door import ExpressionError, FailedEvaluation
from tooldispatchd.catalog.meanings import to_schema
from tooldispatchd.catalog.types import parse_type

JSON_VALUES: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON_VALUES)
def test_any_json_value_comes_back_as_it_was_or_is_refused_for_its_integers(value: object) -> None:
    result = compiled("input", "json -> json").evaluate(value)
    assert result == value or (isinstance(result, FailedEvaluation) and result.invalid_input)


@given(
    st.sampled_from(["a / b", "a % b", "a * b - a", "has(input.c) ? c : a", "[a, b].map(x, x * x)[0]", "-a", "c"]),
    st.fixed_dictionaries({"a": st.integers(), "b": st.integers(-1, 1)}, optional={"c": st.integers()}),
)
def test_arithmetic_gives_an_int_or_a_failure(source: str, value: dict[str, int]) -> None:
    result = compiled(source, "{a: int, b: int, c?: int} -> int").evaluate(value)
    assert isinstance(result, FailedEvaluation) or jsonschema.Draft202012Validator(
        to_schema(parse_type("int"), {})
    ).is_valid(result)


@given(st.text(alphabet="ab.+*()[]{}'\"?: 12,=<input\n", max_size=25))
def test_any_source_is_an_expression_or_an_error(source: str) -> None:
    try:
        expression = compiled(source, "{a: int, b: Pos} -> json")
    except ExpressionError as error:
        assert error.line >= 1  # noqa: PT017 - most sources are wrong, some are not
    else:
        expression.evaluate({"a": 1, "b": {"lat": 1.0}})


def test_the_engine_is_imported_only_where_an_expression_is_compiled() -> None:
    script = "import sys, tooldispatchd.catalog.tools; sys.exit('cel_expr_python' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
