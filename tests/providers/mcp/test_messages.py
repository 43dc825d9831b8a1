"""JSON-RPC lines, read and written."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from tooldispatchd.calls.outcome import Update
from tooldispatchd.providers.mcp.messages import (
    MAX_BATCH_BYTES,
    MAX_STRAY_BYTES,
    Incoming,
    peek_number,
    read_message,
    read_progress,
    request_number,
    split_batch,
)


def test_an_answer_is_read_with_its_result_left_raw() -> None:
    message = read_message(b'{"jsonrpc":"2.0","id":7,"result":{"a": [1]}}\r')
    assert isinstance(message, Incoming)
    assert message.id == 7
    assert bytes(message.result) == b'{"a": [1]}'  # type: ignore[arg-type]  # it is no UNSET here
    assert message.error is UNSET


@pytest.mark.parametrize(
    "line", [b"", b"Listening", b"{", b"[]", b"7", b"null", b'{"id":{}}', b'{"method":1}', b"\xff"]
)
def test_what_is_no_message_is_none(line: bytes) -> None:
    assert read_message(line) is None


@given(st.binary())
def test_any_bytes_are_a_message_or_none(line: bytes) -> None:
    read_message(line)
    split_batch(line)
    peek_number(line)


def test_a_message_nested_too_deep_bears_an_error_and_its_number() -> None:
    message = read_message(b'{"id":3,"result":' + b"[" * 5000 + b"]" * 5000 + b"}")
    assert isinstance(message, Incoming)
    assert message.id == 3
    assert b"too deep" in bytes(message.error)  # type: ignore[arg-type]  # it is no UNSET here


@pytest.mark.parametrize(
    ("id_", "number"),
    [
        (5, 5),
        ("5", 5),
        (5.0, 5),
        (5.5, None),
        ("five", None),
        ("", None),
        ("\u0665", None),
        (None, None),
        ("9" * 19, None),
    ],
)
def test_a_number_is_known_in_the_forms_that_servers_give_it_back(id_: int | float | str | None, number: int) -> None:
    assert request_number(id_) == number


def test_a_missing_id_is_no_number() -> None:
    assert request_number(UNSET) is None


@pytest.mark.parametrize(
    ("head", "number"),
    [
        (b'{"jsonrpc":"2.0","id":12,"result":{"conte', 12),
        (b' { "id" : "12" , "result', 12),
        (b'{"x":-1.5e3,"y":null,"z":"\\"id\\":4","id":12,', 12),
        (b'{"id":12}', 12),
        (b'{"result":{"id":12,', None),
        (b'{"method":"log","id":12,', None),
        (b'{"id":12', None),
        (b'{"id":null,', None),
        (b'"id":12,', None),
        (b"", None),
    ],
)
def test_the_number_of_a_line_that_is_too_long_is_found_in_its_head(head: bytes, number: int | None) -> None:
    assert peek_number(head) == number


def test_a_batch_is_split_and_a_long_one_is_not() -> None:
    assert split_batch(b' [{"id":1},2]') == [msgspec.Raw(b'{"id":1}'), msgspec.Raw(b"2")]
    assert split_batch(b"{}") is None
    assert split_batch(b"[" + b" " * MAX_BATCH_BYTES + b"]") is None


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        (b"cut \\ud83d", "cut \ufffd"),
        (b"\\uDE00 begins", "\ufffd begins"),
        (b"\\ud83d\\ude00 \\ud83d", "\U0001f600 \ufffd"),
        (b"\\\\ud83d \\\\\\ud83d", "\\ud83d \\\ufffd"),
    ],
)
def test_half_of_a_surrogate_pair_is_replaced(text: bytes, mended: str) -> None:
    message = read_message(b'{"id":1,"result":"' + text + b'"}')
    assert isinstance(message, Incoming)
    assert msgspec.json.decode(message.result) == mended  # type: ignore[arg-type]  # it is no UNSET here
    (raw,) = split_batch(b'["' + text + b'"]') or []
    assert msgspec.json.decode(raw) == mended


@given(st.text(st.characters(categories=["Cs", "L", "P"])))
def test_any_text_of_utf_16_units_can_be_read(text: str) -> None:
    message = read_message(b'{"id":1,"result":' + json.dumps(text).encode() + b"}")
    assert isinstance(message, Incoming)
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert msgspec.json.decode(message.result) == whole  # type: ignore[arg-type]  # it is no UNSET here


def test_an_answer_too_long_to_be_a_stray_line_bears_an_error_where_it_cannot_be_read() -> None:
    message = read_message(b'{"id":3,"result":' + b"x" * MAX_STRAY_BYTES)
    assert isinstance(message, Incoming)
    assert message.id == 3
    assert b"no valid JSON" in bytes(message.error)  # type: ignore[arg-type]  # it is no UNSET here
    assert read_message(b'{"id":3,"result":x') is None


def test_progress_is_read_with_the_number_of_its_request() -> None:
    params = Raw(b'{"progressToken":"7","progress":1,"total":2.5,"message":"m","more":[]}')
    assert read_progress(params) == (7, Update(1.0, 2.5, "m"))


def test_progress_without_parameters_cannot_be_read() -> None:
    assert read_progress(UNSET) is None


@given(st.binary())
def test_any_parameters_are_progress_or_none(params: bytes) -> None:
    assert read_progress(Raw(params)) is None
