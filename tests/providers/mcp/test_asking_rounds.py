"""Rounds of input: what a server needs is asked of the agent, and goes back with the next request."""

import math

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tests.providers.mcp.agentside import ACCEPTED, SAMPLED, Agent, SessionAgent, said
from tooldispatchd.providers.mcp.asking import MAX_OPEN, MAX_ROUNDS, NOBODY, AgentSide, InputRound, QuestionRelay
from tooldispatchd.providers.mcp.messages import (
    MAX_KEY_CHARS,
    MAX_REQUIRED_BYTES,
    MAX_STATE_CHARS,
    InputRequest,
    InputRequired,
    read_input_required,
)
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.wire.messages import AskResp

SERVER = Server(name="docs", argv=("docs",), max_line_bytes=10_000, max_content_bytes=100, call_s=7.0)
DAY_PARAMS = b'{"message":"Which day?"}'
DAY = InputRequest("elicitation/create", Raw(DAY_PARAMS))
MODEL = InputRequest("sampling/createMessage", Raw(b'{"messages":[]}'))
ROOTS = InputRequest("roots/list")


class Round:
    """A round that has begun; `outcomes` is what it called back with."""

    def __init__(self, agent: AgentSide, requests: dict[str, InputRequest], *, number: int = 1) -> None:
        self.outcomes: list[dict[str, object] | str] = []
        self.relay = QuestionRelay(SERVER, agent)
        self.round = InputRound(self.relay, InputRequired(requests, "s"), self._done, number=number)
        self.round.begin()

    def _done(self, outcome: dict[str, Raw] | str) -> None:
        if isinstance(outcome, str):
            self.outcomes.append(outcome)
        else:
            self.outcomes.append(msgspec.json.decode(msgspec.json.encode(outcome)))


# --- what is asked for ---


def test_what_a_server_needs_is_read_and_goes_back_with_its_state() -> None:
    result = b'{"resultType":"input_required","inputRequests":{"day":{"method":"roots/list"}},"requestState":"s=="}'
    required = read_input_required(Raw(result))
    assert required == InputRequired({"day": ROOTS}, "s==")
    assert required.answered({"day": Raw(b"{}")}) == {"inputResponses": {"day": Raw(b"{}")}, "requestState": "s=="}


def test_a_round_without_questions_sends_only_the_state_back() -> None:
    required = read_input_required(Raw(b'{"requestState":"","inputRequests":null}'))
    assert required is not None
    assert required.answered({}) == {"requestState": ""}


def test_a_round_without_a_state_sends_only_the_answers_back() -> None:
    assert InputRequired({"r": ROOTS}, None).answered({"r": Raw(b"{}")}) == {"inputResponses": {"r": Raw(b"{}")}}


@pytest.mark.parametrize(
    "result",
    [
        b"{}",
        b'{"inputRequests":{}}',
        b'{"requestState":5}',
        b'{"inputRequests":[]}',
        b'{"inputRequests":{"a":{}}}',
        b'{"inputRequests":{"a":{"method":null}}}',
        b'{"inputRequests":{"' + b"k" * (MAX_KEY_CHARS + 1) + b'":{"method":"roots/list"}}}',
        b'{"requestState":"' + b"x" * MAX_REQUIRED_BYTES + b'"}',
        b'{"requestState":"' + b"x" * (MAX_STATE_CHARS + 1) + b'"}',
        b'{"requestState":"\xff"}',
        b"[" * 5000,
    ],
)
def test_what_asks_for_nothing_or_too_much_is_not_read(result: bytes) -> None:
    assert read_input_required(Raw(result)) is None


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_are_none(result: bytes) -> None:
    assert isinstance(read_input_required(Raw(result)), InputRequired | None)


# --- how it is asked ---


async def test_everything_is_asked_at_once_and_given_back_in_the_servers_order() -> None:
    agent = Agent("sampling", "elicitation", roots=("file:///work",))
    round_ = Round(agent, {"day": DAY, "roots": ROOTS, "model": MODEL})
    agent.told[1](said(SAMPLED))
    assert round_.outcomes == []
    agent.told[0](said(ACCEPTED))
    roots = {"roots": [{"uri": "file:///work", "name": "work"}]}
    assert round_.outcomes == [{"day": ACCEPTED, "roots": roots, "model": SAMPLED}]
    assert list(round_.outcomes[0]) == ["day", "roots", "model"]
    assert round_.relay.due == math.inf


async def test_roots_are_asked_of_an_agent_that_gives_them_where_its_profile_has_none() -> None:  # [M254]
    agent = Agent("roots", "elicitation")
    round_ = Round(agent, {"day": DAY, "places": ROOTS})
    assert agent.asked == [("elicitation", "docs", DAY_PARAMS), ("roots", "docs", b"{}")]
    assert agent.keys == ["day", "places"]
    agent.told[0](said(ACCEPTED))
    agent.told[1](said({"roots": [{"uri": "file:///home/ada"}]}))
    assert round_.outcomes == [{"day": ACCEPTED, "places": {"roots": [{"uri": "file:///home/ada"}]}}]


async def test_roots_that_the_profile_has_are_asked_of_nobody() -> None:  # [M254]
    agent = Agent("roots", roots=("file:///work",))
    round_ = Round(agent, {"r": ROOTS})
    assert agent.asked == []
    assert round_.outcomes == [{"r": {"roots": [{"uri": "file:///work", "name": "work"}]}}]


def test_roots_alone_are_answered_within_begin() -> None:
    round_ = Round(Agent(roots=("file:///work",)), {"r": ROOTS})
    assert round_.outcomes == [{"r": {"roots": [{"uri": "file:///work", "name": "work"}]}}]


