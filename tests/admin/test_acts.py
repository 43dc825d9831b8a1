"""What an administrator changes: calls, jobs and sessions end, and the level of the log; and who it was."""

import pytest
import trio
from trio.testing import MockClock

from tests.admin.running import Running, administered, answer_to, ask
from tests.agent.fakes import Agent, HeldPlan, code_of
from tooldispatchd.admin.acts import SESSION_ENDED, targets_of
from tooldispatchd.agent.calls.inflight import STOPS
from tooldispatchd.agent.session.session import Session
from tooldispatchd.catalog.specs import LimitsSpec
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.messages import AdminReq


async def test_a_call_is_ended_and_its_agent_told(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with administered(LimitsSpec(), held) as (runtime, operator):
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.pause()
        assert await ask(operator, "end", session=2, call="1") == {}
        assert code_of(await agent.hear()) == "cancelled"
        refused = await answer_to(operator, "end", session=2, call="1")
        assert (refused["error"], refused["what"], refused["source"]) == ("unknown_target", "call", "1")
        await agent.end_input()
        await operator.end_input()


async def test_a_job_is_ended_by_its_name(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with administered(LimitsSpec(), held) as (runtime, operator):
        agent = Agent(runtime)
        await agent.call("1", "held", background=True)
        await agent.hear()
        assert await ask(operator, "end", session=2, job="job-1") == {}
        await agent.pause()
        assert not held.running
        assert (await answer_to(operator, "end", session=2, job="job-1"))["what"] == "job"
        await agent.end_input()
        await operator.end_input()


async def test_a_session_is_ended_with_its_calls_and_the_channel_with_it(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with administered(LimitsSpec(), held) as (runtime, operator):
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.pause()
        assert await ask(operator, "end", session=2) == {}
        assert code_of(await agent.hear()) == "draining"
        assert await agent.hear() == "the end"
        assert (await answer_to(operator, "end", session=2))["what"] == "session"
        await operator.end_input()


async def test_the_calls_of_a_session_are_ended_a_few_in_each_turn_and_those_that_wait_first(
    autojump_clock: MockClock,
) -> None:
    held = HeldPlan()
    async with administered(LimitsSpec(in_flight=3), held) as (runtime, operator):
        agent = Agent(runtime)
        await agent.say(*({"id": str(number), "name": "held"} for number in range(2 * STOPS + 3)))
        await agent.pause(1)
        session = runtime.state.opened[2]
        assert isinstance(session, Session)
        assert session.in_flight is not None
        session.abort(SESSION_ENDED)
        assert (len(session.in_flight), len(held.running)) == (STOPS + 3, 3)
        assert len(await agent.hear_all()) == 2 * STOPS + 3
        assert (held.running, len(held.started)) == ({}, 3)
        await operator.end_input()


async def test_an_administrator_may_end_its_own_session(autojump_clock: MockClock) -> None:
    async with administered() as (_, operator):
        await operator.say({"__port": "admin_req", "id": "a", "ask": "end", "session": 1})
        lines = await operator.hear_all()
    assert lines == [{"__port": "admin_resp", "id": "a", "value": {}}]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"ask": "end"}, ("invalid_request", "session")),
        ({"ask": "restart"}, ("invalid_request", "server")),
        ({"ask": "restart", "server": "none"}, ("unknown_target", "none")),
        ({"ask": "restart", "server": "none", "session": -1}, ("unknown_target", "none")),
        ({"ask": "level"}, ("invalid_request", None)),
        ({"ask": "level", "level": "loud"}, ("invalid_request", None)),
        ({"ask": "reload"}, ("not_allowed", None)),
        ({"ask": "log", "level": "loud"}, ("invalid_request", None)),
        ({"ask": "stop", "of": "nothing"}, ("unknown_target", "nothing")),
    ],
)
async def test_what_cannot_be_done_is_told(
    autojump_clock: MockClock, fields: dict[str, object], told: tuple[str, object]
) -> None:
    async with administered() as (_, operator):
        await operator.say({"__port": "admin_req", "id": "a", **fields})
        await operator.end_input()
        (refused,) = await operator.hear_all()
    assert isinstance(refused, dict)
    assert (refused["error"], refused.get("source")) == told


async def test_a_server_without_a_connection_is_known(autojump_clock: MockClock) -> None:
    async with administered() as (_, operator):
        assert await ask(operator, "restart", server="unused") == {"restarted": 0, "left": 0}
        await operator.end_input()


async def test_a_reload_is_the_daemons(autojump_clock: MockClock) -> None:
    running, asked = Running(), []

    async def reload(applies: bool) -> dict[str, object] | Fault:
        asked.append(applies)
        return {"changed": ["tools.echo"]}

    running.reload = reload
    async with administered(running=running) as (_, operator):
        assert await ask(operator, "reload", apply=True) == {"changed": ["tools.echo"]}
        await operator.end_input()
    assert asked == [True]


async def test_nobody_waits_for_a_reload(autojump_clock: MockClock) -> None:
    running, is_read = Running(), trio.Event()

    async def reload(_applies: bool) -> dict[str, object] | Fault:
        await is_read.wait()
        return {}

    running.reload = reload
    async with administered(running=running) as (_, operator):
        await operator.say({"__port": "admin_req", "id": "r", "ask": "reload"})
        await operator.pause(1)
        assert "state" in await ask(operator, "status")
        assert await ask(operator, "drain") == {}
        is_read.set()
        assert await operator.hear() == {"__port": "admin_resp", "id": "r", "value": {}}
        await operator.end_input()


async def test_the_daemon_is_told_to_drain(autojump_clock: MockClock) -> None:
    running = Running()
    async with administered(running=running) as (_, operator):
        assert await ask(operator, "drain") == {}
        await operator.end_input()
    assert running.is_stopping


async def test_where_the_log_hears_of_single_calls_all_sessions_tell_of_them_from_then_on(
    autojump_clock: MockClock,
) -> None:
    running = Running()
    async with administered(running=running) as (runtime, operator):
        log = runtime.setup.log
        log.logs_calls = False  # type: ignore[misc]  # it is a ledger, which a test sets
        session = runtime.state.opened[1]
        assert isinstance(session, Session)
        session.look_who_hears()
        assert session.machine.is_quick
        log.logs_calls = True  # type: ignore[misc]  # as above
        # The wing was made when they did not.
        assert await ask(operator, "level", level="debug") == {"level": "debug", "before": "info"}
        assert running.log_output.level == "debug"
        await operator.end_input()


async def test_places_are_told_and_pass_over_a_socket_alone(autojump_clock: MockClock) -> None:
    running = Running()
    async with administered(running=running) as (_, operator):
        assert await ask(operator, "take_over") == {"names": ["place-0"]}
        refused = await answer_to(operator, "take_over", apply=True)
        assert (refused["error"], running.is_stopping) == ("not_allowed", False)
        await operator.end_input()


def test_the_log_says_of_what_an_administrator_asked() -> None:
    asked = AdminReq("1", "end", session=0, call="c" * 1000, level="debug")
    assert targets_of(asked) == {"of_session": 0, "call": "c" * 128, "to": "debug"}
    assert targets_of(AdminReq("1", "reload", apply=True)) == {"apply": True}
    assert targets_of(AdminReq("1", "reload")) == {}
