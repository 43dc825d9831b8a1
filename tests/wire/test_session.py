"""The session machine: its table, and exactly one answer for each request."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tooldispatchd.wire.channel import ChannelMachine
from tooldispatchd.wire.decode import Form, Refused
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import NestedReq, NestedResp, Outgoing, ShortReq, ShortResp, ToolReq, ToolResp
from tooldispatchd.wire.session import TRANSITIONS, Event, SessionMachine, State


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
        machine.answer(form.value, "x", is_error=False, fault=False, agent=None)
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
    machine.answer("1", "x", is_error=False, fault=False, agent=None)
    assert machine.is_taken(request("1"), line=8)


def test_a_malformed_request_whose_id_is_in_flight_is_a_fault_line() -> None:
    lines: list[Outgoing] = []
    machine = SessionMachine(lines)
    machine.start(request("1"))
    machine.refuse(Refused(Fault(Code.INVALID_REQUEST, "no"), "1"), line=2)
    assert isinstance(lines[0], dict)
    assert lines[0]["error"] == "duplicate_id"


def test_a_second_answer_is_a_defect() -> None:
    machine = SessionMachine([])
    machine.start(request("1"))
    machine.answer("1", "x", is_error=False, fault=False, agent=None)
    with pytest.raises(KeyError):
        machine.answer("1", "x", is_error=False, fault=False, agent=None)


def test_a_hello_after_another_line_changes_nothing() -> None:
    lines: list[Outgoing] = []
    machine = SessionMachine(lines)
    machine.begin()
    assert machine.is_taken(request("1"), line=1)
    assert not machine.greet(line=2)
    assert isinstance(lines[0], dict)
    assert lines[0]["error"] == "invalid_request"
    assert not machine.is_greeted


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
        self.machine.answer(call_id, "x", is_error=False, fault=False, agent=None)

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
TestSessions.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
