"""Results of `tools/call` as outcomes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tooldispatchd.calls.content import Wanted
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.catalog.schemas import compile_check
from tooldispatchd.providers.mcp.content import found_in, job_for, outcome_of, read_large
from tooldispatchd.providers.mcp.messages import Incoming, InputRequest, InputRequired
from tooldispatchd.providers.mcp.server import McpTool, Result, Server
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ContentKind, QuotedText

ANY: dict[str, object] = {"type": "object"}
NUMBERED: dict[str, object] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

SERVER = Server(name="docs", argv=("docs",), max_line_bytes=10_000, max_content_bytes=100)
PLAIN = McpTool(
    name="plain",
    input_schema=ANY,
    input=compile_check(ANY),
)
TYPED = msgspec.structs.replace(PLAIN, output_schema=NUMBERED, output=compile_check(NUMBERED))


def kind_of(content: str) -> ContentKind:
    """What an answer is whose texts are no JSON."""
    return ContentKind.JSON if content.startswith(("{", "[")) else ContentKind.TEXT


def plain(result: bytes) -> Outcome | InputRequired:
    return outcome_of(Incoming(id=1, result=Raw(result)), PLAIN, SERVER)


def typed(result: bytes) -> Outcome | InputRequired:
    return outcome_of(Incoming(id=1, result=Raw(result)), TYPED, SERVER)


def refused(error: bytes, method: str = "tools/call") -> Fault:
    """The fault of a call that the server answers with an error."""
    tool = msgspec.structs.replace(PLAIN, method=method)
    outcome = outcome_of(Incoming(id=1, error=Raw(error)), tool, SERVER)
    assert isinstance(outcome, Fault)
    return outcome


def declared(schema: dict[str, object], result: bytes, rule: Result = Result.TYPED) -> Outcome | InputRequired:
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
        (b'{"content":[],"structuredContent":{"n":1}}', '{"n":1}'),
        (b'{"content":null,"structuredContent":{"n":1}}', '{"n":1}'),
        (b'{"structuredContent":[1]}', "[1]"),
        (b'{"content":[{"type":"text","text":" "}],"structuredContent":{"n":1}}', '{"n":1}'),
        (b'{"content":[{"type":"text","text":"one"}],"structuredContent":{"n":1}}', "one"),
        (b'{"content":{"type":"text","text":"x"}}', "x"),
        (b'{"content":"x"}', "x"),
        (b'{"content":[],"resultType":"complete","isError":null}', ""),
        (b'{"content":[{"type":"text","text":"no"}],"isError":0}', "no"),
        (b'{"content":[{"type":"text","text":"no"}],"isError":"false"}', "no"),
        (b'{"content":[{"type":"text","text":null}],"structuredContent":{"n":1}}', '{"n":1}'),
        (b'{"temperature":36,"_meta":{},"isError":false}', '{"temperature":36}'),
    ],
)
def test_content_of_a_tool_without_an_output_schema(result: bytes, content: str) -> None:
    assert plain(result) == Answer(content, kind=kind_of(content))


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (b'"hello"', "hello"),
        (b"null", ""),
        (b"36", "36"),
        (b'{"text":"hello"}', "hello"),
        (b'{"type":null,"text":"hello"}', "hello"),
        (b'{"type":"text","text":{"a":36}}', '{"a":36}'),
        (b'{"type":"text","text":null}', ""),
        (b'{"type":"text","content":"hello"}', '{"type":"text","content":"hello"}'),
        (b'{"a":36}', '{"a":36}'),
    ],
)
def test_what_is_no_block_is_a_text_among_blocks(block: bytes, text: str) -> None:
    reply = Incoming(id=1, result=Raw(b'{"content":[%b]}' % block))
    outcome = outcome_of(reply, PLAIN, SERVER, Wanted(ContentKind.TEXT))
    assert isinstance(outcome, Answer)
    assert outcome.content == text


def test_a_result_that_is_no_object_is_in_the_fault() -> None:
    outcome = plain(b'["a",36]')
    assert isinstance(outcome, Fault)
    assert outcome.extras["answer"] == '["a",36]'


def test_structured_content_is_given_compact_with_its_keys_in_order() -> None:
    assert typed(b'{"content":[],"structuredContent":{ "z": 1.5, "n": 2 }}') == Answer('{"z":1.5,"n":2}')


def test_numbers_of_any_size_pass_unchanged() -> None:
    assert typed(b'{"structuredContent":{"n":123456789012345678901234567890}}') == Answer(
        '{"n":123456789012345678901234567890}'
    )


def test_a_text_that_holds_what_the_schema_asks_for_stands_for_structured_content() -> None:
    assert typed(said('{"n": 1}')) == Answer('{"n":1}')
    assert typed(b'{"structuredContent":null,"content":[{"type":"text","text":"{\\"n\\":1}"}]}') == Answer('{"n":1}')


def wrapping(
    value: object, text: str | None, *, field: str = "result", is_marked: bool = False
) -> Outcome | InputRequired:
    """The outcome as a text of a function whose server wraps its values, as servers of FastMCP and the SDK do."""
    schema: dict[str, object] = {"type": "object", "properties": {field: {}}, "required": [field]}
    schema |= {"x-fastmcp-wrap-result": True} if is_marked else {}
    tool = msgspec.structs.replace(PLAIN, output_schema=schema, output=compile_check(schema))
    blocks = [] if text is None else [{"type": "text", "text": text}]
    result = msgspec.json.encode({"content": blocks, "structuredContent": {field: value}})
    return outcome_of(Incoming(id=1, result=Raw(result)), tool, SERVER, Wanted(ContentKind.TEXT))


@pytest.mark.parametrize(
    ("value", "text"),
    [("# Hi\n\nthere", "# Hi\n\nthere"), ("", ""), ('{"a": 1}', '{"a": 1}'), (5, "5"), (2.0, "2.0"), (True, "true")],
)
def test_a_wrapped_value_that_the_only_text_repeats_is_that_text(value: object, text: str) -> None:
    wrapped = msgspec.json.encode({"result": value}).decode()
    assert wrapping(value, text) == Answer(text, kind=ContentKind.TEXT, value=wrapped)


def test_a_wrapped_list_is_the_text_that_says_the_same_in_whichever_spelling() -> None:
    outcome = wrapping(["a", {"b": 1}], '["a", {"b": 1}]')
    assert isinstance(outcome, Answer)
    assert outcome.content == '["a", {"b": 1}]'


@pytest.mark.parametrize(
    ("value", "text"), [("long", "short"), (1, "true"), (["a"], "a"), (None, None), ("null", None)]
)
def test_a_value_that_its_text_does_not_repeat_stays_wrapped(value: object, text: str | None) -> None:
    assert wrapping(value, text) == Answer(msgspec.json.encode({"result": value}).decode())


def test_a_field_of_another_name_is_wrapped_only_where_the_schema_says_so() -> None:
    assert wrapping("hi", "hi", field="name") == Answer('{"name":"hi"}')
    marked = wrapping("hi", "hi", field="name", is_marked=True)
    assert marked == Answer("hi", kind=ContentKind.TEXT, value='{"name":"hi"}')


@pytest.mark.parametrize(("value", "content"), [([], "[]"), (None, "null"), ({"a": 1}, '{"a":1}'), ("x", "x")])
def test_a_marked_value_without_a_text_is_the_text_of_the_value(value: object, content: str) -> None:
    outcome = wrapping(value, None, is_marked=True)
    assert isinstance(outcome, Answer)
    assert (outcome.content, outcome.kind) == (content, ContentKind.TEXT)


@pytest.mark.parametrize("result", [b'{"structuredContent":{"n":"x"}}', b'{"structuredContent":null}', b"{}"])
def test_structured_content_that_breaks_its_schema_is_invalid_output(result: bytes) -> None:
    outcome = typed(result)
    assert isinstance(outcome, Fault)
    assert outcome.code is Code.INVALID_OUTPUT
    assert outcome.extras["violations"]


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        (b'{"structuredContent":{"n":"x"},"content":[{"type":"text","text":"n is x"}]}', '{"n":"x"}'),
        (b'{"content":[{"type":"text","text":"n is x"}]}', "n is x"),
        (b'{"content":[{"type":"text","text":"n is x"}],"structuredContent":{}}', "n is x"),
        (b'{"structuredContent":{"n":1e400}}', '{"n":1e400}'),
        (b'{"structuredContent":"' + "ä".encode() * 8_000 + b'"}', '"' + "ä" * 4_095),
    ],
)
def test_an_answer_that_breaks_its_schema_is_in_the_fault(result: bytes, answer: str) -> None:
    outcome = typed(result)
    assert isinstance(outcome, Fault)
    assert outcome.extras["answer"] == answer


@pytest.mark.parametrize("kind", ContentKind)
@pytest.mark.parametrize(
    ("result", "content"),
    [
        (b'{"structuredContent":{"n":"x"},"content":[]}', '{"n":"x"}'),
        (b'{"content":[{"type":"text","text":"n is x"}]}', "n is x"),
    ],
)
def test_with_warnings_an_answer_that_breaks_its_schema_is_given(
    result: bytes, content: str, kind: ContentKind
) -> None:
    server = msgspec.structs.replace(SERVER, warns_of_outputs=True)
    outcome = outcome_of(Incoming(id=1, result=Raw(result)), TYPED, server, Wanted(kind))
    assert isinstance(outcome, Answer)
    assert (outcome.content, outcome.is_error) == (content, False)
    assert outcome.warning is not None
    assert "output schema" in outcome.warning


def test_a_checker_tells_the_warning_too() -> None:
    server = msgspec.structs.replace(SERVER, warns_of_outputs=True)
    line = b'{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"n":"x"}}}'
    reply, content, parts = read_large(job_for(server, 1, TYPED), bytearray(line))
    outcome = found_in(reply, bytearray(content), bytearray(parts), line)
    assert isinstance(outcome, Answer)
    assert outcome.warning is not None


def test_a_declared_type_stays_strict() -> None:
    server = msgspec.structs.replace(SERVER, warns_of_outputs=True)
    tool = msgspec.structs.replace(TYPED, result=Result.TYPED)
    outcome = outcome_of(Incoming(id=1, result=Raw(b'{"structuredContent":{"n":"x"}}')), tool, server)
    assert isinstance(outcome, Fault)
    assert outcome.code is Code.INVALID_OUTPUT


@pytest.mark.parametrize(
    ("result", "content"),
    [
        (b'{"isError":true,"content":[{"type":"text","text":"no"}]}', "no"),
        (b'{"isError":true,"structuredContent":{"why":"no"}}', '{"why":"no"}'),
        (b'{"isError":true,"structuredContent":null,"content":[{"type":"text","text":"no"}]}', "no"),
        (b'{"isError":true,"structuredContent":{},"content":[{"type":"text","text":"no"}]}', "no"),
        (b'{"isError":true,"structuredContent":{"n":1},"content":[{"type":"text","text":"no"}]}', "no"),
        (b'{"isError":"yes"}', ""),
    ],
)
def test_a_tools_own_error_is_passed_on_unchecked(result: bytes, content: str) -> None:
    assert typed(result) == Answer(content, is_error=True, kind=kind_of(content))


@pytest.mark.parametrize(
    "result",
    [
        b"null",
        b"[]",
        b'"x"',
        b'{"content":[{"type":"text","text":"\xff"}]}',
        b'{"resultType":"input_required"}',
        b'{"resultType":"input_required","inputRequests":{"a":1}}',
        b'{"resultType":"input_required","isError":true,"content":[]}',
        b'{"resultType":1}',
        b'{"resultType":"task","content":[]}',
        b'{"resultType":"Complete","content":[]}',
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


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (b'{"code":-32002,"message":"file:///a"}', "there is no such resource: file:///a (code -32002)"),
        (
            b'{"code":-32020,"message":"Mcp-Name"}',
            "it finds headers that do not match the call: Mcp-Name (code -32020)",
        ),
        (
            b'{"code":-32021,"message":"no","data":{"requiredCapabilities":{"sampling":{},"roots":{}}}}',
            "it needs what this agent does not offer (sampling, roots): no (code -32021)",
        ),
        (b'{"code":-32021,"message":"no"}', "it needs what this agent does not offer: no (code -32021)"),
        (
            b'{"code":-32022,"message":"no","data":{"supported":["2025-11-25"],"requested":"x"}}',
            "it speaks other revisions of the protocol (2025-11-25): no (code -32022)",
        ),
        (
            b'{"code":-32042,"message":"Log in","data":{"elicitations":[{"mode":"url","url":"https://a.example/"}]}}',
            "a person must visit a page before this call (https://a.example/): Log in (code -32042)",
        ),
        (b'{"code":-32042,"data":5}', "a person must visit a page before this call: an error without a message"),
        (b'{"code":"E1","message":"no"}', "no (code E1)"),
        (b'{"message":"no"}', "no"),
        (b'{"code":{}}', "an error that cannot be read"),
        (b"7", "an error that cannot be read"),
    ],
)
def test_an_error_of_the_protocols_own_is_told_by_what_it_means(error: bytes, words: str) -> None:
    assert refused(error).detail.removeprefix("the call failed at server docs: ").startswith(words)


def test_parameters_that_a_resource_cannot_have_are_told_as_no_resource() -> None:
    error = b'{"code":-32602,"message":"nope"}'
    assert "there is no such resource: nope" in refused(error, "resources/read").detail
    assert "there is no such resource" not in refused(error).detail


def test_small_data_of_an_error_is_told_as_it_is() -> None:
    error = {"code": -32021, "message": "no", "data": {"requiredCapabilities": {"sampling": {}}}}
    assert refused(msgspec.json.encode(error)).extras["rpc_data"] == {"requiredCapabilities": {"sampling": {}}}


@pytest.mark.parametrize("data", ["x" * 1023, None])
def test_large_data_of_an_error_and_none_are_left_out(data: str | None) -> None:
    assert "rpc_data" not in refused(msgspec.json.encode({"code": -32021, "data": data})).extras


def test_what_an_error_says_is_bounded() -> None:
    urls = [{"url": "u" * 3000}] * 100
    error = {"code": -32042, "message": "m" * 5000, "data": {"elicitations": urls[:10]}}
    assert len(refused(msgspec.json.encode(error)).detail) < 4200
    assert refused(msgspec.json.encode({"code": "x" * 5000})).extras["rpc_code"] == "x" * 64
    assert "uuu" not in refused(msgspec.json.encode({"code": -32042, "data": {"elicitations": urls}})).detail


# --- what is no outcome yet ---


def test_a_server_that_needs_input_says_what() -> None:
    result = (
        b'{"resultType":"input_required","requestState":"s","inputRequests":'
        b'{"day":{"method":"elicitation/create","params":{"message":"Which day?"}}}}'
    )
    day = InputRequest("elicitation/create", Raw(b'{"message":"Which day?"}'))
    assert typed(result) == InputRequired({"day": day}, "s")


# --- resources and prompts ---


@pytest.mark.parametrize(
    ("method", "result", "content"),
    [
        ("resources/read", b'{"resultType":"complete","contents":[{"uri":"a","text":"hi"}]}', "hi"),
        ("resources/read", b'{"contents":[]}', "[]"),
        ("resources/read", b'{"contents":[{"uri":"a","blob":"aGk="}]}', '[{"uri":"a","blob":"aGk="}]'),
        (
            "resources/read",
            b'{"contents":[{"uri":"a","text":"hi"}, {"uri":"b","text":"ho"}]}',
            '[{"uri":"a","text":"hi"},{"uri":"b","text":"ho"}]',
        ),
        ("resources/list", b'{"resources":[ ]}', '{"resources":[]}'),
        (
            "resources/list",
            b'{"resources": [{"uri":"a"}], "nextCursor":"\\"2"}',
            '{"resources":[{"uri":"a"}],"nextCursor":"\\"2"}',
        ),
        ("resources/list", b'{"resources":[],"ttlMs":5,"nextCursor":""}', '{"resources":[]}'),
        ("prompts/get", b'{"messages":[],"isError":true}', '{"messages":[]}'),
        (
            "prompts/get",
            b'{"messages":[{"role":"user"}],"description":"d"}',
            '{"messages":[{"role":"user"}],"description":"d"}',
        ),
    ],
)
def test_resources_and_prompts_are_answers_of_their_tools(method: str, result: bytes, content: str) -> None:
    tool = msgspec.structs.replace(PLAIN, method=method)
    assert outcome_of(Incoming(id=1, result=Raw(result)), tool, SERVER) == Answer(content, kind=kind_of(content))


@pytest.mark.parametrize("method", ["resources/read", "resources/list", "prompts/get"])
@pytest.mark.parametrize(
    "result", [b"{}", b'{"contents":1,"resources":1,"messages":1}', b'{"contents":{},"resources":null,"messages":"x"}']
)
def test_a_result_of_another_method_is_tool_failed(method: str, result: bytes) -> None:
    tool = msgspec.structs.replace(PLAIN, method=method)
    outcome = outcome_of(Incoming(id=1, result=Raw(result)), tool, SERVER)
    assert isinstance(outcome, Fault)
    assert outcome.detail == f"the call failed at server docs: its answer is no result of {method}"


def test_a_resource_over_the_bound_is_not_delivered() -> None:
    tool = msgspec.structs.replace(PLAIN, method="resources/read")
    reply = Incoming(id=1, result=Raw(b'{"contents":[{"uri":"a","text":"' + b"x" * 101 + b'"}]}'))
    outcome = outcome_of(reply, tool, SERVER)
    assert isinstance(outcome, Fault)
    assert outcome.extras["limit"] == "content_bytes"


@pytest.mark.parametrize("structured", [b"[1]", b'"x"', b"5", b"null", b"false"])
def test_structured_content_may_be_any_value_that_its_schema_allows(structured: bytes) -> None:
    schema: dict[str, object] = {"type": ["array", "string", "integer", "null", "boolean"]}
    tool = msgspec.structs.replace(PLAIN, output_schema=schema, output=compile_check(schema))
    result = Raw(b'{"resultType":"complete","content":[],"structuredContent":' + structured + b"}")
    assert outcome_of(Incoming(id=1, result=result), tool, SERVER) == Answer(structured.decode())


def test_a_null_error_beside_a_result_is_none() -> None:
    reply = Incoming(id=1, error=Raw(b"null"), result=Raw(b'{"content":[]}'))
    assert outcome_of(reply, PLAIN, SERVER) == Answer("", kind=ContentKind.TEXT)


@pytest.mark.parametrize(("count", "is_delivered"), [(100, True), (101, False)])
def test_the_bound_on_content_counts_bytes(count: int, *, is_delivered: bool) -> None:
    outcome = plain(b'{"content":[{"type":"text","text":"' + b"x" * count + b'"}]}')
    assert isinstance(outcome, Answer) is is_delivered


def test_the_bound_on_content_counts_bytes_and_not_characters() -> None:
    outcome = plain(b'{"content":[{"type":"text","text":"' + "é".encode() * 51 + b'"}]}')
    assert isinstance(outcome, Fault)
    assert outcome.extras["limit"] == "content_bytes"


KEYS = ["content", "structuredContent", "isError", "resultType", "type", "text", "contents", "resources", "messages"]
MORE_KEYS = ["inputRequests", "requestState", "method", "params", "code", "message", "data", "elicitations"]
WORDS = st.text(max_size=5) | st.sampled_from(["input_required", "complete", "text", "roots/list"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(-32042) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS + MORE_KEYS), inner, max_size=4),
    max_leaves=10,
)
METHODS = st.sampled_from(["tools/call", "resources/read", "resources/list", "prompts/get"])


@given(JSON, METHODS)
def test_any_json_is_an_outcome(value: object, method: str) -> None:
    raw = Raw(msgspec.json.encode(value))
    for tool in (PLAIN, TYPED, msgspec.structs.replace(PLAIN, method=method)):
        for reply in (Incoming(id=1, result=raw), Incoming(id=1, error=raw)):
            assert isinstance(outcome_of(reply, tool, SERVER), Answer | Fault | InputRequired)


@given(st.binary(), METHODS)
def test_any_bytes_are_an_outcome(result: bytes, method: str) -> None:
    tool = msgspec.structs.replace(PLAIN, method=method)
    assert isinstance(outcome_of(Incoming(id=1, result=Raw(result)), tool, SERVER), Answer | Fault)


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
    assert declared(NUMBERED, result) == Answer(content, is_error=True, kind=kind_of(content))


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


# --- by a checker ---


def read_by_checker(max_content_bytes: int, **reply: object) -> Incoming | Outcome | None:
    """What a request beyond tools is answered with, where the answer is large."""
    server = msgspec.structs.replace(SERVER, max_content_bytes=max_content_bytes)
    tool = msgspec.structs.replace(PLAIN, result=Result.WHOLE, method="resources/read")
    line = msgspec.json.encode({"jsonrpc": "2.0", "id": 7, **reply})
    found, content, parts = read_large(job_for(server, 7, tool), bytearray(line))
    return found_in(found, bytearray(content), bytearray(parts), line)


def test_a_large_result_beyond_tools_is_read_whole() -> None:
    result = {"contents": [{"uri": "note:day", "text": "x" * 3_000_000}]}
    answer = read_by_checker(4_000_000, result=result)
    assert isinstance(answer, Answer)
    assert isinstance(answer.content, QuotedText)
    assert msgspec.json.decode(msgspec.json.decode(answer.content.literal, type=str)) == result


def test_a_large_error_beyond_tools_is_the_servers_own() -> None:
    error = {"code": -32002, "message": "no", "data": "x" * 3_000_000}
    answer = read_by_checker(4_000_000, error=error)
    assert isinstance(answer, Answer)
    assert answer.is_error


def test_a_result_beyond_tools_over_the_bound_is_told_as_such() -> None:
    fault = read_by_checker(1_000_000, result={"contents": [{"uri": "note:day", "text": "x" * 3_000_000}]})
    assert isinstance(fault, Fault)
    assert (fault.code, fault.extras["limit"]) == (Code.TOOL_FAILED, "content_bytes")
