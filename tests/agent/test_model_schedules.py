"""Many agents under any schedule, against the reference model: cancels, deadlines, deaths and ends at any point."""

from contextlib import suppress
from typing import Final

import trio
from hypothesis import example, given, note, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.agent.fakes import Agent, add_plans, open_runtime, small_catalog
from tests.examples import examples
from tests.fuzz.model import IN_FLIGHT, WAITING, Key, Known, Model
from tests.fuzz.plans import DONE, ConnectionPlan, TaskPlan, WaitingPlan
from tooldispatchd.agent.calls.call import Call
from tooldispatchd.agent.calls.inflight import InFlight
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.calls.gate import Gate
from tooldispatchd.catalog.specs import LimitsSpec

CHANNELS: Final = 2
PLACES: Final = 2
LIMIT_S: Final = 60.0
SERVER_LIMIT_S: Final = 20.0
TEARDOWN_S: Final = 1.0
# More rounds than any program needs to come to its end, each a second long.
MAX_ROUNDS: Final = 500

ACTIONS: Final = st.sampled_from(
    [
        *["call"] * 8,
        *["deadline", "background", "hello", "cancel", "finish", "settle", "time"] * 2,
        *["look", "wait", "stop"] * 2,
        *["again", "bye", "die", "revive", "finish", "settle", "yield"],
        *["end of input", "gone", "drain", "abort"],
    ]
)
TOOLS: Final = st.sampled_from(["slot", "slot", "lingers", "server", "server", "task", "echo"])
WHERE: Final = st.tuples(st.integers(0, CHANNELS - 1), st.sampled_from([None, "a", "a", "b"]))
# What, where, with which tool, and a number that chooses among what there is.
Step = tuple[str, tuple[int, str | None], str, int]
STEPS: Final = st.tuples(ACTIONS, WHERE, TOOLS, st.integers(0, 1000))


