"""The session machine: its table, and exactly one answer for each request."""

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import UNSET, Raw, UnsetType

from tests.examples import examples
from tests.wire.taking import taken
from tooldispatchd.wire.channel import ChannelMachine
from tooldispatchd.wire.decode import Form, Refused
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import (
    Beside,
    ContentKind,
    Hello,
    NestedReq,
    NestedResp,
    Outgoing,
    QuotedText,
    ShortReq,
    ShortResp,
    ToolReq,
    ToolResp,
    ToolsChangedLine,
    ToolUpdate,
)
from tooldispatchd.wire.session import TRANSITIONS, Event, SessionMachine, State, value_of


def request(call_id: str, form: Form = Form.PLAIN) -> ToolReq | ShortReq | NestedReq:
    if form is Form.PLAIN:
        return ToolReq(id=call_id, name="echo")
    short = ShortReq(id=call_id, name="echo")
    return short if form is Form.SHORT else NestedReq(short)


def answered(line: Outgoing) -> ShortResp | None:
    if isinstance(line, NestedResp):
        return line.msg
    return line if isinstance(line, ShortResp) else None


def test_every_state_but_closed_has_a_way_to_closed() -> None:
    reached = {State.CLOSED}
    for _ in State:
        reached |= {state for (state, _), following in TRANSITIONS.items() if following in reached}
    assert reached == set(State)
    assert not [event for state, event in TRANSITIONS if state is State.CLOSED]


@pytest.mark.parametrize("event", [Event.TORN_DOWN])
def test_an_event_without_an_entry_is_a_defect_that_names_both(event: Event) -> None:
    machine = SessionMachine([])
    with pytest.raises(RuntimeError, match="session is opening and cannot take torn_down"):
        machine.apply(event)


def test_an_answer_has_the_form_of_its_request() -> None:
    lines: list[Outgoing] = []
    machine = SessionMachine(lines)
    for form in Form:
        call = request(form.value, form)
        assert machine.is_taken(call, line=1)
        machine.start(call)
        machine.answer(form.value, "x", is_error=False, fault=False)
    assert [type(line) for line in lines] == [ToolResp, ShortResp, NestedResp]


def test_an_id_in_flight_is_refused_by_a_fault_line_and_the_first_call_is_unharmed() -> None:
    lines: list[Outgoing] = []
    machine = SessionMachine(lines)
    machine.start(request("1"))
    assert not machine.is_taken(request("1"), line=7)
    assert lines == [
        {
            "__port": "fault",
            "error": "duplicate_id",
            "category": "invalid",
            "detail": "this id is in flight already; the first request is unharmed",
            "line": 7,
            "id": "1",
        }
    ]
    machine.answer("1", "x", is_error=False, fault=False)
    assert machine.is_taken(request("1"), line=8)


def test_a_malformed_request_whose_id_is_in_flight_is_a_fault_line() -> None:
    lines: list[Outgoing] = []
    machine = SessionMachine(lines)
    machine.start(request("1"))
    machine.refuse(Refused(Fault(Code.INVALID_REQUEST, "no"), "1", Form.PLAIN), line=2)
    assert isinstance(lines[0], dict)
    assert lines[0]["error"] == "duplicate_id"


def test_a_second_answer_is_a_defect() -> None:
    machine = SessionMachine([])
    machine.start(request("1"))
    machine.answer("1", "x", is_error=False, fault=False)
    with pytest.raises(KeyError):
        machine.answer("1", "x", is_error=False, fault=False)


def test_a_hello_after_another_line_changes_nothing() -> None:
    lines: list[Outgoing] = []
    machine = SessionMachine(lines)
    machine.begin(1)
    assert machine.is_taken(request("1"), line=1)
    assert not machine.greet(Hello(meta=Raw(b"true"), updates=True), line=2)
    assert isinstance(lines[0], dict)
    assert lines[0]["error"] == "invalid_request"
    assert not machine.is_greeted
    assert not machine.asked.meta
    assert not machine.asked.updates


