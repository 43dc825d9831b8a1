"""Equal values, and the one text that they have."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tooldispatchd.calls.canonical import canonical

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=40)
@given(values, values)
def test_two_inputs_are_one_only_where_they_are_equal(one: object, other: object) -> None:
    written = [canonical(msgspec.json.encode(value)) for value in (one, other)]
    if written[0] == written[1]:
        assert one == other


@pytest.mark.parametrize(
    ("one", "other", "is_one"),
    [
        (b'{"a":1,"b":2}', b'{"b":2,"a":1}', True),
        (b"1", b"1.0", True),
        (b"100", b"1e2", True),
        (b"0", b"-0.0", True),
        (b"1", b"true", False),
        (b"1", b'"1"', False),
        # A file may have either name.
        ('"\u00e9"'.encode(), '"e\u0301"'.encode(), False),
        (b'"\\u0041"', b'"A"', True),
        (b"[1,2]", b"[2,1]", False),
        (b"9007199254740993", b"9007199254740992.0", False),
    ],
)
def test_how_a_value_is_written_makes_no_difference(one: bytes, other: bytes, *, is_one: bool) -> None:
    assert (canonical(one) == canonical(other)) is is_one
