"""What a daemon has counted, as text."""

import re
import time
from shutil import which
from subprocess import run

import pytest
from trio.testing import MockClock

from tests.admin.running import Running
from tests.agent.fakes import Agent, HeldPlan, open_runtime, small_catalog
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.steps.governing import governed
from tooldispatchd.calls.outcome import Answer
from tooldispatchd.calls.tally import MAX_TOOLS, ToolTally
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.policy import CallPolicy
from tooldispatchd.catalog.policyspec import QueueSpec
from tooldispatchd.catalog.specs import Config, ProfileSpec
from tooldispatchd.metrics import families
from tooldispatchd.metrics.rendering import pieces, render


def text_of(runtime: Runtime) -> str:
    return render(Running(), runtime)


def crowded(runtime: Runtime) -> None:
    """More tools than are counted by themselves, each with calls of three ends."""
    for number in range(MAX_TOOLS + 50):
        tally = runtime.state.tallies.of(ToolTally(f"server:tool-{number}", "mcp", "server"))
        tally.note(Answer("1"), 0.5)
        tally.note(Answer("1", is_error=True), 1e-6)
        tally.note(Answer("1"), 1e6)


async def test_calls_are_counted_and_timed_by_tool_and_outcome(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held, logs_calls=False) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.call("2", "echo", input=1)
        await agent.pause(2.0)
        during = text_of(runtime)
        held.finish("1")
        await agent.call("3", "nobody")
        await agent.end_input()
        await agent.hear_all()
        after = text_of(runtime)
    assert "tooldispatchd_calls_in_flight 1\n" in during
    assert 'tooldispatchd_calls_total{tool="echo",kind="inline",provider="inline",outcome="ok"} 1\n' in after
    assert 'tooldispatchd_calls_total{tool="",kind="",provider="",outcome="unknown_tool"} 1\n' in after
    of_held = '{tool="held",kind="fake",provider="fake",outcome="ok"'
    assert f'tooldispatchd_call_duration_seconds_bucket{of_held},le="1"}} 0\n' in after
    assert f'tooldispatchd_call_duration_seconds_bucket{of_held},le="4"}} 1\n' in after
    assert f"tooldispatchd_call_duration_seconds_sum{of_held}}} 2\n" in after
    assert "tooldispatchd_sessions 0\n" in after
    assert "tooldispatchd_sessions_opened_total 1\n" in after


async def test_waits_are_told_by_stage_and_queue(autojump_clock: MockClock) -> None:
    built = build_catalog(Config(queues={"one": QueueSpec(concurrent=1)}, agents={"default": ProfileSpec()}))
    assert isinstance(built, Catalog)
    held = HeldPlan()
    async with open_runtime(built, held) as runtime:
        governed(runtime, held, CallPolicy(queues=("one",)))
        agent = Agent(runtime)
        for call_id in ("runs", "waits", "gives up"):
            await agent.call(call_id, "held")
        await agent.pause(3.0)
        during = text_of(runtime)
        await agent.say({"__port": "tool_cancel", "id": "gives up"})
        held.finish("runs")
        await agent.pause(1.0)
        held.finish("waits")
        await agent.end_input()
        await agent.hear_all()
        after = text_of(runtime)
    assert 'tooldispatchd_queue_calls_inside{queue="one"} 1\n' in during
    assert 'tooldispatchd_queue_calls_waiting{queue="one"} 2\n' in during
    assert 'tooldispatchd_call_wait_seconds_sum{stage="queue",queue="one"} 6\n' in after
    assert 'tooldispatchd_call_wait_seconds_count{stage="queue",queue="one"} 2\n' in after


async def test_every_metric_is_introduced_once_and_has_its_own_samples(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog()) as runtime:
        crowded(runtime)
        runtime.services.sharing.counts.of("kit")
        lines = text_of(runtime).splitlines()
    introduced = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert introduced == [line.split()[2] for line in lines if line.startswith("# HELP")]
    assert sorted(introduced) == sorted(metric.name for metric in families.ALL)
    samples = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(samples) == len(set(samples))
    tools = {found[1] for sample in samples if (found := re.search(r'tool="([^"]*)"', sample))}
    assert len(tools) == MAX_TOOLS + 1
    assert "other" in tools


async def test_a_thousand_tools_are_rendered_in_short_turns(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog()) as runtime:
        crowded(runtime)
        longest = []
        # The least of a few tries: others use the machine too.
        for _ in range(3):
            took = []
            text = pieces(Running(), runtime)
            while True:
                began = time.thread_time()
                piece = next(text, None)
                took.append(time.thread_time() - began)
                if piece is None:
                    break
            longest.append(max(took))
    assert min(longest) < 0.01


async def test_promtool_finds_nothing_wrong(autojump_clock: MockClock) -> None:
    promtool = which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool: `make build/prometheus/.tried`")
    async with open_runtime(small_catalog()) as runtime:
        runtime.state.tallies.waits("queue", 'a "name"\n').add(1.0)
        crowded(runtime)
        text = text_of(runtime)
    checked = run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
