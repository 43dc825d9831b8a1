import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import DecodeError, Raw

from tooldispatchd.client.conversation import (
    Answered,
    Call,
    Event,
    PendingRequests,
    Refusal,
    Updated,
    Verdict,
)
from tooldispatchd.client.errors import ClientError, FaultError
from tooldispatchd.wire.decode import Refused, decode_line
from tooldispatchd.wire.messages import ApproveReq, Ask, Bye, Pong, Ready, ToolReq, ToolResp, Tools

READY = {"__port": "ready", "profile": "p", "protocol": 1, "tools": [], "warnings": []}
FAULT = {"__port": "fault", "error": "invalid_request", "category": "invalid", "detail": "no"}


def failed(events: list[Event]) -> list[int]:
    """The tickets that a fault answers."""
    return [each.ticket for each in events if isinstance(each, Answered) and isinstance(each.answer, FaultError)]


def line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def hear(conversation: PendingRequests, *messages: dict[str, Any]) -> list[Event]:
    return conversation.receive(b"".join(map(line, messages)))


def resp(call_id: object, content: str = "done", **fields: object) -> dict[str, Any]:
    return {"__port": "tool_resp", "id": str(call_id), "content": content, "is_error": False, **fields}


def said(conversation: PendingRequests) -> list[dict[str, Any]]:
    return [json.loads(each) for each in conversation.take().splitlines()]


# --- what is said ---


def test_every_line_is_one_that_the_daemon_reads() -> None:
    conversation = PendingRequests()
    conversation.hello("a", profile="p", spec={"tools": ["x"]}, meta={"run": 1}, answers=["approve"], updates=True)
    conversation.tools("a", schemas="plain")
    ticket = conversation.call("a", Call("x", {"y": 1}, 50.5, True, "00-" + "1" * 32 + "-" + "2" * 16 + "-01"))
    conversation.cancel("a", ticket)
    conversation.approve(ApproveReq("q", "x", Raw(b"1"), "why", "a"), Verdict(allow=False, reason="no"))
    conversation.reply(Ask("q", "sampling", "s", Raw(b"1"), "a"), Refusal("no"))
    conversation.reply(Ask("q", "sampling", "s", Raw(b"1")), None)
    conversation.ping()
    conversation.bye("a")
    lines = conversation.take().splitlines()
    assert len(lines) == 9
    assert [each for each in lines if isinstance(decode_line(each, 2**20), Refused | None)] == []
    assert conversation.take() == b""


@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(), st.lists, max_leaves=9))
def test_any_input_stands_on_one_line(value: object) -> None:
    conversation = PendingRequests()
    conversation.call(None, Call("x", value))
    conversation.call(None, Call("x", Raw(json.dumps([value], indent=1).encode())))
    plain, raw = conversation.take().splitlines()
    assert json.loads(plain)["input"] == value
    assert json.loads(raw)["input"] == [value]


def test_a_call_without_input_says_none_and_null_is_said() -> None:
    conversation = PendingRequests()
    conversation.call(None, Call("x"))
    conversation.call(None, Call("x", None))
    assert said(conversation) == [
        {"__port": "tool_req", "id": "1", "name": "x"},
        {"__port": "tool_req", "id": "2", "name": "x", "input": None},
    ]


@pytest.mark.parametrize("value", [object(), Raw(b"{\n"), float("nan"), "\ud800"])
def test_what_is_no_json_is_not_said(value: object) -> None:
    conversation = PendingRequests()
    try:
        conversation.call(None, Call("x", value))
    except (TypeError, DecodeError, UnicodeEncodeError):
        assert conversation.take() == b""
        assert conversation.ping() == 1
    else:
        assert said(conversation)[0]["input"] is None  # what msgspec makes of a number that is none


def test_a_call_is_cancelled_only_while_it_is_in_flight() -> None:
    conversation = PendingRequests()
    ticket = conversation.call("a", Call("x"))
    conversation.take()
    conversation.cancel("a", ticket)
    assert said(conversation) == [{"__port": "tool_cancel", "id": "1", "agent": "a"}]
    hear(conversation, resp(ticket))
    conversation.cancel("a", ticket)
    assert conversation.take() == b""


# --- who it is for ---


