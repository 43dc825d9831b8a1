"""Tools that are made of processes, with real children: how each stage ends, and what is left of it."""

import json
import sys
from pathlib import Path

import msgspec
import pytest

from tests.agent.fakes import Agent, Ledger, code_of, fault_of, open_runtime
from tests.processes import until_gone
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config

PYTHON = [sys.executable, "-I", "-S", "-c"]
ADD_ONE = [*PYTHON, "import json, sys; print(json.load(sys.stdin) + 1)"]
FAIL = [*PYTHON, "import sys; sys.stderr.write('no luck'); sys.exit(3)"]
TEXT = [*PYTHON, "print('\"a text\"')"]


def catalog_of(**tables: object) -> Catalog:
    catalog = build_catalog(msgspec.convert(tables, Config))
    assert isinstance(catalog, Catalog), catalog
    return catalog


def agent_of(command: list[str], type_: str = "!int -> !int") -> dict[str, object]:
    return {"kind": "agent", "type": type_, "command": command}


async def ask(agent: Agent, tool: str, value: object) -> dict[str, object]:
    await agent.call("1", tool, input=value)
    answer = await agent.hear()
    assert isinstance(answer, dict)
    return answer


async def test_a_chain_runs_its_stages_in_order_each_on_what_the_one_before_gave() -> None:
    catalog = catalog_of(
        processes={
            "add": agent_of(ADD_ONE),
            "double": {"kind": "map", "map": "n * 2"},
            "all": {"kind": "plumb", "chain": ["add", "double", "add", "lift(plus)"]},
        },
        tools={"t": {"process": "all"}, "plus": {"command": ADD_ONE, "type": "int -> int", "expose": False}},
    )
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        assert await ask(agent, "t", 1) == {"id": "1", "content": "6", "is_error": False}
        assert code_of(await ask(agent, "plus", 1)) == "not_allowed"
        assert code_of(await ask(agent, "add", 1)) == "unknown_tool"
        await agent.end_input()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (FAIL, {"error": "tool_failed", "exit_code": 3, "stderr_tail": "no luck"}),
        (TEXT, {"error": "invalid_output"}),
        ([*PYTHON, "pass"], {"error": "tool_failed"}),
        ([*PYTHON, "print(1); print(2)"], {"error": "tool_failed"}),
        ([*PYTHON, "import os; os.kill(os.getpid(), 9)"], {"error": "tool_failed", "signal": 9}),
        (["/no/such/program"], {"error": "tool_failed"}),
    ],
    ids=["exit code", "wrong type", "no line", "two lines", "signal", "no program"],
)
async def test_a_stage_that_fails_is_told_by_its_name_and_its_place(
    command: list[str], expected: dict[str, object]
) -> None:
    catalog = catalog_of(
        processes={
            "first": agent_of(ADD_ONE),
            "second": agent_of(command),
            "all": {"kind": "plumb", "chain": ["first", "second", "first"]},
        },
        tools={"t": {"process": "all"}, "alone": {"process": "second"}},
    )
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        fault = fault_of(await ask(agent, "t", 1))
        assert {key: fault.get(key) for key in expected} == expected
        assert (fault["process"], fault["position"]) == ("second", 2)
        alone = fault_of(await ask(agent, "alone", 1))
        assert {key: alone.get(key) for key in expected} == expected
        await agent.end_input()


async def test_a_process_that_keeps_nothing_back_is_seen_when_it_runs() -> None:
    catalog = catalog_of(
        processes={
            "add": agent_of(ADD_ONE),
            "even": {"kind": "filter", "filter": "n % 2 == 0"},
            "all": {"kind": "plumb", "chain": ["add", "even"]},
        },
        tools={"t": {"process": "all"}},
    )
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        assert (await ask(agent, "t", 1))["content"] == "2"
        fault = fault_of(await ask(agent, "t", 2))
        assert fault["error"] == "tool_failed"
        assert fault["detail"] == "even: it gave no message for one: a tool gives exactly one"
        assert (fault["process"], fault["position"]) == ("even", 2)
        await agent.end_input()


