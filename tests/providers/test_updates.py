import math
from itertools import accumulate, pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tooldispatchd.calls.outcome import MAX_UPDATE_BYTES, Update
from tooldispatchd.providers.updates import INTERVAL_S, MAX_CONTENT_BYTES, MAX_DETAILS_BYTES, Held, UpdateLines


class Told:
    """What an agent was told, and the lines that lead to it."""

    def __init__(self) -> None:
        self.updates: list[Update] = []
        self.lines = UpdateLines(self.updates.append)


def line(**fields: object) -> bytes:
    return msgspec.json.encode({"__port": "tool_update", **fields}) + b"\n"


def test_the_first_update_is_due_at_once() -> None:
    told = Told()
    told.lines.take(line(progress=2, total=5, message="indexing"))
    assert told.lines.tell_due(0.0) == math.inf
    assert told.updates == [Update(2.0, 5.0, "indexing")]


def test_the_next_is_due_when_the_interval_is_over() -> None:
    told = Told()
    told.lines.take(line(progress=1))
    told.lines.tell_due(10.0)
    told.lines.take(line(progress=2))
    assert told.lines.tell_due(10.0) == 10.0 + INTERVAL_S
    assert told.updates == [Update(1.0)]
    assert told.lines.tell_due(10.0 + INTERVAL_S) == math.inf
    assert told.updates == [Update(1.0), Update(2.0)]


def test_nothing_is_due_where_nothing_was_said() -> None:
    told = Told()
    assert told.lines.due == math.inf
    assert told.lines.tell_due(1.0) == math.inf
    told.lines.end()
    assert told.updates == []


def test_of_several_the_latest_of_each_field_is_told() -> None:
    told = Told()
    told.lines.take(line(progress=1, total=9, message="one") + line(progress=2) + line(message="two"))
    told.lines.tell_due(0.0)
    assert told.updates == [Update(2.0, 9.0, "two")]


def test_parts_of_the_content_are_joined() -> None:
    told = Told()
    told.lines.take(line(content="Hel") + line(progress=1) + line(content="lo"))
    told.lines.tell_due(0.0)
    assert told.updates == [Update(progress=1.0, content="Hello")]


def test_what_was_told_is_not_told_again() -> None:
    told = Told()
    told.lines.take(line(progress=1, content="a"))
    told.lines.tell_due(0.0)
    told.lines.take(line(message="b"))
    told.lines.end()
    assert told.updates == [Update(progress=1.0, content="a"), Update(message="b")]


