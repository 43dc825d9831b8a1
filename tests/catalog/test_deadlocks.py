"""Calls that could wait for themselves, or for one another, are found when the configuration is read."""

from collections.abc import Mapping

import pytest

from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.policyspec import QueueSpec
from tooldispatchd.catalog.restspecs import RestApiSpec, RestSpec
from tooldispatchd.catalog.specs import Config, LimitsSpec, McpSpec, ProcessSpec, ProfileSpec, ToolSpec

QUEUES = {name: QueueSpec(concurrent=1) for name in ("a", "b")}


def agent(*tools: str, mcp: tuple[str, ...] = ()) -> ProcessSpec:
    return ProcessSpec(kind="agent", type="!json -> !json", command=("true",), tools=tools, mcp=mcp)


def chain(*entries: str) -> ProcessSpec:
    return ProcessSpec(kind="plumb", type="!json -> !json", chain=entries)


def program(**keys: str) -> ToolSpec:
    return ToolSpec(command=("cat",), **keys)  # type: ignore[arg-type]  # only keys of texts


def made_of(process: str, **keys: str) -> ToolSpec:
    return ToolSpec(process=process, type="json -> json", **keys)  # type: ignore[arg-type]  # as above


def found(
    tools: Mapping[str, ToolSpec],
    processes: Mapping[str, ProcessSpec],
    profile: ProfileSpec | None = None,
    depth: int = 1,
) -> list[tuple[str, str]]:
    """Where each mistake stands, and what it is."""
    config = Config(
        limits=LimitsSpec(agent_depth=depth),
        queues=QUEUES,
        tools=dict(tools),
        processes=dict(processes),
        mcp={"s": McpSpec(command="x", queue="a")},
        rest={"api": RestApiSpec(base_url="http://x/", queue="a")},
        agents={"default": profile or ProfileSpec(tools=tuple(tools))},
    )
    built = build_catalog(config)
    return [] if isinstance(built, Catalog) else [(".".join(map(str, each.path)), each.why) for each in built]


def test_a_stage_that_would_wait_for_its_own_chain() -> None:
    tools = {"t": program(queue="a"), "c": made_of("line", queue="a")}
    why = "a call of c has queue a, for which t would wait, that is called below it"
    assert found(tools, {"line": chain("lift(t)")}) == [("tools.c", why)]


def test_a_stage_whose_api_has_the_queue_of_the_chain() -> None:
    request = ToolSpec(rest=RestSpec(api="api", path="/"), type="{x: int} -> json")
    tools = {"t": request, "c": ToolSpec(process="line", queue="a")}
    line = ProcessSpec(kind="plumb", type="!{x: int} -> !json", chain=("lift(t)",))
    why = "a call of c has queue a, for which t would wait, that is called below it"
    assert found(tools, {"line": line}) == [("tools.c", why)]


def test_a_stage_of_a_chain_within_the_chain() -> None:
    tools = {"t": program(exclusive="db"), "inner": made_of("short"), "c": made_of("line", exclusive="db")}
    processes = {"short": chain("lift(t)"), "line": chain("lift(inner)")}
    why = "a call of c has exclusive db, for which t would wait, that is called below it"
    assert found(tools, processes) == [("tools.c", why)]


def test_an_agent_whose_tool_or_server_would_wait_for_it() -> None:
    tools = {"t": program(queue="a"), "work": made_of("worker", queue="a")}
    assert [path for path, _ in found(tools, {"worker": agent("t")})] == ["tools.work"]
    assert [path for path, _ in found(tools, {"worker": agent(mcp=("s",))})] == ["tools.work"]
    assert found(tools, {"worker": agent()}) == []


def test_two_that_have_what_the_other_one_waits_for() -> None:
    tools = {
        "ta": program(queue="a"),
        "tb": program(queue="b"),
        "ca": made_of("to_b", queue="a"),
        "cb": made_of("to_a", queue="b"),
    }
    processes = {"to_b": chain("lift(tb)"), "to_a": chain("lift(ta)")}
    [(path, why)] = found(tools, processes)
    assert path in {"queues.a", "queues.b"}
    assert "a call that has queue a may wait for queue b (in tb)" in why
    assert "a call that has queue b may wait for queue a (in ta)" in why
    assert found({**tools, "cb": made_of("to_a")}, processes) == []


def test_the_order_within_one_call_counts() -> None:
    # A call of `both` has a, and waits for b; a call of `cb` has b, and its stage waits for a.
    tools = {"both": ToolSpec(mcp="s", queue="b"), "ta": program(queue="a"), "cb": made_of("to_a", queue="b")}
    [(_, why)] = found(tools, {"to_a": chain("lift(ta)")})
    assert why.startswith("calls could wait for one another: ")


def test_exclusive_names_are_waited_for_as_queues_are() -> None:
    tools = {
        "tx": program(exclusive="x"),
        "ty": program(exclusive="y"),
        "cx": made_of("to_y", exclusive="x"),
        "cy": made_of("to_x", exclusive="y"),
    }
    [(path, why)] = found(tools, {"to_y": chain("lift(ty)"), "to_x": chain("lift(tx)")})
    assert path.startswith("tools.")
    assert "exclusive x" in why


def test_a_chain_that_has_a_queue_while_it_waits_for_agents_that_wait_for_the_queue() -> None:
    tools = {"t": program(queue="a"), "work": made_of("worker"), "c": made_of("line", queue="a")}
    processes = {"worker": agent("t"), "idler": agent(), "line": chain("idler")}
    [(path, why)] = found(tools, processes)
    assert path == "queues.a"
    assert "the places of agents" in why
    assert found({**tools, "c": made_of("line")}, processes) == []


def test_an_agent_in_a_queue_has_its_place_before_it_waits_there() -> None:
    tools = {"one": made_of("first", queue="a"), "two": made_of("second", queue="a"), "t": program(queue="b")}
    processes = {"first": agent("t"), "second": agent("t")}
    assert found(tools, processes) == []
    # Where agents call agents, these wait for places that are held deeper down.
    assert found({**tools, "three": made_of("third")}, {**processes, "third": agent("one")}, depth=2) == []


def test_the_queue_of_a_profile_is_passed_below_and_counts_among_the_others() -> None:
    tools = {"t": program(queue="a"), "c": made_of("line")}
    processes = {"line": chain("lift(t)")}
    assert found(tools, processes, ProfileSpec(tools=("t", "c"), queue="a")) == []
    tools = {"tb": program(queue="b"), "ta": program(queue="a"), "c": made_of("line"), "cb": made_of("to_a", queue="b")}
    processes = {"line": chain("lift(tb)"), "to_a": chain("lift(ta)")}
    assert found(tools, processes, ProfileSpec(tools=("c", "ta", "tb"))) == []
    assert len(found(tools, processes, ProfileSpec(tools=("c",), queue="a"))) == 1


@pytest.mark.parametrize("size", [300])
def test_many_tools_are_looked_at_in_no_time(size: int) -> None:
    tools = {f"t{number}": program(queue="a") for number in range(size)}
    tools |= {f"c{number}": made_of(f"line{number}", queue="b") for number in range(size)}
    processes = {f"line{number}": chain(f"lift(t{number})") for number in range(size)}
    config = Config(
        queues={"b": QueueSpec(concurrent=1), "a": QueueSpec(concurrent=1)}, tools=tools, processes=processes
    )
    assert isinstance(build_catalog(config), Catalog)