class Play:
    """A program in progress: the channels, the tools, and the model that watches."""

    def __init__(self, runtime: Runtime, clock: MockClock) -> None:
        self.runtime = runtime
        self.clock = clock
        self.gate: Gate[Call] = Gate(PLACES)
        self.server = ConnectionPlan("server", limit_s=SERVER_LIMIT_S)
        self.plans: list[WaitingPlan] = [
            WaitingPlan("slot", gate=self.gate, limit_s=LIMIT_S),
            WaitingPlan("lingers", gate=self.gate, limit_s=LIMIT_S, lingers=True),
            TaskPlan("task", gate=self.gate, limit_s=LIMIT_S, teardown_s=TEARDOWN_S),
            self.server,
        ]
        add_plans(runtime, *self.plans)
        self.agents = [Agent(runtime) for _ in range(CHANNELS)]
        self.numbers: dict[object, int] = {agent.host: number for number, agent in enumerate(self.agents)}
        self.is_shut = [False] * CHANNELS
        self.readers = [trio.CancelScope() for _ in range(CHANNELS)]
        limits = {plan.name: plan.limit_s for plan in self.plans}
        self.model = Model({**limits, "echo": LIMIT_S})
        self.count = 0

    # --- the agents' side ---

    async def listen(self, number: int) -> None:
        """Tell the model every line of one channel."""
        # Who leaves may do so in the middle of listening.
        with self.readers[number], suppress(trio.ClosedResourceError):
            while (line := await self.agents[number].hear()) != "the end":
                self.model.hear(number, line)

    async def say(self, number: int, message: dict[str, object], agent: str | None) -> None:
        """One line, where there is still somebody to say it to."""
        if not self.is_shut[number]:
            with suppress(trio.BrokenResourceError):
                await self.agents[number].say(message if agent is None else {**message, "agent": agent})

    async def ask(self, where: tuple[int, str | None], tool: str, **fields: object) -> None:
        if not self.is_shut[where[0]]:
            self.count += 1
            await self.ask_as(f"c{self.count}", where, tool, **fields)

    async def ask_as(self, call_id: str, where: tuple[int, str | None], tool: str, **fields: object) -> None:
        number, agent = where
        deadline_s = float(str(fields.get("deadline_ms", "inf"))) / 1000
        known = Known(
            Key(number, agent, call_id), tool, trio.current_time(), deadline_s, is_background="background" in fields
        )
        self.model.ask(known)
        self.watch_connection()
        await self.say(number, {"id": call_id, "name": tool, "input": 1, **fields}, agent)

    async def act(self, step: Step) -> None:
        """Do one step of a program."""
        action, where, tool, pick = step
        number, agent = where
        match action:
            case "call":
                await self.ask(where, tool)
            case "deadline":
                await self.ask(where, tool, deadline_ms=1000 * (1 + pick % 40))
            case "background" if tool != "echo":
                await self.ask(where, tool, background=True)
            case "hello" if agent is not None and not self.is_shut[number]:
                self.model.hello(number, agent)
                await self.say(number, {"__port": "hello"}, agent)
            case "cancel" | "again":
                await self.touch(action, number, pick)
            case "look" | "wait" | "stop":
                await self.look(action, number, pick)
            case "bye" if not self.is_shut[number]:
                self.model.bye(number, agent)
                await self.say(number, {"__port": "bye"}, agent)
            case "end of input" | "gone" | "drain" | "abort":
                if not self.is_shut[number]:
                    await self.end(action, number)
            case _:
                await self.happen(action, pick)

    async def touch(self, action: str, number: int, pick: int) -> None:
        """Cancel a call, or use its id again while it may be in flight."""
        keys = [key for key in self.model.calls if key.channel == number]
        if not keys or self.is_shut[number]:
            return
        key = keys[pick % len(keys)]
        if action == "cancel":
            self.model.cancel(key)
            await self.say(number, {"__port": "tool_cancel", "id": key.id}, key.agent)
        elif not self.model.calls[key].is_background:
            await self.ask_as(key.id, (number, key.agent), "echo")

    async def look(self, action: str, number: int, pick: int) -> None:
        """Read a job, wait for it, or stop it; the model compares what it hears with what the job may have come to."""
        jobs = [call for call in self.model.calls.values() if call.job is not None and call.key.channel == number]
        if not jobs or self.is_shut[number]:
            return
        call = jobs[pick % len(jobs)]
        tool = {"look": "job_read", "wait": "job_wait", "stop": "job_stop"}[action]
        self.count += 1
        self.model.look(f"look{self.count}", call, tool)
        await self.say(number, {"id": f"look{self.count}", "name": tool, "input": {"job": call.job}}, call.key.agent)

    # --- what an agent has no hand in ---

    async def happen(self, action: str, pick: int) -> None:
        match action:
            case "finish":
                running = [(plan, call) for plan in self.plans for call in plan.running]
                if running:
                    self.finish(*running[pick % len(running)])
            case "die":
                running_keys = [self.key_of(call) for call in self.server.running]
                self.server.die()
                self.model.connection_is_dead(running_keys)
            case "revive":
                self.watch_connection()
                self.server.revive()
            case "time":
                await self.pass_time((1, 5, 15, 30, 61)[pick % 5])
            case "settle":
                await self.settle()
            case _:
                await trio.lowlevel.checkpoint()

    def finish(self, plan: WaitingPlan, call: Call) -> None:
        # Before the deed: the answer may be heard within it.
        self.model.finish(self.key_of(call), "done")
        plan.finish(call, DONE)

    async def pass_time(self, seconds: float) -> None:
        # A deadline counts from when its line was read.
        await self.settle()
        # A limit that passes kills the connection, which others on it are told in the same moment.
        calls = [call for call in self.model.calls.values() if call.tool == "server"]
        self.clock.jump(seconds)
        self.model.time_has_passed(trio.current_time())
        if any(trio.current_time() - call.sent_at >= SERVER_LIMIT_S for call in calls):
            self.model.connection_is_dead([])
        await self.settle()

    async def settle(self) -> None:
        await wait_all_tasks_blocked()
        self.watch_connection()
        self.model.check_settled()

    def watch_connection(self) -> None:
        if self.server.is_dead:
            self.model.connection_is_dead([])

    def key_of(self, call: Call) -> Key:
        owner = call.context.calls
        assert isinstance(owner, InFlight)
        return Key(self.numbers[owner._channel], owner._machine.agent, call.id)

    # --- ends ---

    async def end(self, ending: str, number: int) -> None:
        agent = self.agents[number]
        match ending:
            case "end of input":
                self.is_shut[number] = True
                self.model.end_input(number)
                await agent.end_input()
            case "gone":
                self.is_shut[number] = True
                self.model.end_from_outside(number, ending)
                self.readers[number].cancel()
                await agent.stop_listening()
                # The next line that cannot be written shows it.
                with suppress(trio.BrokenResourceError):
                    await agent.say({"__port": "ping"})
                await agent.end_input()
            case "drain":
                self.model.end_from_outside(number, ending)
                agent.host.drain()
            case _:
                self.model.end_from_outside(number, ending)
                agent.host.abort()

    async def finish_everything(self) -> None:
        """Let all that runs come to its end, and every channel to its own; until then every job can be read."""
        for number in range(CHANNELS):
            for pick in range(sum(call.job is not None for call in self.model.calls.values())):
                await self.look("look", number, pick)
        await self.settle()
        for number in range(CHANNELS):
            if not self.is_shut[number]:
                await self.end("end of input", number)
        for _ in range(MAX_ROUNDS):
            await wait_all_tasks_blocked()
            if all(agent.closings for agent in self.agents):
                break
            for plan in self.plans:
                for call in list(plan.running)[:1]:
                    self.finish(plan, call)
            await self.pass_time(1)
        assert [agent.closings for agent in self.agents] == [1] * CHANNELS
        await wait_all_tasks_blocked()
        assert not self.runtime.services.home.child_tasks
        assert [agent.share.held for agent in self.agents] == [0] * CHANNELS
        self.model.check_ended()
        self.check_nothing_left()

    def check_nothing_left(self) -> None:
        runtime = self.runtime
        owners = {owner for plan in self.plans for owner in plan.owners if isinstance(owner, InFlight)}
        assert (
            runtime.state.open_sessions.total,
            runtime.state.memory.held,
            len(runtime.services.timer),
        ) == (0, 0, 0)
        assert (self.gate._free, len(self.gate._channels)) == (PLACES, 0)
        assert [len(plan.running) for plan in self.plans] == [0] * len(self.plans)
        assert all(owner._places.is_empty for owner in owners)