@pytest.mark.parametrize(
    ("meta", "wants"),
    [(Raw(b"true"), True), (Raw(b"false"), False), (Raw(b'{"team":"x"}'), False), (UNSET, False)],
)
def test_meta_is_asked_for_by_true_and_by_nothing_else(meta: Raw | UnsetType, *, wants: bool) -> None:
    machine = SessionMachine([])
    assert machine.greet(Hello(meta=meta), line=1)
    assert machine.asked.meta == wants


def test_what_an_agent_answers_is_taken_as_far_as_it_is_known() -> None:
    machine = SessionMachine([])
    machine.greet(Hello(answers=["sampling", "dance"]), line=1)
    assert machine.asked.answers == {"sampling"}


def test_a_named_session_puts_its_name_on_everything_that_it_says() -> None:
    lines: list[Outgoing] = []
    machine = SessionMachine(lines, agent="a")
    machine.greet(Hello(agent="a", updates=True), line=1)
    machine.apply(Event.OPENED)
    machine.greet(Hello(agent="a"), line=2)
    machine.start(ToolReq(id="1", name="echo", agent="a"))
    machine.update(ToolUpdate("1", "a", progress=0.5))
    machine.answer("1", "x", is_error=False, fault=False)
    machine.tools_changed([])
    assert [msgspec.json.decode(line)["agent"] for line in map(msgspec.json.encode, lines)] == ["a"] * 4


def test_an_update_is_told_only_to_who_asked_and_only_while_the_call_is_in_flight() -> None:
    lines: list[Outgoing] = []
    machine = SessionMachine(lines)
    machine.start(request("1"))
    machine.update(ToolUpdate("1"))
    machine.greet(Hello(updates=True), line=1)
    machine.update(ToolUpdate("1"))
    machine.update(ToolUpdate("2"))
    machine.answer("1", "x", is_error=False, fault=False)
    machine.update(ToolUpdate("1"))
    assert [type(line) for line in lines] == [ToolUpdate, ToolResp]


def test_changed_tools_are_told_only_to_a_session_that_asked_and_is_open() -> None:
    lines: list[Outgoing] = []
    opening, without_hello = SessionMachine(lines), SessionMachine(lines)
    opening.greet(Hello(updates=True), line=1)
    opening.tools_changed([])
    without_hello.begin(1)
    without_hello.apply(Event.OPENED)
    without_hello.tools_changed([])
    assert lines == []
    opening.apply(Event.OPENED)
    opening.tools_changed([])
    assert [type(line) for line in lines] == [ToolsChangedLine]


def test_nobody_who_is_gone_is_told_anything_more() -> None:
    lines: list[Outgoing] = []
    machine = SessionMachine(lines)
    machine.greet(Hello(updates=True), line=1)
    machine.apply(Event.OPENED)
    machine.start(request("1"))
    machine.apply(Event.GONE)
    machine.update(ToolUpdate("1"))
    machine.tools_changed([])
    machine.answer("1", "x", is_error=False, fault=False)
    assert lines == []


def test_a_session_that_was_refused_answers_every_request_with_its_refusal() -> None:
    lines: list[Outgoing] = []
    machine = SessionMachine(lines)
    machine.refusal = Fault(Code.MISSING_TOOL, "no", {"server": "s", "tool": "t"})
    machine.apply(Event.REFUSED)
    assert not machine.is_taken(request("1", Form.SHORT), line=1)
    answer = answered(lines[0])
    assert answer is not None
    assert '"error":"missing_tool"' in answer.content


def test_a_session_that_drains_answers_draining() -> None:
    lines: list[Outgoing] = []
    machine = SessionMachine(lines)
    machine.apply(Event.OPENED)
    machine.apply(Event.ENDED)
    assert not machine.is_taken(request("1"), line=1)
    answer = answered(lines[0])
    assert answer is not None
    assert answer.fault
    assert '"error":"draining"' in answer.content


