"""The golden transcripts, played against a host in memory: everything but descriptors and a process.

It logs no calls, as a daemon does that was not told to: so tools that answer at once take the shorter way.
"""

import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import trio
from _pytest.mark import ParameterSet
from trio.testing import MockClock

from protocol.conformance.run import HEARS, SENDS, Transcript, bytes_of, read_transcript, transcripts
from tests.agent.fakes import PATIENCE_S, Agent, open_runtime
from tests.wire.conversations import THE_END, config_of, expected, hold, sent
from tooldispatchd.config.configuration import load_catalog


@cache
def children_of(config: Path) -> tuple[bytes, ...]:
    """The names of the tools that are real children, with which time must be real too, as they stand in a line.

    What is made of processes may be.
    """
    table = tomllib.loads(config.read_text(encoding="utf-8"))
    commands = [name for name, tool in table.get("tools", {}).items() if "command" in tool or "process" in tool]
    return tuple(f'"{name}"'.encode() for name in commands)


@cache
def has_servers(config: Path) -> bool:
    return bool(tomllib.loads(config.read_text(encoding="utf-8")).get("mcp"))


def starts_children(transcript: Transcript) -> bool:
    config = config_of(transcript)
    return has_servers(config) or any(name in line for line in sent(transcript) for name in children_of(config))


INSIDE: Final = "it begins with a rule that asks: here only the model can begin it"


def param(transcript: Transcript) -> ParameterSet:
    reason = INSIDE if transcript.is_inside else ""
    if transcript.level == "admin":
        reason = "what an administrator asks about is the whole daemon"
    if "second_channel" in transcript.needs:
        reason = "an agent in memory has one channel"
    if "drain" in transcript.needs:
        reason = "the whole daemon is told to end"
    if "slow" in transcript.needs:
        reason = "memory takes every byte at once, and its time jumps"
    return pytest.param(transcript, id=transcript.name, marks=[pytest.mark.skip(reason=reason)] if reason else [])


every = [read_transcript(path) for path in transcripts()]
started = {transcript.name for transcript in every if starts_children(transcript)}
with_children = [param(transcript) for transcript in every if transcript.name in started]
# Each of them is played on a real daemon too, and a fourth here finds what is left behind; all in `make soak`.
played_with_children = with_children if "SOAK" in os.environ else with_children[::4]
without_children = [param(transcript) for transcript in every if transcript.name not in started]


async def play(transcript: Transcript, agent: Agent) -> None:
    """Play its steps; what is not as they say fails the test."""
    bound: dict[str, object] = {}
    for step in (*transcript.steps, *THE_END):
        match step.verb:
            case verb if verb in SENDS:
                await agent.send(bytes_of(step, bound))
            case verb if verb in HEARS:
                hold(step, [await agent.hear() for _ in expected(step)], bound)
            case "silence_ms":
                # Whatever comes nevertheless is met by the next step.
                await trio.sleep(float(str(step.value)) / 1000)
            case "agent_ends":
                await agent.end_input()
            case "daemon_ends":
                assert await agent.hear() == "the end"
            case verb:
                raise AssertionError(verb)


@pytest.mark.parametrize("transcript", without_children)
async def test_a_transcript_holds_in_memory(transcript: Transcript, autojump_clock: MockClock, tmp_path: Path) -> None:
    async with open_runtime(load_catalog(config_of(transcript), {}), logs_calls=False, spool=tmp_path) as runtime:
        agent = Agent(runtime)
        await play(transcript, agent)
    assert agent.closings == 1


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("transcript", played_with_children)
async def test_a_transcript_with_children_holds_in_memory(transcript: Transcript) -> None:
    catalog = load_catalog(config_of(transcript), {})
    async with open_runtime(catalog, patience_s=PATIENCE_S, logs_calls=False) as runtime:
        agent = Agent(runtime)
        await play(transcript, agent)
    assert agent.closings == 1


def test_every_transcript_is_played() -> None:
    assert with_children
    assert without_children
