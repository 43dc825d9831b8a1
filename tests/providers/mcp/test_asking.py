"""A server's own requests and notifications, and the agent that is asked."""

import math

import msgspec
import pytest
import trio
import trio.testing
from msgspec import Raw

from tests.providers.mcp.agentside import ACCEPTED, SAMPLED, Agent, SessionAgent, said
from tests.providers.mcp.talking import ELICITATION, QUESTION, SAMPLING, Talk, error, result
from tooldispatchd.providers.mcp.asking import (
    MAX_NOTE_BYTES,
    MAX_OPEN,
    MAX_PARAMS_BYTES,
    MAX_RESULT_BYTES,
    NOBODY,
    capabilities,
)
from tooldispatchd.providers.mcp.messages import Incoming
from tooldispatchd.wire.messages import Ask, AskResp


def test_a_client_offers_only_what_its_agent_answers() -> None:
    agent = Agent("sampling", "elicitation", "approve", roots=("file:///work",))
    assert capabilities(agent) == {"roots": {}, "sampling": {}, "elicitation": {}}
    assert capabilities(Agent("elicitation")) == {"elicitation": {}}
    assert capabilities(NOBODY) == {}


def test_a_server_is_told_of_the_extensions_that_its_agent_makes_use_of() -> None:
    agent = Agent("ui")
    apps: dict[str, object] = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
    assert capabilities(agent) == {"extensions": apps}
    agent.is_listening = True
    assert capabilities(agent) == {"extensions": apps | {"io.modelcontextprotocol/skills": {}}}


@pytest.mark.parametrize("id_", [7, "seven", 7.5])
def test_a_ping_is_answered_with_its_own_id(id_: str | float) -> None:
    talk = Talk(NOBODY)
    talk.request("ping", None, id_=id_)
    assert talk.answers == [result({}, id_)]


def test_roots_are_told_with_their_names() -> None:
    talk = Talk(Agent(roots=("file:///work/my%20docs/", "file:///")))
    talk.request("roots/list", None)
    roots = [{"uri": "file:///work/my%20docs/", "name": "my docs"}, {"uri": "file:///", "name": "/"}]
    assert talk.answers == [result({"roots": roots})]


@pytest.mark.parametrize("method", ["roots/list", SAMPLING, ELICITATION, "tasks/get", ""])
def test_what_nobody_answers_is_no_method(method: str) -> None:
    talk = Talk(NOBODY)
    talk.request(method)
    assert talk.answers == [error(-32601, "Method not found")]


@pytest.mark.parametrize(
    "message",
    [
        Incoming(id="x" * 513, method="ping"),
        Incoming(id=None, method="ping"),
        Incoming(method="ping"),
        Incoming(id=1),
    ],
)
def test_a_request_that_cannot_be_answered_is_ignored(message: Incoming) -> None:
    talk = Talk(NOBODY)
    talk.asked.take_request(message)
    assert talk.answers == []


# --- what the agent is asked ---


async def test_questions_are_relayed_and_their_answers_given_back_in_any_order() -> None:
    agent = Agent("sampling", "elicitation")
    talk = Talk(agent)
    talk.request(ELICITATION, id_="a")
    talk.request(SAMPLING, b'{"messages":[]}', id_="b")
    assert agent.asked == [("elicitation", "docs", QUESTION), ("sampling", "docs", b'{"messages":[]}')]
    assert talk.answers == []
    agent.told[1](said(SAMPLED))
    agent.told[0](said(ACCEPTED))
    assert talk.answers == [result(SAMPLED, "b"), result(ACCEPTED, "a")]
    assert talk.asked.due == math.inf


async def test_a_session_asks_its_agent_on_its_own_port() -> None:
    agent = SessionAgent("elicitation")
    talk = Talk(agent)
    talk.request(ELICITATION)
    agent.questions.take(AskResp("q1", refuse=True))
    assert agent.outgoing == [Ask("q1", "elicitation", "docs", Raw(QUESTION), "a")]
    assert talk.answers == [result({"action": "decline"})]


@pytest.mark.parametrize(
    ("answers", "offered", "asks"),
    [
        (("elicitation",), {"elicitation": {}}, [True, False]),
        (("elicitation", "url"), {"elicitation": {"form": {}, "url": {}}}, [True, True]),
        (("url",), {"elicitation": {"url": {}}}, [False, True]),
    ],
)
async def test_an_agent_is_led_to_pages_where_it_answers_them(
    answers: tuple[str, ...], offered: object, asks: list[bool]
) -> None:
    agent = SessionAgent(*answers)
    assert capabilities(agent) == offered
    talk = Talk(agent)
    talk.request(ELICITATION)
    form = len(agent.outgoing)
    talk.request(ELICITATION, b'{"mode":"url","url":"https://a.example"}', id_=2)
    assert [form == 1, len(agent.outgoing) > form] == asks


