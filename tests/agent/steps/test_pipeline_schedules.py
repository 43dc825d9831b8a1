"""All steps at once under any schedule: random policies, calls, verdicts, hooks, failures and ends.

What must hold of each policy whatever comes is stated in `Play.hear`, `Play.look` and `Play.check_nothing_left`.
`make fuzz` plays more of it: PIPELINE_EXAMPLES says how many.
"""

import math
import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import trio
from hypothesis import example, given, note, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.agent.fakes import ANOTHER_USER, OWN_USER, Agent, open_runtime
from tests.fuzz.plans import DEAD, TaskPlan, WaitingPlan
from tooldispatchd.agent.calls.call import Call, CallContext
from tooldispatchd.agent.calls.step import Step
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.steps.caching import ToolIdentity
from tooldispatchd.agent.steps.governing import governed
from tooldispatchd.agent.steps.trying import WatchedBreaker
from tooldispatchd.agent.tools.declaredplans import LIFTED, compile_lifted, compile_plans
from tooldispatchd.calls.breaker import BreakerState
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.calls.retries import AT_ONCE
from tooldispatchd.calls.stages import StepOrder
from tooldispatchd.catalog.caching import Caching
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.hookspec import HookSpec
from tooldispatchd.catalog.policy import Breaking, CallPolicy
from tooldispatchd.catalog.policyspec import BudgetSpec, Overflow, QueueSpec
from tooldispatchd.catalog.rules import Approving
from tooldispatchd.catalog.specs import Config, LimitsSpec, ProfileSpec, ToolSpec
from tooldispatchd.wire.faults import Code, Fault

EXAMPLES: Final = int(os.environ.get("PIPELINE_EXAMPLES", "80"))
# The profile and the user of each.
AGENTS: Final = (("default", OWN_USER), ("default", ANOTHER_USER), ("other", OWN_USER))
OWNER: Final = ("tools", "t")
QUEUES: Final = {
    "few": QueueSpec(concurrent=2, waiting=2),
    "paced": QueueSpec(rate="1/s burst 2", waiting=3),
    "each": QueueSpec(concurrent=5, per_agent=1, waiting=4),
}
BROKEN: Final = Fault(Code.TOOL_FAILED, "it is broken")
BUDGET: Final = BudgetSpec(calls=3, bytes=1024)
APPROVE_S: Final = 20.0
LIMIT_S: Final = 30.0
# More rounds than any example needs to come to its end, each a second long.
MAX_ROUNDS: Final = 300


class Drawn(msgspec.Struct, frozen=True):
    """What the tables of both tools say; the second only reads what is exclusive to the first."""

    queues: tuple[str, ...] = ()
    is_exclusive: bool = False
    is_retried: bool = False
    has_breaker: bool = False
    caching: Caching | None = None
    asks: bool = False
    hooks: tuple[str, ...] = ()
    overflow: Overflow | None = None
    has_budget: bool = False
    order: str | None = None

    def policy(self, *, is_reader: bool) -> CallPolicy:
        return CallPolicy(
            queues=self.queues,
            exclusive=("db",) if self.is_exclusive else (),
            is_reader=is_reader,
            retried_by=OWNER if self.is_retried else None,
            breakers=(Breaking(OWNER, 2, 30.0, 10.0),) if self.has_breaker else (),
            caching=self.caching,
            approvings=(Approving(OWNER, "it asks each time"),) if self.asks else (),
            max_output=None if self.overflow is None else 128,
            overflow=self.overflow,
            has_budget=self.has_budget,
        )

    def catalog(self) -> Catalog:
        budget = BUDGET if self.has_budget else None
        profile = ProfileSpec(tools=("echo",), budget=budget)
        asked: dict[str, Any] = dict.fromkeys(self.hooks, ("x",))
        names = ("t*",) if "before" in asked else ()
        hooks = {"h": HookSpec(**asked, names=names, tools=("t*",))} if asked else {}
        stand_ins = {f"hook.h.{kind}": ToolSpec(type="json -> json", inline="id", expose=False) for kind in self.hooks}
        built = build_catalog(
            Config(
                tools={"echo": ToolSpec(type="json -> json", inline="id"), **stand_ins},
                queues=QUEUES,
                hooks=hooks,
                agents={"default": profile, "other": profile},
                limits=LimitsSpec(in_flight=3, waiting=3, approve_s=APPROVE_S),
            )
        )
        assert isinstance(built, Catalog), built
        return built