class Sessions(RuleBasedStateMachine):
    """Requests, answers and ends in any order: each request has one answer, or is in flight, or nobody is there."""

    def __init__(self) -> None:
        super().__init__()
        self.channel = ChannelMachine(1000)
        self.machine = SessionMachine(self.channel.outgoing)
        self.asked = 0
        self.heard = 0
        self.dropped = 0

    @rule(number=st.integers(0, 4), form=st.sampled_from(Form))
    def ask(self, number: int, form: Form) -> None:
        call = request(str(number), form)
        self.asked += 1
        if self.machine.is_taken(call, line=1):
            self.machine.start(call)

    @precondition(lambda self: self.machine.live)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        call_id = data.draw(st.sampled_from(sorted(self.machine.live)))
        self.dropped += self.machine.is_gone
        self.machine.answer(call_id, "x", is_error=False, fault=False)

    @rule(event=st.sampled_from([Event.OPENED, Event.REFUSED, Event.ENDED, Event.GONE]))
    def move(self, event: Event) -> None:
        if (self.machine.state, event) in TRANSITIONS:
            self.machine.apply(event)

    @rule()
    def send(self) -> None:
        self.heard += self.channel.take().count(b"\n")

    @invariant()
    def every_request_is_accounted_for(self) -> None:
        owed = len(self.machine.live) + len(self.channel.outgoing)
        assert self.asked == self.heard + owed + self.dropped


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)


def test_a_refused_opening_is_told_with_the_line_that_asked_for_it() -> None:
    lines: list[Outgoing] = []
    greeted, silent = SessionMachine(lines, agent="a"), SessionMachine(lines)
    greeted.greet(Hello(agent="a", id="h"), line=3)
    silent.begin(4)
    for machine in (greeted, silent):
        machine.refuse_opening(Fault(Code.DRAINING, "it ends"))
    places = [
        {key: value for key, value in msgspec.to_builtins(line).items() if key in {"line", "id", "agent"}}
        for line in lines
    ]
    assert places == [{"line": 3, "id": "h", "agent": "a"}, {"line": 4}]


def valued(content: str | QuotedText) -> bytes:
    """The line of an answer to an agent that asked for values."""
    lines: list[Outgoing] = []
    machine = SessionMachine(lines)
    machine.greet(Hello(capabilities=["value"]), line=1)
    machine.start(request("1"))
    machine.answer("1", content, is_error=False, fault=False, beside=Beside(value=value_of(content)))
    channel = ChannelMachine(1)
    channel.outgoing += lines
    return taken(channel)


def test_a_value_is_the_content_as_json() -> None:
    assert valued('{"a":[1e2]}').endswith(b'"value":{"a":[1e2]}}\n')


def test_a_value_is_left_out_of_what_is_long() -> None:
    assert b'"value":' in valued("1" * 65_536)
    assert b"value" not in valued("1" * 65_537)
    assert b"value" not in valued(QuotedText(b'"1"', 1))


@pytest.mark.parametrize("content", ["short", QuotedText(b'"quoted"', 6)])
def test_long_blocks_stand_in_their_line_as_they_are(content: str | QuotedText) -> None:
    """Also where something else in it looks like their place."""
    value = Raw(b'{"blocks":"","content":""}')
    blocks = QuotedText(bytearray(b'[{"type":"dance"}]'), 18)
    lines: list[Outgoing] = []
    machine = SessionMachine(lines)
    machine.start(request("1"))
    beside = Beside(value=value, kind=ContentKind.BLOCKS, blocks=blocks, details=Raw(b'{"blocks":""}'))
    machine.answer("1", content, is_error=False, fault=False, beside=beside)
    channel = ChannelMachine(1)
    channel.outgoing += lines
    assert msgspec.json.decode(taken(channel)) == {
        "__port": "tool_resp",
        "id": "1",
        "content": "short" if isinstance(content, str) else "quoted",
        "is_error": False,
        "value": {"blocks": "", "content": ""},
        "kind": "blocks",
        "blocks": [{"type": "dance"}],
        "details": {"blocks": ""},
    }
