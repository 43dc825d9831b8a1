"""The lines of a JSON file."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.problems import Path
from tooldispatchd.config.documents import JsonLines

TEXT = """\
{
  "a": {"b": [1,
    {"x": "}\\n"},
    []], "c": {}},
  "d\\u0065": -1.5e3,
  "f": [
    true
  ]
}
"""


def test_every_key_and_item_has_its_line() -> None:
    lines = JsonLines(TEXT)
    wanted: dict[Path, int] = {
        ("a",): 2,
        ("a", "b", 0): 2,
        ("a", "b", 1, "x"): 3,
        ("a", "b", 2): 4,
        ("a", "c"): 4,
        ("de",): 5,
        ("f",): 6,
        ("f", 0): 7,
    }
    assert {path: lines.line_of(path) for path in wanted} == wanted


def test_what_is_not_there_has_the_line_of_what_is_around_it() -> None:
    lines = JsonLines(TEXT)
    assert [lines.line_of(path) for path in [("a", "b", 1, "y", 5), ("a", "z"), ("z",), ()]] == [3, 2, 1, 1]


def test_its_depth_is_that_of_arrays_and_objects() -> None:
    assert [JsonLines(text).depth for text in ("1", "{}", '{"a": [[1], 2]}', "[" * 5000 + "]" * 5000)] == [
        0,
        1,
        3,
        5000,
    ]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(VALUES)
def test_a_text_on_lines_of_its_own_is_counted_right(value: object) -> None:
    text = json.dumps({"before": value, "after": 1}, indent=1)
    assert JsonLines(text).line_of(("after",)) == text.count("\n")
