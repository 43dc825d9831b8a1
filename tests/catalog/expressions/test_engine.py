"""The engine is safe to keep: what its results do to None is made up for."""

import sys

import pytest

from tooldispatchd.catalog.expressions.door import compile_expression
from tooldispatchd.catalog.expressions.engine import LENT, lend_none
from tooldispatchd.catalog.types import parse_arrow

NULLS = 100_000


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is immortal")
@pytest.mark.parametrize("source", ["v", "[v]", "v.map(x, x)", "v.filter(x, true)", "{'a': [null]}"])
def test_results_with_any_number_of_nulls_do_not_free_none(source: str) -> None:
    input_type, output_type = parse_arrow("json -> json")
    expression = compile_expression(source, input_type=input_type, output_type=output_type, declared={})
    for _ in range(NULLS // 100):
        expression.evaluate([None] * 100)
    assert sys.getrefcount(None) > LENT // 2


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is immortal")
def test_none_is_lent_to_once() -> None:
    lend_none()
    before = sys.getrefcount(None)
    lend_none()
    assert abs(sys.getrefcount(None) - before) < LENT // 2
