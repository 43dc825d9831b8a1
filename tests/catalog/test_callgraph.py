"""Agents that would call themselves are found when the configuration is read, on whatever way."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.callgraph import agents_started, default_call_s, find_cycles
from tooldispatchd.catalog.specs import Config, LimitsSpec, ProcessSpec, ToolSpec


def agent(*tools: str) -> ProcessSpec:
    return ProcessSpec(kind="agent", type="!json -> !json", command=("true",), tools=tools)


def chain(*entries: str) -> ProcessSpec:
    return ProcessSpec(kind="plumb", chain=entries)


def made_of(**processes: str) -> dict[str, ToolSpec]:
    return {name: ToolSpec(process=process) for name, process in processes.items()}


def ways(processes: Mapping[str, ProcessSpec], tools: Mapping[str, ToolSpec]) -> list[str]:
    problems = find_cycles(Config(processes=dict(processes), tools=dict(tools)))
    return [problem.why.removeprefix("an agent cannot lead back to itself: ") for problem in problems]


CYCLES = {
    "by its own tool": (
        {"researcher": agent("echo", "summarise")},
        made_of(summarise="researcher"),
        ["researcher -> summarise -> researcher"],
    ),
    "by a chain": (
        {"a": agent("t"), "line": chain("first", "a"), "first": ProcessSpec(kind="id")},
        made_of(t="line"),
        ["a -> t -> line -> a"],
    ),
    "by a tool that a chain lifts": (
        {"a": agent("t"), "line": chain("lift(u)")},
        made_of(t="line", u="a"),
        ["a -> t -> line -> u -> a"],
    ),
    "by another agent": (
        {"a": agent("b"), "b": agent("a")},
        made_of(a="a", b="b"),
        ["a -> b -> b -> a -> a"],
    ),
    "on the shorter of two ways": (
        {"a": agent("long", "short"), "line": chain("id", "a")},
        made_of(long="line", short="a"),
        ["a -> short -> a"],
    ),
    "each way once": (
        {"a": agent("t"), "b": agent("u")},
        made_of(t="a", u="b"),
        ["a -> t -> a", "b -> u -> b"],
    ),
}


@pytest.mark.parametrize(("processes", "tools", "expected"), CYCLES.values(), ids=CYCLES)
def test_a_way_back_is_named_whole(
    processes: Mapping[str, ProcessSpec], tools: Mapping[str, ToolSpec], expected: Sequence[str]
) -> None:
    assert ways(processes, tools) == expected


NO_CYCLES = {
    "one agent below another": ({"a": agent("t"), "b": agent("echo")}, made_of(t="b")),
    "an agent that may call nothing": (
        {"a": ProcessSpec(kind="agent", command=("true",)), "b": agent("t", "u")},
        made_of(t="a", u="a"),
    ),
    "a server cannot be seen through": ({"a": agent("docs:a")}, {}),
    "names that are nothing": ({"a": agent("t", "nothing"), "line": chain("missing", "lift(none)")}, made_of(t="line")),
    "a chain that leads back to itself without an agent": (
        {"a": agent("t"), "line": chain("line")},
        made_of(t="line"),
    ),
}


@pytest.mark.parametrize(("processes", "tools"), NO_CYCLES.values(), ids=NO_CYCLES)
def test_what_is_no_way_back_is_no_problem(processes: Mapping[str, ProcessSpec], tools: Mapping[str, ToolSpec]) -> None:
    assert ways(processes, tools) == []


def test_the_problem_stands_at_the_tool_with_which_the_way_begins() -> None:
    config = Config(processes={"a": agent("echo", "t")}, tools=made_of(t="a"))
    (problem,) = find_cycles(config)
    assert (problem.path, problem.value) == (("processes", "a", "tools", 1), "t")


def test_the_agents_that_a_tool_starts_are_those_of_its_chains_and_not_those_below_them() -> None:
    processes = {
        "a": agent("below"),
        "b": agent(),
        "c": ProcessSpec(kind="agent", command=("true",)),
        "line": chain("b", "c", "lift(t)"),
    }
    config = Config(processes=processes, tools=made_of(t="a", u="line", below="b", v="c"))
    assert {name: agents_started(name, config) for name in "tuv"} == {"t": ("a",), "u": ("b", "a"), "v": ()}


def test_tools_that_run_an_agent_themselves_or_in_a_chain_have_the_limit_of_agents() -> None:
    processes = {"a": agent(), "line": chain("a"), "by": ProcessSpec(kind="id", type="!json -> !json")}
    tools = made_of(t="a", u="line", v="by") | {"w": ToolSpec(command=("true",))}
    config = Config(processes=processes, tools=tools, limits=LimitsSpec(call_s=5, agent_s=50))
    assert {name: default_call_s(name, config) for name in "tuvw"} == {"t": 50, "u": 50, "v": 5, "w": 5}


EDGES = st.dictionaries(st.sampled_from("abcde"), st.lists(st.sampled_from("abcde"), max_size=3))


@given(EDGES)
def test_there_is_a_problem_exactly_where_an_agent_reaches_itself(edges: dict[str, list[str]]) -> None:
    processes = {name: agent(*edges.get(name, ())) for name in "abcde"}
    reached = {name: set(edges.get(name, ())) for name in "abcde"}
    for _ in reached:
        for found in reached.values():
            found.update(*(reached[name] for name in tuple(found)))
    told = " ".join(ways(processes, made_of(**{name: name for name in "abcde"})))
    assert bool(told) == any(name in found for name, found in reached.items())
