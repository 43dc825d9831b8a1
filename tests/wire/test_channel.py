"""A channel's bytes to messages and back."""

import msgspec
from msgspec import Raw

from tests.wire.taking import taken
from tooldispatchd.wire.channel import ChannelMachine
from tooldispatchd.wire.decode import Refused
from tooldispatchd.wire.messages import Ping, Pong, PongSaid, ShortReq, ToolResp


def test_lines_are_numbered_as_the_agent_counts_them() -> None:
    machine = ChannelMachine(1000)
    machine.feed(b'\n{"id":"1","name":"x"}\n \t\r\nnope\n')
    said = [(machine.line, message) for message in machine.messages()]
    assert [(line, type(message)) for line, message in said if message is not None] == [(2, ShortReq), (4, Refused)]
    # Blank lines are counted and take their part of a turn.
    assert [line for line, message in said if message is None] == [1, 3]


def test_a_ping_is_yielded_with_its_t_as_it_came() -> None:
    machine = ChannelMachine(1000)
    machine.feed(b'{"__port":"ping","t":{"at":[1, 2]}}\n{"__port":"ping"}\n')
    first, second = machine.messages()
    assert isinstance(first, Ping)
    assert isinstance(second, Ping)
    machine.outgoing += [Pong(first.t), Pong(second.t)]
    assert machine.take() == b'{"__port":"pong","t":{"at":[1, 2]}}\n{"__port":"pong"}\n'
    assert machine.take() == b""


def test_a_pong_takes_its_part_of_a_turn_too() -> None:
    machine = ChannelMachine(1000)
    machine.feed(b'{"__port":"pong"}\n{"__port":"ping"}\n')
    assert [type(message) for message in machine.messages()] == [PongSaid, Ping]


def test_a_caller_may_stop_at_any_line_and_go_on_after_more_has_come() -> None:
    machine = ChannelMachine(1000)
    machine.feed(b'{"__port":"ping","t":1}\n{"__port":"ping","t":2}\n')
    assert next(machine.messages()) == Ping(Raw(b"1"))
    assert machine.lines
    machine.feed(b'{"__port":"ping","t":3}\n')
    assert [(machine.line, message) for message in machine.messages()] == [(2, Ping(Raw(b"2"))), (3, Ping(Raw(b"3")))]
    assert not machine.lines


def test_a_last_line_may_lack_its_newline() -> None:
    machine = ChannelMachine(1000)
    machine.feed(b'{"id":"1","name":"x"}')
    assert list(machine.messages()) == []
    machine.end()
    assert [type(message) for message in machine.messages()] == [ShortReq]
    machine.end()
    assert list(machine.messages()) == []


def test_a_line_over_the_bound_is_refused_once_and_the_channel_lives_on() -> None:
    machine = ChannelMachine(100)
    machine.feed(b'{"__port":"tool_req","id":"9","input":"' + b"x" * 100)
    first = list(machine.messages())
    assert [(type(message), message.id) for message in first if isinstance(message, Refused)] == [(Refused, "9")]
    machine.feed(b'xxxx\n{"id":"1","name":"x"}\n')
    assert [type(message) for message in machine.messages()] == [ShortReq]


def test_answers_leave_out_what_is_at_its_default() -> None:
    machine = ChannelMachine(100)
    machine.outgoing += [ToolResp("1", "x", is_error=False), ToolResp("2", "y", is_error=True, fault=True, agent="a")]
    lines = [msgspec.json.decode(line) for line in taken(machine).splitlines()]
    assert lines == [
        {"__port": "tool_resp", "id": "1", "content": "x", "is_error": False},
        {"__port": "tool_resp", "id": "2", "content": "y", "is_error": True, "fault": True, "agent": "a"},
    ]


def test_each_line_of_the_daemon_is_one_line_whatever_stands_in_it() -> None:
    machine = ChannelMachine(100)
    machine.outgoing += [ToolResp("\n", "a\r\nb\x00", is_error=False), Pong(Raw(b'"\\n"'))]
    first, second, rest = taken(machine).split(b"\n")
    assert [msgspec.json.decode(first)["content"], msgspec.json.decode(second)["t"], rest] == ["a\r\nb\x00", "\n", b""]
