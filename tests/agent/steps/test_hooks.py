"""Calls that hooks are asked about. The hooks are expressions, which run as any tool that a hook could be."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.agent.fakes import Agent, HeldPlan, code_of, fault_of, open_runtime
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.steps.caching import ToolIdentity
from tooldispatchd.agent.steps.governing import governed
from tooldispatchd.agent.tools.declaredplans import LIFTED, compile_lifted
from tooldispatchd.calls.outcome import Update
from tooldispatchd.catalog.caching import Caching
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.hookspec import HookSpec
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.catalog.policy import CallPolicy
from tooldispatchd.catalog.specs import Config, LimitsSpec, ProcessSpec, ProfileSpec, ToolSpec

NULL = "call.name == '' ? call : dyn(null)"


def asked(name: str, **expressions: str) -> tuple[dict[str, HookSpec], dict[str, ToolSpec]]:
    """A hook that answers what expressions make of a call, by kind, and the tools that it runs."""
    names = ("other",) if "before" in expressions else ()
    hook = HookSpec(**dict.fromkeys(expressions, ("true",)), names=names)  # type: ignore[arg-type]  # kinds of hooks
    tools = {f"hook.{name}.{kind}": ToolSpec(map=text, expose=False) for kind, text in expressions.items()}
    return {name: hook}, tools


def catalog_of(hooks: dict[str, HookSpec], tools: dict[str, ToolSpec]) -> Catalog:
    """The tools `echo`, `other` and a chain of `echo`, and hooks on them."""
    own = {
        "echo": ToolSpec(type="{text: string} -> {text: string}", inline="id"),
        "other": ToolSpec(type="{text: string} -> string", map="'other ' + text"),
        "chained": ToolSpec(process="chain"),
    }
    chain = ProcessSpec(kind="plumb", chain=("lift(echo)", "lift(other)"), type="!{text: string} -> !string")
    built = build_catalog(
        Config(
            hooks=hooks,
            tools=own | tools,
            processes={"chain": chain},
            agents={"default": ProfileSpec(tools=("echo", "other", "chained"))},
            limits=LimitsSpec(waiting=2),
        )
    )
    assert isinstance(built, Catalog), built
    return built


async def told(catalog: Catalog, tool: str, text: str) -> dict[str, object]:
    """The answer to one call."""
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        await agent.call("1", tool, input={"text": text})
        heard = await agent.hear()
        await agent.end_input()
    assert isinstance(heard, dict)
    return heard


@pytest.mark.parametrize(
    ("kind", "expression", "heard"),
    [
        ("before", NULL, '{"text":"hi"}'),
        ("before", "{'input': {'text': call.input.text + '!'}}", '{"text":"hi!"}'),
        ("before", "{'name': 'other'}", '"other hi"'),
        ("before", "{'name': 'other', 'input': {'text': 'you'}}", '"other you"'),
        ("after", NULL, '{"text":"hi"}'),
        ("after", "{'output': {'text': call.output.text + call.name + call.id}}", '{"text":"hiecho1"}'),
    ],
)
async def test_a_hook_lets_a_call_go_on_or_changes_it(kind: str, expression: str, heard: str) -> None:
    assert (await told(catalog_of(*asked("h", **{kind: expression})), "echo", "hi"))["content"] == heard


@pytest.mark.parametrize(
    ("kind", "expression", "code"),
    [
        ("before", "{'refuse': 'not today'}", "call_refused"),
        ("after", "{'refuse': 'not today'}", "call_refused"),
        # The input is validated again, and another tool must be one that the table names and the agent has.
        ("before", "{'input': {'text': 1}}", "invalid_input"),
        ("before", "{'name': 'chained'}", "call_refused"),
        # Lies, and what fails.
        ("before", "{'output': 1}", "call_refused"),
        ("before", "{'refuse': 1}", "call_refused"),
        ("before", "{'refuse': 'a', 'input': 1}", "call_refused"),
        ("before", "true", "call_refused"),
        ("before", "call.nothing", "call_refused"),
        ("after", "{'input': 1}", "call_refused"),
        ("after", "call.nothing", "call_refused"),
    ],
)
async def test_a_hook_that_refuses_fails_or_lies_refuses(kind: str, expression: str, code: str) -> None:
    assert code_of(await told(catalog_of(*asked("h", **{kind: expression})), "echo", "hi")) == code


async def test_the_agent_is_told_which_hook_it_was_and_why_and_never_how_it_failed() -> None:
    refused = await told(catalog_of(*asked("h", before="{'refuse': 'not today'}")), "echo", "hi")
    fault = fault_of(refused)
    assert (fault["category"], fault["hook"], fault["reason"], fault["ran"]) == ("denied", "h", "not today", "no")
    failed = fault_of(await told(catalog_of(*asked("h", after="call.nothing")), "echo", "hi"))
    assert (failed["detail"], failed["ran"]) == ("echo is refused: its hook failed", "maybe")


async def test_a_hook_that_fails_lets_a_call_go_on_where_its_table_says_so() -> None:
    hooks, tools = asked("h", before="call.nothing", after="call.nothing")
    lenient = {"h": HookSpec(before=("true",), after=("true",), on_failure="allow")}
    assert hooks.keys() == lenient.keys()
    assert (await told(catalog_of(lenient, tools), "echo", "hi"))["content"] == '{"text":"hi"}'


async def test_hooks_are_asked_in_the_order_of_the_file_and_after_the_call_in_the_opposite_one() -> None:
    changes = {
        name: {
            "before": f"{{'input': {{'text': call.input.text + '{name}'}}}}",
            "after": f"{{'output': {{'text': call.output.text + '{name.upper()}'}}}}",
        }
        for name in "ab"
    }
    made = [asked(name, **expressions) for name, expressions in changes.items()]
    catalog = catalog_of(made[0][0] | made[1][0], made[0][1] | made[1][1])
    assert (await told(catalog, "echo", "-"))["content"] == '{"text":"-abBA"}'


async def test_a_hook_sees_an_answer_that_is_masked() -> None:
    hooks, tools = asked("h", after="{'output': {'text': 'it is ' + string(call.output.text)}}")
    tools["echo"] = ToolSpec(type="{text: string} -> {text: string}", inline="id", redact=True)
    catalog = msgspec.structs.replace(catalog_of(hooks, tools), masker=Masker(["s3cret-token"]))
    assert (await told(catalog, "echo", "s3cret-token"))["content"] == '{"text":"it is …"}'


async def test_a_stage_of_a_chain_is_asked_about_as_a_call_is() -> None:
    hooks, tools = asked("h", before="call.name == 'other' ? dyn({'refuse': 'no stages'}) : dyn(null)")
    fault = fault_of(await told(catalog_of(hooks, tools), "chained", "hi"))
    assert (fault["error"], fault["process"]) == ("call_refused", "other")


async def test_a_fault_stays_one_of_its_code_and_its_words_change() -> None:
    hooks, tools = asked("h", after="{'output': {'error': call.fault, 'detail': 'hidden', 'exit_code': 3}}")
    tools["other"] = ToolSpec(type="{text: string} -> string", map="string(int(text))")
    fault = fault_of(await told(catalog_of(hooks, tools), "other", "no number"))
    assert (fault["error"], fault["detail"], fault["exit_code"]) == ("tool_failed", "hidden", 3)


async def test_a_key_that_stands_twice_is_seen_as_the_tool_sees_it() -> None:
    hooks, tools = asked("h", before="call.input.text == 'bad' ? dyn({'refuse': 'seen'}) : dyn(null)")
    async with open_runtime(catalog_of(hooks, tools)) as runtime:
        agent = Agent(runtime)
        await agent.send(b'{"id":"1","name":"echo","input":{"text":"good","text":"bad"}}\n')
        assert code_of(await agent.hear()) == "call_refused"
        await agent.end_input()


@asynccontextmanager
async def held_by(hooks: dict[str, HookSpec], tools: dict[str, ToolSpec], *plans: HeldPlan) -> AsyncIterator[Runtime]:
    """A runtime in which these plans are asked about."""
    async with open_runtime(catalog_of(hooks, tools), *plans) as runtime:
        for plan in plans:
            governed(runtime, plan, CallPolicy())
        yield runtime


async def test_a_refused_call_tells_of_no_start_and_a_job_is_asked_about_too(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with held_by(*asked("h", before="{'refuse': 'no'}"), held) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "events": ["tool_started", "tool_finished"]})
        await agent.hear()
        await agent.call("1", "held")
        assert [event["kind"] for event in [await agent.hear()]] == ["tool_finished"]  # type: ignore[index]
        assert code_of(await agent.hear()) == "call_refused"
        await agent.call("2", "held", background=True)
        await agent.hear()
        assert code_of(await agent.hear()) == "call_refused"
        assert held.started == []
        await agent.end_input()


async def test_a_cancel_ends_a_call_that_waits_for_its_hook_before_and_after_its_tool(
    autojump_clock: MockClock,
) -> None:
    held, before, after = HeldPlan(), HeldPlan("hook.h.before"), HeldPlan("hook.h.after")
    async with held_by(*asked("h", before=NULL, after=NULL), held) as runtime:
        runtime.plans(f"{LIFTED}default", compile_lifted).update({plan.name: plan for plan in (before, after)})
        agent = Agent(runtime)
        for phase in (before, after):
            await agent.call(phase.name, "held")
            await wait_all_tasks_blocked()
            if phase is after:
                before.finish(phase.name, "null")
                await wait_all_tasks_blocked()
                held.finish(phase.name)
                await wait_all_tasks_blocked()
            assert list(phase.running) == [phase.name]
            await agent.say({"__port": "tool_cancel", "id": phase.name})
            assert code_of(await agent.hear()) == "cancelled"
            assert (before.running, held.running, after.running) == ({}, {}, {})
        await agent.end_input()


async def test_updates_go_through_their_hook_in_order(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    text = (
        "call.update.message == 'drop' ? dyn({'drop': true}) : dyn({'output': {'message': call.update.message + '!'}})"
    )
    async with held_by(*asked("h", update=text), held) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "updates": True})
        await agent.hear()
        await agent.call("1", "held")
        await wait_all_tasks_blocked()
        for message in ("a", "drop", "b"):
            held.running["1"].update(Update(message=message))
        assert [(await agent.hear())["message"] for _ in "12"] == ["a!", "b!"]  # type: ignore[index]
        # One that comes when all before it are on their way.
        await wait_all_tasks_blocked()
        held.running["1"].update(Update(message="late"))
        assert (await agent.hear())["message"] == "late!"  # type: ignore[index]
        held.finish("1")
        await agent.hear()
        await agent.end_input()


async def test_an_answer_out_of_the_cache_is_looked_at_as_one_of_the_tool_is(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    hooks, tools = asked("h", after="{'output': call.output + call.id}")
    async with open_runtime(catalog_of(hooks, tools), held) as runtime:
        governed(runtime, held, CallPolicy(caching=Caching(keeps_s=60.0)), ToolIdentity(lambda: ()))
        agent = Agent(runtime)
        await agent.call("1", "held", input=1)
        await wait_all_tasks_blocked()
        held.finish("1", '"kept"')
        assert (await agent.hear())["content"] == '"kept1"'  # type: ignore[index]
        await agent.call("2", "held", input=1)
        assert (await agent.hear())["content"] == '"kept2"'  # type: ignore[index]
        assert held.started == ["1"]
        await agent.end_input()
