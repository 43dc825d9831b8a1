"""Calls that somebody is asked about, and rules of which they must be true."""

import hashlib
import json
from itertools import permutations
from typing import Final, cast

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.agent.fakes import PATIENCE_S, Agent, HeldPlan, code_of, fault_of, open_runtime
from tests.agent.steps.test_auditing import Book
from tooldispatchd.agent.steps.governing import governed
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.policy import CallPolicy
from tooldispatchd.catalog.policyspec import RuleSpec
from tooldispatchd.catalog.rules import Approving
from tooldispatchd.catalog.specs import Config, LimitsSpec, ProfileSpec, ToolSpec

ANSWERS: Final = {"__port": "hello", "answers": ["approve"]}
ASKS: Final = CallPolicy(approvings=(Approving(("tools", "held"), "held asks each time"),))


def catalog_of(**tools: ToolSpec) -> Catalog:
    """These tools; agents of `worker` are answered for by those of `boss`."""
    names = tuple(tools)
    built = build_catalog(
        Config(
            tools=tools,
            agents={
                "default": ProfileSpec(tools=names),
                "worker": ProfileSpec(tools=names, approver="boss"),
                "boss": ProfileSpec(approver=True),
            },
            limits=LimitsSpec(approve_s=30),
        )
    )
    assert isinstance(built, Catalog), built
    return built


def echo(**keys: object) -> ToolSpec:
    return ToolSpec(type="{path: string} -> {path: string}", inline="id", **keys)  # type: ignore[arg-type]  # its own


async def heard(agent: Agent, port: str) -> dict[str, object]:
    line = cast("dict[str, object]", await agent.hear())
    assert line.get("__port", "tool_resp") == port, line
    return line


@pytest.mark.parametrize(
    ("tool", "path", "detail"),
    [
        (echo(when="input.path != 'no'"), "yes", None),
        (echo(when="input.path != 'no'"), "no", "t is refused: only where input.path != 'no'"),
        (echo(when=(RuleSpec(rule="input.path == 'yes'", reason="my reason"),)), "no", "t is refused: my reason"),
        (echo(when="tool == 't' && profile == 'default' && agent == ''"), "yes", None),
        (echo(when="int(input.path) == 1"), "1", None),
        (echo(when="int(input.path) == 1"), "no", "t is refused: only where int(input.path) == 1 (no answer: "),
        (echo(when="input.path != ''"), "x" * 100_000, "t is refused: only where input.path != '' (no answer: "),
        (echo(approve="input.path == 'ask'"), "yes", None),
        (echo(approve="destructive", read_only=True), "yes", None),
        # Nobody is there to be asked.
        (echo(approve="input.path == 'ask'"), "ask", "t may not run: nobody is there to be asked"),
        (echo(approve="int(input.path) == 1"), "no", "t may not run: nobody is there to be asked"),
        (echo(approve="always"), "yes", "t may not run: nobody is there to be asked"),
        (echo(approve="destructive"), "yes", "t may not run: nobody is there to be asked"),
    ],
)
async def test_rules_let_a_call_go_on_or_refuse_it_with_their_reason(
    tool: ToolSpec, path: str, detail: str | None
) -> None:
    async with open_runtime(catalog_of(t=tool)) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "t", input={"path": path})
        line = await agent.hear()
        if detail is None:
            assert line == {"id": "1", "content": f'{{"path":"{path}"}}', "is_error": False}
        else:
            fault = fault_of(line)
            assert str(fault["detail"]).startswith(detail)
            assert (fault["category"], fault["ran"]) == ("denied", "no")
        await agent.end_input()


