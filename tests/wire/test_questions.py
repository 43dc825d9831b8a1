"""What the daemon asks: each answer reaches who asked, once, and nobody waits for one that cannot come."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import Raw

from tests.examples import examples
from tooldispatchd.wire.messages import ApproveReq, ApproveResp, Ask, AskResp, Hello, Outgoing, Reply
from tooldispatchd.wire.questions import MAX_QUESTIONS, Question, Questions
from tooldispatchd.wire.session import Event, SessionMachine

EVERYTHING = ["approve", "sampling", "elicitation"]


def greeted(answers: list[str], *, agent: str | None = None) -> SessionMachine:
    outgoing: list[Outgoing] = []
    machine = SessionMachine(outgoing, agent=agent)
    machine.greet(Hello(agent=agent, answers=answers), line=1)
    machine.apply(Event.OPENED)
    return machine


def ask(questions: Questions, told: list[Reply | None]) -> str | None:
    return next(iter(questions.ask("docs", [Question("sampling", Raw(b"{}"), told.append)])), None)


def approve(questions: Questions, told: list[Reply | None]) -> str | None:
    return questions.approve("shell", Raw(b'"ls"'), "asks each time", told.append)


def test_a_question_is_said_with_an_id_of_its_own_and_the_agents_name() -> None:
    machine = greeted(EVERYTHING, agent="a")
    questions = Questions(machine)
    assert [ask(questions, []), approve(questions, [])] == ["q1", "q2"]
    assert machine.outgoing == [
        Ask("q1", "sampling", "docs", Raw(b"{}"), "a"),
        ApproveReq("q2", "shell", Raw(b'"ls"'), "asks each time", "a"),
    ]


def test_of_what_is_asked_at_once_each_line_says_whether_another_follows() -> None:  # [M245] [M253]
    machine = greeted(EVERYTHING)
    told: list[Reply | None] = []
    asked = [
        Question("sampling", Raw(b"{}"), told.append, "a"),
        Question("elicitation", Raw(b"{}"), told.append, "b"),
    ]
    assert Questions(machine).ask("docs", asked, call="1") == ["q1", "q2"]
    assert machine.outgoing == [
        Ask("q1", "sampling", "docs", Raw(b"{}"), None, "1", "a", more=True),
        Ask("q2", "elicitation", "docs", Raw(b"{}"), None, "1", "b"),
    ]


def test_what_cannot_all_be_asked_is_not_begun() -> None:
    machine = greeted(["sampling"])
    questions, told = Questions(machine), list[Reply | None]()
    asked = [Question(kind, Raw(b"{}"), told.append) for kind in ("sampling", "elicitation")]
    assert questions.ask("docs", asked) == []
    assert questions.ask("docs", [asked[0]] * (MAX_QUESTIONS + 1)) == []
    assert (len(questions), machine.outgoing) == (0, [])


def test_an_answer_reaches_who_asked_once() -> None:
    questions, told = Questions(greeted(EVERYTHING)), list[Reply | None]()
    ask(questions, told)
    answer = AskResp("q1", result=Raw(b"1"))
    questions.take(answer)
    questions.take(answer)
    assert told == [answer]
    assert len(questions) == 0


@pytest.mark.parametrize("reply", [ApproveResp("q1", allow=True), AskResp("q2"), AskResp("")])
def test_an_answer_of_the_wrong_port_or_to_no_question_is_ignored(reply: Reply) -> None:
    questions, told = Questions(greeted(EVERYTHING)), list[Reply | None]()
    ask(questions, told)
    questions.take(reply)
    assert told == []
    assert len(questions) == 1


def test_an_answer_to_a_question_that_was_withdrawn_is_ignored() -> None:
    questions, told = Questions(greeted(EVERYTHING)), list[Reply | None]()
    ask(questions, told)
    questions.withdraw("q1")
    questions.withdraw("q1")
    questions.take(AskResp("q1"))
    assert told == []


def test_at_the_end_everyone_who_waits_is_told_that_no_answer_comes() -> None:
    questions, told = Questions(greeted(EVERYTHING)), list[Reply | None]()
    ask(questions, told)
    approve(questions, told)
    questions.close()
    questions.close()
    assert told == [None, None]


@pytest.mark.parametrize("answers", [[], ["approve"], ["dance"]])
def test_an_agent_is_asked_only_what_it_said_that_it_answers(answers: list[str]) -> None:
    machine = greeted(answers)
    assert ask(Questions(machine), []) is None
    assert machine.outgoing == []


def test_nobody_who_is_gone_is_asked() -> None:
    machine = greeted(EVERYTHING)
    machine.apply(Event.GONE)
    assert approve(Questions(machine), []) is None


def test_an_agent_is_asked_only_so_much_at_once() -> None:
    questions, told = Questions(greeted(EVERYTHING)), list[Reply | None]()
    for _ in range(MAX_QUESTIONS):
        assert ask(questions, told) is not None
    assert ask(questions, told) is None
    questions.take(AskResp("q7"))
    assert ask(questions, told) == f"q{MAX_QUESTIONS + 1}"


class Asking(RuleBasedStateMachine):
    """Questions, answers and withdrawals in any order: nobody is told twice, nor what another was meant to hear."""

    def __init__(self) -> None:
        super().__init__()
        self.questions = Questions(greeted(EVERYTHING))
        self.told: dict[str, list[Reply | None]] = {}
        self.withdrawn: set[str] = set()

    @rule(is_approval=st.booleans())
    def ask(self, is_approval: bool) -> None:
        told: list[Reply | None] = []
        question = approve(self.questions, told) if is_approval else ask(self.questions, told)
        assert question is not None
        assert question not in self.told
        self.told[question] = told

    @precondition(lambda self: self.told)
    @rule(data=st.data(), is_approval=st.booleans())
    def answer(self, data: st.DataObject, is_approval: bool) -> None:
        question = data.draw(st.sampled_from(sorted(self.told)))
        self.questions.take(ApproveResp(question, allow=True) if is_approval else AskResp(question))

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        question = data.draw(st.sampled_from(sorted(self.told)))
        if not self.told[question]:
            self.withdrawn.add(question)
        self.questions.withdraw(question)

    @invariant()
    def each_is_told_its_own_answer_at_most_once(self) -> None:
        for question, told in self.told.items():
            assert [reply.id for reply in told if reply is not None] in ([], [question])
            assert not told or question not in self.withdrawn

    @invariant()
    def what_waits_is_what_is_neither_told_nor_withdrawn(self) -> None:
        open_ones = [question for question, told in self.told.items() if not told and question not in self.withdrawn]
        assert len(self.questions) == len(open_ones)


TestAsking = Asking.TestCase
TestAsking.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)
