from tests.catalog.test_processes import build, built


def test_chains_that_multiply_are_bounded() -> None:
    processes: dict[str, object] = {"p0": {"kind": "id"}}
    for level in range(1, 9):
        processes[f"p{level}"] = {"kind": "plumb", "chain": [f"p{level - 1}"] * 2}
    problems = build(processes=processes, tools={})
    assert isinstance(problems, list)
    assert problems[0].why == "a chain has at most 128 stages, those of the chains within it counted too"


def test_an_agent_that_nothing_runs_may_be_there_for_its_profile_and_cannot_be_a_tool() -> None:
    agent = {"kind": "agent", "prompt": "x", "type": "!string -> !string", "tools": ["t"]}
    tools: dict[str, object] = {"t": {"inline": "id"}}
    assert built(processes={"p": agent}, tools=tools).profiles["p"].tools == ("t",)
    problems = build(processes={"p": agent}, tools={**tools, "u": {"process": "p"}})
    assert isinstance(problems, list)
    assert [problem.why for problem in problems] == [
        'nothing runs this agent: it has no "command", and there is no "agent_command"'
    ]
    assert build(processes={"p": agent}, tools={**tools, "u": {"process": "p"}}, agent_command=["x"])


def test_copies_of_copies_are_bounded_before_their_types_are_built() -> None:
    for kind in ({"kind": "copy"}, {"kind": "copy", "type": "!json -> !(json, json)"}):
        problems = build(processes={"c": kind, "p": {"kind": "plumb", "chain": ["c"] * 40}})
        assert isinstance(problems, list)
        assert [problem.why for problem in problems] == ["a chain copies a message at most 16 times"]


def test_chains_and_tools_within_one_another_are_bounded() -> None:
    processes: dict[str, object] = {"p0": {"kind": "id"}}
    tools: dict[str, object] = {"t0": {"inline": "id"}}
    for level in range(1, 120):
        processes[f"p{level}"] = {"kind": "plumb", "chain": [f"lift(t{level - 1})"]}
        tools[f"t{level}"] = {"process": f"p{level}"}
    for order in (1, -1):
        problems = build(processes=processes, tools=dict(list(tools.items())[::order]))
        assert isinstance(problems, list)
        assert "deep" in problems[0].why


def test_an_agent_that_is_there_for_nothing_is_a_warning() -> None:
    catalog = built(processes={"p": {"kind": "agent", "prompt": "x"}, "q": {"kind": "agent", "tools": []}})
    assert catalog.warnings == (
        "processes.p: nothing runs this agent: it has no command, and there is no agent_command",
    )


def test_an_agent_without_tools_has_no_ports() -> None:
    agent = {"kind": "agent", "command": ["x"], "ports": "stdio"}
    problems = build(processes={"p": agent})
    assert isinstance(problems, list)
    assert [problem.why for problem in problems] == ["only an agent that names tools or mcp has ports"]
    assert built(processes={"p": {**agent, "tools": []}}).processes["p"].spec.ports == "stdio"