async def test_a_call_runs_once_it_is_allowed_with_the_input_that_was_shown(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with open_runtime(catalog_of(), held) as runtime:
        governed(runtime, held, ASKS)
        agent = Agent(runtime)
        await agent.say(ANSWERS)
        await heard(agent, "ready")
        await agent.send(b'{"id":"1","name":"held","input":{"a": 1.0, "a": 2}}\n')
        asked = await heard(agent, "approve_req")
        digest = hashlib.sha256(b'{"a":2}').hexdigest()
        expected = {"name": "held", "input": {"a": 2}, "reason": "held asks each time", "sha256": digest, "call": "1"}
        assert asked == {"__port": "approve_req", "id": asked["id"]} | expected
        assert held.started == []
        await agent.say({"__port": "approve_resp", "id": asked["id"], "allow": True})
        await wait_all_tasks_blocked()
        call = held.running["1"]
        assert (bytes(call.line), call.approval) == (b'{"a":2}', call.approval)
        assert call.approval is not None
        assert (call.approval.by, call.approval.sha256, call.approval.remembered) == ("default", digest, False)
        held.finish("1")
        await agent.hear()
        await agent.end_input()


async def test_a_verdict_that_is_remembered_holds_for_this_input_alone(autojump_clock: MockClock) -> None:
    held, book = HeldPlan(), Book()
    async with open_runtime(catalog_of(), held, audit=book) as runtime:
        governed(runtime, held, ASKS)
        agent = Agent(runtime)
        await agent.say(ANSWERS)
        await heard(agent, "ready")
        for number, allow in (("1", True), ("2", False)):
            await agent.call(number, "held", input=number)
            asked = await heard(agent, "approve_req")
            verdict = {"allow": allow, "remember": True, "reason": "as I say"}
            await agent.say({"__port": "approve_resp", "id": asked["id"], **verdict})
            await wait_all_tasks_blocked()
        held.finish("1")
        told = {str(line["id"]): line for line in [await heard(agent, "tool_resp") for _ in "12"]}
        assert (fault_of(told["2"])["error"], fault_of(told["2"])["reason"]) == ("approval_refused", "as I say")
        await agent.call("3", "held", input="1")
        await agent.call("4", "held", input="2")
        assert code_of(await agent.hear()) == "approval_refused"
        await wait_all_tasks_blocked()
        held.finish("3")
        await agent.hear()
        await agent.end_input()
    allowed = "default sha256:" + hashlib.sha256(b'"1"').hexdigest()
    assert {each.id: each.approval for each in book.ended} == {
        "1": allowed,
        "2": None,
        "3": f"{allowed} remembered",
        "4": None,
    }


@pytest.mark.parametrize(
    ("lines", "code", "detail"),
    [
        ([], "approval_refused", "held may not run: nobody answered within 30 s"),
        ([{"__port": "tool_cancel", "id": "1"}], "cancelled", "the call was cancelled"),
    ],
)
async def test_a_question_ends_with_its_limit_or_with_its_call_and_a_late_answer_is_ignored(
    lines: list[dict[str, object]], code: str, detail: str, autojump_clock: MockClock
) -> None:
    held = HeldPlan()
    async with open_runtime(catalog_of(), held) as runtime:
        governed(runtime, held, ASKS)
        agent = Agent(runtime)
        await agent.say(ANSWERS)
        await heard(agent, "ready")
        await agent.call("1", "held", input=1)
        asked = await heard(agent, "approve_req")
        await agent.say(*lines)
        fault = fault_of(await agent.hear())
        assert (fault["error"], fault["detail"]) == (code, detail)
        await agent.say({"__port": "approve_resp", "id": asked["id"], "allow": True})
        await wait_all_tasks_blocked()
        assert held.started == []
        await agent.end_input()


async def test_the_deadline_of_a_call_counts_while_somebody_is_asked(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with open_runtime(catalog_of(), held) as runtime:
        governed(runtime, held, ASKS)
        agent = Agent(runtime)
        await agent.say(ANSWERS)
        await heard(agent, "ready")
        await agent.call("1", "held", input=1, deadline_ms=1000)
        await heard(agent, "approve_req")
        fault = fault_of(await agent.hear())
        assert (fault["error"], fault["stage"], fault["ran"]) == ("timeout", "approval", "no")
        await agent.end_input()


async def test_an_approver_answers_for_agents_of_other_profiles_and_a_job_waits_for_it(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime(catalog_of(t=echo(approve="always"))) as runtime:
        boss, worker = Agent(runtime), Agent(runtime)
        await worker.say({"__port": "hello", "profile": "worker", "answers": ["approve"]})
        await heard(worker, "ready")
        await worker.call("0", "t", input={"path": "a"})
        assert code_of(await worker.hear()) == "approval_refused"
        await boss.say({"__port": "hello", "profile": "boss", "answers": ["approve"]})
        await heard(boss, "ready")
        await worker.call("1", "t", input={"path": "a"}, background=True)
        job = json.loads(str((await heard(worker, "tool_resp"))["content"]))["job"]
        asked = await heard(boss, "approve_req")
        assert (asked["caller"], "call" in asked) == ({"profile": "worker"}, False)
        await worker.call("2", "t", input={"path": "b"})
        second = await heard(boss, "approve_req")
        await boss.say({"__port": "approve_resp", "id": second["id"], "allow": True})
        assert (await heard(worker, "tool_resp"))["content"] == '{"path":"b"}'
        # What is still asked when it leaves is refused.
        await boss.end_input()
        await worker.call("3", "job_wait", input={"job": job})
        assert "approval_refused" in str(await worker.hear())
        await worker.end_input()


@pytest.mark.parametrize(("token", "is_asked"), [(None, False), ("0123456789abcdef", True)])
async def test_an_approver_without_a_token_is_not_asked_about_calls_of_its_own_channel(
    token: str | None, is_asked: bool
) -> None:
    agents = {"worker": ProfileSpec(tools=("t",), approver="boss"), "boss": ProfileSpec(approver=True, token=token)}
    catalog = build_catalog(Config(tools={"t": echo(approve="always")}, agents=agents))
    assert isinstance(catalog, Catalog)
    async with open_runtime(catalog) as runtime:
        channel = Agent(runtime)
        boss = {"__port": "hello", "agent": "b", "profile": "boss", "answers": ["approve"]}
        await channel.say({**boss, "token": token} if token else boss)
        await heard(channel, "ready")
        await channel.say({"__port": "hello", "agent": "w", "profile": "worker"})
        await heard(channel, "ready")
        await channel.call("1", "t", input={"path": "a"}, agent="w")
        if is_asked:
            asked = await heard(channel, "approve_req")
            await channel.say({"__port": "approve_resp", "agent": "b", "id": asked["id"], "allow": True})
            assert (await heard(channel, "tool_resp"))["content"] == '{"path":"a"}'
        else:
            assert code_of(await channel.hear()) == "approval_refused"
        await channel.end_input()


@pytest.mark.parametrize(
    ("rule", "size", "refused"),
    [
        ("!input.path.startsWith('/etc')", 66_000, None),
        ("!input.path.startsWith('/etc')", 1_000_000, None),
        ("!input['path'].startsWith('/tmp') && !has(.input.path2)", 1_000_000, "t is refused: only where"),
        ("true", 4_000_000, None),
        ("tool == 't' && call.input.path == '/tmp'", 1_000_000, None),
        # These read it.
        ("input.content != ''", 66_000, "(no answer: the input has more than 65536 bytes of text"),
        ("input.content != ''", 1_000_000, "(no answer: the input is too large for an expression"),
        ("size(input) == 2", 1_000_000, "(no answer: the input is too large for an expression"),
        ("input.path == '/tmp'", 2_000_000, "(no answer: the input is too large for an expression"),
    ],
)
async def test_a_rule_is_given_no_more_of_the_input_than_it_reads(rule: str, size: int, refused: str | None) -> None:
    wide = ToolSpec(type="{path: string, content: string, path2?: string} -> string", map="path", when=rule)
    async with open_runtime(catalog_of(t=wide), patience_s=PATIENCE_S) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "t", input={"path": "/tmp", "content": "x" * size})
        line = await agent.hear()
        assert isinstance(line, dict)
        if refused is None:
            # The tool itself, a `map`, takes no more than 128 KiB.
            assert "call_refused" not in str(line)
        else:
            assert refused in str(fault_of(line)["detail"])
        await agent.end_input()


async def test_rules_that_name_the_same_fields_in_another_order_see_each_its_own() -> None:
    # Sets of equal names, of which one or the other comes first; among so many letters there are two such.
    one, other = next(pair for pair in permutations("abcdefghijklmnopqrstuvwxyz", 2) if [*{*pair}] != [*{*pair[::-1]}])
    forward, backward = f"input.{one} == 1 && input.{other} == 2", f"input.{other} == 2 && input.{one} == 1"
    rules = (RuleSpec(rule=forward), RuleSpec(rule=backward))
    fields = f"{{{one}: int, {other}: int, content: string}}"
    tool = ToolSpec(type=f"{fields} -> {fields}", inline="id", when=rules)
    async with open_runtime(catalog_of(t=tool)) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "t", input={one: 1, other: 2, "content": "x" * 1_000_000})
        assert (await heard(agent, "tool_resp"))["is_error"] is False
        await agent.end_input()


async def test_one_agent_leaves_the_others_their_share_of_an_approver_s_questions(autojump_clock: MockClock) -> None:
    async with open_runtime(catalog_of(t=echo(approve="always"))) as runtime:
        boss, greedy, other = Agent(runtime), Agent(runtime), Agent(runtime)
        await boss.say({"__port": "hello", "profile": "boss", "answers": ["approve"]})
        await heard(boss, "ready")
        for agent in (greedy, other):
            await agent.say({"__port": "hello", "profile": "worker"})
            await heard(agent, "ready")
        for number in range(250):
            await greedy.call(str(number), "t", input={"path": "a"})
        assert code_of(await greedy.hear()) == "approval_refused"
        await other.call("1", "t", input={"path": "mine"})
        while True:
            asked = await heard(boss, "approve_req")
            if asked["input"] == {"path": "mine"}:
                break
        await boss.say({"__port": "approve_resp", "id": asked["id"], "allow": True})
        assert (await heard(other, "tool_resp"))["content"] == '{"path":"mine"}'
        for agent in (greedy, other, boss):
            await agent.end_input()