CACHINGS: Final = st.builds(Caching, st.sampled_from([0.0, 60.0, 60.0]), st.booleans(), st.booleans())
DRAWN: Final = st.builds(
    Drawn,
    queues=st.sets(st.sampled_from(sorted(QUEUES))).map(lambda names: tuple(name for name in QUEUES if name in names)),
    is_exclusive=st.booleans(),
    is_retried=st.booleans(),
    has_breaker=st.booleans(),
    caching=st.none() | CACHINGS | CACHINGS,
    asks=st.sampled_from([False, False, True]),
    hooks=st.sampled_from([(), (), ("before",), ("after",), ("before", "after")]),
    overflow=st.sampled_from([None, None, "truncate", "error", "store"]),
    has_budget=st.booleans(),
    order=st.sampled_from([None, None, "sequential", "batched:2"]),
)
ACTIONS: Final = st.sampled_from(
    [
        *["call"] * 8,
        *["deadline", "background", "cancel"] * 2,
        *["finish", "answer", "hook"] * 6,
        *["time", "settle"] * 3,
        *["clear", "end of input", "bye", "gone", "drain", "abort"],
    ]
)
# What, which agent, and a number that chooses among what there is.
Act = tuple[str, int, int]
ACTS: Final = st.tuples(ACTIONS, st.integers(0, len(AGENTS) - 1), st.integers(0, 1000))


class Probe(Step):
    """Takes part at one point of the order, and sees that whoever takes a step gives at most once and leaves once."""

    __slots__ = ("given", "inside")

    def __init__(self, order: StepOrder) -> None:
        super().__init__(order)
        self.inside: set[Call] = set()
        self.given: set[Call] = set()

    def take(self, call: Call) -> None:
        assert call not in self.inside, f"{call.id} takes {self.order.name} twice"
        self.inside.add(call)

    def give(self, call: Call, outcome: Outcome) -> None:
        assert call in self.inside
        assert call not in self.given, f"{call.id} gives {self.order.name} twice"
        self.given.add(call)

    def leave(self, call: Call, outcome: Outcome) -> None:
        self.inside.remove(call)
        self.given.discard(call)


class Door(Probe):
    """The last step: who comes here is started next."""

    __slots__ = ("_play",)

    def __init__(self, play: "Play") -> None:
        super().__init__(max(StepOrder))
        self._play = play

    def take(self, call: Call) -> None:
        super().take(call)
        self._play.starts(call)


class HookPlan(WaitingPlan):
    """What a hook runs; `asked` are the calls about which it was, by their ids."""

    __slots__ = ("asked",)

    def __init__(self, kind: str) -> None:
        super().__init__(f"hook.h.{kind}", limit_s=10.0)
        self.asked: set[str] = set()

    def begin(self, call: Call) -> None:
        self.asked.add(call.id)
        super().begin(call)


class Request(msgspec.Struct):
    """What an agent has asked, and what it has heard of it."""

    agent: int
    input: int
    until: float
    is_told: bool = False
    """Of its start."""
    answer: dict[str, Any] | None = None