def test_answers_find_their_calls_in_any_order() -> None:
    conversation = PendingRequests()
    first, second = (conversation.call(None, Call("x")) for _ in range(2))
    events = hear(conversation, resp(second, "2"), resp(first, "1"), resp(first, "again"))
    assert [(each.ticket, each.answer.content) for each in events if isinstance(each, Answered)] == [  # type: ignore[union-attr]
        (second, "2"),
        (first, "1"),
    ]
    assert len(events) == 2


def test_a_fault_in_an_answer_fails_the_call_and_a_tools_own_error_does_not() -> None:
    conversation = PendingRequests()
    first, second, third = (conversation.call(None, Call("x")) for _ in range(3))
    content = json.dumps({"error": "queue_full", "category": "unavailable", "detail": "d", "retry_after_ms": 5})
    events = hear(
        conversation,
        resp(first, content, is_error=True, fault=True),
        resp(second, content, is_error=True),
        resp(third, "no json", is_error=True, fault=True),
    )
    full, own, odd = events
    assert isinstance(full, Answered)
    assert isinstance(full.answer, FaultError)
    assert (full.ticket, full.answer.code, full.answer.retry_after_ms) == (first, "queue_full", 5.0)
    assert isinstance(own, Answered)
    assert isinstance(own.answer, ToolResp)
    assert isinstance(odd, Answered)
    assert isinstance(odd.answer, FaultError)
    assert (odd.answer.code, odd.answer.detail) == ("internal_error", "no json")


def test_a_fault_names_the_line_that_it_is_about() -> None:
    conversation = PendingRequests()
    tickets = [
        conversation.ping(),
        conversation.tools(None, schemas="odd"),
        conversation.hello(None),
        conversation.ping(),
    ]
    events = hear(conversation, FAULT | {"line": 3}, FAULT | {"line": 2}, FAULT | {"line": 3}, FAULT | {"line": 1})
    assert failed(events) == [tickets[2], tickets[1], tickets[0]]
    answered = hear(conversation, {"__port": "pong", "t": tickets[3]})
    assert [each.ticket for each in answered if isinstance(each, Answered)] == [tickets[3]]


def test_a_refusal_without_a_line_is_for_the_hello_of_its_agent() -> None:
    conversation = PendingRequests()
    own, named = conversation.hello(None), conversation.hello("a")
    events = hear(conversation, FAULT | {"agent": "a"}, FAULT | {"agent": "b"}, READY)
    assert failed(events) == [named]
    assert [each.ticket for each in events if isinstance(each, Answered)] == [named, own]


def test_on_a_shared_channel_a_fault_is_for_the_oldest_question_of_its_agent() -> None:
    conversation = PendingRequests(is_shared=True)
    tickets = [conversation.hello(None), conversation.tools(None, schemas="odd"), conversation.hello("a")]
    call = conversation.call(None, Call("x"))
    faults: list[dict[str, Any]] = [
        FAULT | {"line": 2},
        FAULT | {"line": 4, "agent": "a"},
        FAULT | {"line": 5, "id": str(call)},
    ]
    events = hear(conversation, *faults, FAULT | {"line": 3})
    assert failed(events) == [tickets[0], tickets[2], tickets[1]]


def test_a_duplicate_id_of_somebody_else_does_not_fail_the_first() -> None:
    conversation = PendingRequests()
    ticket = conversation.call(None, Call("x"))
    assert hear(conversation, FAULT | {"error": "duplicate_id", "id": str(ticket), "line": 7}) == []
    assert len(hear(conversation, resp(ticket))) == 1


def test_questions_of_a_kind_are_answered_in_their_order_for_each_agent() -> None:
    conversation = PendingRequests()
    tickets = [conversation.tools(agent, schemas=None) for agent in ("a", "b", "a")]
    lists: list[dict[str, Any]] = [{"__port": "tools", "tools": [], "agent": agent} for agent in ("b", "a", "a", "a")]
    events = hear(conversation, *lists)
    assert [each.ticket for each in events if isinstance(each, Answered)] == [tickets[1], tickets[0], tickets[2]]


def test_updates_come_only_while_the_call_runs() -> None:
    conversation = PendingRequests()
    ticket = conversation.call(None, Call("x"))
    update = {"__port": "tool_update", "id": str(ticket), "progress": 1}
    events = hear(conversation, update, resp(ticket), update)
    assert [type(each) for each in events] == [Updated, Answered]


