"""What a declared tool sets going: the graph of tools, processes and agents. Pure.

    agent ──may call──▶ tool ──is made of──▶ process ──chains, lifts──▶ process, tool … ──▶ agent

An agent process that names `tools` or `mcp` is offered tools of its own; what a server does with a call is not known
here. How deep agents may call agents is bounded in any case (`limits.agent_depth`); a way back is a mistake of the
configuration, which would only ever end at that bound.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Final

from tooldispatchd.catalog.choosing import aliases_of, declared_names
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.specs import Config

# A tool and a process may have one name.
Node = tuple[str, str]

TOOL: Final = "tool"
PROCESS: Final = "process"

LIFT: Final = re.compile(r"lift\(\s*(?P<tool>[^()\s]+)\s*\)")
"""How a chain names a tool that it runs over every message."""


def set_going(tool: str, config: Config) -> Iterator[Node]:
    """A declared tool, and the tools and processes that a call of it runs, each once; not what its agents call."""
    seen: set[Node] = set()
    # The next one last.
    waiting: list[Node] = [(TOOL, tool)]
    while waiting:
        node = waiting.pop()
        if node in seen or node[1] not in (config.tools if node[0] == TOOL else config.processes):
            continue
        seen.add(node)
        yield node
        if node[0] == TOOL or config.processes[node[1]].kind != "agent":
            waiting += reversed(tuple(_next(node, config)))


def reached(top: Node, config: Config) -> Iterator[Node]:
    """All tools and processes that come of a tool or a process, those that its agents may call too; each once."""
    seen: set[Node] = {top}
    waiting = deque([top])
    while waiting:
        for node in _next(waiting.popleft(), config):
            if node not in seen and node[1] in (config.tools if node[0] == TOOL else config.processes):
                seen.add(node)
                waiting.append(node)
                yield node


def needs(tool: str, config: Config) -> tuple[str, ...]:
    """The tools that the chains of a tool lift, and those that theirs do; each once, in the order they come."""
    return tuple(name for kind, name in set_going(tool, config) if kind == TOOL and name != tool)


def agents_started(tool: str, config: Config) -> tuple[str, ...]:
    """The agents with tools of their own that a call of a declared tool may start, itself or in its chains.

    Those that these agents may start in turn are not among them. Each once, in the order they come.
    """
    started = (name for kind, name in set_going(tool, config) if kind == PROCESS)
    return tuple(name for name in started if config.processes[name].is_profile)


def default_call_s(tool: str, config: Config) -> float:
    """The limit of a declared tool without one of its own, in seconds; agent processes take their time."""
    return config.limits.agent_s if runs_agents(tool, config) else config.limits.call_s


def runs_agents(tool: str, config: Config) -> bool:
    """Whether a call of a declared tool runs an agent process, itself or in its chains."""
    return any(kind == PROCESS and config.processes[name].kind == "agent" for kind, name in set_going(tool, config))


def find_cycles(config: Config) -> list[Problem]:
    """A problem for each agent that may call itself, with the shortest way back; one way is told once.

    Time and memory are linear in the configuration where there is no way back.
    """
    nodes: Iterable[Node] = [*((PROCESS, name) for name in config.processes), *((TOOL, name) for name in config.tools)]
    graph = {node: tuple(dict.fromkeys(_next(node, config))) for node in nodes}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        pass  # Perhaps one of chains alone, of which the processes tell.
    else:
        return []
    problems: list[Problem] = []
    aliases = aliases_of(config)
    told: set[str] = set()
    for name, spec in config.processes.items():
        way = [] if name in told or not spec.is_profile else _way_back((PROCESS, name), graph)
        if not way:
            continue
        told.update(step for kind, step in way if kind == PROCESS)
        tool = way[1][1]
        why = f"an agent cannot lead back to itself: {' -> '.join(step for _, step in way)}"
        places = (
            place for place, entry in enumerate(spec.tools or ()) if tool in declared_names(entry, config, aliases)
        )
        place = next(places)
        problems.append(Problem(("processes", name, "tools", place), why, value=tool))
    return problems


def _next(node: Node, config: Config) -> Iterator[Node]:
    """What a tool is made of, what stands in a chain, what an agent may call; nothing where a name is nothing."""
    kind, name = node
    if kind == TOOL:
        tool = config.tools.get(name)
        if tool is not None and tool.process is not None:
            yield PROCESS, tool.process
        return
    process = config.processes.get(name)
    if process is None:
        return
    if process.kind == "agent":
        # One with a colon is a server's.
        aliases = aliases_of(config) if process.tools else {}
        yield from ((TOOL, tool) for entry in process.tools or () for tool in declared_names(entry, config, aliases))
        return
    for entry in process.chain or ():
        lifted = LIFT.fullmatch(entry)
        yield (PROCESS, entry) if lifted is None else (TOOL, lifted["tool"])


def _way_back(start: Node, graph: dict[Node, tuple[Node, ...]]) -> list[Node]:
    """The shortest way from `start` to itself, with it at both ends; empty where there is none."""
    came_from: dict[Node, Node] = {}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        for target in graph.get(node, ()):
            if target == start:
                way = [start, node]
                while way[-1] != start:
                    way.append(came_from[way[-1]])
                return way[::-1]
            if target not in came_from:
                came_from[target] = node
                waiting.append(target)
    return []
