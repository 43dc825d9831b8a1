"""Lines that are read elsewhere mean what they would have meant here."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from tooldispatchd.wire.decode import Form, Refused, decode_line
from tooldispatchd.wire.faults import Code
from tooldispatchd.wire.heavy import HEAVY_BYTES, MAX_REST_BYTES, message_of, read_line
from tooldispatchd.wire.messages import AskResp, Hello, Message, NestedReq, Ping, ShortReq, ToolReq

MAX = 8 * 1024 * 1024
LONG = "é" * HEAVY_BYTES


def read(line: bytes) -> Message | Refused | None:
    return message_of(read_line(b"%d" % MAX, bytearray(line))[0], line)


def shown(message: Message | Refused | None) -> object:
    """A message with its raw values as bytes, for comparing."""
    if message is None or isinstance(message, Refused):
        return message
    body = message.msg if isinstance(message, NestedReq) else message
    return type(message), {name: _plain(getattr(body, name)) for name in body.__struct_fields__}


def _plain(value: object) -> object:
    return bytes(value) if isinstance(value, Raw) else value


VALUES = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(VALUES, st.sampled_from(["tool_req", "ask_resp", "ping", "hello", "other"]), st.booleans())
def test_a_line_means_the_same_wherever_it_is_read(value: object, port: str, has_port: bool) -> None:
    fields = {"id": "1", "name": "a", "input": value, "result": value, "t": value, "spec": value}
    line = msgspec.json.encode(({"__port": port} if has_port else {}) | fields)
    assert shown(read(line)) == shown(decode_line(line, MAX))


@given(st.binary())
def test_any_bytes_mean_the_same_wherever_they_are_read(line: bytes) -> None:
    assert shown(read(line)) == shown(decode_line(line, MAX))


@pytest.mark.parametrize(
    ("line", "kind", "field"),
    [
        ({"id": "1", "name": "a", "input": LONG}, ShortReq, "input"),
        ({"__port": "tool_req", "id": "1", "name": "a", "input": [LONG]}, ToolReq, "input"),
        ({"__port": "hello", "spec": {"tools": [LONG]}}, Hello, "spec"),
        ({"__port": "ask_resp", "id": "1", "result": {"text": LONG}}, AskResp, "result"),
        ({"__port": "ping", "t": LONG}, Ping, "t"),
    ],
)
def test_the_large_value_of_a_line_is_a_view_on_the_line_itself(
    line: dict[str, object], kind: type[Message], field: str
) -> None:
    encoded = msgspec.json.encode(line)
    message = read(encoded)
    assert type(message) is kind
    assert bytes(getattr(message, field)) == msgspec.json.encode(line[field])


def test_a_request_without_an_input_has_none() -> None:
    message = read(b'{"id":"1","name":"a"}' + b" " * HEAVY_BYTES)
    assert isinstance(message, ShortReq)
    assert message.input is UNSET


def test_what_is_long_beside_its_largest_value_is_refused_as_an_answer() -> None:
    line = msgspec.json.encode({"__port": "tool_req", "id": "7", "name": "n" * MAX_REST_BYTES, "input": 1})
    refused = read(line)
    assert isinstance(refused, Refused)
    assert (refused.id, refused.form, refused.fault.code) == ("7", Form.PLAIN, Code.INVALID_REQUEST)


def test_a_long_line_of_blanks_is_a_blank_line() -> None:
    assert read(b" " * HEAVY_BYTES) is None
