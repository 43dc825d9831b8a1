"""What a server may ask, to the end: bounds, lists, messages, and any bytes in any order."""

import math
from collections.abc import Sequence

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.mcp.agentside import ACCEPTED, SAMPLED, Agent, SessionAgent, said
from tests.providers.mcp.talking import ELICITATION, SAMPLING, SERVER, Talk, result
from tooldispatchd.providers.mcp.asking import (
    MAX_OPEN,
    NOBODY,
)
from tooldispatchd.wire.messages import AskResp
from tooldispatchd.wire.questions import Question


@pytest.mark.parametrize(
    ("method", "resources", "wants_list"),
    [
        ("notifications/tools/list_changed", False, True),
        ("notifications/prompts/list_changed", False, False),
        ("notifications/prompts/list_changed", True, True),
        ("notifications/resources/list_changed", True, True),
        ("notifications/resources/updated", True, False),
        ("notifications/progress", True, False),
    ],
)
def test_a_changed_list_is_wanted_where_it_is_offered(method: str, *, resources: bool, wants_list: bool) -> None:
    talk = Talk(NOBODY, msgspec.structs.replace(SERVER, resources=resources))
    talk.notify(method)
    assert talk.asked.wants_list is wants_list


async def test_messages_of_a_server_go_to_the_log(autojump_clock: trio.testing.MockClock) -> None:
    talk = Talk(NOBODY)
    for _ in range(21):
        talk.notify("notifications/message", b'{"level":"info","data":"hi"}')
    await trio.sleep_until(talk.asked.due)
    talk.asked.tell(trio.current_time())
    assert autojump_clock.current_time() == 1.0
    assert talk.log.events == ["server said"] * 20 + ["messages dropped"]


METHODS = ["ping", "roots/list", SAMPLING, ELICITATION, "notifications/cancelled", "notifications/message", "x"]


@given(
    st.lists(st.tuples(st.sampled_from(METHODS), st.integers(0, 3) | st.none(), st.binary(max_size=20)), max_size=20)
)
def test_every_request_is_answered_or_waits_whatever_its_bytes(said_: list[tuple[str, int | None, bytes]]) -> None:
    async def main() -> None:
        agent = Agent("sampling", "elicitation", roots=("file:///work",))
        talk = Talk(agent)
        requests = 0
        for method, id_, params in said_:
            if id_ is None:
                talk.notify(method, params)
            else:
                talk.request(method, params, id_=id_)
                requests += 1
        assert len(talk.answers) + len(agent.asked) == requests

    trio.run(main)


@given(
    st.lists(st.tuples(st.sampled_from(["ask", "answer", "refuse", "cancel", "wait"]), st.integers(0, 30)), max_size=60)
)
def test_every_question_is_answered_once_or_cancelled(steps: list[tuple[str, int]]) -> None:
    clock = trio.testing.MockClock()

    async def main() -> None:
        agent = SessionAgent("sampling")
        talk = Talk(agent)
        asked: list[int] = []
        cancelled: set[int] = set()
        for step, number in steps:
            if step == "ask":
                asked.append(len(asked))
                talk.request(SAMPLING, id_=asked[-1])
            elif step == "answer":
                agent.questions.take(said(SAMPLED, f"q{number}"))
            elif step == "refuse":
                agent.questions.take(AskResp(f"q{number}", refuse=True))
            elif step == "cancel":
                if all(each["id"] != number for each in talk.answers) and number < len(asked):
                    cancelled.add(number)
                talk.notify("notifications/cancelled", b'{"requestId":%d}' % number)
            else:
                clock.jump(number / 10)
                talk.asked.tell(trio.current_time())
            assert len(agent.questions) <= MAX_OPEN
        clock.jump(SERVER.call_s)
        talk.asked.tell(trio.current_time())
        answered = [each["id"] for each in talk.answers]
        assert sorted([*answered, *cancelled], key=repr) == sorted(asked, key=repr)
        assert (len(agent.questions), talk.asked.due) == (0, math.inf)

    trio.run(main, clock=clock)


async def test_a_server_that_asks_and_cancels_in_turn_does_not_bury_the_agent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    agent = Agent("elicitation")
    talk = Talk(agent)
    for id_ in range(100):
        talk.request(ELICITATION, id_=id_)
        talk.notify("notifications/cancelled", b'{"requestId":%d}' % id_)
    assert len(agent.asked) == MAX_OPEN
    assert len(talk.answers) == 100 - MAX_OPEN
    await trio.sleep(SERVER.call_s)
    talk.request(ELICITATION)
    assert len(agent.asked) == MAX_OPEN + 1


async def test_an_agent_that_is_found_gone_as_it_is_asked_ends_the_connection() -> None:
    class Leaving(Agent):
        def ask(self, server: str, asked: Sequence[Question], origin: object = None) -> list[str]:
            talk.asked.close()
            return super().ask(server, asked, origin)

    talk = Talk(Leaving("elicitation"))
    talk.request(ELICITATION)
    assert talk.asked.relay.due == math.inf


async def test_what_an_earlier_run_of_the_server_asked_is_not_answered_to_the_next() -> None:
    agent = Agent("elicitation")
    talk = Talk(agent)
    talk.request(ELICITATION)
    talk.notify("notifications/tools/list_changed")
    talk.asked.renew()
    assert agent.withdrawn == ["q1"]
    assert not talk.asked.wants_list
    agent.told[0](said(ACCEPTED))
    assert talk.answers == []
    talk.request(ELICITATION)
    agent.told[1](said(ACCEPTED))
    assert talk.answers == [result(ACCEPTED)]
