import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.pointers import at, escape, unescape


@given(st.text())
def test_a_key_is_read_back_from_its_step(key: str) -> None:
    assert "/" not in escape(key)
    assert unescape(escape(key)) == key
    assert at({key: 1}, f"/{escape(key)}") == 1


@pytest.mark.parametrize(
    ("pointer", "found"),
    [("", {"a": [1, {"b/c": 2}]}), ("/a/0", 1), ("/a/1/b~1c", 2), ("/a/2", None), ("/a/x", None), ("/a/0/b", None)],
)
def test_a_pointer_leads_to_a_value_or_nowhere(pointer: str, found: object) -> None:
    assert at({"a": [1, {"b/c": 2}]}, pointer) == found
