"""What agents that call agents share: places at each level, turns at the gates, and one child for several calls."""

import json
import os

import pytest
import trio

from tests.agent.agents_below import World, agents_catalog, open_world, until
from tests.agent.fakes import Agent, HeldPlan, answer, code_of, fault_of
from tests.daemon.spawned import Message
from tooldispatchd.agent.calls.call import Call
from tooldispatchd.agent.calls.checking import Reader
from tooldispatchd.agent.calls.plans import TaskPlan
from tooldispatchd.agent.programs.programs import Lent
from tooldispatchd.agent.session.lineage import Levels, Lineage, RootUsage, closing_figures
from tooldispatchd.agent.subagents import ANSWERS, REQUESTS
from tooldispatchd.calls.gate import Gate, GateVerdict
from tooldispatchd.calls.memory import Memory
from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.schemas import ACCEPT
from tooldispatchd.catalog.specs import LimitsSpec
from tooldispatchd.wire.faults import Fault

pytestmark = pytest.mark.usefixtures("nothing_left")


async def test_agents_at_every_level_end_though_there_is_one_place_for_agents_and_one_for_tools() -> None:
    call = """ask '{{"id":"1","name":"{}","input":"done"}}'; printf '%s' "$answer" """
    names = ("one", "two", "three")
    async with open_world(agents_catalog(*names, limits=LimitsSpec(processes=1, agent_depth=3))) as world:
        world.offer("default", world.agent("one", call.format("two")))
        world.offer("one", world.agent("two", call.format("three")))
        world.offer("two", world.agent("three", call.format("cat")))
        roots = [Agent(world.runtime) for _ in range(3)]
        for root in roots:
            await root.call("1", "one")
            await root.call("2", "one")
        for root in roots:
            for _ in range(2):
                heard = await root.hear()
                for _ in names:
                    assert isinstance(heard, dict)
                    heard = json.loads(heard["content"])
                assert heard == answer("1", '"done"')
            await root.end_input()


async def test_a_root_with_many_agents_has_one_agent_s_turns_at_a_gate() -> None:
    script = """ask '{"id":"1","name":"held"}'; printf 1"""
    async with open_world(agents_catalog("one")) as world:
        held = HeldPlan(gate=Gate(1))
        one = world.agent("one", script)
        world.offer("default", held, one)
        world.offer("one", held)
        many, other = Agent(world.runtime), Agent(world.runtime)
        await many.call("first", "held")
        for number in range(3):
            await many.call(str(number), "one")
        await until(lambda: count_waiting(held) == 3)
        await other.call("other", "held")
        await other.call("another", "held")
        await until(lambda: count_waiting(held) == 5)
        for ended in ("first", "other", "1"):
            held.finish(ended)
        assert list(held.running) == ["another"]
        held.finish("another")
        for _ in range(2):
            held.finish("1")
        for _ in range(4):
            await many.hear()
        await many.end_input()
        await other.end_input()


def count_waiting(plan: HeldPlan) -> int:
    assert plan.gate is not None
    return len(plan.gate._waiting)


class ChildPlan(TaskPlan):
    """An agent that never answers; the test is its child."""

    __slots__ = ("_world", "lent")

    def __init__(self, world: World) -> None:
        super().__init__(
            Offered(name="one", input_schema={}),
            kind="process",
            limit_s=20.0,
            read=Reader(ACCEPT, missing=None, wrapped=False),
        )
        self.starts_agents = True
        self.lent: Lent | None = None
        self._world = world

    async def run(self, call: Call) -> Outcome:
        lent = await self._world.lender.open(self._world.runtime, call, "one")
        assert lent is not None
        assert not isinstance(lent, Fault)
        self.lent = lent
        await trio.sleep_forever()

    def say(self, line: str) -> None:
        assert self.lent is not None
        os.write(self.lent.extra[REQUESTS], line.encode() + b"\n")

    async def hear(self) -> Message:
        assert self.lent is not None
        await trio.lowlevel.wait_readable(self.lent.extra[ANSWERS])
        line: Message = json.loads(os.read(self.lent.extra[ANSWERS], 65_536))
        return line


async def test_a_call_that_runs_out_of_its_caller_s_time_says_how_much_was_left() -> None:
    """[M151]"""
    async with open_world(agents_catalog("one")) as world:
        kept, held = ChildPlan(world), HeldPlan()
        world.offer("default", kept)
        world.offer("one", held)
        root = Agent(world.runtime)
        await root.call("a", "one", deadline_ms=300)
        await until(lambda: kept.lent is not None)
        kept.say('{"id":"1","name":"held","deadline_ms":60000}')
        fault = fault_of(await kept.hear())
        assert fault["error"] == "timeout"
        assert 0 < float(str(fault["limit_ms"])) <= 300
        assert code_of(await root.hear()) == "timeout"
        assert kept.lent is not None
        await kept.lent.close()
        await root.end_input()


def test_levels_share_no_places() -> None:
    levels: Levels[str] = Levels(1)
    assert levels.at(2) is levels.at(2)
    entered = [levels.at(depth).enter(f"item {count}", ("x", "a")) for count in (1, 2) for depth in (0, 1, 2)]
    assert entered == [GateVerdict.IN] * 3 + [GateVerdict.WAIT] * 3


def test_the_figures_of_agents_below_are_in_the_root_s_last_line() -> None:
    account = RootUsage("channel", 1, Memory(1).share(0))
    below = Lineage(account, 1).below().below()
    assert closing_figures(below, None, 3, 1) == (3, 1)
    assert closing_figures(None, account, 10, 2) == (13, 3)
    assert closing_figures(None, None, 10, 2) == (10, 2)
