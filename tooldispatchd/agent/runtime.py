"""What all sessions of the daemon share: the catalog, the timer, the children, the bounds, and the log."""

from collections.abc import Callable, Hashable, Mapping
from typing import Final, Protocol

import trio

from tooldispatchd.agent.call import Call, Plan, Starter
from tooldispatchd.agent.checking import Checking
from tooldispatchd.agent.entrance import Authenticator
from tooldispatchd.agent.lineage import Levels
from tooldispatchd.agent.log import Log
from tooldispatchd.agent.places import FairLimiter
from tooldispatchd.agent.profilekeys import ProfileKeys
from tooldispatchd.agent.programs import Programs
from tooldispatchd.agent.reusing import Reusers
from tooldispatchd.agent.sharing import Sharing
from tooldispatchd.calls.census import Census
from tooldispatchd.calls.gate import Gate
from tooldispatchd.calls.hints import Hints
from tooldispatchd.calls.memory import Memory, Share
from tooldispatchd.calls.refusals import Refusals
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.checkers.pool import CHECKERS, Checkers
from tooldispatchd.children.family import Family
from tooldispatchd.front.timer import Timer
from tooldispatchd.providers.mcp.remembered import Eras, ToolLists
from tooldispatchd.providers.mcp.ways import Authorizers
from tooldispatchd.wire.faults import Fault

# Four children a core keep the cores busy while some of them wait, and are few enough to be run in time.
PROCESSES_A_CORE: Final = 4

# What a socket takes at once from whoever reads; an answer over it may lie here for as long as its agent likes.
LARGE_BYTES: Final = 64 * 1024


class SessionChannel(Protocol):
    """The channel's side of a session."""

    share: Share
    """What it holds of the daemon's memory."""

    def crowding(self, size: int) -> Fault | None:
        """Why an answer of `size` bytes cannot be sent now."""

    def fit(self, content: str) -> str | Fault:
        """An answer, or why there is no room for one that may not be taken at once."""

    gate_key: Hashable
    """What gates know the channel by; one for all channels of a foreign user, and for all agents below one agent."""

    def has_answered(self, size: int) -> None:
        """An answer of `size` bytes lies among the outgoing lines."""

    @property
    def is_behind(self) -> bool:
        """Whether some of what was sent has not been taken yet."""

    def flush(self) -> None:
        """Send what lies in the machine's outgoing lines."""

    def closed(self, agent: str | None) -> None:
        """Nothing of the session is left; `agent` is its name, None for the channel's own."""


class Owed(Protocol):
    """What has been asked for something since the last flush."""

    def flush(self) -> None:
        """Send it."""


class Runtime:
    """One for the daemon.

    `home` is the nursery that sessions' tasks live in; `processes` shares the places for children between agents, and
    `opening` those for MCP servers that start; `uid` is the daemon's own user. `logs_calls` is false where the log
    drops what is said of a call. `agent_specs` are the paths of the files that tell an agent process without a command
    of its own what it is, by its name.
    """

    def __init__(  # the daemon's parts, put together in one place
        self,
        catalog: Catalog,
        *,
        timer: Timer,
        family: Family,
        home: trio.Nursery,
        log: Log,
        logs_calls: bool,
        cores: int,
        uid: int,
        agent_specs: Mapping[str, str] = {},
        accounts: Authorizers | None = None,
    ) -> None:
        limits = catalog.config.limits
        self.catalog = catalog
        self.limits = limits
        self.timer = timer
        self.family = family
        self.programs = Programs(family)
        self.programs.reuser = Reusers(self.programs, home)
        # How tools with `python` are planned, where there are any: by what only then is imported.
        self.python_plan: Callable[[DeclaredTool, Profile], Plan] | None = None
        self.home = home
        self.log = log
        self.logs_calls = logs_calls
        self.agent_specs = agent_specs
        self.accounts = accounts
        self.starter = Starter()
        self.processes: Gate[Call] = Gate(limits.processes or PROCESSES_A_CORE * cores)
        # Agents have places of their own: one of them may wait for a tool that needs one of the others.
        self.agents: Levels[Call] = Levels(limits.processes or PROCESSES_A_CORE * cores)
        self.opening = FairLimiter(limits.mcp_opening)
        self.checkers = Checkers(family, FairLimiter(CHECKERS))
        self.checking = Checking(self.checkers)
        self.is_draining = False
        self.sessions = 0  # opened so far; numbers them in the log
        # A user at home, or root, could stop the daemon anyway.
        self.open_sessions = Census({uid, 0})
        self.authenticator = Authenticator(catalog, own_uid=uid)
        self.refusals = Refusals()
        self.hints = Hints()
        self.memory = Memory(limits.buffered_bytes)
        # Servers whose requests are queued: each is told in one write, at the end of the turn that queued them.
        self.owed: set[Owed] = set()
        # What servers speak and which tools they have, as far as any connection has found out.
        self.eras = Eras()
        self.tool_lists = ToolLists()
        self.sharing = Sharing(home, log)
        self.profile_keys = ProfileKeys(catalog.profiles)
        self._plans: dict[str, dict[str, Plan]] = {}

    def flush(self) -> None:
        """Send the requests that servers are owed, each server's in one write."""
        while self.owed:
            self.owed.pop().flush()

    def roots(self, profile: str) -> tuple[str, ...]:
        """The directories that the profile's servers are told of, as `file://` URIs."""
        spec = self.catalog.config.agents.get(profile)
        return () if spec is None else spec.roots

    def offers_resources(self, profile: str) -> bool:
        """Whether resources and prompts are offered of every server that the profile offers whole."""
        spec = self.catalog.config.agents.get(profile)
        return spec is not None and spec.mcp_resources

    def plans(self, key: str, compile_plans: Callable[["Runtime", str], dict[str, Plan]]) -> dict[str, Plan]:
        """The plans of a profile's declared tools, compiled for its first session and shared by all of them.

        `key` is of `profile_keys`.
        """
        plans = self._plans.get(key)
        if plans is None:
            plans = self._plans[key] = compile_plans(self, key)
        return plans
