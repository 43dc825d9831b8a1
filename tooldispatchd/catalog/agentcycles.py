"""Agents that would call themselves: which agent a tool starts, and every way on which one leads back to itself. Pure.

    agent ──may call──▶ tool ──is made of──▶ process ──chains, lifts──▶ process, tool … ──▶ agent

An agent process that names `tools` or `mcp` is offered tools of its own; what a server does with a call nobody sees
here. How deep agents may call agents is bounded in any case (`limits.agent_depth`); a way back is a mistake of the
configuration, which would only ever end at that bound.
"""

from collections import deque
from collections.abc import Iterable, Iterator

from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.specs import Config
from tooldispatchd.catalog.wiring import LIFT

# A tool and a process may have one name.
Node = tuple[str, str]
Graph = dict[Node, tuple[Node, ...]]

TOOL = "tool"
PROCESS = "process"


def find_cycles(config: Config) -> list[Problem]:
    """A problem for each agent that may call itself, with the shortest way back; one way is told once.

    Time and memory are linear in the configuration where there is no such way.
    """
    graph = _on_cycles(_graph(config))
    problems: list[Problem] = []
    told: set[str] = set()
    for name in _agents(config):
        way = [] if name in told else _way_back((PROCESS, name), graph)
        if not way:
            continue
        told.update(step for kind, step in way if kind == PROCESS)
        tool = way[1][1]
        why = f"an agent cannot lead back to itself: {' -> '.join(step for _, step in way)}"
        place = (config.processes[name].tools or ()).index(tool)
        problems.append(Problem(("processes", name, "tools", place), why, value=tool))
    return problems


def agents_started(tool: str, config: Config) -> tuple[str, ...]:
    """The agents with tools of their own that a call of a declared tool may start, itself or in its chains.

    Those that these agents may start in turn are not among them. Each once, in the order they come.
    """
    agents = _agents(config)
    found: dict[str, None] = {}
    seen: set[Node] = set()
    waiting: list[Node] = [(TOOL, tool)]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node[0] == PROCESS and node[1] in agents:
            found[node[1]] = None
        else:
            waiting += reversed(tuple(_next(node, config)))
    return tuple(found)


def _agents(config: Config) -> dict[str, tuple[str, ...]]:
    """The agent processes that are profiles of their own, each with the tools that it may call."""
    return {
        name: spec.tools or ()
        for name, spec in config.processes.items()
        if spec.kind == "agent" and (spec.tools is not None or spec.mcp is not None)
    }


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
        yield from ((TOOL, entry) for entry in process.tools or () if entry in config.tools)
        return
    for entry in process.chain or ():
        lifted = LIFT.fullmatch(entry)
        yield (PROCESS, entry) if lifted is None else (TOOL, lifted["tool"])


def _graph(config: Config) -> Graph:
    nodes: Iterable[Node] = [
        *((PROCESS, name) for name in config.processes),
        *((TOOL, name) for name in config.tools),
    ]
    return {node: tuple(dict.fromkeys(_next(node, config))) for node in nodes}


def _on_cycles(graph: Graph) -> Graph:
    """The graph without what leads nowhere, and so is on no way back; mostly nothing is left."""
    into: dict[Node, list[Node]] = {}
    for node, following in graph.items():
        for target in following:
            into.setdefault(target, []).append(node)
    ways_on = {node: sum(target in graph for target in following) for node, following in graph.items()}
    ends = deque(node for node, number in ways_on.items() if not number)
    while ends:
        end = ends.popleft()
        del ways_on[end]
        for before in into.get(end, ()):
            ways_on[before] -= 1
            if not ways_on[before]:
                ends.append(before)
    return {node: tuple(target for target in graph[node] if target in ways_on) for node in ways_on}


def _way_back(start: Node, graph: Graph) -> list[Node]:
    """The shortest way from `start` to itself, with it at both ends; empty where there is none."""
    came_from: dict[Node, Node] = {}
    waiting = deque([start] if start in graph else ())
    while waiting:
        node = waiting.popleft()
        for target in graph[node]:
            if target == start:
                way = [start, node]
                while way[-1] != start:
                    way.append(came_from[way[-1]])
                return way[::-1]
            if target not in came_from:
                came_from[target] = node
                waiting.append(target)
    return []