async def test_a_chain_that_is_cancelled_leaves_no_child(tmp_path: Path) -> None:
    started = tmp_path / "started"
    command = [*PYTHON, f"import os, time; open({str(started)!r}, 'w').write(str(os.getpid())); time.sleep(60)"]
    catalog = catalog_of(
        processes={
            "add": agent_of(ADD_ONE),
            "hang": agent_of(command),
            "all": {"kind": "plumb", "chain": ["add", "hang"]},
        },
        tools={"t": {"process": "all"}},
    )
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "t", input=1)
        while not (started.exists() and started.read_text()):
            await agent.pause(0.01)
        await agent.say({"__port": "tool_cancel", "id": "1"})
        assert code_of(await agent.hear()) == "cancelled"
        await until_gone(int(started.read_text()))
        await agent.end_input()


async def test_a_chain_has_its_tool_s_limit_for_all_its_stages_together() -> None:
    sleep = [*PYTHON, "import time; time.sleep(30)"]
    catalog = catalog_of(
        processes={
            "add": agent_of(ADD_ONE),
            "hang": agent_of(sleep),
            "all": {"kind": "plumb", "chain": ["add", "hang"]},
        },
        tools={"t": {"process": "all", "call_s": 0.5}},
    )
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        fault = fault_of(await ask(agent, "t", 1))
        assert (fault["error"], fault["stage"], fault["limit_ms"]) == ("timeout", "run", 500)
        await agent.end_input()


async def test_a_lifted_tool_keeps_its_own_limit_and_its_own_checks() -> None:
    sleep = [*PYTHON, "import time; time.sleep(30)"]
    catalog = catalog_of(
        processes={
            "slow": {"kind": "plumb", "chain": ["lift(hang)"]},
            "wrong": {"kind": "plumb", "chain": ["lift(text)"]},
        },
        tools={
            "t": {"process": "slow"},
            "u": {"process": "wrong"},
            "hang": {"command": sleep, "call_s": 0.3, "type": "int -> int"},
            "text": {"command": TEXT, "type": "int -> int"},
        },
    )
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        fault = fault_of(await ask(agent, "t", 1))
        assert (fault["error"], fault["limit_ms"], fault["process"]) == ("timeout", 300, "hang")
        fault = fault_of(await ask(agent, "u", 1))
        assert (fault["error"], fault["process"], fault["position"]) == ("invalid_output", "text", 1)
        await agent.end_input()


async def test_a_chain_that_waits_for_no_child_keeps_no_child_s_place() -> None:
    wait = [*PYTHON, "import time; time.sleep(0.5); print(1)"]
    catalog = catalog_of(
        limits={"processes": 1},
        processes={"hang": agent_of(wait), "all": {"kind": "plumb", "chain": ["hang", "lift(one)"]}},
        tools={"t": {"process": "all"}, "one": {"command": ADD_ONE, "type": "int -> int"}},
    )
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        for number in range(3):
            await agent.call(f"chain {number}", "t", input=1)
        # Agents have places of their own, so that the tools which they may call find some.
        await agent.call("tool", "one", input=1)
        first = await agent.hear()
        assert first == {"id": "tool", "content": "2", "is_error": False}
        rest = [await agent.hear() for _ in range(3)]
        assert [line["content"] for line in rest if isinstance(line, dict)] == ["2"] * 3
        await agent.end_input()


async def test_a_call_within_a_chain_that_waits_for_a_place_ends_at_its_own_limit() -> None:
    wait = [*PYTHON, "import time; time.sleep(1); print(1)"]
    catalog = catalog_of(
        limits={"processes": 1},
        processes={"all": {"kind": "plumb", "chain": ["lift(one)"]}},
        tools={
            "t": {"process": "all", "type": "int -> int"},
            "one": {"command": ADD_ONE, "type": "int -> int", "call_s": 0.3},
            "slow": {"command": wait},
        },
    )
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        await agent.call("slow", "slow", input=1)
        fault = fault_of(await ask(agent, "t", 1))
        assert (fault["error"], fault["stage"], fault["limit_ms"], fault["process"]) == ("timeout", "queue", 300, "one")
        assert await agent.hear() == {"id": "slow", "content": "1", "is_error": False}
        assert (await ask(agent, "t", 1))["content"] == "2"
        await agent.end_input()


async def test_a_long_chain_lets_others_have_their_turns() -> None:
    processes: dict[str, object] = {f"p{number}": {"kind": "map", "map": "n + 1"} for number in range(40)}
    processes["all"] = {"kind": "plumb", "chain": list(processes)}
    catalog = catalog_of(
        processes=processes, tools={"t": {"process": "all", "type": "int -> int"}, "id": {"inline": "id"}}
    )
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        await agent.call("long", "t", input=0)
        await agent.call("short", "id", input=1)
        assert await agent.hear() == {"id": "short", "content": "1", "is_error": False}
        assert await agent.hear() == {"id": "long", "content": "40", "is_error": False}
        await agent.end_input()