async def test_a_declined_elicitation_is_an_answer() -> None:
    agent = Agent("elicitation")
    round_ = Round(agent, {"day": DAY})
    agent.told[0](AskResp("q1", refuse="no"))
    assert round_.outcomes == [{"day": {"action": "decline"}}]


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (DAY, "it asks for a person's answer (elicitation): its agent does not answer that"),
        (ROOTS, "it asks for the roots: its agent does not answer that"),
        (InputRequest("tasks/get"), "it asks for what this client does not know: its agent does not answer that"),
    ],
)
def test_what_nobody_answers_ends_the_round(request_: InputRequest, why: str) -> None:
    assert Round(NOBODY, {"a": request_}).outcomes == [why]


async def test_one_refusal_ends_the_round_and_withdraws_the_other_questions() -> None:
    agent = Agent("sampling", "elicitation")
    round_ = Round(agent, {"day": DAY, "model": MODEL})
    agent.told[1](AskResp("q2", refuse="too dear"))
    agent.told[0](said(ACCEPTED))
    assert agent.withdrawn == ["q1"]
    assert round_.outcomes == [
        "it asks for a model's answer (sampling): User rejected sampling request: too dear",
    ]


async def test_where_one_question_cannot_be_asked_none_is() -> None:
    agent = Agent("elicitation")
    round_ = Round(agent, {"day": DAY, "model": MODEL})
    assert agent.asked == []
    assert round_.outcomes == ["it asks for a model's answer (sampling): its agent does not answer that"]


async def test_an_answer_of_another_shape_ends_the_round() -> None:
    agent = Agent("elicitation")
    round_ = Round(agent, {"day": DAY})
    agent.told[0](said({"day": "Monday"}))
    why = "The agent's answer has not the form that the request needs"
    assert round_.outcomes == [f"it asks for a person's answer (elicitation): {why}"]


async def test_a_session_that_ends_ends_the_round() -> None:
    agent = SessionAgent("elicitation")
    round_ = Round(agent, {"day": DAY})
    agent.questions.close()
    assert round_.outcomes == ["it asks for a person's answer (elicitation): The agent is gone"]


async def test_a_round_that_is_withdrawn_calls_nobody_back() -> None:
    agent = Agent("elicitation")
    round_ = Round(agent, {"day": DAY})
    round_.round.withdraw()
    agent.told[0](said(ACCEPTED))
    assert agent.withdrawn == ["q1"]
    assert round_.outcomes == []


# --- bounds ---


async def test_a_round_has_so_many_questions_and_a_call_so_many_rounds() -> None:
    agent = Agent("elicitation")
    asked = {str(number): DAY for number in range(MAX_OPEN + 1)}
    assert Round(agent, asked).outcomes == ["it asks for more than 16 things at once"]
    assert Round(agent, {"day": DAY}, number=MAX_ROUNDS + 1).outcomes == ["it asked for input more than 10 times"]
    assert agent.asked == []


async def test_rounds_of_one_connection_share_its_bound() -> None:
    agent = Agent("elicitation")
    relay = QuestionRelay(SERVER, agent)
    told: list[dict[str, Raw] | str] = []
    first = InputRequired({str(number): DAY for number in range(MAX_OPEN)}, None)
    InputRound(relay, first, told.append).begin()
    InputRound(relay, InputRequired({"day": DAY}, None), told.append).begin()
    why = "Too many requests wait for the agent already"
    assert told == [f"it asks for a person's answer (elicitation): {why}"]


async def test_a_round_that_ends_with_its_call_leaves_its_room_to_others() -> None:
    relay = QuestionRelay(SERVER, Agent("elicitation"))
    told: list[dict[str, Raw] | str] = []
    for _ in range(2):
        round_ = InputRound(relay, InputRequired({str(number): DAY for number in range(MAX_OPEN)}, None), told.append)
        round_.begin()
        round_.withdraw()
    assert told == []


async def test_a_silent_agent_ends_the_round_in_time(autojump_clock: trio.testing.MockClock) -> None:
    agent = SessionAgent("elicitation")
    round_ = Round(agent, {"day": DAY, "other": DAY})
    await trio.sleep_until(round_.relay.due)
    round_.relay.expire(trio.current_time())
    why = "The agent did not answer within 7 s"
    assert autojump_clock.current_time() == 7.0
    assert round_.outcomes == [f"it asks for a person's answer (elicitation): {why}"]
    assert len(agent.questions) == 0


@pytest.mark.parametrize(("number", "pause_s"), [(1, 0.05), (2, 0.1), (3, 0.2), (4, 0.25), (10, 0.25)])
async def test_a_server_that_only_wants_to_be_asked_again_is_asked_after_a_pause(
    number: int, pause_s: float, autojump_clock: trio.testing.MockClock
) -> None:
    round_ = Round(NOBODY, {}, number=number)
    assert round_.outcomes == []
    await trio.sleep_until(round_.relay.due)
    round_.relay.expire(trio.current_time())
    assert autojump_clock.current_time() == pytest.approx(pause_s)
    assert round_.outcomes == [{}]


async def test_pauses_take_no_room_of_questions(autojump_clock: trio.testing.MockClock) -> None:
    agent = Agent("elicitation")
    relay = QuestionRelay(SERVER, agent)
    told: list[dict[str, Raw] | str] = []
    for _ in range(MAX_OPEN):
        InputRound(relay, InputRequired({}, "s"), told.append).begin()
    InputRound(relay, InputRequired({"day": DAY}, None), told.append).begin()
    assert len(agent.asked) == 1
    assert autojump_clock.current_time() == 0.0