def test_content_up_to_its_bound_is_told_whole() -> None:
    updates: list[Update] = []
    held = Held(updates.append)
    held.add(Update(content="é" * (MAX_CONTENT_BYTES // 2 - 1)))
    held.add(Update(content="xy"))
    held.tell()
    assert updates == [Update(content="é" * (MAX_CONTENT_BYTES // 2 - 1) + "xy")]


def test_content_is_left_out_from_the_part_on_with_which_it_would_be_too_much() -> None:
    updates: list[Update] = []
    held = Held(updates.append)
    held.add(Update(content="é" * (MAX_CONTENT_BYTES // 2 - 1)))
    held.add(Update(progress=3.0, content="xyz"))
    held.add(Update(content="x"))
    held.tell()
    assert updates == [Update(progress=3.0, content="é" * (MAX_CONTENT_BYTES // 2 - 1))]
    held.add(Update(content="xyz"))
    held.tell()
    assert updates[1:] == [Update(content="xyz")]


def test_an_update_that_says_nothing_is_not_told() -> None:
    told = Told()
    told.lines.take(line() + line(content="") + line(progress=None))
    told.lines.end()
    assert told.updates == []


def test_whose_it_is_a_program_cannot_say() -> None:
    told = Told()
    told.lines.take(line(progress=1, id="another", agent="other", further=[1]))
    told.lines.end()
    assert told.updates == [Update(1.0)]


@pytest.mark.parametrize(
    "wrong",
    [
        b"working ...\n",
        b"{}\n",
        b'{"progress":1}\n',
        b'{"__port":"tool_resp","progress":1}\n',
        b'["tool_update"]\n',
        line(progress="1"),
        line(progress=True),
        line(total=[]),
        line(message=1),
        line(content={}),
        b'{"__port":"tool_update","progress":NaN}\n',
        b'{"__port":"tool_update","progress":1e999}\n',
        b'{"__port":"tool_update","progress":' + b"9" * 5000 + b"}\n",
        b'{"__port":"tool_update","message":"\\ud800"}\n',
        b'{"__port":"tool_update","message":"\xff"}\n',
        b'{"__port":"tool_update","x":' + b"[" * 50_000 + b"\n",
        line(message="x" * MAX_UPDATE_BYTES),
        b"x" * (MAX_UPDATE_BYTES + 1) + b"\n",
    ],
)
def test_a_wrong_line_harms_no_other(wrong: bytes) -> None:
    told = Told()
    told.lines.take(line(progress=1) + wrong + line(message="still here"))
    told.lines.end()
    assert told.updates == [Update(progress=1.0, message="still here")]


def test_a_line_as_long_as_may_be_is_taken() -> None:
    told = Told()
    words = "x" * (MAX_UPDATE_BYTES - len(line(message="")) + 1)
    told.lines.take(line(message=words))
    told.lines.end()
    assert told.updates == [Update(message=words)]


def test_blank_lines_are_nothing() -> None:
    told = Told()
    told.lines.take(b"\n\r\n  \n" + line(progress=1).replace(b"\n", b"\r\n"))
    told.lines.end()
    assert told.updates == [Update(1.0)]


def test_the_last_line_needs_no_newline() -> None:
    told = Told()
    told.lines.take(line(progress=1).rstrip())
    assert told.lines.tell_due(0.0) == math.inf
    told.lines.end()
    assert told.updates == [Update(1.0)]


SAID = (
    line(progress=1, content="a") + b"oops\n" + b"x" * (MAX_UPDATE_BYTES + 9) + b"\n" + line(message="m", content="b")
)


@given(st.lists(st.integers(0, len(SAID)), max_size=20))
def test_lines_mean_the_same_wherever_they_are_cut(cuts: list[int]) -> None:
    told = Told()
    ends = [*sorted(cuts), len(SAID)]
    for start, end in zip([0, *ends], ends, strict=False):
        told.lines.take(SAID[start:end])
    told.lines.end()
    assert told.updates == [Update(progress=1.0, message="m", content="ab")]


@given(st.lists(st.binary()))
def test_any_bytes_are_taken(chunks: list[bytes]) -> None:
    told = Told()
    for chunk in chunks:
        told.lines.take(chunk)
    told.lines.end()


@given(st.lists(st.floats(0, 0.04), min_size=1, max_size=100))
def test_however_fast_they_come_an_agent_is_told_one_in_an_interval_and_the_last(steps: list[float]) -> None:
    told = Told()
    times = []
    for count, now in enumerate(accumulate(steps), 1):
        told.lines.take(line(progress=count))
        before = len(told.updates)
        told.lines.tell_due(now)
        times += [now] * (len(told.updates) - before)
    told.lines.end()
    assert all(later >= earlier + INTERVAL_S for earlier, later in pairwise(times))
    assert told.updates[-1] == Update(float(len(steps)))


def details_of(*lines: bytes) -> dict[str, Raw]:
    """The details that a program's lines leave."""
    details: dict[str, Raw] = {}
    said = UpdateLines(None, details)
    for line in lines:
        said.take(line + b"\n")
    said.end()
    return details


def test_details_are_the_fields_of_their_lines_and_the_last_of_a_name_counts() -> None:
    lines = b'{"__port":"tool_details","id":"1","agent":"a","cost":1,"of":[1]}', b'{"cost": 2 ,"__port":"tool_details"}'
    assert details_of(*lines) == {"cost": Raw(b"2"), "of": Raw(b"[1]")}


def test_what_are_no_details_leaves_none() -> None:
    assert details_of(b"{}", b"no json", b'{"__port":"tool_update","message":"m"}', b'["tool_details"]') == {}


def test_details_beyond_their_bound_are_left_out_one_by_one() -> None:
    large = b'"' + b"x" * (MAX_DETAILS_BYTES // 2) + b'"'
    lines = [b'{"__port":"tool_details","%b":%b}' % (name, large) for name in (b"a", b"b")]
    assert list(details_of(*lines, b'{"__port":"tool_details","c":1}')) == ["a", "c"]


def test_details_that_nobody_asked_for_are_no_updates() -> None:
    updates: list[Update] = []
    said = UpdateLines(updates.append)
    said.take(b'{"__port":"tool_details","message":"m"}\n')
    said.end()
    assert updates == []