async def test_a_tool_holds_its_process_to_the_types_of_both() -> None:
    catalog = catalog_of(
        processes={
            "int": agent_of(ADD_ONE),
            "pair": {"kind": "barrier", "type": "(!int, !int) -> !(int, int)"},
            "pairs": {"kind": "plumb", "type": "(!int, !int) -> !(int, int)", "chain": ["pair"]},
            "wide": {"kind": "id", "type": "!json -> !int"},
        },
        tools={
            "t": {"process": "int", "type": "json -> json"},
            "u": {"process": "pairs", "type": "json -> json"},
            "w": {"process": "wide"},
        },
    )
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        assert (await ask(agent, "t", 1))["content"] == "2"
        assert code_of(await ask(agent, "t", "text")) == "invalid_input"
        assert (await ask(agent, "u", [1, 2]))["content"] == "[1,2]"
        for wrong in (5, "ab", {"a": 1, "b": 2}, [1], [1, 2, 3], [1, "b"]):
            assert code_of(await ask(agent, "u", wrong)) == "invalid_input"
        assert (await ask(agent, "w", 1))["content"] == "1"
        assert code_of(await ask(agent, "w", "text")) == "invalid_output"
        await agent.end_input()


async def test_a_message_that_is_no_input_of_a_model_is_not_unwrapped() -> None:
    catalog = catalog_of(
        processes={
            "all": {"kind": "plumb", "chain": ["box", "lift(cat)"]},
            "box": {"kind": "map", "map": '{"input": x}'},
        },
        tools={"t": {"process": "all", "type": "int -> json"}, "cat": {"command": ["cat"]}},
    )
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        assert (await ask(agent, "t", 5))["content"] == '{"input":5}'
        await agent.end_input()


async def test_calls_of_a_chain_take_one_place_each_and_are_all_answered() -> None:
    catalog = catalog_of(
        limits={"processes": 1, "in_flight": 2},
        processes={"add": agent_of(ADD_ONE), "all": {"kind": "plumb", "chain": ["add", "add"]}},
        tools={"t": {"process": "all"}},
    )
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        for number in range(6):
            await agent.call(str(number), "t", input=number)
        answers = [await agent.hear() for _ in range(6)]
        assert sorted((line["id"], line["content"]) for line in answers if isinstance(line, dict)) == [
            (str(number), str(number + 2)) for number in range(6)
        ]
        await agent.end_input()


async def test_what_a_stage_says_of_its_progress_is_said_of_the_call() -> None:
    told = (
        "import os, json, sys; update = {'__port': 'tool_update', 'progress': 1, 'message': 'half'};"
        "os.write(3, json.dumps(update).encode() + b'\\n');"
        "print(json.load(sys.stdin))"
    )
    catalog = catalog_of(
        processes={"tell": agent_of([*PYTHON, told]), "all": {"kind": "plumb", "chain": ["tell", "tell"]}},
        tools={"t": {"process": "all"}},
    )
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "updates": True})
        await agent.hear()
        await agent.call("1", "t", input=1)
        lines = [await agent.hear() for _ in range(2)]
        while isinstance(lines[-1], dict) and lines[-1].get("__port") == "tool_update":
            lines.append(await agent.hear())
        update, answer = lines[0], lines[-1]
        assert isinstance(update, dict)
        assert (update["__port"], update["id"], update["message"]) == ("tool_update", "1", "half")
        assert isinstance(answer, dict)
        assert answer["content"] == "1"
        await agent.end_input()


async def test_meta_says_that_a_chain_ran() -> None:
    catalog = catalog_of(
        processes={"add": agent_of(ADD_ONE), "all": {"kind": "plumb", "chain": ["add", "add"]}},
        tools={"t": {"process": "all"}},
    )
    async with open_runtime(catalog) as runtime:
        assert isinstance(runtime.setup.log, Ledger)
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "meta": True})
        await agent.hear()
        answer = await ask(agent, "t", 1)
        meta = answer["meta"]
        assert isinstance(meta, dict)
        assert json.loads(str(answer["content"])) == 3
        assert set(meta) >= {"latency_ms", "queued_ms"}
        await agent.end_input()
