"""What a model gets of an answer: as it is, its beginning and a handle, its beginning alone, or why not."""

import json
from pathlib import Path

import msgspec
import pytest
import trio
from msgspec import Raw
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.agent.fakes import PATIENCE_S, Agent, HeldPlan, Ledger, code_of, open_runtime, small_catalog
from tooldispatchd.agent.calls.call import Call
from tooldispatchd.agent.calls.step import Step
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.steps.governing import governed
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.calls.stages import StepOrder, Waits
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.policy import CallPolicy
from tooldispatchd.catalog.policyspec import BudgetSpec, Overflow
from tooldispatchd.catalog.specs import Config, LimitsSpec, ProfileSpec, ToolSpec
from tooldispatchd.config.configuration import load_catalog
from tooldispatchd.wire.messages import ContentKind

KIB = 1024


async def answered(
    runtime: Runtime, held: HeldPlan, outcome: Outcome, *, agent: Agent | None = None, **fields: object
) -> dict[str, object]:
    """The answer of an agent whose call of `held` ends so."""
    agent = agent or Agent(runtime)
    await agent.call("1", "held", input=None, **fields)
    await wait_all_tasks_blocked()
    held.finish("1", outcome)
    line = await agent.hear()
    assert isinstance(line, dict)
    return line


def told(line: dict[str, object]) -> dict[str, object]:
    """The object of a stored answer."""
    found: dict[str, object] = json.loads(str(line["content"]))["tool_output"]
    return found


def bounded(runtime: Runtime, held: HeldPlan, max_output: int | None = KIB, overflow: Overflow | None = None) -> None:
    governed(runtime, held, CallPolicy(max_output=max_output, overflow=overflow))


