"""What one agent cannot do to the others, nor a channel to the daemon."""

import json
from collections.abc import Mapping

import msgspec
import trio
from trio.testing import MockClock

from tests.agent.fakes import (
    ANYONE,
    OWN_USER,
    Agent,
    HeldPlan,
    Ledger,
    answer,
    code_of,
    fault_of,
    open_runtime,
    small_catalog,
)
from tooldispatchd.agent.session.host import ChannelHost
from tooldispatchd.agent.session.tasktree import TaskTree
from tooldispatchd.calls.hints import Hints
from tooldispatchd.calls.jobs import MAX_WAITERS
from tooldispatchd.calls.memory import Share
from tooldispatchd.catalog.specs import LimitsSpec


class Outlet:
    """Keeps what is written, and counts the turns that were asked for; crowded and behind when a test says so."""

    def __init__(self, share: Share) -> None:
        self.share = share
        self.is_crowded = False
        self.is_behind = False
        self.is_closed = False
        self.turns = 0
        self.lines: list[dict[str, object]] = []

    def write(self, lines: bytes | bytearray) -> None:
        self.lines += [msgspec.json.decode(line) for line in lines.splitlines()]

    def pause(self) -> None:
        """Nothing is read here by itself."""

    def again(self) -> None:
        self.turns += 1

    def close(self) -> None:
        self.is_closed = True


def encoded(*messages: Mapping[str, object]) -> bytes:
    return msgspec.json.Encoder().encode_lines(messages)


async def test_large_answers_end_a_turn_before_they_pile_up(autojump_clock: MockClock) -> None:
    limits = LimitsSpec(out_buffer_bytes=4096)
    async with open_runtime(small_catalog(limits)) as runtime:
        outlet = Outlet(runtime.state.memory.share(0))
        host = ChannelHost(lambda: runtime, outlet, lambda _host: None, entrance=ANYONE, visitor=OWN_USER)
        host.received(encoded({"id": "j", "name": "echo", "input": "x" * 3000, "background": True}))
        reads = [{"id": str(count), "name": "job_read", "input": {"job": "job-1"}} for count in range(100)]
        host.received(encoded(*reads))
        assert len(outlet.lines) == 1 + 2
        while outlet.turns:
            outlet.turns = 0
            host.resume()
        assert len(outlet.lines) == 1 + 100
        host.ended()
        assert outlet.is_closed


async def test_a_result_that_cannot_be_sent_is_not_read_by_that(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog(LimitsSpec(jobs=1))) as runtime:
        outlet = Outlet(runtime.state.memory.share(0))
        host = ChannelHost(lambda: runtime, outlet, lambda _host: None, entrance=ANYONE, visitor=OWN_USER)
        host.received(encoded({"id": "j", "name": "echo", "input": "x" * 3000, "background": True}))
        waiting = encoded({"id": "r", "name": "job_wait", "input": {"job": "job-1"}})
        outlet.is_crowded = True
        host.received(waiting)
        assert code_of(outlet.lines.pop()) == "too_many"
        outlet.is_crowded = False
        host.received(encoded({"id": "k", "name": "echo", "input": 1, "background": True}))
        assert code_of(outlet.lines.pop()) == "queue_full"
        host.received(waiting)
        content = outlet.lines.pop()["content"]
        assert isinstance(content, str)
        assert json.loads(content)["is_error"] is False
        host.ended()


async def test_only_so_many_wait_for_one_job(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(), plan) as runtime:
        agent = Agent(runtime)
        await agent.call("start", "held", background=True)
        await agent.hear()
        for number in range(MAX_WAITERS + 1):
            await agent.call(str(number), "job_wait", input={"job": "job-1"})
        refused = await agent.hear()
        assert isinstance(refused, dict)
        assert (refused["id"], code_of(refused)) == (str(MAX_WAITERS), "queue_full")
        plan.finish("start")
        assert len([await agent.hear() for _ in range(MAX_WAITERS)]) == MAX_WAITERS
        await agent.end_input()
        assert await agent.hear() == "the end"


