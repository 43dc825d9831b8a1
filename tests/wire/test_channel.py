"""A channel's bytes to messages and back."""

import msgspec

from tooldispatchd.wire.channel import ChannelMachine
from tooldispatchd.wire.decode import Refused
from tooldispatchd.wire.messages import ShortReq, ToolResp


def test_lines_are_numbered_as_the_agent_counts_them() -> None:
    machine = ChannelMachine(1000)
    numbers = [(machine.line, type(message)) for message in machine.receive(b'\n{"id":"1","name":"x"}\nnope\n')]
    assert numbers == [(2, ShortReq), (3, Refused)]


def test_a_ping_is_answered_with_its_t_before_anything_else_is_said() -> None:
    machine = ChannelMachine(1000)
    assert list(machine.receive(b'{"__port":"ping","t":{"at":[1, 2]}}\n{"__port":"ping"}\n')) == []
    assert machine.take() == b'{"__port":"pong","t":{"at":[1, 2]}}\n{"__port":"pong"}\n'
    assert machine.take() == b""


def test_a_pong_is_taken_and_needs_no_answer() -> None:
    machine = ChannelMachine(1000)
    assert list(machine.receive(b'{"__port":"pong"}\n')) == []
    assert machine.take() == b""


def test_a_last_line_may_lack_its_newline() -> None:
    machine = ChannelMachine(1000)
    assert list(machine.receive(b'{"id":"1","name":"x"}')) == []
    assert [type(message) for message in machine.end()] == [ShortReq]
    assert list(machine.end()) == []


def test_a_line_over_the_bound_is_refused_once_and_the_channel_lives_on() -> None:
    machine = ChannelMachine(100)
    first = list(machine.receive(b'{"__port":"tool_req","id":"9","input":"' + b"x" * 100))
    assert [(type(message), message.id) for message in first if isinstance(message, Refused)] == [(Refused, "9")]
    assert [type(message) for message in machine.receive(b'xxxx\n{"id":"1","name":"x"}\n')] == [ShortReq]


def test_answers_leave_out_what_is_at_its_default() -> None:
    machine = ChannelMachine(100)
    machine.outgoing += [ToolResp("1", "x", is_error=False), ToolResp("2", "y", is_error=True, fault=True, agent="a")]
    lines = [msgspec.json.decode(line) for line in machine.take().splitlines()]
    assert lines == [
        {"__port": "tool_resp", "id": "1", "content": "x", "is_error": False},
        {"__port": "tool_resp", "id": "2", "content": "y", "is_error": True, "fault": True, "agent": "a"},
    ]
