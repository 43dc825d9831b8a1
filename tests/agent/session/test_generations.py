"""Sessions while the configuration is read anew: each sees one configuration at a time, and no call is lost."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.agent.fakes import ANYONE, OWN_USER, HeldPlan, Ledger, add_plans, code_of, open_runtime
from tests.agent.test_fair import Outlet, encoded
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.host import ChannelHost
from tooldispatchd.agent.setup import Setup
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config, ProfileSpec, ToolSpec

ResultT = TypeVar("ResultT")

TOOLS: Final = ("one", "two", "three")
NUMBERS: Final = st.integers(0, 11)
FIRST: Final = frozenset({"one", "two"})
SUBSETS: Final = st.frozensets(st.sampled_from(TOOLS))


def catalog_of(tools: frozenset[str], *, has_profile: bool = True) -> Catalog:
    names = tuple(name for name in TOOLS if name in tools)
    catalog = build_catalog(
        Config(
            tools={name: ToolSpec(type="json -> json", inline="id") for name in names},
            agents={"default" if has_profile else "other": ProfileSpec(tools=names)},
        )
    )
    assert isinstance(catalog, Catalog), catalog
    return catalog


class Generation:
    """One reading of the configuration: its tools hold their calls until the test ends them."""

    def __init__(self, runtime: Runtime, tools: frozenset[str], *, has_profile: bool = True) -> None:
        self.runtime = runtime
        self.tools = tools
        self.has_profile = has_profile
        self.has_left = False
        self.plans = {name: HeldPlan(name) for name in tools}
        if has_profile:
            add_plans(runtime, *self.plans.values())

    def left(self) -> None:
        assert not self.has_left
        self.has_left = True


class Agent:
    """A channel, and what is known of its session: its generation, and the calls that run."""

    def __init__(self, world: "Reloads") -> None:
        self.outlet = Outlet(world.first.state.memory.share(0))
        self.host = ChannelHost(
            lambda: world.latest.runtime, self.outlet, lambda _host: None, entrance=ANYONE, visitor=OWN_USER
        )
        self.generation = world.latest
        self.running: dict[str, tuple[Generation, str]] = {}
        self.is_ending = False
        self.is_heard = True
        # A session opens with its first line.
        self.host.received(encoded({"__port": "hello"}))
        self.is_open = self.outlet.lines.pop()["__port"] == "ready"


class Reloads(RuleBasedStateMachine):
    """Random reloads, calls and ends of one daemon in memory, whose loop runs in a thread."""

    def __init__(self) -> None:
        super().__init__()
        self.agents: list[Agent] = []
        self.generations: list[Generation] = []
        self.calls = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._live,))
        self._thread.start()
        assert self._ready.wait(20)

    async def _live(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._over = trio.Event()
        async with open_runtime(catalog_of(FIRST)) as runtime:
            self.first = runtime
            self._ready.set()
            await self._over.wait()

    def _do(self, act: Callable[[], ResultT]) -> ResultT:
        return trio.from_thread.run_sync(act, trio_token=self._token)

    @property
    def latest(self) -> Generation:
        return self.generations[-1]

    @initialize()
    def begin(self) -> None:
        self.generations.append(Generation(self.first, FIRST))
        for _ in range(2):
            self.open()
            self.call(0, "one")

    @rule(tools=SUBSETS, applies=st.booleans(), has_profile=st.sampled_from((True, True, True, False)))
    def reload(self, tools: frozenset[str], *, applies: bool, has_profile: bool) -> None:
        self._do(lambda: self._reload(tools, applies=applies, has_profile=has_profile))

    def _reload(self, tools: frozenset[str], *, applies: bool, has_profile: bool) -> None:
        before = self.latest
        setup = Setup(catalog_of(tools, has_profile=has_profile), Ledger(logs_calls=False), uid=1000)
        runtime = Runtime(setup, self.first.services, self.first.state)
        self.generations.append(Generation(runtime, tools, has_profile=has_profile))
        before.runtime.retire(lambda _plans: before.left())
        for agent in self.agents if applies else ():
            for session in agent.host.sessions:
                session.move(lambda: runtime)
            if not agent.is_ending and has_profile:
                agent.generation = self.latest
            agent.is_ending = agent.is_ending or not has_profile

    @rule()
    def open(self) -> None:
        agent = self._do(lambda: Agent(self))
        assert agent.is_open is self.latest.has_profile
        if agent.is_open:
            self.agents.append(agent)

    def _any(self, number: int) -> Agent:
        return self.agents[number % len(self.agents)]

    @precondition(lambda self: self.agents)
    @rule(number=NUMBERS, tool=st.sampled_from(TOOLS))
    def call(self, number: int, tool: str) -> None:
        agent = self._any(number)
        self.calls += 1
        call_id = str(self.calls)
        before = len(agent.outlet.lines)
        self._do(lambda: agent.host.received(encoded({"id": call_id, "name": tool})))
        if not agent.is_ending and tool in agent.generation.tools:
            assert call_id in agent.generation.plans[tool].running
            agent.running[call_id] = agent.generation, tool
        elif agent.is_heard and not agent.outlet.is_closed:
            told = agent.outlet.lines[before:]
            assert [line["id"] for line in told] == [call_id]
            assert code_of(told[0]) == ("draining" if agent.is_ending else "unknown_tool")

    @precondition(lambda self: any(agent.running for agent in self.agents))
    @rule(number=NUMBERS)
    def finish(self, number: int) -> None:
        running = [(agent, call_id) for agent in self.agents for call_id in agent.running]
        agent, call_id = running[number % len(running)]
        generation, tool = agent.running.pop(call_id)
        before = len(agent.outlet.lines)
        self._do(lambda: generation.plans[tool].finish(call_id))
        answers = [line for line in agent.outlet.lines[before:] if line.get("id") == call_id]
        assert [line["content"] for line in answers] == ["done"]

    @precondition(lambda self: self.agents)
    @rule(number=NUMBERS)
    def die(self, number: int) -> None:
        agent = self._any(number)
        self.agents.remove(agent)
        self._do(lambda: agent.host.gone("a test"))

    @precondition(lambda self: self.agents)
    @rule(number=NUMBERS)
    def end(self, number: int) -> None:
        agent = self._any(number)
        agent.is_ending, agent.is_heard = True, False
        self._do(agent.host.ended)

    @invariant()
    def a_generation_lives_as_long_as_a_session_or_a_call_is_of_it(self) -> None:
        used = {self.latest} if self.generations else set()
        for agent in self.agents:
            used |= {generation for generation, _ in agent.running.values()}
            if not agent.outlet.is_closed:
                used.add(agent.generation)
        assert [each.has_left for each in self.generations] == [each not in used for each in self.generations]

    def teardown(self) -> None:
        for agent in self.agents:
            self._do(partial(agent.host.gone, "the end"))
        self._do(self._over.set)
        self._thread.join(20)
        assert all(each.has_left for each in self.generations[:-1])


TestReloads = Reloads.TestCase
TestReloads.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
