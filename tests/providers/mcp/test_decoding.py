"""Large values decoded in passes."""

from collections.abc import Generator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tooldispatchd.providers.mcp.decoding import PASS_BYTES, decode_in_steps

ROW = {"n": 1, "s": "x" * 100, "of": [1.5, None, True]}


def run(steps: Generator[None, None, object]) -> tuple[object, int]:
    """The result, and the number of stops before it."""
    stops = 0
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value, stops
        stops += 1


@pytest.mark.parametrize(
    "value",
    [
        [ROW] * 10_000,
        {"a": {"rows": [ROW] * 10_000}, "b": 2},
        {str(number): number for number in range(50_000)},
        [[[[[[ROW] * 10_000]]]]],
        ["x" * PASS_BYTES, ["y" * PASS_BYTES], {}],
    ],
)
def test_a_large_value_is_the_same_as_decoded_at_once(value: object) -> None:
    decoded, stops = run(decode_in_steps(Raw(msgspec.json.encode(value))))
    assert decoded == value
    assert stops > 0


@given(st.recursive(st.none() | st.integers() | st.text(), lambda of: st.lists(of) | st.dictionaries(st.text(), of)))
def test_a_small_value_is_decoded_at_once(value: object) -> None:
    assert run(decode_in_steps(Raw(msgspec.json.encode(value)))) == (value, 0)


def test_what_is_no_json_raises_as_a_decoder_does() -> None:
    with pytest.raises(msgspec.DecodeError):
        run(decode_in_steps(Raw(b"[" + b"1," * PASS_BYTES + b"]")))
