"""What stands beside an answer, for whom, and the bound on its parts."""

import msgspec
import pytest
from msgspec import UNSET, Raw

from tooldispatchd.agent.calls.beside import beside_of, in_kind, wanted_kind
from tooldispatchd.calls.content import of_parts
from tooldispatchd.calls.outcome import Answer
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import NOTHING_BESIDE, ContentKind, Hello, ShortReq
from tooldispatchd.wire.session import SessionMachine

JSON, TEXT, BLOCKS = ContentKind.JSON, ContentKind.TEXT, ContentKind.BLOCKS
PARTS = msgspec.json.encode([{"type": "text", "text": "hi"}, {"type": "image", "data": "A" * 400, "mimeType": "x/y"}])
FAULT = Fault(Code.TOOL_FAILED, "it failed")


def greeted(**asked: object) -> SessionMachine:
    machine = SessionMachine([])
    machine.greet(msgspec.convert({"__port": "hello", **asked}, Hello), line=1)
    return machine


def test_a_request_wants_what_it_says_and_else_what_its_session_said() -> None:
    machine = greeted(content="text")
    assert wanted_kind(ShortReq("1", "t"), machine) is TEXT
    assert wanted_kind(ShortReq("1", "t", content=BLOCKS), machine) is BLOCKS
    assert wanted_kind(ShortReq("1", "t"), greeted()) is None


def test_a_part_over_the_bound_is_a_fault_that_names_it_and_a_text_has_no_parts() -> None:
    wide = in_kind(of_parts(PARTS, BLOCKS), BLOCKS, 1000)
    assert isinstance(wide, Answer)
    narrow = in_kind(of_parts(PARTS, BLOCKS), BLOCKS, 100)
    assert isinstance(narrow, Fault)
    assert (narrow.code, narrow.extras["limit"], narrow.extras["ran"]) == (Code.TOOL_FAILED, "part_bytes", "maybe")
    assert isinstance(in_kind(of_parts(PARTS, TEXT), TEXT, 100), Answer)


@pytest.mark.parametrize("outcome", [Answer("1", details=Raw(b'{"a":1}')), FAULT])
def test_nothing_stands_beside_the_answer_of_an_agent_that_asked_for_nothing(outcome: Answer | Fault) -> None:
    assert beside_of(outcome, None, greeted(), gives_json=True, meta=None) is NOTHING_BESIDE


def test_details_are_for_agents_that_asked() -> None:
    said = Answer("1", details=Raw(b'{"a":1}'))
    assert beside_of(said, None, greeted(details=True), gives_json=True, meta=None).details == Raw(b'{"a":1}')
    assert beside_of(said, TEXT, greeted(content="text"), gives_json=True, meta=None).details is UNSET


def test_a_fault_is_a_text_with_its_value_where_texts_were_asked_for_and_else_json() -> None:
    beside = beside_of(FAULT, TEXT, greeted(content="text"), gives_json=True, meta=None)
    assert (beside.kind, beside.value) == (TEXT, Raw(FAULT.content().encode()))
    beside = beside_of(FAULT, BLOCKS, greeted(content="blocks"), gives_json=True, meta=None)
    assert (beside.kind, beside.value) == (JSON, UNSET)


def test_a_value_is_there_in_any_kind_of_content_where_the_tool_has_a_type() -> None:
    machine = greeted(capabilities=["value"], content="text")
    text = in_kind(Answer('"hi"'), TEXT, 1000)
    assert beside_of(text, TEXT, machine, gives_json=True, meta=None).value == Raw(b'"hi"')
    assert beside_of(text, TEXT, machine, gives_json=False, meta=None).value is UNSET
