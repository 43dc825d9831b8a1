import json
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.textcalls import CLOSE, MAX_CALLS, MAX_TEXT, OPEN, read_calls

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text(alphabet='ab"\\{}[]<>/_ctol\n', max_size=20)
    | st.just(CLOSE),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
AROUND = st.text(alphabet='ab <>{}"\n`', max_size=12)


def found(text: str) -> list[tuple[str, object]]:
    return [(call.name, json.loads(bytes(call.input))) for call in read_calls(text)[0]]


def wrong(text: str) -> list[str]:
    return [each.detail for each in read_calls(text)[1]]


@given(st.lists(st.tuples(st.text(min_size=1, max_size=5), VALUES, AROUND), max_size=4), AROUND)
def test_every_call_that_is_written_as_asked_is_found_whatever_stands_around(
    calls: list[tuple[str, object, str]], before: str
) -> None:
    text = before + "".join(
        f"{OPEN}{json.dumps({'name': name, 'input': value})}{CLOSE}{after}" for name, value, after in calls
    )
    assert found(text) == [(name, value) for name, value, _ in calls]
    assert wrong(text) == []


@given(st.text(alphabet='ab<>/_tolca{}[]":,\\\n`', max_size=60) | st.text(max_size=40))
def test_any_text_gives_calls_or_what_to_mend(text: str) -> None:
    calls, malformed = read_calls(f"{OPEN}{text}")
    assert bool(calls) or bool(malformed)


@pytest.mark.parametrize(
    ("block", "calls"),
    [
        ('{"name":"a","arguments":{"x":1}}', [("a", {"x": 1})]),
        ('{"name":"a","parameters":{"x":1}}', [("a", {"x": 1})]),
        ('{"name":"a","arguments":"{\\"x\\":1}"}', [("a", {"x": 1})]),
        ('{"name":"a","input":"{}"}', [("a", "{}")]),
        ('{"name":"a"}', [("a", {})]),
        ('\n```json\n{"name":"a"}\n```\n', [("a", {})]),
        ('[{"name":"a"},{"name":"b","input":2}]', [("a", {}), ("b", 2)]),
    ],
)
def test_what_models_write_instead_is_taken(block: str, calls: list[tuple[str, object]]) -> None:
    assert found(f"so: {OPEN}{block}{CLOSE} done") == calls
    assert found(f"{OPEN}{block}") == calls


@pytest.mark.parametrize(
    ("block", "detail"),
    [
        ('{"name":"a","input":{"x":1,}}', "a comma stands before a closing bracket: leave it out"),
        ('{"name":"a","input":{"x":1}', "the JSON has no end: close every string and bracket"),
        ("{'name':'a'}", 'a string stands in double quotes: "…"'),
        ('{"name":"a","input":"x\ny"}', r"a string has no line breaks or other control characters: write \n for one"),
        ('{"input":{}}', 'the call has no "name": write the name of the tool as a string'),
        ('{"name":5}', '"name" must be a string, the name of the tool'),
        ('{"name":"a","x":1}', '"x" stands beside "name": put it into "input", an object'),
        ('{"name":"a","input":1,"arguments":2}', 'the call has both "input" and "arguments": write "input" alone'),
        ('{"name":"a"} please', f"after the object must stand {CLOSE}, and nothing before it"),
        ("search(x)", 'between the tags must stand an object of JSON: {"name": …, "input": …}'),
        ("[]", f'nothing stands in the tags; write {{"name": …, "input": …}} between {OPEN} and {CLOSE}'),
        (
            '[{"name":"a"}' + ',{"name":"a"}' * MAX_CALLS + "]",
            f"there are more than {MAX_CALLS} calls; those from here on are left out",
        ),
        ("[1]", "a call must be an object with name and input"),
        ("[" * 5000, "the JSON is nested too deep"),
    ],
)
def test_what_is_no_call_is_told_with_what_to_mend_and_hides_no_other(block: str, detail: str) -> None:
    text = f"é {OPEN}{block}{CLOSE} {OPEN}" + '{"name":"b"}' + CLOSE
    calls, malformed = read_calls(text)
    assert [call.name for call in calls] == ["b"]
    assert [(each.detail, each.at) for each in malformed] == [(detail, 2)]
    assert text[2:].startswith(malformed[0].excerpt)


def test_a_number_of_any_length_is_handed_on_as_it_stands() -> None:
    digits = "1" * 5000
    calls, malformed = read_calls(f'{OPEN}{{"name":"a","input":{digits}}}{CLOSE}')
    assert [bytes(call.input) for call in calls] == [digits.encode()]
    assert malformed == []


def test_only_so_many_calls_and_characters_are_read() -> None:
    calls, malformed = read_calls((OPEN + '{"name":"a"}' + CLOSE) * (MAX_CALLS + 5))
    assert (len(calls), len(malformed)) == (MAX_CALLS, 1)
    assert wrong("x" * (MAX_TEXT + 1)) == [f"the text is longer than {MAX_TEXT} characters"]


@pytest.mark.parametrize("piece", [OPEN, OPEN + '{"', OPEN + '{"a":"' + CLOSE, OPEN + "[" * 500, '"\\"', "{},", "[[{"])
def test_a_hostile_text_takes_time_in_its_length(piece: str) -> None:
    text = OPEN + "[" + piece * (MAX_TEXT // len(piece) - 2)
    began = perf_counter()
    read_calls(text)
    assert perf_counter() - began < 2
