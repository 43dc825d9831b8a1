import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.forked.python.test_context import context
from tooldispatchd.forked.python.context import InvalidInputError, ToolContext, ToolFailedError
from tooldispatchd.toolbox.jsonfiles import json_read, json_write

DOCUMENT = """{
  "name": "x",
  "big": 123456789012345678901234567890,
  "exact": 1.10,
  "list": [
    1,
    {
      "a": true
    }
  ],
  "empty": {},
  "a/b": {
    "~": null
  }
}
"""
KEYS = st.text(alphabet='ab/~"\\ é', max_size=3)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.json").write_text(DOCUMENT)


def free() -> ToolContext:
    return context(state={}, options={"guard": "off"})


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", DOCUMENT.strip()),
        ("/list", '[\n  1,\n  {\n    "a": true\n  }\n]'),
        ("/big", "123456789012345678901234567890"),
        ("/exact", "1.10"),
        ("/list/1/a", "true"),
        ("/a~1b/~0", "null"),
    ],
)
def test_a_value_is_read_as_it_stands(pointer: str, value: str) -> None:
    assert json_read(free(), "x.json", pointer) == value


@pytest.mark.parametrize(
    ("pointer", "why"),
    [
        ("/nam", "the document has no key nam; near ones: name"),
        ("/list/2", "/list is a list of 2 items and has no 2: indexes go from 0 to 1"),
        ("/list/01", "/list is a list of 2 items and has no 01"),
        ("/name/0", "/name is neither an object nor a list, and has no 0"),
        ("/empty/x", "/empty has no key x, nor any other"),
    ],
)
def test_what_is_missing_is_said(pointer: str, why: str) -> None:
    with pytest.raises(ToolFailedError, match=f"^cannot read x.json: {why}"):
        json_read(free(), "x.json", pointer)


@pytest.mark.parametrize("pointer", ["name", "/~2", "/a~"])
def test_what_is_no_pointer_is_refused(pointer: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        json_read(free(), "x.json", pointer)
    assert caught.value.field == "pointer"


@pytest.mark.parametrize("text", ["", "{", "[1,]", '{"a": 1, "a": 2}', "[NaN]", "[" * 100_000, "1 2"])
def test_what_is_no_json_is_neither_read_nor_written(text: str) -> None:
    Path("x.json").write_text(text)
    with pytest.raises(ToolFailedError, match=r"^cannot read x\.json: "):
        json_read(free(), "x.json", "")
    with pytest.raises(ToolFailedError, match=r"^cannot change x\.json: "):
        json_write(free(), "x.json", "/a", "1")
    assert Path("x.json").read_text() == text


@pytest.mark.parametrize(
    ("pointer", "value", "old", "new"),
    [
        ("/name", "[1]", '"x"', "[\n    1\n  ]"),
        ("/list/0", "2", "1,\n    {", "2,\n    {"),
        ("/list/-", "null", "    }\n  ],", "    },\n    null\n  ],"),
        ("/list/1/b", "1.50", "true", 'true,\n      "b": 1.50'),
        ("/empty/x", '"é"', "{},", '{\n    "x": "é"\n  },'),
        ("/new", "1e400", "null\n  }\n}", 'null\n  },\n  "new": 1e400\n}'),
    ],
)
def test_only_the_value_changes_in_a_document_with_a_member_on_each_line(
    pointer: str, value: str, old: str, new: str
) -> None:
    json_write(free(), "x.json", pointer, value)
    assert Path("x.json").read_text() == DOCUMENT.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{"a":{"b":1}}', '{"a":{"b":1,"c":{"d":1,"e":[2]}}}'),
        ('{"a": {"b": 1}}\n', '{"a": {"b": 1, "c": {"d": 1, "e": [2]}}}\n'),
        (
            '{\n\t"a": {"b": "  1"}}',
            '{\n\t"a": {\n\t\t"b": "  1",\n\t\t"c": {\n\t\t\t"d": 1,\n\t\t\t"e": [\n\t\t\t\t2\n\t\t\t]\n\t\t}\n\t}\n}',
        ),
    ],
)
def test_a_document_keeps_its_indentation(old: str, new: str) -> None:
    Path("x.json").write_text(old)
    json_write(free(), "x.json", "/a/c", '{"d": 1, "e": [2]}')
    assert Path("x.json").read_text() == new


def test_a_file_that_is_not_there_is_made_whole() -> None:
    json_write(free(), "new.json", "", '{"a": 1}')
    assert Path("new.json").read_text() == '{\n  "a": 1\n}\n'
    with pytest.raises(ToolFailedError, match="does not exist"):
        json_write(free(), "other.json", "/a", "1")


@pytest.mark.parametrize("value", ["text", "", "NaN", "1,", '"\\ud800"', '"\ud800"', '{"a": 1, "a": 2}', "[" * 100_000])
def test_a_value_that_is_no_json_is_refused(value: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        json_write(free(), "x.json", "/name", value)
    assert caught.value.field == "value"


def test_a_string_without_its_quotes_is_told_so() -> None:
    with pytest.raises(InvalidInputError, match=r"a string needs quotes around it$"):
        json_write(free(), "x.json", "/name", "text")


def test_half_a_character_in_a_document_is_told() -> None:
    Path("x.json").write_text('{"a": "\\ud800"}')
    with pytest.raises(ToolFailedError, match=r"^cannot read x\.json: .* holds what is no character$"):
        json_read(free(), "x.json", "/a")


# Each writes a file to the disk.
@settings(max_examples=examples(30))
@given(VALUES, st.data(), VALUES, st.sampled_from([None, 1, 4, "\t"]))
def test_a_value_that_is_put_is_found_and_others_stay(
    document: object, data: st.DataObject, value: object, indent: int | str | None
) -> None:
    Path("x.json").write_text(json.dumps(document, indent=indent))
    pointer, keys, holder = "", [], document
    while isinstance(holder, (dict, list)) and data.draw(st.booleans()):
        found = list(holder) if isinstance(holder, dict) else [str(index) for index in range(len(holder))]
        key = data.draw(st.sampled_from([*found, "new" if isinstance(holder, dict) else "-"]))
        keys.append(key)
        pointer += "/" + key.replace("~", "~0").replace("/", "~1")
        if key not in found:
            break
        holder = holder[key] if isinstance(holder, dict) else holder[int(key)]
    json_write(free(), "x.json", pointer, json.dumps(value))
    assert json.loads(Path("x.json").read_text()) == _with(document, keys, value)
    if keys[-1:] != ["-"]:
        assert json.loads(json_read(free(), "x.json", pointer)) == value


def _with(document: Any, keys: list[str], value: object) -> Any:
    if not keys:
        return value
    key, *rest = keys
    if isinstance(document, dict):
        return {**document, key: _with(document.get(key), rest, value)}
    if key == "-":
        return [*document, value]
    return [_with(each, rest, value) if index == int(key) else each for index, each in enumerate(document)]
