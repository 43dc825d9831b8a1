"""Calls that could each wait for what the other has: found when the configuration is read. Pure.

    a call in queue a ──has it while it waits for──▶ a call below it, in queue b

A call comes to its queues in the order of the file, then to its exclusive names in that of the alphabet; an agent
process has its place among agents before that. Below it are the stages of its chain, and what the agents that it
starts call. Each arrow is from what a call has to what may be waited for meanwhile, so a way back is a mistake. What is
only seen when calls come (a program calls tools over a channel of its own) ends at its deadline.
"""

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Final

from tooldispatchd.catalog.callgraph import PROCESS, TOOL, Node, reached, set_going
from tooldispatchd.catalog.policy import CallPolicy, policy_of
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.servers import Binding, server_tool
from tooldispatchd.catalog.specs import Config

# What is waited for: "queue" or "exclusive", and its name.
Place = tuple[str, str]

AGENTS: Final[Place] = ("the places of", "agents")


def find_deadlocks(config: Config, profiles: Mapping[str, Profile], servers: Mapping[str, Binding]) -> list[Problem]:
    """A problem for each tool whose calls could wait for themselves; else one for the first way back that is found."""
    return _Deadlocks(config, profiles, servers).find()


class _Deadlocks:
    def __init__(self, config: Config, profiles: Mapping[str, Profile], servers: Mapping[str, Binding]) -> None:
        self._config = config
        self._profiles = profiles
        self._servers = servers
        # What may be waited for by who has each, and in a call of which tool, process or server.
        self._waits: dict[Place, dict[Place, str]] = {}

    def find(self) -> list[Problem]:
        config = self._config
        problems = [problem for name in config.tools for problem in self._in_tool(name)]
        for name, process in config.processes.items():
            if process.kind == "agent":
                self._add_below(AGENTS, (PROCESS, name))
        for profile in self._profiles.values():
            self._in_profile(profile)
        if problems:
            return problems
        try:
            TopologicalSorter({place: set(waits) for place, waits in self._waits.items()}).prepare()
        except CycleError as error:
            # It goes against the arrows.
            return [self._way_back(error.args[1][::-1])]
        return []

    def _in_tool(self, tool: str) -> Iterator[Problem]:
        """What a call of the tool has while others below it wait."""
        places = self._of_tool(tool)
        self._add_row(places, tool)
        for has in places:
            self._add_below(has, (TOOL, tool))
        told: set[Place] = set()
        for below, by in self._below((TOOL, tool)) if places else ():
            if below in places and below != AGENTS and below not in told:
                told.add(below)
                why = f"a call of {tool} has {_named(below)}, for which {by} would wait, that is called below it"
                yield Problem(("tools", tool), why, allowed="one of the two alone")

    def _in_profile(self, profile: Profile) -> None:
        """All calls have the profile's queue; those below pass that one, and wait for others."""
        spec = self._config.profile_spec(profile.name)
        if spec is None or spec.queue is None:
            return
        for tool in profile.tools:
            self._add_row(self._of_tool(tool, profile.name), tool)
            self._add_below(("queue", spec.queue), (TOOL, tool))
        for use in profile.servers:
            self._add_row(_places(policy_of(self._config, spec, server=self._servers[use.server])), use.server)

    def _below(self, top: Node) -> Iterator[tuple[Place, str]]:
        """What calls below a tool or a process wait for, and which."""
        config = self._config
        # The process that a tool is made of is not below it, and agents start no others where `agent_depth` is 1.
        own = (PROCESS, config.tools[top[1]].process) if top[0] == TOOL else top
        stages = frozenset(set_going(top[1], config)) if top[0] == TOOL else frozenset()
        may_nest = config.limits.agent_depth > 1
        for node in reached(top, config):
            kind, name = node
            if kind == TOOL:
                yield from ((place, name) for place in self._of_tool(name) if place != AGENTS)
                continue
            if config.processes[name].kind == "agent" and node != own and (may_nest or node in stages):
                yield AGENTS, name
            profile = self._profiles.get(name)
            for use in profile.servers if profile is not None and config.processes[name].is_profile else ():
                policy = policy_of(config, None, server=self._servers[use.server])
                yield from ((place, use.server) for place in _places(policy))

    def _of_tool(self, name: str, profile: str = "") -> list[Place]:
        """What a call of a declared tool comes to, in its order."""
        config = self._config
        spec = config.tools[name]
        at = server_tool(name, spec, self._servers)
        server = None if at is None else self._servers.get(at.binding)
        process = None if spec.process is None else config.processes.get(spec.process)
        first = [AGENTS] if process is not None and process.kind == "agent" else []
        return [*first, *_places(policy_of(config, config.profile_spec(profile), tool=name, server=server))]

    def _add_below(self, has: Place, top: Node) -> None:
        for below, by in self._below(top):
            self._add(has, below, by)

    def _add_row(self, places: list[Place], by: str) -> None:
        for first, second in pairwise(places):
            self._add(first, second, by)

    def _add(self, has: Place, waits: Place, by: str) -> None:
        if has != waits:
            self._waits.setdefault(has, {}).setdefault(waits, by)

    def _way_back(self, way: list[Place]) -> Problem:
        steps = [
            f"a call that has {_named(has)} may wait for {_named(waits)} (in {self._waits[has][waits]})"
            for has, waits in pairwise(way)
        ]
        return Problem(self._path(way), f"calls could wait for one another: {'; '.join(steps)}")

    def _path(self, way: list[Place]) -> Path:
        place = next(place for place in way if place != AGENTS)
        if place[0] == "queue":
            return "queues", place[1]
        tools = (("tools", name) for name in self._config.tools if place in self._of_tool(name))
        servers = (("mcp", name) for name, server in self._servers.items() if server.spec.exclusive == place[1])
        return next(tools, None) or next(servers)


def _places(policy: CallPolicy) -> list[Place]:
    return [*(("queue", name) for name in policy.queues), *(("exclusive", name) for name in policy.exclusive)]


def _named(place: Place) -> str:
    return f"{place[0]} {place[1]}"
