"""Results of `tools/call` as outcomes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.catalog.schemas import compile_check
from tooldispatchd.providers.mcp.content import outcome_of
from tooldispatchd.providers.mcp.messages import Incoming
from tooldispatchd.providers.mcp.server import McpTool, Result, Server
from tooldispatchd.wire.faults import Code, Fault

ANY: dict[str, object] = {"type": "object"}
NUMBERED: dict[str, object] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

SERVER = Server(name="docs", argv=("docs",), max_line_bytes=10_000, max_content_bytes=100)
PLAIN = McpTool(
    name="plain",
    title=None,
    description="",
    input_schema=ANY,
    output_schema=None,
    annotations=None,
    input=compile_check(ANY),
    output=None,
)
TYPED = msgspec.structs.replace(PLAIN, output_schema=NUMBERED, output=compile_check(NUMBERED))


def plain(result: bytes) -> Outcome:
    return outcome_of(Incoming(id=1, result=Raw(result)), PLAIN, SERVER)


def typed(result: bytes) -> Outcome:
    return outcome_of(Incoming(id=1, result=Raw(result)), TYPED, SERVER)


def declared(schema: dict[str, object], result: bytes, rule: Result = Result.TYPED) -> Outcome:
    """The outcome of a tool whose type the configuration declares."""
    tool = msgspec.structs.replace(PLAIN, output=compile_check(schema), result=rule)
    return outcome_of(Incoming(id=1, result=Raw(result)), tool, SERVER)


def said(text: str) -> bytes:
    return msgspec.json.encode({"content": [{"type": "text", "text": text}]})


@pytest.mark.parametrize(
    ("result", "content"),
    [
        (b'{"content":[{"type":"text","text":"hi \\u00e9"}]}', "hi é"),
        (b'{"content":[{"type":"text","text":"hi","annotations":{}}],"isError":false}', "hi"),
        (b'{"content":[]}', ""),
        (b"{}", ""),
        (b'{"content":null}', ""),
        (
            b'{"content": [{"type": "text", "text": "a"}, {"type":"text","text":"b"}]}',
            '[{"type":"text","text":"a"},{"type":"text","text":"b"}]',
        ),
        (
            b'{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}',
            '[{"type":"image","data":"aGk=","mimeType":"image/png"}]',
        ),
        (b'{"content":[{"type":"hologram","text":"x"}]}', '[{"type":"hologram","text":"x"}]'),
        (b'{"content":[{"type":"text","text":5}]}', '[{"type":"text","text":5}]'),
        (b'{"content":[7,"x",null]}', '[7,"x",null]'),
        (b'{"content":[],"structuredContent":{"n":1}}', ""),
        (b'{"content":[],"resultType":"complete","isError":null}', ""),
    ],
)
def test_content_of_a_tool_without_an_output_schema(result: bytes, content: str) -> None:
    assert plain(result) == Answer(content)


def test_structured_content_is_given_compact_with_its_keys_in_order() -> None:
    assert typed(b'{"content":[],"structuredContent":{ "z": 1.5, "n": 2 }}') == Answer('{"z":1.5,"n":2}')


def test_numbers_of_any_size_pass_unchanged() -> None:
    assert typed(b'{"structuredContent":{"n":123456789012345678901234567890}}') == Answer(
        '{"n":123456789012345678901234567890}'
    )


@pytest.mark.parametrize("result", [b'{"structuredContent":{"n":"x"}}', b'{"structuredContent":null}', b"{}"])
def test_structured_content_that_breaks_its_schema_is_invalid_output(result: bytes) -> None:
    outcome = typed(result)
    assert isinstance(outcome, Fault)
    assert outcome.code is Code.INVALID_OUTPUT
    assert outcome.extras["violations"]


@pytest.mark.parametrize(
    ("result", "content"),
    [
        (b'{"isError":true,"content":[{"type":"text","text":"no"}]}', "no"),
        (b'{"isError":true,"structuredContent":{"why":"no"}}', '{"why":"no"}'),
        (b'{"isError":true,"structuredContent":null,"content":[{"type":"text","text":"no"}]}', "no"),
        (b'{"isError":"yes"}', ""),
    ],
)
def test_a_tools_own_error_is_passed_on_unchecked(result: bytes, content: str) -> None:
    assert typed(result) == Answer(content, is_error=True)


@pytest.mark.parametrize(
    "result",
    [
        b"null",
        b"[]",
        b'"x"',
        b'{"content":{}}',
        b'{"content":"x"}',
        b'{"content":[{"type":"text","text":"\xff"}]}',
        b'{"resultType":"input_required"}',
        b'{"resultType":1}',
    ],
)
def test_a_result_that_is_none_is_tool_failed(result: bytes) -> None:
    outcome = plain(result)
    assert isinstance(outcome, Fault)
    assert outcome.code is Code.TOOL_FAILED


def test_an_error_is_told_with_its_code_and_message() -> None:
    reply = Incoming(id=1, error=Raw(b'{"code":-32602,"message":"Unknown tool: x"}'), result=Raw(b"null"))
    assert outcome_of(reply, PLAIN, SERVER) == Fault(
        Code.TOOL_FAILED,
        "the call failed at server docs: Unknown tool: x (code -32602)",
        {"server": "docs", "rpc_code": -32602},
    )


def test_a_null_error_beside_a_result_is_none() -> None:
    reply = Incoming(id=1, error=Raw(b"null"), result=Raw(b'{"content":[]}'))
    assert outcome_of(reply, PLAIN, SERVER) == Answer("")


@pytest.mark.parametrize(("count", "is_delivered"), [(100, True), (101, False)])
def test_the_bound_on_content_counts_bytes(count: int, *, is_delivered: bool) -> None:
    outcome = plain(b'{"content":[{"type":"text","text":"' + b"x" * count + b'"}]}')
    assert isinstance(outcome, Answer) is is_delivered


def test_the_bound_on_content_counts_bytes_and_not_characters() -> None:
    outcome = plain(b'{"content":[{"type":"text","text":"' + "é".encode() * 51 + b'"}]}')
    assert isinstance(outcome, Fault)
    assert outcome.extras["limit"] == "content_bytes"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda of: st.lists(of) | st.dictionaries(
    st.sampled_from(["content", "structuredContent", "isError", "resultType", "type", "text", "x"]), of
)))  # fmt: skip
def test_any_json_is_an_outcome(result: object) -> None:
    for outcome in (plain(msgspec.json.encode(result)), typed(msgspec.json.encode(result))):
        assert isinstance(outcome, Answer | Fault)


@given(st.binary())
def test_any_bytes_are_an_outcome(result: bytes) -> None:
    assert isinstance(plain(result), Answer | Fault)


# --- tools whose type is declared ---


@pytest.mark.parametrize(
    ("result", "content"),
    [
        (b'{"structuredContent":{ "n": 1 },"content":[{"type":"text","text":"{\\"n\\":2}"}]}', '{"n":1}'),
        (b'{"structuredContent":null,"content":[{"type":"text","text":"{\\"n\\": 2}"}]}', '{"n":2}'),
        (said('{"n": 3, "n": 4}'), '{"n":4}'),
    ],
)
def test_a_declared_type_takes_structured_content_and_else_a_text_that_is_json(result: bytes, content: str) -> None:
    assert declared(NUMBERED, result) == Answer(content)


@pytest.mark.parametrize(
    "result",
    [
        b'{"structuredContent":{"n":"x"}}',
        b'{"structuredContent":{"n":"x"},"content":[{"type":"text","text":"{\\"n\\":2}"}]}',
        said("3"),
        said("three"),
        said(""),
        b'{"content":[{"type":"text","text":"{}"},{"type":"text","text":"{}"}]}',
        b'{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}',
        b'{"content":[]}',
        b"{}",
    ],
)
def test_what_is_no_value_of_the_declared_type_is_invalid_output(result: bytes) -> None:
    outcome = declared(NUMBERED, result)
    assert isinstance(outcome, Fault)
    assert outcome.code is Code.INVALID_OUTPUT
    assert outcome.extras["violations"]


@pytest.mark.parametrize(
    ("text", "content"),
    [("hi", '"hi"'), ('"hi"', '"hi"'), ("", '""'), ("42", '"42"'), ('{"a":1}', '"{\\"a\\":1}"'), ("{", '"{"')],
)
def test_for_the_type_string_a_text_is_the_value_unless_it_is_a_string_in_json(text: str, content: str) -> None:
    assert declared({"type": "string"}, said(text), Result.TEXT) == Answer(content)


@pytest.mark.parametrize("result", [b"{}", b'{"content":[]}', b'{"content":null,"structuredContent":null}'])
def test_a_server_that_says_nothing_has_said_null(result: bytes) -> None:
    assert declared({"type": "null"}, result) == Answer("null")


@pytest.mark.parametrize(
    ("result", "content"),
    [
        (b'{"isError":true,"content":[{"type":"text","text":"no such city"}]}', "no such city"),
        (b'{"isError":true,"structuredContent":{"n": "x"}}', '{"n":"x"}'),
        (b'{"isError":true}', ""),
    ],
)
def test_an_error_of_a_tool_with_a_declared_type_is_passed_on_unchecked(result: bytes, content: str) -> None:
    assert declared(NUMBERED, result) == Answer(content, is_error=True)


@given(
    st.sampled_from(Result),
    st.binary(max_size=50)
    | st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["content", "structuredContent", "isError", "type", "text", "n"]), inner, max_size=3
            )
        ),
        max_leaves=8,
    ).map(msgspec.json.encode),
)
def test_any_result_is_an_outcome_under_every_rule(rule: Result, result: bytes) -> None:
    assert isinstance(declared({"type": "string"}, result, rule), Answer | Fault)