@pytest.mark.parametrize("text", ["", "x" * KIB, "é" * (KIB // 2), "x" * (KIB - 2) + "é"])
async def test_an_answer_of_exactly_the_bound_is_given_whole(
    tmp_path: Path, text: str, autojump_clock: MockClock
) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held, spool=tmp_path) as runtime:
        bounded(runtime, held)
        agent = Agent(runtime)
        line = await answered(runtime, held, Answer(text, kind=ContentKind.TEXT), agent=agent)
        assert line["content"] == text
        assert list(tmp_path.iterdir()) == []
        await agent.end_input()


@pytest.mark.parametrize(
    ("text", "kind", "is_given"),
    [
        ("x" * KIB, "text", True),
        ("\n" * KIB, "text", True),
        ("\0" * KIB, "blocks", True),
        ("x" * KIB + "x", "text", False),
        ("x" * (KIB - 2), "json", True),
        ("x" * (KIB - 1), "json", False),
    ],
)
async def test_a_string_is_measured_as_its_agent_gets_it(
    tmp_path: Path, text: str, kind: str, is_given: bool, autojump_clock: MockClock
) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held, spool=tmp_path) as runtime:
        bounded(runtime, held)
        agent = Agent(runtime)
        answer = Answer(msgspec.json.encode(text).decode())
        # Of the model's window there is as much left.
        line = await answered(runtime, held, answer, agent=agent, content=kind, max_bytes=KIB)
        assert ("tool_output" not in str(line["content"])) is is_given
        assert len(str(line["content"])) <= KIB
        assert (list(tmp_path.iterdir()) == []) is is_given
        await agent.end_input()


async def test_one_of_a_byte_more_is_stored_for_as_long_as_its_session_lives(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    held = HeldPlan()
    text = "x" * (KIB - 1) + "é"
    async with open_runtime(small_catalog(), held, spool=tmp_path) as runtime:
        bounded(runtime, held)
        agent = Agent(runtime)
        line = await answered(runtime, held, Answer(text, kind=ContentKind.TEXT), agent=agent)
        found = told(line)
        assert (found["reason"], found["bytes"], found["lines"]) == ("size_limit_exceeded", 1025, 1)
        assert isinstance(found["tokens"], int)
        assert str(found["head"])[:9] == "xxxxxxxxx"
        assert len(str(line["content"])) <= KIB
        assert [file.read_text(encoding="utf-8") for file in tmp_path.iterdir()] == [text]
        await agent.end_input()
        assert await agent.hear_all() == []
        assert list(tmp_path.iterdir()) == []


async def test_by_default_a_quarter_of_a_mebibyte_is_given_unless_the_agent_says_otherwise(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    held = HeldPlan()
    text = "x" * (256 * KIB + 1)
    async with open_runtime(small_catalog(), held, spool=tmp_path) as runtime:
        bounded(runtime, held, None)
        agent, other = Agent(runtime), Agent(runtime)
        assert told(await answered(runtime, held, Answer(text), agent=agent))["bytes"] == len(text)
        await other.say({"__port": "hello", "max_output": len(text)})
        await other.hear()
        assert (await answered(runtime, held, Answer(text), agent=other))["content"] == text
        await agent.end_input()
        await other.end_input()


async def test_a_tool_s_own_error_stays_one_and_is_never_a_fault_for_its_length(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    held, strict = HeldPlan(), HeldPlan("strict")
    async with open_runtime(small_catalog(), held, strict, spool=tmp_path) as runtime:
        bounded(runtime, held)
        agent = Agent(runtime)
        line = await answered(runtime, held, Answer("x" * 2000, is_error=True), agent=agent)
        assert (line["is_error"], "fault" in line, told(line)["bytes"]) == (True, False, 2000)
        governed(runtime, strict, CallPolicy(max_output=KIB, overflow="error"))
        await agent.call("1", "strict", input=None)
        await wait_all_tasks_blocked()
        strict.finish("1", Answer("y" * 2000, is_error=True))
        cut = await agent.hear()
        assert isinstance(cut, dict)
        assert (cut["is_error"], "fault" in cut, str(cut["content"])[:3]) == (True, False, "yyy")
        await agent.end_input()


async def test_of_parts_the_texts_are_shaped_and_images_stay(tmp_path: Path, autojump_clock: MockClock) -> None:
    held = HeldPlan()
    image = {"type": "image", "data": "A" * 2000, "mimeType": "image/png"}
    blocks = Raw(json.dumps([{"type": "text", "text": "x" * 2000}, image]).encode())
    answer = Answer("x" * 2000 + "\n[image/png, 1 KiB]", kind=ContentKind.BLOCKS, blocks=blocks)
    async with open_runtime(small_catalog(), held, spool=tmp_path) as runtime:
        bounded(runtime, held)
        agent = Agent(runtime)
        line = await answered(runtime, held, answer, agent=agent, content="blocks")
        assert line["kind"] == "blocks"
        assert line["blocks"] == [{"type": "text", "text": line["content"]}, image]
        assert told(line)["bytes"] == 2000 + len("\n[image/png, 1 KiB]")
        only = Answer("[image/png, 1 KiB]", kind=ContentKind.BLOCKS, blocks=Raw(json.dumps([image]).encode()))
        assert (await answered(runtime, held, only, agent=agent, content="blocks"))["blocks"] == [image]
        await agent.end_input()


async def test_where_nothing_can_be_stored_the_answer_is_cut_and_says_why(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    held = HeldPlan()
    limits = LimitsSpec(stored_bytes=4 * KIB)
    async with open_runtime(small_catalog(limits), held) as runtime:
        bounded(runtime, held)
        agent = Agent(runtime)
        content = str((await answered(runtime, held, Answer("é" * 2000), agent=agent))["content"])
        assert len(content.encode()) <= KIB
        assert content.startswith("éé")
        assert content.endswith("could not be stored: there is no directory for it …")
        await agent.end_input()
    async with open_runtime(small_catalog(limits), held, spool=tmp_path) as runtime:
        agent = Agent(runtime)
        content = str((await answered(runtime, held, Answer("x" * 5000), agent=agent))["content"])
        assert content.endswith(
            "5,000 bytes, 1 lines is left out, and could not be stored: there is no room for more …"
        )
        assert told(await answered(runtime, held, Answer("x" * 4096), agent=agent))["bytes"] == 4096
        assert told(await answered(runtime, held, Answer("y" * 4096), agent=agent))["bytes"] == 4096
        # The older one was forgotten for it.
        assert [file.read_text(encoding="utf-8")[0] for file in tmp_path.iterdir()] == ["y"]
        await agent.end_input()


async def test_a_job_s_result_is_shaped_when_it_ends(tmp_path: Path, autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held, spool=tmp_path) as runtime:
        bounded(runtime, held)
        agent = Agent(runtime)
        await agent.call("1", "held", input=None, background=True)
        await agent.hear()
        held.finish("1", Answer("x" * 2000))
        await agent.call("2", "job_wait", input={"job": "job-1"})
        line = await agent.hear()
        assert isinstance(line, dict)
        assert told({"content": json.loads(str(line["content"]))["content"]})["bytes"] == 2000
        await agent.end_input()


async def test_what_does_not_fit_into_the_window_is_kept_and_a_budget_is_never_overdrawn(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    held = HeldPlan()
    profile = ProfileSpec(tools=("echo",), budget=BudgetSpec(bytes=2048))
    config = Config(tools={"echo": ToolSpec(type="json -> json", inline="id")}, agents={"default": profile})
    catalog = build_catalog(config)
    assert isinstance(catalog, Catalog)
    async with open_runtime(catalog, held, spool=tmp_path) as runtime:
        governed(runtime, held, CallPolicy(has_budget=True))
        agent = Agent(runtime)
        for number in "123":
            await agent.call(number, "held", input=None)
        await wait_all_tasks_blocked()
        # All three ran; there is room for two answers.
        for number in "123":
            held.finish(number, Answer("x" * KIB))
        lines = [await agent.hear() for _ in "123"]
        [refused] = [line for line in lines if isinstance(line, dict) and line["is_error"]]
        assert code_of(refused) == "budget_exceeded"
        fault = json.loads(str(refused["content"]))
        assert (fault["limit"], fault["bytes"], fault["ran"]) == ("budget", KIB, "maybe")
        assert [len(file.read_bytes()) for file in tmp_path.iterdir()] == [KIB]
        await agent.call("4", "held", input=None)
        assert code_of(await agent.hear()) == "budget_exceeded"
        assert held.started == ["1", "2", "3"]
        await agent.end_input()


@pytest.mark.parametrize(("overflow", "is_listed"), [(None, True), ("store", True), ("truncate", False)])
async def test_what_reads_long_answers_is_listed_from_the_start_where_a_table_says_that_they_are_kept(
    autojump_clock: MockClock, overflow: Overflow | None, is_listed: bool
) -> None:
    profile = ProfileSpec(tools=("echo",), max_output=KIB, overflow=overflow)
    config = Config(tools={"echo": ToolSpec(type="json -> json", inline="id")}, agents={"default": profile})
    catalog = build_catalog(config)
    assert isinstance(catalog, Catalog)
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello"})
        ready = await agent.hear()
        assert isinstance(ready, dict)
        assert ("output_json" in {tool["name"] for tool in ready["tools"]}) is is_listed
        await agent.end_input()


class Early(Step):
    """Answers in the tool's place, as one from an earlier call."""

    def take(self, call: Call) -> Answer:
        return Answer("x" * 2000)


async def test_an_answer_that_comes_before_the_tool_is_shaped_too_and_may_be_cancelled(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held, spool=tmp_path) as runtime:
        bounded(runtime, held)
        held.add(Early(StepOrder.REST))
        agent = Agent(runtime)
        await agent.call("1", "held", input=None)
        line = await agent.hear()
        assert isinstance(line, dict)
        assert told(line)["bytes"] == 2000
        await agent.say({"id": "2", "name": "held"}, {"__port": "tool_cancel", "id": "2"})
        assert code_of(await agent.hear()) == "cancelled"
        assert (held.started, len(list(tmp_path.iterdir()))) == ([], 1)
        await agent.end_input()


async def test_a_call_that_is_cancelled_while_its_answer_is_stored_leaves_no_file(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held, spool=tmp_path) as runtime:
        bounded(runtime, held)
        agent = Agent(runtime)
        await agent.call("1", "held", input=None)
        await wait_all_tasks_blocked()
        held.finish("1", Answer("x" * 2000))
        agent.host.received(b'{"__port":"tool_cancel","id":"1"}\n')
        assert code_of(await agent.hear()) == "cancelled"
        assert (list(tmp_path.iterdir()), runtime.services.spool.quota.held) == ([], 0)
        await agent.end_input()


CHAIN = """
[tools.cat]
command = ["cat"]
type = "string -> string"
max_output = 1024
[processes.both]
kind = "plumb"
chain = ["lift(cat)", "lift(cat)"]
[tools.twice]
process = "both"
"""


@pytest.mark.usefixtures("nothing_left")
async def test_a_stage_of_a_chain_is_no_answer_that_a_model_gets(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(CHAIN)
    catalog = load_catalog(tmp_path / "t.toml", {})
    async with open_runtime(catalog, patience_s=PATIENCE_S, spool=tmp_path) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "twice", input="x" * 3000)
        line = await agent.hear()
        assert isinstance(line, dict)
        assert line["content"] == json.dumps("x" * 3000)
        await agent.call("2", "cat", input="x" * 3000)
        line = await agent.hear()
        assert isinstance(line, dict)
        assert told(line)["bytes"] == 3000
        await agent.end_input()


class _AskStep(Step):
    """Has a call wait for `done` on its way back, or fails as a defect would."""

    __slots__ = ("_fails", "done")

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__(StepOrder.AFTER_HOOK)
        self._fails = fails
        self.done = trio.Event()

    def give(self, call: Call, outcome: Outcome) -> Outcome | Waits | None:
        return call.aside(self._ask, given=outcome)

    async def _ask(self) -> None:
        if self._fails:
            raise ValueError("a defect")
        await self.done.wait()


async def test_a_step_that_fails_on_the_way_back_ends_its_call_once(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    held.add(_AskStep(fails=True))
    async with open_runtime(small_catalog(), held) as runtime:
        ledger = runtime.setup.log
        assert isinstance(ledger, Ledger)
        agent = Agent(runtime)
        assert code_of(await answered(runtime, held, Answer("1"), agent=agent)) == "internal_error"
        await agent.end_input()
        assert [type(error) for error in ledger.incidents] == [ValueError]
        ledger.incidents.clear()


async def test_the_limit_of_a_tool_is_over_with_the_tool(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    held.limit_s = 5.0
    asking = _AskStep()
    held.add(asking)
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held", input=None)
        await agent.call("2", "held", input=None, deadline_ms=10_000)
        await wait_all_tasks_blocked()
        held.finish("1", Answer("1"))
        held.finish("2", Answer("2"))
        # What its agent allows is not.
        assert code_of(await agent.hear()) == "timeout"
        await trio.sleep(20)
        asking.done.set()
        line = await agent.hear()
        assert isinstance(line, dict)
        assert (line["id"], line["content"]) == ("1", "1")
        await agent.end_input()


async def test_an_answer_that_cannot_wait_to_be_cut_holds_no_memory(tmp_path: Path, autojump_clock: MockClock) -> None:
    class GivenStep(Step):
        def take(self, _call: Call) -> Outcome:
            return Answer("x" * (64 * KIB), kind=ContentKind.TEXT)

    held = HeldPlan()
    held.add(GivenStep(StepOrder.CACHE))
    catalog = build_catalog(Config(limits=LimitsSpec(waiting=1)))
    assert isinstance(catalog, Catalog)
    async with open_runtime(catalog, held, spool=tmp_path) as runtime:
        bounded(runtime, held)
        agent = Agent(runtime)
        await agent.say(*[{"id": str(number), "name": "held", "input": None} for number in range(8)])
        ends = [await agent.hear() for _ in range(8)]
        assert {code_of(line) for line in ends if isinstance(line, dict) and line.get("fault")} == {"queue_full"}
        await agent.end_input()
        assert await agent.hear_all() == []
        assert runtime.state.memory.held == 0


async def test_a_budget_is_not_renewed_by_bye_and_hello() -> None:
    tools = {"echo": ToolSpec(type="json -> json", inline="id")}
    agents = {"default": ProfileSpec(tools=("echo",), budget=BudgetSpec(calls=1))}
    catalog = build_catalog(Config(tools=tools, agents=agents))
    assert isinstance(catalog, Catalog)
    async with open_runtime(catalog) as runtime:
        for name, is_refused in (("a", False), ("a", True), ("b", True)):
            agent = Agent(runtime)
            await agent.say({"__port": "hello", "agent": name})
            await agent.hear()
            await agent.call("1", "echo", input=1, agent=name)
            said = str(await agent.hear())
            assert ("budget_exceeded" in said) == is_refused
            # Bytes and tokens run out of a window; a number of calls does not.
            assert ("this agent has no calls left" in said, "window" in said) == (is_refused, False)
            await agent.say({"__port": "bye", "agent": name})
            await agent.hear()
            await agent.end_input()