@pytest.mark.parametrize(("answers", "is_told"), [("url", True), ("elicitation", False)])
async def test_the_end_of_a_page_is_told_who_is_led_to_pages(answers: str, *, is_told: bool) -> None:
    agent = Agent(answers)
    agent.is_listening = not is_told
    Talk(agent).notify("notifications/elicitation/complete", b'{"elicitationId":"e1"}')
    told = [("docs", "notifications/elicitation/complete", b'{"elicitationId":"e1"}')]
    assert agent.noted == (told if is_told else [])


async def test_what_could_end_an_agents_line_is_not_in_what_it_is_sent() -> None:
    agent = Agent("elicitation")
    Talk(agent).request(ELICITATION, b'{ "message" :\r\n "Which day?" }')
    assert agent.asked == [("elicitation", "docs", QUESTION)]


@pytest.mark.parametrize(
    ("method", "params", "why"),
    [
        (ELICITATION, None, "The request has no params"),
        (ELICITATION, b"[]", "The params cannot be read"),
        (ELICITATION, b'{"message":"\xff"}', "The params cannot be read"),
        (ELICITATION, b'{"message":"\\ud800"}', "The params cannot be read"),
        (ELICITATION, b'{"a":' * 2000 + b"1" + b"}" * 2000, "The params cannot be read"),
        (ELICITATION, b'{"mode":"url","url":"https://a.example"}', "This mode of elicitation is not offered"),
        (ELICITATION, b'{"mode":"approve"}', "This mode of elicitation is not offered"),
        (SAMPLING, b'{"messages":[],"tools":[{}]}', "Sampling with tools is not offered"),
        (SAMPLING, b'{"a":[' + b"1," * 20_000 + b"1]}", "The params have too many parts"),
        (SAMPLING, b'{"a":[' + b"1e308," * 200 + b"1]}", "The params have too many parts"),
        (SAMPLING, b'{"a":"' + b"\\n" * 300_000 + b'"}', "The params have too many parts"),
        (SAMPLING, b'{"a":"' + b"x" * MAX_PARAMS_BYTES + b'"}', "The params are larger than 1048576 bytes"),
    ],
)
async def test_params_that_no_agent_can_be_asked_are_refused(method: str, params: bytes | None, why: str) -> None:
    agent = Agent("sampling", "elicitation")
    talk = Talk(agent)
    talk.request(method, params)
    assert talk.answers == [error(-32602, why)]
    assert agent.asked == []


@pytest.mark.parametrize(
    ("refuse", "message"),
    [
        (True, "User rejected sampling request"),
        ("", "User rejected sampling request"),
        ("not\nnow", "User rejected sampling request: not\\nnow"),
    ],
)
async def test_a_refused_sampling_is_told_with_the_agents_reason(*, refuse: bool | str, message: str) -> None:
    agent = Agent("sampling")
    talk = Talk(agent)
    talk.request(SAMPLING)
    agent.told[0](AskResp("q1", refuse=refuse, result=Raw(msgspec.json.encode(SAMPLED))))
    assert talk.answers == [error(-1, message)]


@pytest.mark.parametrize(
    ("method", "value"),
    [
        (SAMPLING, None),
        (SAMPLING, {"role": "assistant", "content": {"type": "text", "text": "hi"}}),
        (SAMPLING, {**SAMPLED, "role": "system"}),
        (SAMPLING, {**SAMPLED, "content": "hi"}),
        (SAMPLING, {**SAMPLED, "content": ["hi"]}),
        (SAMPLING, {**SAMPLED, "x": "y" * MAX_RESULT_BYTES}),
        (ELICITATION, {}),
        (ELICITATION, {"action": "maybe"}),
        (ELICITATION, {"action": "accept", "content": [1]}),
        (ELICITATION, "accept"),
    ],
)
async def test_an_agents_answer_of_another_shape_reaches_no_server(method: str, value: object) -> None:
    agent = Agent("sampling", "elicitation")
    talk = Talk(agent)
    talk.request(method)
    agent.told[0](said(value))
    assert talk.answers == [error(-32603, "The agent's answer has not the form that the request needs")]


async def test_an_answer_without_a_result_or_a_refusal_is_malformed() -> None:
    agent = Agent("sampling")
    talk = Talk(agent)
    talk.request(SAMPLING)
    agent.told[0](AskResp("q1"))
    assert [each["error"] for each in talk.answers] == [
        {"code": -32603, "message": "The agent's answer has not the form that the request needs"}
    ]


async def test_an_answer_of_too_many_parts_is_malformed() -> None:
    agent = Agent("sampling")
    talk = Talk(agent)
    talk.request(SAMPLING)
    sampled = msgspec.json.encode(SAMPLED)[:-1] + b',"more":[' + b"1e308," * 200 + b"1]}"
    agent.told[0](AskResp("q1", result=Raw(sampled)))
    assert talk.answers == [error(-32603, "The agent's answer has not the form that the request needs")]


