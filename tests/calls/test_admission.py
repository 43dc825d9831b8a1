"""Which calls of one agent start, wait, or find no room."""

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tooldispatchd.calls.admission import Admission, AdmissionVerdict

IN_FLIGHT = 3
WAITING = 2


def test_calls_start_then_wait_then_find_no_room() -> None:
    admission: Admission[int] = Admission(1, 1)
    assert [admission.ask(call) for call in (1, 2, 3)] == [
        AdmissionVerdict.START,
        AdmissionVerdict.WAIT,
        AdmissionVerdict.FULL,
    ]
    assert admission.finish() == 2
    assert admission.finish() is None
    assert admission.ask(4) is AdmissionVerdict.START


class Admissions(RuleBasedStateMachine):
    """Against the plainest model: a set that runs and a queue that waits."""

    def __init__(self) -> None:
        super().__init__()
        self.admission: Admission[int] = Admission(IN_FLIGHT, WAITING)
        self.running: set[int] = set()
        self.waiting: deque[int] = deque()
        self.next = 0

    @rule()
    def ask(self) -> None:
        self.next += 1
        verdict = self.admission.ask(self.next)
        if len(self.running) < IN_FLIGHT:
            assert verdict is AdmissionVerdict.START
            self.running.add(self.next)
        elif len(self.waiting) < WAITING:
            assert verdict is AdmissionVerdict.WAIT
            self.waiting.append(self.next)
        else:
            assert verdict is AdmissionVerdict.FULL

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        self.running.remove(data.draw(st.sampled_from(sorted(self.running))))
        following = self.admission.finish()
        assert following == (self.waiting.popleft() if self.waiting else None)
        if following is not None:
            self.running.add(following)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(sorted(self.waiting)))
        self.waiting.remove(call)
        self.admission.withdraw(call)

    @invariant()
    def counts_agree(self) -> None:
        assert self.admission.running == len(self.running) <= IN_FLIGHT
        assert list(self.admission.waiting) == list(self.waiting)
        assert not self.waiting or len(self.running) == IN_FLIGHT


TestAdmissions = Admissions.TestCase
TestAdmissions.settings = settings(max_examples=60, deadline=None)
