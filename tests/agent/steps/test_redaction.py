"""Known secrets are masked in answers of tools with `redact`, short and long ones, and in faults of all."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from msgspec import Raw
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.agent.fakes import Agent, HeldPlan, fault_of, open_runtime, small_catalog
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.steps.governing import governed
from tooldispatchd.calls.outcome import Answer, Outcome, Update
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.catalog.policy import CallPolicy
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ContentKind, QuotedText

REDACTS = CallPolicy(redacts=True)
SECRET = "s3cret-token"


@asynccontextmanager
async def redacting(held: HeldPlan, policy: CallPolicy = REDACTS) -> AsyncIterator[Runtime]:
    catalog = msgspec.structs.replace(small_catalog(), masker=Masker([SECRET]))
    async with open_runtime(catalog, held) as runtime:
        governed(runtime, held, policy)
        yield runtime


async def answered(outcome: Outcome, policy: CallPolicy = REDACTS, **hello: object) -> dict[str, object]:
    """How an agent is told an outcome."""
    held = HeldPlan()
    async with redacting(held, policy) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", **hello})
        await agent.hear()
        await agent.call("1", "held")
        await wait_all_tasks_blocked()
        call = held.running.pop("1")
        call.finish(outcome)
        call.context.channel.flush()
        heard = await agent.hear()
        await agent.end_input()
    assert isinstance(heard, dict)
    return heard


async def test_an_answer_is_masked_with_all_that_stands_beside_it(autojump_clock: MockClock) -> None:
    given = Answer(f'{{"k":"{SECRET}"}}', details=Raw(f'{{"d":"{SECRET}"}}'.encode()))
    heard = await answered(given, details=True)
    assert (heard["content"], heard["details"]) == ('{"k":"…"}', {"d": "…"})


async def test_digits_of_a_number_stay_and_its_line_is_json(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    catalog = msgspec.structs.replace(small_catalog(), masker=Masker(["12345678"]))
    given = Answer('{"pin":12345678,"as":"12345678"}', details=Raw(b'{"n":312345678}'))
    async with open_runtime(catalog, held) as runtime:
        governed(runtime, held, REDACTS)
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "details": True})
        await agent.hear()
        await agent.call("1", "held")
        await wait_all_tasks_blocked()
        held.finish("1", given)
        heard = await agent.hear()
        await agent.end_input()
    assert isinstance(heard, dict)
    assert (heard["content"], heard["details"]) == ('{"pin":12345678,"as":"…"}', {"n": 312345678})


async def test_a_long_answer_is_masked_too(autojump_clock: MockClock) -> None:
    text = f"{'x' * 100_000}{SECRET} 1 {SECRET}{'y' * 100_000}"
    heard = await answered(Answer(QuotedText(json.dumps(text).encode(), len(text))))
    assert heard["content"] == f"{'x' * 100_000}… 1 …{'y' * 100_000}"


async def test_a_long_text_with_what_begins_within_an_escape_stays_as_it_is(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    text = "x" * 100_000 + "\nhunter2 and nhunter2" + '"' * 9
    parts = json.dumps([{"type": "text", "text": text, "n": 12345678}]).encode()
    catalog = msgspec.structs.replace(small_catalog(), masker=Masker(["nhunter2", "12345678"]))
    async with open_runtime(catalog, held) as runtime:
        governed(runtime, held, REDACTS)
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "max_output": 1_000_000})
        await agent.hear()
        await agent.call("1", "held", content="blocks")
        await wait_all_tasks_blocked()
        content, blocks = QuotedText(json.dumps(text).encode(), len(text)), QuotedText(parts, len(parts))
        held.finish("1", Answer(content, kind=ContentKind.BLOCKS, blocks=blocks))
        heard = await agent.hear()
        await agent.end_input()
    assert isinstance(heard, dict)
    masked = "x" * 100_000 + "\nhunter2 and …" + '"' * 9
    assert heard["content"] == masked
    assert heard["blocks"] == [{"type": "text", "text": masked, "n": 12345678}]


async def test_a_token_that_comes_while_the_daemon_runs_is_masked_from_then_on(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    catalog = small_catalog()
    async with open_runtime(catalog, held) as runtime:
        governed(runtime, held, REDACTS)
        agent = Agent(runtime)
        for token, content in ((None, "a-token"), ("a-token", "…")):
            catalog.masker.learn("an API", [] if token is None else [token])
            await agent.call("1", "held")
            await wait_all_tasks_blocked()
            held.finish("1", Answer("a-token", kind=ContentKind.TEXT))
            heard = await agent.hear()
            assert isinstance(heard, dict)
            assert heard["content"] == content
        await agent.end_input()


async def test_a_long_answer_that_nobody_wants_any_more_is_not_told(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with redacting(held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await wait_all_tasks_blocked()
        call = held.running.pop("1")
        call.finish(Answer(QuotedText(json.dumps("x" * 200_000).encode(), 200_000)))
        await agent.say({"__port": "tool_cancel", "id": "1"})
        heard = await agent.hear()
        assert isinstance(heard, dict)
        # It was too late, or in time: one answer in any case.
        assert heard["id"] == "1"
        await agent.end_input()
        assert await agent.hear_all() == []


async def test_updates_are_masked(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with redacting(held) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "updates": True})
        await agent.hear()
        await agent.call("1", "held")
        await wait_all_tasks_blocked()
        held.running["1"].update(Update(1.0, message=f"it is {SECRET}", content=SECRET))
        held.running["1"].context.channel.flush()
        heard = await agent.hear()
        assert isinstance(heard, dict)
        assert (heard["message"], heard["content"]) == ("it is …", "…")
        held.finish("1")
        await agent.hear()
        await agent.end_input()


async def test_a_tool_without_it_answers_as_it_does_and_its_faults_are_masked(autojump_clock: MockClock) -> None:
    assert (await answered(Answer(SECRET), CallPolicy()))["content"] == SECRET
    fault = Fault(Code.TOOL_FAILED, f"no: {SECRET}", {"stderr_tail": "token … and s3cret-", "exit_code": 1})
    told = fault_of(await answered(fault, CallPolicy()))
    assert (told["detail"], told["stderr_tail"], told["exit_code"]) == ("no: …", "token … and …", 1)
