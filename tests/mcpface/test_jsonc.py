import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.mcpface.jsonc import EditError, Json, read_jsonc, with_value

ENTRY: Json = {"command": "tooldispatchd", "args": ["mcp"]}
PATH = ("mcpServers", "tools")

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8)
KEYS = st.text(max_size=6)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


def test_an_empty_file_becomes_an_object_with_the_entry() -> None:
    assert with_value("", PATH, ENTRY) == (
        '{\n  "mcpServers": {\n    "tools": {\n      "command": "tooldispatchd",\n      "args": ["mcp"]\n'
        "    }\n  }\n}\n"
    )


def test_comments_order_and_indentation_stay() -> None:
    before = (
        '// mine\n{\n\t"z": 1, // last letter first\n\t/* servers */\n\t"mcpServers": {\n\t\t"a": {"url": "x"} // one\n'
        '\t\t// "b": {}\n\t},\n\t"a": [1, 2,],\n}\n'
    )
    assert with_value(before, PATH, 1) == before.replace(
        '{"url": "x"} // one\n\t\t// "b": {}\n', '{"url": "x"}, // one\n\t\t// "b": {}\n\t\t"tools": 1\n'
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "a": 1\n}'),
        ("{\n}\n", '{\n  "a": 1\n}\n'),
        ("{ // none yet\n}\n", '{ // none yet\n  "a": 1\n}\n'),
        ('{"b": 2}', '{"b": 2, "a": 1}'),
        ('{"b": 2,}', '{"b": 2, "a": 1,}'),
        ('{\n    "b": 2,\n}', '{\n    "b": 2,\n    "a": 1,\n}'),
        ('{\r\n  "b": 2\r\n}\r\n', '{\r\n  "b": 2,\r\n  "a": 1\r\n}\r\n'),
        ('\ufeff{\n "b": 2\n}', '\ufeff{\n "b": 2,\n "a": 1\n}'),
        ('{"a": 2, "b": 3}', '{"a": 1, "b": 3}'),
        ('{"a": 2, "a": 3}', '{"a": 2, "a": 1}'),
        ('{"a": 1, /* kept */ }', '{"a": 1, /* kept */ }'),
        ("// nothing\n", '// nothing\n{\n  "a": 1\n}\n'),
        ('{\n  "b": 2 // ends in a wide space\u2003\n}', '{\n  "b": 2, // ends in a wide space\u2003\n  "a": 1\n}'),
    ],
)
def test_a_member_is_written_as_its_neighbours_are(before: str, after: str) -> None:
    assert with_value(before, ("a",), 1) == after


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ('{\n  "a": tru\n}', 2, "this is no JSON"),
        ('{\n  "a" 1\n}', 2, "a colon is missing"),
        ('{\n  "a": 1\n  "b": 2\n}', 3, "a comma is missing"),
        ("{\n  a: 1\n}", 2, "this is no JSON"),
        ('{\n  "a": 1', 2, "a comma is missing"),
        ('{"a": 1}\n\n{}', 3, "more follows where the value has ended"),
        ('{\n"a": 01}', 2, "this is no JSON"),
        ('{"a":\n"\\x"}', 2, "this is no JSON"),
        ("{,}", 1, "a key in quotes is missing"),
        ('{"a": [1,,2]}', 1, "a value is missing"),
        ("\n[1]", 2, "the file holds no object"),
        ('{\n"a": null}', 2, '"a" holds no object'),
        ('{"a": /* no end', 1, "this is no JSON"),
        ("[" * 300, 1, "it is nested deeper than 200 levels"),
    ],
)
def test_a_text_that_is_no_json_is_refused_with_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(EditError, match=f"^{why}$") as refused:
        with_value(text, ("a", "b"), 1)
    assert refused.value.line == line


@given(
    document=OBJECTS, path=st.lists(KEYS, min_size=1, max_size=2), value=VALUES, indent=st.sampled_from([None, 0, 2])
)
def test_the_file_then_has_the_value_and_nothing_else_has_changed(
    document: dict[str, Any], path: list[str], value: Any, indent: int | None
) -> None:
    if len(path) == 2 and not isinstance(document.get(path[0], {}), dict):
        document[path[0]] = {}
    edited = with_value(json.dumps(document, indent=indent), path, value)
    inner = document
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
    inner[path[-1]] = value
    assert json.loads(edited) == read_jsonc(edited) == document
    assert with_value(edited, path, value) == edited


@given(st.text(alphabet='{}[],:"/*\\ \n1a-.', max_size=30))
def test_any_text_is_read_or_refused_within_it(text: str) -> None:
    assert 1 <= line_of_refusal(text) <= text.count("\n") + 1


def line_of_refusal(text: str) -> int:
    try:
        read_jsonc(text)
    except EditError as refused:
        return refused.line
    return 1
