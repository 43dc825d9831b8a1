"""A channel's host and its session in memory: every request gets exactly one answer, however things end."""

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.agent.fakes import (
    ANYONE,
    OWN_USER,
    Agent,
    BrokenPlan,
    HeldPlan,
    Ledger,
    add_plans,
    answer,
    code_of,
    fault_of,
    open_runtime,
    small_catalog,
)
from tooldispatchd.agent.calls.inflight import STOPS
from tooldispatchd.agent.session.host import ChannelHost
from tooldispatchd.calls.gate import Gate
from tooldispatchd.calls.memory import Share
from tooldispatchd.calls.stages import Reason
from tooldispatchd.catalog.specs import LimitsSpec
from tooldispatchd.wire.heavy import HEAVY_BYTES
from tooldispatchd.wire.messages import ToolCancel


async def test_a_call_that_runs_at_the_end_of_input_is_answered_and_then_the_channel_ends(
    autojump_clock: MockClock,
) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.end_input()
        await wait_all_tasks_blocked()
        assert agent.closings == 0
        held.finish("1")
        assert await agent.hear_all() == [answer("1")]
        assert agent.closings == 1


async def test_what_waits_at_the_end_of_input_still_runs(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(LimitsSpec(in_flight=1)), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.call("2", "held")
        await agent.end_input()
        await wait_all_tasks_blocked()
        held.finish("1")
        held.finish("2")
        assert await agent.hear_all() == [answer("1"), answer("2")]


async def test_calls_are_cancelled_when_nobody_listens_any_more(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(LimitsSpec(in_flight=1)), held) as runtime:
        agent = Agent(runtime)
        await agent.call("runs", "held")
        await agent.call("waits", "held")
        await agent.stop_listening()
        await agent.say({"__port": "ping"})
        await wait_all_tasks_blocked()
        assert held.halted == [("runs", Reason.CANCELLED)]
        assert held.started == ["runs"]
        assert agent.closings == 1
        assert agent.share.held == 0


async def test_a_session_stays_until_a_halted_call_has_ended(autojump_clock: MockClock) -> None:
    held = HeldPlan(lingers=True)
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await wait_all_tasks_blocked()
        agent.host.gone("the test says so")
        assert agent.closings == 0
        held.finish("1")
        assert agent.closings == 1
        await agent.end_input()


async def test_bye_is_answered_after_the_last_call(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await agent.say({"id": "1", "name": "held"}, {"__port": "bye"}, {"id": "2", "name": "echo", "input": 2})
        await wait_all_tasks_blocked()
        held.finish("1")
        late, *rest = await agent.hear_all()
        assert code_of(late) == "draining"
        assert rest == [answer("1"), {"__port": "bye"}]


async def test_a_refused_hello_closes_the_channel_whatever_follows_it(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await agent.send(b'{"__port":"hello","profile":"nobody"}\n{"id":"1","name":"held"}')
        lines = await agent.hear_all()
        assert [code_of(line) for line in lines] == ["unknown_profile"]
        assert held.started == []
        assert agent.closings == 1


async def test_what_follows_bye_without_a_newline_is_not_looked_at(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await agent.send(b'{"id":"1","name":"echo","input":1}\n{"__port":"bye"}\n{"id":"2","na')
        assert await agent.hear_all() == [answer("1", "1"), {"__port": "bye"}]
        assert agent.closings == 1


class Outlet:
    """Keeps what is written, and like a real channel drops what comes after it was closed."""

    def __init__(self, share: Share) -> None:
        self.share = share
        self.is_crowded = False
        self.is_behind = False
        self.is_closed = False
        self.is_paused = False
        self.wants_turn = False
        self.written = b""

    def write(self, lines: bytes | bytearray) -> None:
        if not self.is_closed:
            self.written += lines

    def pause(self) -> None:
        self.is_paused = True

    def again(self) -> None:
        self.wants_turn = True

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("line", "port"),
    [
        (b'{"__port":"hello","profile":"nobody"}\n', b'"__port":"fault"'),
        (b'{"__port":"hello","profile":"empty"}\n{"__port":"bye"}\n', b'"__port":"bye"'),
    ],
)
async def test_the_last_lines_are_written_before_the_channel_closes(
    line: bytes, port: bytes, autojump_clock: MockClock
) -> None:
    async with open_runtime(small_catalog()) as runtime:
        outlet = Outlet(runtime.state.memory.share(0))
        closed: list[ChannelHost] = []
        host = ChannelHost(lambda: runtime, outlet, closed.append, entrance=ANYONE, visitor=OWN_USER)
        host.received(line)
        assert port in outlet.written
        assert not outlet.wants_turn
        assert outlet.is_closed
        assert closed == [host]


async def test_nothing_is_read_beside_a_line_that_a_checker_reads() -> None:
    async with open_runtime(small_catalog()) as runtime:
        outlet = Outlet(runtime.state.memory.share(0))
        host = ChannelHost(lambda: runtime, outlet, lambda _host: None, entrance=ANYONE, visitor=OWN_USER)
        host.received(b'{"id":"1","name":"echo","input":"' + b"x" * 2 * HEAVY_BYTES + b'"}\n')
        host.resume()
        assert (outlet.is_paused, outlet.wants_turn) == (True, False)
        await wait_all_tasks_blocked()
        assert (outlet.is_paused, outlet.wants_turn) == (True, True)
        host.gone("the test says so")


async def test_an_id_in_flight_is_refused_and_free_again_after_its_answer(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.call("1", "echo", input=1)
        line = await agent.hear()
        assert code_of(line) == "duplicate_id"
        assert isinstance(line, dict)
        assert (line["id"], line["line"]) == ("1", 2)
        held.finish("1")
        assert await agent.hear() == answer("1")
        await agent.call("1", "echo", input=1)
        assert await agent.hear() == answer("1", "1")
        await agent.end_input()


async def test_a_cancelled_call_is_answered_cancelled_whatever_its_tool_then_says(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.say({"__port": "tool_cancel", "id": "1"}, {"__port": "tool_cancel", "id": "1"})
        assert code_of(await agent.hear()) == "cancelled"
        assert held.halted == [("1", Reason.CANCELLED)]
        await agent.end_input()


async def test_of_many_calls_that_are_cancelled_none_starts_in_a_place_that_comes_free(
    autojump_clock: MockClock,
) -> None:
    held = HeldPlan(gate=Gate(1, kept=0))
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await agent.say(*({"id": str(number), "name": "held"} for number in range(4 * STOPS)))
        await agent.pause(1)
        session = agent.host.sessions[0]
        assert session.in_flight is not None
        session.cancel(ToolCancel(waiting=True))
        assert len(session.in_flight) == 3 * STOPS
        held.finish("0")
        await agent.end_input()
        heard = await agent.hear_all()
        assert (len(heard), held.started) == (4 * STOPS, ["0"])


async def test_an_input_that_is_refused_takes_no_place(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(LimitsSpec(in_flight=1, waiting=1)), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held", input="refuse me")
        await agent.call("2", "held")
        assert code_of(await agent.hear()) == "invalid_input"
        await wait_all_tasks_blocked()
        assert held.started == ["2"]
        held.finish("2")
        await agent.end_input()


async def test_a_defect_at_the_start_of_a_call_is_that_call_s_fault_alone(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog(LimitsSpec(in_flight=1))) as runtime:
        ledger = runtime.setup.log
        assert isinstance(ledger, Ledger)
        add_plans(runtime, BrokenPlan())
        agent = Agent(runtime)
        await agent.call("1", "broken")
        assert fault_of(await agent.hear())["incident"] == "fake-incident"
        await agent.call("2", "echo", input=2)
        assert await agent.hear() == answer("2", "2")
        assert [type(error) for error in ledger.incidents] == [LookupError]
        ledger.incidents.clear()
        await agent.end_input()