@pytest.mark.parametrize("call_id", ["", "0", "-1", "٣", "1" * 500, "1.0", " 1"])
def test_an_id_that_is_not_ours_is_nobodys(call_id: str) -> None:
    conversation = PendingRequests()
    conversation.call(None, Call("x"))
    assert hear(conversation, resp(call_id)) == []


# --- the end ---


def test_after_the_end_nothing_is_asked_and_nothing_heard() -> None:
    conversation = PendingRequests()
    conversation.ping()
    conversation.end("gone")
    conversation.end("gone again")
    assert (conversation.lost, conversation.take(), hear(conversation, {"__port": "pong", "t": 1})) == ("gone", b"", [])
    with pytest.raises(ClientError, match="gone"):
        conversation.ping()


def test_a_line_that_is_too_long_ends_it() -> None:
    conversation = PendingRequests(max_line_bytes=100)
    ticket = conversation.call(None, Call("x"))
    events = conversation.receive(line(resp(ticket)) + b"x" * 101)
    assert len(events) == 1
    assert conversation.lost == "the daemon sent a line that is too long"


def test_nothing_is_held_for_what_has_been_answered() -> None:
    conversation = PendingRequests()
    for number in range(100):
        agent = f"agent {number}"
        ticket = conversation.hello(agent)
        call = conversation.call(agent, Call("x"))
        conversation.bye(agent)
        fields = {"agent": agent}
        events = hear(conversation, READY | fields, resp(call), {"__port": "bye"} | fields)
        assert [each.ticket for each in events if isinstance(each, Answered)] == [ticket, call, call + 1]
    held = [conversation._waiting, conversation._calls, conversation._questions, conversation._shown]
    assert held == [{}, {}, {}, {}]


# --- cut anywhere ---

LINES: list[dict[str, Any]] = [
    {"__port": "pong", "t": 1},
    READY,
    {"__port": "tool_update", "id": "3", "message": "é"},
    resp(3, "x" * 50),
    {"__port": "of a later version"},
    {"__port": "tools", "tools": []},
    {"__port": "ping", "t": 1},
    FAULT | {"line": 5},
    {"__port": "bye"},
]
SPOKEN = b"".join(map(line, LINES))


def spoken(chunks: list[bytes]) -> tuple[list[Event], bytes]:
    conversation = PendingRequests()
    conversation.ping()
    conversation.hello(None)
    conversation.call(None, Call("x"))
    conversation.tools(None, schemas=None)
    conversation.call(None, Call("x"))
    conversation.bye(None)
    events = [event for chunk in chunks for event in conversation.receive(chunk)]
    return events, conversation.take()


@given(st.lists(st.integers(0, len(SPOKEN)), max_size=20))
def test_cutting_the_bytes_anywhere_changes_nothing(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(SPOKEN)]
    events, out = spoken([SPOKEN[a:b] for a, b in pairwise(places)])
    whole, out_whole = spoken([SPOKEN])
    assert [type(event) for event in events] == [
        Answered,
        Answered,
        Updated,
        Answered,
        Answered,
        Answered,
        Answered,
    ]
    assert [msgspec.json.encode(event, enc_hook=str) for event in events] == [
        msgspec.json.encode(event, enc_hook=str) for event in whole
    ]
    assert out == out_whole
    kinds = [type(event.answer) for event in events if isinstance(event, Answered)]
    assert kinds == [Pong, Ready, ToolResp, Tools, FaultError, Bye]


@given(st.lists(st.binary(max_size=60) | st.sampled_from(SPOKEN.splitlines(keepends=True)), max_size=20))
def test_any_bytes_are_events_or_the_end_and_never_an_exception(chunks: list[bytes]) -> None:
    events, _ = spoken(chunks)
    tickets = [event.ticket for event in events if isinstance(event, Answered)]
    assert len(tickets) == len(set(tickets))


def test_a_request_is_what_the_daemon_takes_for_one() -> None:
    conversation = PendingRequests()
    conversation.call("a", Call("x", [1], 5, True))
    request = decode_line(conversation.take().rstrip(), 2**20)
    assert isinstance(request, ToolReq)
    assert (request.id, request.agent, request.deadline_ms, request.background) == ("1", "a", 5, True)
