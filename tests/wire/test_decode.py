"""One line to one message or to a refusal; never an exception."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tooldispatchd.wire.decode import Form, Refused, decode_line
from tooldispatchd.wire.faults import Code
from tooldispatchd.wire.lines import LongLine
from tooldispatchd.wire.messages import (
    ApproveResp,
    AskResp,
    ByeSaid,
    Hello,
    NestedReq,
    Ping,
    PongSaid,
    ShortReq,
    ToolCancel,
    ToolReq,
    ToolsReq,
)

MAX = 1000


def refuse(line: bytes | LongLine) -> Refused:
    refused = decode_line(line, MAX)
    assert isinstance(refused, Refused)
    return refused


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'{"__port":"hello","profile":"default","later":1}', Hello),
        (b'{"__port":"tool_req","id":"1","name":"echo","input":{"__port":"ping"}}', ToolReq),
        (b'{"id":"1","name":"echo","input":{"__port":"ping"}}', ShortReq),
        (b'{"id":"1","name":"echo"}\r', ShortReq),
        (b'{"__port":"tool_req","msg":{"id":"1","name":"echo"}}', NestedReq),
        (b'{"__port":"tool_cancel","id":"1"}', ToolCancel),
        (b'{"__port":"tools"}', ToolsReq),
        (b'{"__port":"ping"}', Ping),
        (b'{"\\u005f_port":"ping"}', Ping),
        (b'{"__port":"bye"}', ByeSaid),
        (b'{"__port":"approve_resp","id":"q1","allow":true}', ApproveResp),
        (b'{"__port":"ask_resp","id":"q1","refuse":"no"}', AskResp),
        (b'{"__port":"pong","t":1}', PongSaid),
    ],
)
def test_each_port_and_form_is_decoded(line: bytes, kind: type) -> None:
    assert type(decode_line(line, MAX)) is kind


@pytest.mark.parametrize("line", [b"", b" ", b"\r", b"\t \r"])
def test_a_blank_line_is_nothing(line: bytes) -> None:
    assert decode_line(line, MAX) is None


@pytest.mark.parametrize(
    ("line", "code", "call_id", "form"),
    [
        (b"nonsense", Code.MALFORMED_LINE, None, None),
        (b"[1]", Code.MALFORMED_LINE, None, None),
        (b"7", Code.MALFORMED_LINE, None, None),
        (b'{"id":"1","name":"x","input":nul}', Code.MALFORMED_LINE, "1", Form.SHORT),
        (b'{"__port":"tool_req","id":"1","name":"x","input":"\xff"}', Code.MALFORMED_LINE, "1", Form.PLAIN),
        (b'{"__port":"ping","t":"\xff"}', Code.MALFORMED_LINE, None, None),
        (b'{"id":"1","name":"x","input":' + b"[" * 100_000 + b"}", Code.MALFORMED_LINE, "1", Form.SHORT),
        (b'{"__port":"tool_req","id":"1"}', Code.INVALID_REQUEST, "1", Form.PLAIN),
        (b'{"id":"1","name":5}', Code.INVALID_REQUEST, "1", Form.SHORT),
        (b'{"__port":"tool_req","msg":{"id":"1"}}', Code.INVALID_REQUEST, "1", Form.NESTED),
        (b'{"__port":"tool_req","id":"1","name":"x","deadline_ms":0}', Code.INVALID_REQUEST, "1", Form.PLAIN),
        (b'{"__port":"frobnicate","id":"1"}', Code.INVALID_REQUEST, None, None),
        (b'{"__port":7,"id":"1"}', Code.INVALID_REQUEST, None, None),
        (b'{"__port":"hello","id":"1","profile":7}', Code.INVALID_REQUEST, "1", None),
        (b'{"__port":"ping","id":""}', Code.INVALID_REQUEST, None, None),
        (b'{"__port":"bye","id":7}', Code.INVALID_REQUEST, None, None),
        (b'{"__port":"tools","id":"1",nul}', Code.MALFORMED_LINE, "1", None),
        (b'{"__port":"tool_cancel","id":"1",nul}', Code.MALFORMED_LINE, None, None),
        (b'{"__port":"dance","id":"1",nul}', Code.MALFORMED_LINE, None, None),
        (b'{"id":"",nul}', Code.MALFORMED_LINE, None, None),
        (b'{"id":"' + b"x" * 513 + b'",nul}', Code.MALFORMED_LINE, None, None),
        (b"\x0b", Code.MALFORMED_LINE, None, None),
        (b'\xef\xbb\xbf{"__port":"ping"}', Code.MALFORMED_LINE, None, None),
        (b'{"__port":"ping","t":"\\ud800"}', Code.MALFORMED_LINE, None, None),
        (b'{"__port":"tool_req","id":"1","name":"x","input":"\\udc00"}', Code.MALFORMED_LINE, "1", Form.PLAIN),
        (b'{"__port":"ping","__port":"bye"}', Code.INVALID_REQUEST, None, None),
        (b'{"id":"","name":"x"}', Code.INVALID_REQUEST, None, Form.SHORT),
        (b'{"id":7,"name":"x"}', Code.INVALID_REQUEST, None, Form.SHORT),
        (b'{"name":"x"}', Code.INVALID_REQUEST, None, Form.SHORT),
        (b"{}", Code.INVALID_REQUEST, None, Form.SHORT),
    ],
)
def test_a_line_that_is_no_message_is_refused_as_the_protocol_says(
    line: bytes, code: Code, call_id: str | None, form: Form | None
) -> None:
    refused = refuse(line)
    assert (refused.fault.code, refused.id, refused.form) == (code, call_id, form)


def test_an_id_is_bounded_in_bytes_not_in_letters() -> None:
    fits = '{"id":"' + "é" * 256 + '","name":"x"}'
    over = '{"id":"' + "é" * 257 + '","name":"x"}'
    assert isinstance(decode_line(fits.encode(), MAX), ShortReq)
    assert refuse(over.encode()).fault.code is Code.INVALID_REQUEST


def test_the_id_of_a_line_that_is_too_long_is_looked_for_in_its_head() -> None:
    refused = refuse(LongLine(b'{"__port":"tool_req","id":"9","input":"aaaa'))
    assert (refused.fault.code, refused.id) == (Code.LINE_TOO_LONG, "9")
    assert refuse(LongLine(b'{"input":"aaaa')).id is None


@pytest.mark.parametrize(
    "line",
    [
        '{"__port":"tool_req","agent":"a","id":"1"}',
        '{"__port":"tool_req","agent":"a","id":7,"name":"x"}',
        '{"__port":"tool_req","msg":{"agent":"a","id":"1"}}',
        '{"agent":"a","id":"1","name":7}',
        '{"__port":"hello","agent":"a","profile":7}',
        '{"__port":"tool_cancel","agent":"a"}',
        '{"__port":"dance","agent":"a"}',
        '{"agent":"a","id":"' + "é" * 257 + '","name":"x"}',
        '{"__port":"tool_req","msg":{"agent":"a","id":"' + "é" * 257 + '","name":"x"}}',
        '{"agent":"a","id":"1","name":"x","input":nul}',
        '{"__port":"hello","agent":"a","profile":',
        '{"__port":"tool_req","msg":{"agent":"a","name":nul}}',
    ],
)
def test_a_refusal_says_which_agent_the_line_named(line: str) -> None:
    assert refuse(line.encode()).agent == "a"


LONG = "é" * 257


@pytest.mark.parametrize(
    ("line", "call_id", "agent"),
    [
        ('{"__port":"tool_req","agent":"a","msg":{"agent":"b","id":"1","name":"x"}}', "1", "a"),
        ('{"__port":"tool_req","agent":"a","msg":{"agent":"b","id":"1","name":7}}', "1", "a"),
        ('{"__port":"tool_req","agent":"a","msg":{"id":"1"}}', "1", "a"),
        ('{"__port":"tool_req","agent":7,"msg":{"agent":"b","id":"1","name":"x"}}', "1", "b"),
        ('{"__port":"tool_req","msg":{"agent":"' + LONG + '","id":"1","name":"x"}}', "1", None),
        ('{"__port":"tool_req","agent":"' + LONG + '","msg":{"id":"1","name":"x"}}', "1", None),
        ('{"__port":"tool_req","msg":{"agent":"a","id":"1","name":nul}}', "1", "a"),
    ],
)
def test_a_nested_request_is_refused_in_its_own_form_with_its_id_and_agent(
    line: str, call_id: str, agent: str | None
) -> None:
    refused = refuse(line.encode())
    assert (refused.id, refused.form, refused.agent) == (call_id, Form.NESTED, agent)


@pytest.mark.parametrize("msg", ['{"id":"1","name":"x"}', '{"agent":"a","id":"1","name":"x"}'])
def test_a_nested_request_may_name_its_agent_beside_it(msg: str) -> None:
    message = decode_line(f'{{"__port":"tool_req","agent":"a","msg":{msg}}}'.encode(), MAX)
    assert isinstance(message, NestedReq)
    assert message.msg.agent == "a"


@pytest.mark.parametrize("agent", ["", "x" * 513, "é" * 257])
def test_what_can_be_no_name_is_not_said_back(agent: str) -> None:
    line = msgspec.json.encode({"__port": "hello", "agent": agent, "profile": 7})
    assert refuse(line).agent is None
    assert refuse(line[:-1]).agent is None


SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    "line",
    [
        f'{{"__port":"{SECRET}"}}',
        f'{{"__port":"hello","token":"{SECRET}","profile":3}}',
        f'{{"__port":"hello","token":"{SECRET}"',
        f'"{SECRET}"',
    ],
)
def test_no_fault_quotes_the_line(line: str) -> None:
    assert SECRET not in refuse(line.encode()).fault.content()


@given(st.binary())
@example(b'{"id":"\\ud800","name":"x"}')
@example(b'{"__port":"tool_req","msg":7}')
@example(b'{"__port":"tool_req","msg":{"id":7}}')
@example(b'{"id":"1","id":2,"name":"x"}')
@example(b'{"__port":"tool_req","__port":"ping","id":"1"}')
@example(b'{"agent":{},"id":"1","name":1}')
def test_any_bytes_give_a_message_or_a_refusal(line: bytes) -> None:
    decode_line(line, MAX)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
fields = st.dictionaries(
    st.sampled_from(["__port", "id", "name", "input", "agent", "msg", "deadline_ms", "profile"]),
    json_values | st.sampled_from(["tool_req", "hello", "1", "echo"]),
)


@given(fields)
def test_any_object_with_the_protocols_keys_gives_a_message_or_a_refusal(line: dict[str, object]) -> None:
    message = decode_line(msgspec.json.encode(line), MAX)
    if isinstance(message, Refused) and message.id is not None:
        assert line.get("id") == message.id or line["msg"]["id"] == message.id  # type: ignore[index]


@given(fields, st.integers(0, 60), st.binary(min_size=1, max_size=3))
def test_a_damaged_line_gives_a_message_or_a_refusal(line: dict[str, object], at: int, damage: bytes) -> None:
    text = msgspec.json.encode(line)
    decode_line(text[:at] + damage + text[at + len(damage) :], MAX)


@pytest.mark.parametrize(
    ("line", "code", "call_id"),
    [
        (b"1e999", Code.MALFORMED_LINE, None),
        (b"1" * 5000, Code.MALFORMED_LINE, None),
        (b'{"__port":1e999}', Code.INVALID_REQUEST, None),
        (b'{"id":1e999,"name":"x"}', Code.INVALID_REQUEST, None),
        (b'{"id":"1","name":"x","agent":1e999}', Code.INVALID_REQUEST, "1"),
        (b'{"__port":"hello","agent":1e999}', Code.INVALID_REQUEST, None),
        (b'{"__port":"tool_req","msg":{"id":1e999}}', Code.INVALID_REQUEST, None),
        (b'{"__port":"tool_req","msg":1e999}', Code.INVALID_REQUEST, None),
    ],
)
def test_a_number_that_nothing_can_hold_is_a_refusal_wherever_it_stands(
    line: bytes, code: Code, call_id: str | None
) -> None:
    refused = decode_line(line, 10_000)
    assert isinstance(refused, Refused)
    assert (refused.fault.code, refused.id) == (code, call_id)


@pytest.mark.parametrize(
    "line",
    [
        b'{"__port":"example.com/thing","id":"1","agent":"nobody"}',
        b'{"__port":"/"}',
        b'{"__port":"a/b","agent":7}',
        b'{"__port":"a\\u002fb"}',
    ],
)
def test_a_port_with_a_slash_is_for_somebody_else(line: bytes) -> None:
    assert decode_line(line, MAX) is None


def test_a_port_that_stands_twice_counts_once_where_it_is_the_same() -> None:
    assert isinstance(decode_line(b'{"__port":"ping","__port":"ping"}', MAX), Ping)


@pytest.mark.parametrize("port", ["hello", "tools", "ping", "bye"])
def test_an_id_of_a_line_that_is_answered_is_read_and_may_be_null(port: str) -> None:
    said = decode_line(f'{{"__port":"{port}","id":"é"}}'.encode(), MAX)
    bare = decode_line(f'{{"__port":"{port}","id":null}}'.encode(), MAX)
    assert isinstance(said, Hello | ToolsReq | Ping | ByeSaid)
    assert isinstance(bare, Hello | ToolsReq | Ping | ByeSaid)
    assert (said.id, bare.id) == ("é", None)


@pytest.mark.parametrize("port", ["hello", "tools", "ping", "bye"])
def test_an_id_of_a_line_that_is_answered_is_bounded_in_bytes(port: str) -> None:
    refused = refuse(f'{{"__port":"{port}","id":"{LONG}"}}'.encode())
    assert (refused.fault.code, refused.id, refused.form) == (Code.INVALID_REQUEST, None, None)
