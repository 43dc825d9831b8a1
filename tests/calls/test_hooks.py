import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from tooldispatchd.calls.hooks import (
    MAX_REASON,
    HookAnswerError,
    HookedCall,
    read_hook_answer,
    refused,
    told_call,
    told_output,
    with_output,
    with_update,
)
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.catalog.hookspec import MAX_HOOK_BYTES, HookKind
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ContentKind, QuotedText

KINDS = st.sampled_from(list(HookKind))


@given(content=st.text(), kind=KINDS)
def test_any_text_is_an_answer_that_goes_with_the_kind_or_a_lie(content: str, kind: HookKind) -> None:
    try:
        answer = read_hook_answer(Answer(content), kind)
    except HookAnswerError:
        return
    assert answer is None or answer.keys


@pytest.mark.parametrize(
    ("kind", "content", "keys"),
    [
        (HookKind.BEFORE, '{"refuse":"a"}', {"refuse"}),
        (HookKind.BEFORE, '{"name":"a","input":null}', {"name", "input"}),
        (HookKind.AFTER, '{"output":null}', {"output"}),
        (HookKind.UPDATE, '{"drop":true}', {"drop"}),
    ],
)
def test_each_kind_has_its_answers(kind: HookKind, content: str, keys: set[str]) -> None:
    found = read_hook_answer(Answer(content), kind)
    assert found is not None
    assert found.keys == keys
    for other in HookKind:
        if (other, keys) != (HookKind.AFTER, {"refuse"}) and other is not kind and keys != {"output"}:
            with pytest.raises(HookAnswerError):
                read_hook_answer(Answer(content), other)


@pytest.mark.parametrize(
    "content", ["{}", "[]", "1", "nul", '{"refuse":null}', '{"drop":false}', '{"output":1,"x":1}', '{"refuse":"a']
)
def test_another_shape_is_a_lie(content: str) -> None:
    for kind in HookKind:
        with pytest.raises(HookAnswerError):
            read_hook_answer(Answer(content), kind)


def test_an_error_and_what_is_too_large_are_no_answer() -> None:
    for answer in (Answer("null", is_error=True), Answer(" " * (MAX_HOOK_BYTES + 1))):
        with pytest.raises(HookAnswerError):
            read_hook_answer(answer, HookKind.AFTER)
    call = HookedCall("h", HookKind.AFTER, "1", "t", Raw(b"1"), "p", None, output=Raw(b" " * MAX_HOOK_BYTES))
    with pytest.raises(HookAnswerError):
        told_call(call, as_argument=False)


def test_a_long_answer_is_read_through_its_quotes() -> None:
    found = read_hook_answer(Answer(QuotedText(b'"{\\"refuse\\":\\"a\\"}"', 14)), HookKind.BEFORE)
    assert found is not None
    assert found.refuse == "a"


def test_a_function_is_given_the_record_as_its_argument_and_nothing_that_does_not_go_with_the_kind() -> None:
    call = HookedCall("h", HookKind.BEFORE, "1", "t", Raw(b'{"a":1}'), "p", None)
    record = b'{"hook":"h","kind":"before","id":"1","name":"t","input":{"a":1},"profile":"p","agent":null}'
    assert told_call(call, as_argument=False) == record
    assert told_call(call, as_argument=True) == b'{"call":' + record + b"}"
    assert call.output is UNSET


@pytest.mark.parametrize(
    ("outcome", "gives_json", "told", "given", "changed"),
    [
        (Answer('{"a":1}'), True, b'{"a":1}', b'{"a": 2}', Answer('{"a":2}')),
        (Answer("a text"), False, b'"a text"', b'"another"', Answer("another")),
        (
            Answer("a text", kind=ContentKind.TEXT, is_error=True),
            True,
            b'"a text"',
            b'"b"',
            Answer("b", is_error=True, kind=ContentKind.TEXT),
        ),
        (Answer(QuotedText(b'"[1]"', 3)), True, b"[1]", b"[2]", Answer("[2]")),
        (Answer("[1]", details=Raw(b'{"secret":1}')), True, b"[1]", b"[2]", Answer("[2]")),
        (
            Fault(Code.TOOL_FAILED, "a", {"exit_code": 1}),
            True,
            b'{"error":"tool_failed","category":"internal","detail":"a","exit_code":1}',
            b'{"error":"tool_failed","category":"denied","detail":"b"}',
            Fault(Code.TOOL_FAILED, "b"),
        ),
    ],
)
def test_an_output_is_told_and_changed(
    outcome: Outcome, gives_json: bool, told: bytes, given: bytes, changed: Outcome
) -> None:
    assert bytes(told_output(outcome, gives_json=gives_json)) == told
    assert with_output(outcome, Raw(given), ContentKind.JSON, gives_json=gives_json) == changed


@pytest.mark.parametrize(
    ("outcome", "given"),
    [
        (Fault(Code.TOOL_FAILED, "a"), b'{"error":"timeout","detail":"b"}'),
        (Fault(Code.TOOL_FAILED, "a"), b'{"error":"tool_failed"}'),
        (Fault(Code.TOOL_FAILED, "a"), b'"fine"'),
        (Answer("", kind=ContentKind.BLOCKS, blocks=Raw(b"[]")), b"1"),
    ],
)
def test_a_fault_stays_that_fault_and_parts_stay_parts(outcome: Outcome, given: bytes) -> None:
    with pytest.raises(HookAnswerError):
        with_output(outcome, Raw(given), ContentKind.BLOCKS, gives_json=True)


def test_an_update_has_its_fields_alone() -> None:
    assert with_update(Raw(b'{"message":"a"}')).message == "a"
    for wrong in (b'{"message":1}', b'{"other":1}', b"null"):
        with pytest.raises(HookAnswerError):
            with_update(Raw(wrong))


def test_the_words_of_a_refusal_are_bounded() -> None:
    fault = refused("t", "x" * 10_000, hook="h")
    assert (len(str(fault.extras["reason"])), fault.category.value) == (MAX_REASON, "denied")
    assert msgspec.json.decode(fault.content())["hook"] == "h"