async def converse(steps: list[Step], clock: MockClock) -> Model:
    limits = LimitsSpec(in_flight=IN_FLIGHT, waiting=WAITING)
    async with open_runtime(small_catalog(limits)) as runtime, trio.open_nursery() as nursery:
        play = Play(runtime, clock)
        for number in range(CHANNELS):
            nursery.start_soon(play.listen, number)
        try:
            # One instance on each channel is there from the beginning, others come and go.
            for number in range(CHANNELS):
                await play.act(("hello", (number, "a"), "", 0))
            for step in steps:
                await play.act(step)
            await play.finish_everything()
        finally:
            # Where something was wrong, time goes on by itself: what is shielded must come to its end too.
            clock.autojump_threshold = 0
    return play.model


# An agent that has come back asks for a job of its last session, then stops one that has that job's name.
COMES_BACK: Final[list[Step]] = [
    ("background", (1, "a"), "lingers", 0),
    ("settle", (1, "a"), "echo", 0),
    ("bye", (1, "a"), "echo", 0),
    ("finish", (1, "a"), "echo", 0),
    ("settle", (1, "a"), "echo", 0),
    ("hello", (1, "a"), "echo", 0),
    ("look", (1, "a"), "echo", 0),
    ("background", (1, "a"), "slot", 0),
    ("stop", (1, "a"), "echo", 0),
    ("settle", (1, "a"), "echo", 0),
]
# A channel is aborted while its agent waits for a job.
WAITS: Final[list[Step]] = [
    ("background", (0, None), "slot", 0),
    ("settle", (0, None), "echo", 0),
    ("wait", (0, None), "echo", 0),
    ("abort", (0, None), "echo", 0),
]


@given(steps=st.lists(STEPS, min_size=10, max_size=60), schedule=st.random_module())
@example(steps=COMES_BACK, schedule=None)
@example(steps=WAITS, schedule=None)
@settings(max_examples=examples(300), deadline=None, print_blob=True)
def test_agents_under_any_schedule_are_told_what_the_model_allows(steps: list[Step], schedule: object) -> None:
    note(f"schedule: {schedule}")
    clock = MockClock()
    trio.run(converse, steps, clock, clock=clock)