async def test_three_wrong_tokens_close_the_channel_to_newcomers_alone(
    autojump_clock: MockClock,
) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(), plan) as runtime:
        agent = Agent(runtime, entrance=msgspec.structs.replace(ANYONE, profiles=frozenset({"default"})))
        await agent.say({"__port": "hello", "agent": "good"})
        await agent.hear()
        await agent.call("1", "held", agent="good")
        wrong = {"__port": "hello", "agent": "bad", "profile": "secret", "token": "guess"}
        await agent.say(wrong, wrong, wrong, wrong, {"id": "2", "name": "echo", "input": 1, "agent": "good"})
        assert [code_of(await agent.hear()) for _ in range(4)] == ["not_authenticated"] * 4
        assert await agent.hear() == answer("2", "1") | {"agent": "good"}
        await agent.say({"__port": "hello", "agent": "late"})
        assert code_of(await agent.hear()) == "not_authenticated"
        plan.finish("1")
        assert await agent.hear() == answer("1") | {"agent": "good"}
        await agent.say({"__port": "bye", "agent": "good"})
        assert await agent.hear() == {"__port": "bye", "agent": "good"}
        assert await agent.hear() == "the end"


async def test_three_wrong_tokens_on_an_empty_channel_close_it(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime, entrance=msgspec.structs.replace(ANYONE, profiles=frozenset({"default"})))
        wrong = {"__port": "hello", "profile": "secret", "token": "guess"}
        await agent.say(wrong, wrong, wrong, {"id": "1", "name": "echo", "input": 1})
        assert [code_of(line) for line in await agent.hear_all()] == ["not_authenticated"] * 4


async def test_what_follows_a_refused_hello_gets_the_same_fault(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "profile": "nobody"}, {"id": "1", "name": "echo", "input": 1})
        assert [fault_of(line)["error"] for line in await agent.hear_all()] == ["unknown_profile"] * 2


async def test_a_last_line_without_its_newline_is_served_for_a_named_agent_after_the_own_goodbye(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "agent": "a"}, {"__port": "bye"})
        await agent.hear()
        await agent.hear()
        await agent.send(b'{"id":"1","name":"echo","input":1,"agent":"a"}')
        await agent.end_input()
        assert await agent.hear_all() == [answer("1", "1") | {"agent": "a"}]


async def test_an_agent_beside_msg_is_whose_request_it_is(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "agent": "a", "profile": "empty"})
        await agent.hear()
        message = {"id": "1", "name": "echo", "input": 1}
        await agent.say({"__port": "tool_req", "agent": "a", "msg": message})
        heard = await agent.hear()
        assert isinstance(heard, dict)
        assert (heard["msg"]["agent"], code_of(heard["msg"])) == ("a", "not_allowed")
        await agent.say({"__port": "tool_req", "agent": "a", "msg": message | {"agent": "b"}})
        heard = await agent.hear()
        assert isinstance(heard, dict)
        assert (heard["msg"]["agent"], code_of(heard["msg"])) == ("a", "invalid_request")
        await agent.end_input()
        assert await agent.hear() == "the end"


async def test_a_flood_turns_down_what_asks_and_never_what_ends(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(LimitsSpec(lines_per_s=3)), plan) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "agent": "a"})
        await agent.hear()
        await agent.call("1", "held", agent="a")
        flood = [{"__port": "ping"}] * 5
        await agent.say(*flood, {"__port": "tool_cancel", "id": "1", "agent": "a"}, {"__port": "bye", "agent": "a"})
        await agent.end_input()
        heard = await agent.hear_all()
        ended = [line for line in heard if isinstance(line, dict) and line.get("agent") == "a"]
        assert (code_of(ended[0]), ended[1]) == ("cancelled", {"__port": "bye", "agent": "a"})
        assert [code_of(line) for line in heard if isinstance(line, dict) and line.get("__port") == "fault"] == [
            "too_many"
        ] * 4


async def test_a_defect_at_the_end_of_a_session_is_that_session_s_alone() -> None:
    log = Ledger()

    def fail() -> None:
        raise LookupError("a defect")

    async with trio.open_nursery() as home:
        TaskTree(home, log, closing=lambda: None, ended=fail).end()
    assert [str(error) for error in log.incidents] == ["a defect"]


def test_names_are_compared_within_a_budget_that_all_share() -> None:
    hints = Hints()
    assert [hints.take(900, 0.0) for _ in range(3)] == [True, True, False]
    assert not hints.take(1, 0.1)
    assert hints.take(5000, 1.0)
    assert not hints.take(1, 1.5)