class Play:
    """An example in progress."""

    def __init__(self, runtime: Runtime, clock: MockClock, drawn: Drawn) -> None:
        self.runtime = runtime
        self.clock = clock
        self.drawn = drawn
        self.tools: list[WaitingPlan] = [WaitingPlan("t0", limit_s=LIMIT_S), TaskPlan("t1", limit_s=LIMIT_S)]
        self.hooks = {kind: HookPlan(kind) for kind in drawn.hooks}
        self.probes: list[Probe] = []
        for number, plan in enumerate(self.tools):
            self.govern(plan, is_reader=number == 1)
        for hook in self.hooks.values():
            for profile in ("default", "other"):
                runtime.plans(LIFTED + profile, compile_lifted)[hook.name] = hook
        self.agents = [Agent(runtime, visitor=visitor) for _, visitor in AGENTS]
        self.is_shut = [False] * len(AGENTS)
        self.readers = [trio.CancelScope() for _ in AGENTS]
        self.requests: dict[str, Request] = {}
        self.started: set[str] = set()
        self.contexts: Counter[CallContext] = Counter()
        """How many calls of each session ran, each try for itself."""
        self.jobs: dict[tuple[int, str], str] = {}
        """The ids of calls that are jobs."""
        self.questions: list[tuple[int, dict[str, Any]]] = []
        self.approved: set[str] = set()
        self.remembered: set[tuple[int, int | None]] = set()
        """By agent and input, None for all."""

    def govern(self, plan: WaitingPlan, *, is_reader: bool) -> None:
        governed(self.runtime, plan, self.drawn.policy(is_reader=is_reader), ToolIdentity(lambda: (plan.name,), "s"))
        probes = [*map(Probe, StepOrder), Door(self)]
        self.probes += probes
        # Not by `add`, which concludes from the steps what they need.
        plan.set_steps(sorted((*plan.steps, *probes), key=lambda step: step.order))
        for profile in ("default", "other"):
            self.runtime.plans(profile, compile_plans)[plan.name] = plan

    def starts(self, call: Call) -> None:
        """A call has passed all steps that can refuse it."""
        self.started.add(call.id)
        self.contexts[call.context] += 1
        assert self.is_approved(call.id), f"{call.id} runs unapproved"
        assert all(call.id in hook.asked for kind, hook in self.hooks.items() if kind == "before")
        for watched in self.breakers:
            is_trying = watched.breaker.state is BreakerState.TRYING
            assert not is_trying or watched.breaker._trying is call, "two calls try what rests"

    @property
    def breakers(self) -> list[WatchedBreaker]:
        return list(self.runtime.state.policy._breakers.values())

    # --- the agents' side ---

    async def open(self, number: int) -> None:
        hello = {"__port": "hello", "profile": AGENTS[number][0], "answers": ["approve"], "events": ["tool_started"]}
        await self.agents[number].say(hello if self.drawn.order is None else {**hello, "order": self.drawn.order})

    async def listen(self, number: int) -> None:
        # Who leaves may do so in the middle of listening.
        with self.readers[number], suppress(trio.ClosedResourceError):
            while (line := await self.agents[number].hear()) != "the end":
                assert isinstance(line, dict)
                self.hear(number, line)

    def hear(self, number: int, line: dict[str, Any]) -> None:
        port = line.get("__port", "tool_resp")
        if port == "approve_req":
            self.questions.append((number, line))
        elif port == "event" and "id" in line:
            request = self.requests[line["id"]]
            assert not request.is_told, f"{line['id']} starts twice"
            request.is_told = True
        elif port == "tool_resp":
            request = self.requests[line["id"]]
            assert request.answer is None, f"{line['id']} is answered twice"
            request.answer = line
            if line["is_error"]:
                return
            job = msgspec.json.decode(line["content"]) if line["content"].startswith('{"job"') else None
            if job is not None:
                self.jobs[number, job["job"]] = line["id"]
            else:
                self.is_good(line["id"], request, line["content"])

    def is_approved(self, call_id: str) -> bool:
        request = self.requests[call_id]
        remembered = {(request.agent, request.input), (request.agent, None)}
        return not self.drawn.asks or call_id in self.approved or not remembered.isdisjoint(self.remembered)

    def is_good(self, call_id: str, request: Request, content: str) -> None:
        """A good answer: nobody has it who was not allowed, and none is another's."""
        profile, visitor = AGENTS[request.agent]
        drawn = self.drawn
        is_shared = drawn.caching is not None and drawn.caching.is_shared
        assert is_shared or drawn.overflow is not None or f"{profile}/{visitor.uid}/" in content, content
        assert self.is_approved(call_id), f"{call_id} is answered unapproved"
        assert all(call_id in hook.asked for hook in self.hooks.values()), f"{call_id} has passed a hook"

    async def say(self, number: int, message: dict[str, object]) -> None:
        """One line, where there is still somebody to say it to."""
        if not self.is_shut[number]:
            with suppress(trio.BrokenResourceError):
                await self.agents[number].say(message)

    async def ask(self, number: int, pick: int, **fields: object) -> None:
        if not self.is_shut[number]:
            call_id, deadline_s = f"c{len(self.requests)}", float(str(fields.pop("deadline_s", "inf")))
            # Mostly equal ones, so that caches and flights have something to do.
            value = int(pick % 4 == 3)
            self.requests[call_id] = Request(number, value, trio.current_time() + deadline_s)
            if deadline_s < math.inf:
                fields["deadline_ms"] = round(deadline_s * 1000)
            await self.say(number, {"id": call_id, "name": f"t{pick // 4 % 2}", "input": value, **fields})

    async def answer(self, pick: int) -> None:
        """Say yes or no to a question, for once or for longer."""
        if not self.questions:
            return
        number, question = self.questions.pop(pick % len(self.questions))
        allow, remember = pick % 4 != 0, (False, False, True, "tool")[pick // 4 % 4]
        if allow:
            self.approved.add(self.jobs.get((number, question["call"]), question["call"]))
        if allow and remember:
            self.remembered.add((number, None if remember == "tool" else question["input"]))
        verdict = {"__port": "approve_resp", "id": question["id"], "allow": allow, "remember": remember}
        await self.say(number, verdict)

    async def act(self, act: Act) -> None:
        action, number, pick = act
        match action:
            case "call":
                await self.ask(number, pick)
            case "deadline":
                await self.ask(number, pick, deadline_s=1 + pick % 15)
            case "background":
                await self.ask(number, pick, background=True)
            case "cancel":
                mine = [call_id for call_id, request in self.requests.items() if request.agent == number]
                if mine:
                    await self.say(number, {"__port": "tool_cancel", "id": mine[pick % len(mine)]})
            case "answer":
                await self.answer(pick)
            case "end of input" | "bye" | "gone" | "drain" | "abort":
                if not self.is_shut[number] and pick % 3 == 0:
                    await self.end(action, number)
            case _:
                await self.happen(action, pick)

    # --- what an agent has no hand in ---

    async def happen(self, action: str, pick: int) -> None:
        match action:
            case "finish":
                self.finish(self.tools, pick)
            case "hook":
                self.finish(self.hooks.values(), pick)
            case "clear":
                self.runtime.state.answers.clear("s")
            case "time":
                await self.settle()
                self.clock.jump((0.5, 1.0, 1.0, 2.5, 2.5, 5.0, 12.0, 31.0)[pick % 8])
                await self.settle()
            case _:
                await self.settle()

    def finish(self, plans: Iterable[WaitingPlan], pick: int) -> None:
        running = [(plan, call) for plan in plans for call in plan.running]
        if running:
            plan, call = running[pick % len(running)]
            plan.finish(call, hook_says(pick) if isinstance(plan, HookPlan) else self.tool_says(call, pick))

    def tool_says(self, call: Call, pick: int) -> Outcome:
        """Mostly an answer that names whose it is, which may be long; else a failure."""
        context, kind = call.context, pick // 7 % 6
        if kind == 0 or (kind == 1 and self.drawn.is_retried):
            return DEAD
        whose = f"{context.profile}/{context.account.uid}/{call.id}"
        return Answer(f'"{whose}{"x" * 200 * (kind == 1)}"', is_error=kind == 2)

    async def end(self, ending: str, number: int) -> None:
        agent = self.agents[number]
        await wait_all_tasks_blocked()
        self.is_shut[number] = True
        match ending:
            case "end of input":
                await agent.end_input()
            case "bye":
                await agent.say({"__port": "bye"})
            case "gone":
                self.readers[number].cancel()
                await agent.stop_listening()
                # The next line that cannot be written shows it.
                with suppress(trio.BrokenResourceError):
                    await agent.say({"__port": "ping"})
                await agent.end_input()
            case "drain":
                agent.host.drain()
            case _:
                agent.host.abort()

    async def settle(self) -> None:
        await wait_all_tasks_blocked()
        now = trio.current_time()
        for call_id, request in self.requests.items():
            if not self.is_shut[request.agent]:
                assert request.answer is not None or now < request.until, f"{call_id} is later than its deadline"
                assert not request.is_told or call_id in self.started, f"{call_id} is told to have started"
        for context in self.contexts:
            for purse in () if context.budget is None else context.budget._purses(None):
                assert min(purse.calls, purse.bytes, purse.tokens) >= 0

    async def finish_everything(self) -> None:
        """Let all that runs come to its end, and every channel to its own."""
        for number in range(len(AGENTS)):
            if not self.is_shut[number]:
                await self.end("end of input", number)
        for number in range(MAX_ROUNDS):
            await wait_all_tasks_blocked()
            if all(agent.closings for agent in self.agents):
                break
            for plan in (*self.hooks.values(), *self.tools):
                # All kinds of answers of tools in turn; hooks let them go on.
                self.finish([plan], 21 + 77 * number)
            self.clock.jump(1.0)
        assert [agent.closings for agent in self.agents] == [1] * len(AGENTS)
        await wait_all_tasks_blocked()
        self.check_nothing_left()

    def check_nothing_left(self) -> None:
        state, policies = self.runtime.state, self.runtime.state.policy
        heard = [request for request in self.requests.values() if not self.readers[request.agent].cancel_called]
        assert all(request.answer is not None for request in heard), "a request has no answer"
        assert [probe.order.name for probe in self.probes if probe.inside] == []
        assert [name for (name, _), gate in policies._queues.items() if not gate.is_empty] == []
        assert policies.exclusives._gates == {}
        assert len(state.flights) == 0
        assert [watched for watched in self.breakers if watched._inside or watched.breaker._trying] == []
        assert all(0 <= budget._left <= AT_ONCE for budget in policies._budgets.values())
        assert len(self.runtime.services.timer) == 0
        assert state.memory.held == state.answers.held
        assert self.runtime.services.spool.quota.held == 0
        assert not self.runtime.services.home.child_tasks
        for context, ran in self.contexts.items():
            assert context.places.is_empty
            assert context.asides.is_empty
            for purse in () if context.budget is None else context.budget._purses(None):
                assert purse.calls == purse._calls - ran, "a call that ran was not counted once"


def hook_says(pick: int) -> Outcome:
    """Mostly to go on; else a refusal, another tool, a failure, a lie."""
    says = ("null", "null", "null", "null", '{"refuse":"no"}', '{"name":"t1"}', "true")[pick % 7]
    return BROKEN if pick % 11 == 0 else Answer(says)


async def play(drawn: Drawn, acts: list[Act], clock: MockClock, spool: Path) -> None:
    async with open_runtime(drawn.catalog(), spool=spool) as runtime, trio.open_nursery() as nursery:
        played = Play(runtime, clock, drawn)
        try:
            for number in range(len(AGENTS)):
                nursery.start_soon(played.listen, number)
                await played.open(number)
            for act in acts:
                await played.act(act)
            await played.finish_everything()
        finally:
            # Where something was wrong, time goes on by itself: what is shielded must come to its end too.
            clock.autojump_threshold = 0


# An answer is kept, and whoever asks for it again is told no.
DENIED: Final[list[Act]] = [
    *[("call", 0, 0), ("settle", 0, 0), ("answer", 0, 1), ("settle", 0, 0), ("finish", 0, 21)],
    *[("call", 0, 0), ("settle", 0, 0), ("answer", 0, 0)],
]


@given(drawn=DRAWN, acts=st.lists(ACTS, min_size=20, max_size=80), schedule=st.random_module())
@example(drawn=Drawn(asks=True, caching=Caching(60.0)), acts=DENIED, schedule=None)
@settings(max_examples=EXAMPLES, deadline=None, print_blob=True)
def test_steps_hold_what_they_promise_whatever_comes(drawn: Drawn, acts: list[Act], schedule: object) -> None:
    note(f"schedule: {schedule}")
    clock = MockClock()
    with TemporaryDirectory() as spool:
        trio.run(play, drawn, acts, clock, Path(spool), clock=clock)
        assert list(Path(spool).iterdir()) == []