async def test_a_session_that_ends_tells_the_server_that_waits() -> None:
    agent = SessionAgent("sampling")
    talk = Talk(agent)
    talk.request(SAMPLING)
    agent.questions.close()
    assert talk.answers == [error(-32603, "The agent is gone")]


# --- bounds ---


async def test_a_server_that_asks_too_much_is_refused_until_something_is_answered() -> None:
    agent = Agent("elicitation")
    talk = Talk(agent)
    for id_ in range(MAX_OPEN + 1):
        talk.request(ELICITATION, id_=id_)
    assert talk.answers == [error(-32000, "Too many requests wait for the agent already", 16)]
    agent.told[0](said(ACCEPTED))
    talk.request(ELICITATION, id_=17)
    assert len(agent.asked) == MAX_OPEN + 1


async def test_an_agent_that_is_asked_too_much_by_others_is_not_asked() -> None:
    talk = Talk(Agent("elicitation", room=0))
    talk.request(ELICITATION)
    assert talk.answers == [error(-32000, "Too many requests wait for the agent already")]
    assert talk.asked.due == math.inf


async def test_an_id_that_still_waits_cannot_be_used_again() -> None:
    agent = Agent("elicitation")
    talk = Talk(agent)
    talk.request(ELICITATION)
    talk.request("ping")
    agent.told[0](said(ACCEPTED))
    talk.request("ping")
    assert talk.answers == [
        error(-32600, "The id is one of a request that still waits"),
        result(ACCEPTED),
        result({}),
    ]


async def test_a_question_is_withdrawn_when_its_time_is_over(autojump_clock: trio.testing.MockClock) -> None:
    agent = SessionAgent("sampling")
    talk = Talk(agent)
    talk.request(SAMPLING, id_="a")
    await trio.sleep(1)
    talk.request(SAMPLING, id_="b")
    await trio.sleep_until(talk.asked.due)
    talk.asked.tell(trio.current_time())
    agent.questions.take(said(SAMPLED))
    assert autojump_clock.current_time() == 7.0
    assert talk.answers == [error(-32001, "The agent did not answer within 7 s", "a")]
    assert talk.asked.due == 8.0
    assert len(agent.questions) == 1


# --- what the server cancels, and ends ---


async def test_a_request_that_its_server_cancels_is_withdrawn_and_never_answered() -> None:
    agent = Agent("sampling")
    talk = Talk(agent)
    talk.request(SAMPLING, id_="a")
    talk.notify("notifications/cancelled", b'{"requestId":"a","reason":"late"}')
    agent.told[0](said(SAMPLED))
    assert agent.withdrawn == ["q1"]
    assert talk.answers == []


@pytest.mark.parametrize(
    "params", [None, b"[]", b"{}", b'{"requestId":null}', b'{"requestId":2}', b'{"requestId":"1"}']
)
async def test_a_cancel_of_nothing_changes_nothing(params: bytes | None) -> None:
    agent = Agent("sampling")
    talk = Talk(agent)
    talk.request(SAMPLING)
    talk.notify("notifications/cancelled", params)
    agent.told[0](said(SAMPLED))
    assert talk.answers == [result(SAMPLED)]


async def test_a_connection_that_ends_withdraws_its_questions_and_says_nothing_more() -> None:
    agent = Agent("sampling", "elicitation", roots=("file:///work",))
    talk = Talk(agent)
    talk.request(SAMPLING, id_="a")
    talk.request(ELICITATION, id_="b")
    talk.asked.close()
    talk.asked.close()
    agent.told[0](said(SAMPLED))
    talk.request("ping", id_="c")
    talk.notify("notifications/tools/list_changed")
    assert agent.withdrawn == ["q1", "q2"]
    assert (talk.answers, talk.asked.wants_list, talk.asked.due) == ([], False, math.inf)


# --- notifications ---


@pytest.mark.parametrize(
    ("method", "params", "told"),
    [
        ("notifications/message", b'{"data": "x"}', b'{"data":"x"}'),
        ("notifications/message", b'{"data":"' + b"x" * MAX_NOTE_BYTES + b'"}', None),
        ("notifications/resources/updated", b'{"uri":"' + b"x" * MAX_NOTE_BYTES + b'"}', None),
        ("notifications/resources/updated", b"[]", None),
        ("notifications/resources/list_changed", None, b"{}"),
        ("notifications/prompts/list_changed", b'{"_meta":"' + b"x" * MAX_NOTE_BYTES + b'"}', b"{}"),
    ],
)
async def test_what_a_server_says_is_passed_on_anew_and_too_long_notes_are_not(
    method: str, params: bytes | None, told: bytes | None
) -> None:
    agent = Agent()
    agent.is_listening = True
    Talk(agent).notify(method, params)
    assert agent.noted == ([] if told is None else [("docs", method, told)])
