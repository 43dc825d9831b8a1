"""What sessions share: a generation, and what outlives it.

    configuration ──▶ Setup ──▶ Runtime      one generation: what is made of one reading of the configuration
                                  │ │
                                  │ └──▶ DaemonState    places, memory, counts  ┐ one for the daemon
                                  └────▶ Services       what runs calls         ┘

A session that opens is of the latest generation, and stays of that one until it ends.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

import trio

from tooldispatchd.agent.calls.call import Call, Plan
from tooldispatchd.agent.calls.checking import Checking
from tooldispatchd.agent.calls.spool import MakeDirectory, Spool
from tooldispatchd.agent.calls.starter import Starter
from tooldispatchd.agent.calls.step import Step
from tooldispatchd.agent.programs.programs import Lent, Programs
from tooldispatchd.agent.session.administration import AdminSide
from tooldispatchd.agent.session.approvers import Approvers, AskedSession
from tooldispatchd.agent.session.lineage import Levels
from tooldispatchd.agent.setup import Setup
from tooldispatchd.agent.steps.auditing import AuditSink
from tooldispatchd.agent.steps.gates import GateStep, ProgramStep
from tooldispatchd.agent.steps.hooks import Hooks
from tooldispatchd.agent.steps.policysteps import PolicyState, PolicySteps
from tooldispatchd.agent.tools.sharing import Sharing
from tooldispatchd.calls.answercache import AnswerCache
from tooldispatchd.calls.budget import IdleBudgets
from tooldispatchd.calls.census import Census
from tooldispatchd.calls.flights import Flights
from tooldispatchd.calls.gate import Gate, GateVerdict, Turns, kept_of
from tooldispatchd.calls.hints import Hints
from tooldispatchd.calls.memory import Holding, Memory
from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.calls.recent import RecentCalls
from tooldispatchd.calls.refusals import Refusals
from tooldispatchd.calls.stages import StepOrder
from tooldispatchd.calls.tally import Tallies
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.checkers.pool import CHECKERS, Checkers
from tooldispatchd.children.family import Family
from tooldispatchd.front.timer import Timer
from tooldispatchd.providers.mcp.link import AccountTokens
from tooldispatchd.providers.mcp.stdio import PipeWatch
from tooldispatchd.wire.faults import Fault


class FairLimiter:
    """At most `number` tasks are inside; those that wait are let in by turns."""

    def __init__(self, number: int) -> None:
        self._gate: Gate[trio.Event] = Gate(number, kept=kept_of(number))

    @asynccontextmanager
    async def of(self, turns: Turns) -> AsyncIterator[None]:
        """A place for one task: entering waits for it, leaving gives it back."""
        let_in = trio.Event()
        is_in = self._gate.enter(let_in, turns) is GateVerdict.IN
        try:
            if not is_in:
                await let_in.wait()
            yield
        finally:
            for following in self._gate.leave(let_in):
                following.set()


# Four children a core keep the cores busy while some of them wait, and are few enough to be run in time.
PROCESSES_A_CORE: Final = 4
# Jobs that may be servers mostly sleep: eight for each place of a program, of which one agent has as many as a project
# has servers, watchers and builds at a time.
BESIDE_A_PLACE: Final = 8
BESIDE_PER_AGENT: Final = 4


class Lender(Protocol):
    """Gives children that are agents a channel to call tools on."""

    async def open(self, runtime: "Runtime", call: Call, profile: str) -> Lent | Fault | None:
        """A channel that lasts until it is closed; why there is none, or None where agents have none."""


class PythonPlanner(Protocol):
    """Makes the plans of tools with `python`."""

    def plan(self, runtime: "Runtime", tool: DeclaredTool, profile: Profile) -> Plan:
        """The plan of one tool, as agents of `profile` call it."""

    def keep(self, setups: Iterable[Setup]) -> None:
        """From now on tools of these alone are called."""

    def start(self, setup: Setup) -> None:
        """Start the warm parents of profiles with `warm`, or all where code is watched, which takes its time."""


class RestPlanner(Protocol):
    """Makes the plans of tools with `rest`."""

    def plan(self, runtime: "Runtime", tool: DeclaredTool) -> Plan:
        """The plan of one tool."""

    def keep(self, setups: Iterable[Setup]) -> None:
        """From now on tools of these alone are called."""


class Flushable(Protocol):
    """A server with requests that are queued and not yet sent; or events of an agent."""

    def flush(self) -> None:
        """Send them."""


class Services:
    """What runs the calls of all sessions, of whichever generation.

    `home` is the nursery that sessions' tasks live in. `lender`, `python`, `rest` and `accounts` are set when a
    configuration needs them; `audit` is None where calls are not recorded. `opening` shares the places of MCP
    servers that start, `listing` the one place of those that go through many tools. Each call that waits takes
    `steps`, whatever its tool. Of `setup` it takes what holds for all generations.
    """

    def __init__(
        self,
        setup: Setup,
        *,
        timer: Timer,
        home: trio.Nursery,
        family: Family,
        checking: Checking | None = None,
        audit: AuditSink | None = None,
        make_spool: MakeDirectory | None = None,
        steps: tuple[Step, ...] = (),
        front: PipeWatch | None = None,
    ) -> None:
        self.timer: Final = timer
        self.home: Final = home
        self.family: Final = family
        self.programs: Final = Programs(family)
        self.lender: Lender | None = None
        self.front: Final = front
        self.python: PythonPlanner | None = None
        self.rest: RestPlanner | None = None
        self.accounts: AccountTokens | None = None
        self.checkers: Final = Checkers(family, FairLimiter(CHECKERS))
        self.checking: Final = checking or Checking(self.checkers)
        self.opening: Final = FairLimiter(setup.limits.mcp_opening)
        self.sharing: Final = Sharing(home, setup.log, max_idle=setup.limits.mcp_processes)
        self.listing: Final = FairLimiter(1)
        self.audit: Final = audit
        # Made after this, since it shows the whole daemon; None where nobody may administer it.
        self.admin: AdminSide | None = None
        self.starter: Final[Starter[Call]] = Starter(timer)
        self.spool: Final = Spool(make_spool, setup.limits.all_stored_bytes, home)
        self.steps: Final = steps


class DaemonState:
    """What all agents share and what changes while the daemon runs: places, memory, counts.

    `processes` shares the places for children between agents, `beside` those for jobs that may run for hours; agents
    that are children have places of their own in `agents`, since one of them may wait for a tool that needs one of the
    others. The steps are those by which a call has such a place. Of `setup` it takes what holds for all generations.
    """

    def __init__(self, setup: Setup, *, cores: int, uid: int, memory: Memory | None = None) -> None:
        places = setup.limits.processes or PROCESSES_A_CORE * cores
        self.processes: Final[Gate[Call]] = Gate(places, kept=kept_of(places))
        self.agents: Final[Levels[Call]] = Levels(places)
        beside = places * BESIDE_A_PLACE
        self.beside: Final[Gate[Call]] = Gate(beside, kept=kept_of(beside), per_agent=BESIDE_PER_AGENT)
        self.program_place: Final = ProgramStep(self.processes, self.beside)
        self.agent_place: Final = GateStep(
            StepOrder.AGENT_PLACE, "agents", lambda context: self.agents.at(context.lineage.depth)
        )
        self.policy: Final = PolicyState()
        self.approvers: Final = Approvers()
        self.memory: Final = memory or Memory(setup.limits.buffered_bytes)
        # Answers that may be given again, and calls under way that equal ones wait for; of no agent's share.
        self.answers: Final = AnswerCache(setup.catalog.config.cache.bytes, Holding(self.memory.share(None)))
        self.flights: Final[Flights[Call, tuple[Outcome, float]]] = Flights()
        # The daemon's own user, or root, could stop it anyway: their sessions are not bounded one by one.
        self.open_sessions: Final = Census({uid, 0})
        # Processes of servers by the `gate_key` of the channel that has them.
        self.servers: Final = Census()
        self.budgets: Final = IdleBudgets()
        # By user, for the log; and by program, whose next channels wait.
        self.refusals: Final = Refusals()
        self.guesses: Final = Refusals()
        # Of lines that there was no memory for.
        self.unheld: Final = Refusals()
        # Functions that raised, by their tool.
        self.raised: Final = Refusals()
        # Sessions whose servers did not come up, and connections to servers that did not, by the server's name.
        self.unopened: Final = Refusals()
        self.unavailable: Final = Refusals()
        self.hints: Final = Hints()
        self.tallies: Final = Tallies()
        self.recent: Final = RecentCalls()
        # Servers whose requests are queued: each is told in one write, at the end of the turn that queued them.
        self.owed: Final[set[Flushable]] = set()
        self.sessions = 0  # opened so far; numbers them in the log
        # Likewise: lines that were refused, and bytes of all channels.
        self.refused_lines = self.bytes_in = self.bytes_out = 0
        # The open ones by that number, those of agents that agents called too: each a `Session`, which stands above.
        self.opened: Final[dict[int, AskedSession]] = {}
        self.is_draining = False


class Runtime:
    """One generation: what it was configured with, its plans and their steps, and what it shares with all others."""

    def __init__(self, setup: Setup, services: Services, state: DaemonState) -> None:
        self.setup: Final = setup
        self.services: Final = services
        self.state: Final = state
        catalog = setup.catalog
        self.policies: Final = PolicySteps(catalog.config, catalog.rules, catalog.masker, state.policy)
        self.hooks: Final = Hooks(catalog.config.hooks, setup.log)
        self._plans: dict[str, dict[str, Plan]] = {}
        # By key, what compiles the rest of those that are not all there yet.
        self.planning: dict[str, Iterator[dict[str, Plan] | None]] = {}
        self._sessions = 0
        self._left: Callable[[list[Plan]], None] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no session is of it."""
        return not self._sessions

    @property
    def planned(self) -> tuple[str, ...]:
        """The keys of profiles whose plans are compiled."""
        return tuple(key for key in self._plans if key in self.setup.catalog.profiles)

    def enter(self) -> None:
        """One more session is of it."""
        self._sessions += 1

    def leave(self) -> None:
        """One session less is of it."""
        self._sessions -= 1
        self._check_left()

    def retire(self, left: Callable[[list[Plan]], None]) -> None:
        """It is not the latest any more; `left` is given its plans once no session is of it, now or later."""
        self._left = left
        self._check_left()

    def _check_left(self) -> None:
        if self._left is not None and not self._sessions:
            left, self._left = self._left, None
            plans = [plan for each in self._plans.values() for plan in each.values()]
            # They hold this: else all of it would stay until a collection.
            self._plans.clear()
            self.planning.clear()
            left(plans)

    def has_plans(self, key: str) -> bool:
        """Whether the plans of that key are compiled."""
        return key in self._plans

    def plans(self, key: str, compile_plans: Callable[["Runtime", str], dict[str, Plan]]) -> dict[str, Plan]:
        """The plans of a profile's declared tools, compiled for its first session and shared by all of them.

        `key` is one of `setup.profile_keys`.
        """
        plans = self._plans.get(key)
        if plans is None:
            plans = self._plans[key] = compile_plans(self, key)
            self.planning.pop(key, None)
        return plans
