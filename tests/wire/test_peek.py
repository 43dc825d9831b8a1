"""The id in the head of a line that cannot be decoded."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.wire.peek import Seen, peek


@pytest.mark.parametrize(
    ("head", "seen"),
    [
        (b'{"id":"7","input":nul}', Seen("7", nested=False, port=None)),
        (b'{"id" : "7" , "x', Seen("7", nested=False, port=None)),
        (b'{"input":{"id":"inner"},"id":"outer"', Seen("outer", nested=False, port=None)),
        (b'{"__port":"tool_req","msg":{"id":"9","y":{"id":"no"}},"z":', Seen("9", nested=True, port="tool_req")),
        (b'{"a":["id","b"],"id":"q"', Seen("q", nested=False, port=None)),
        (b'{"__port":"hello","id":"3",', Seen("3", nested=False, port="hello")),
        (b'{"a":"\\"id\\":\\"no\\"","id":"yes"', Seen("yes", nested=False, port=None)),
        (b'{"agent":"a","id":"1","x', Seen("1", nested=False, port=None, agent="a")),
        (b'{"id":"1","agent":"a","x', Seen("1", nested=False, port=None, agent="a")),
        (b'{"id":"1","input":{"agent":"inner"},"x', Seen("1", nested=False, port=None)),
        (
            b'{"__port":"tool_req","msg":{"id":"1","agent":"a"},"agent":"b",',
            Seen("1", nested=True, port="tool_req", agent="b"),
        ),
        (b'{"agent":"a","x', Seen(agent="a")),
        (b'{"msg":{"id":"1"}', Seen()),
        (b'{"__port":"ping","msg":{"id":"1"}', Seen(port="ping")),
        (b'{"msg":{"a":{}},"id":"1","x', Seen("1")),
        (b'{"msg":[{"id":"1"}],"__port":"tool_req","x', Seen(port="tool_req")),
        (b'"id":"1"', Seen()),
        (b'[{"id":"x"}', Seen()),
        (b'{"x":"id","id":5,"k":"id"}', Seen()),
        (b'{"id":5,"id":"second"', Seen()),
        (b'{"id":"first","id":"second"', Seen("first")),
        (b'{"__port":"tool_req","msg":{"x":1},"msg":{"id":"second"}', Seen(port="tool_req")),
        (b'{"id":"\xff"}', Seen()),
        (b'{"id":"unfinished', Seen()),
        (b'{"input":{"id":"inner"', Seen()),
        (b"", Seen()),
        (b"}}}}", Seen()),
    ],
)
def test_the_id_is_found_where_it_may_stand_and_nowhere_else(head: bytes, seen: Seen) -> None:
    assert peek(head) == seen


@pytest.mark.parametrize(
    ("head", "agent"),
    [
        (b'{"agent":"a","x', "a"),
        (b'{"__port":"tool_req","msg":{"agent":"a"},"x', "a"),
        (b'{"__port":"tool_req","msg":{"agent":"a"},"agent":"b","x', "b"),
        (b'{"__port":"tool_req","msg":{"agent":"a"},"agent":7,"x', None),
        (b'{"msg":{"agent":"a"},"x', None),
        (b'{"__port":"ping","msg":{"agent":"a"},"x', None),
        (b'{"input":{"agent":"inner"},"x', None),
        (b'{"agent":7,"x', None),
        (b'{"agent":"unfinished', None),
    ],
)
def test_the_agent_is_found_where_it_may_stand_and_nowhere_else(head: bytes, agent: str | None) -> None:
    assert peek(head).agent == agent


@given(st.binary(max_size=4096))
def test_any_bytes_give_an_id_or_none(head: bytes) -> None:
    peek(head)


@given(st.text(min_size=1), st.dictionaries(st.text(), st.text()), st.integers(1, 9))
def test_the_id_of_a_cut_line_is_the_one_it_bears(call_id: str, value: dict[str, str], cut: int) -> None:
    line = msgspec.json.encode({"input": value, "id": call_id, "name": "x" * 9})
    assert peek(line[:-cut]).id == call_id
