"""The golden transcripts, played against a host in memory: everything but descriptors and a process.

It logs no calls, as a daemon does that was not told to: so tools that answer at once take the shorter way.
"""

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


def starts_children(transcript: Transcript) -> bool:
    servers = tomllib.loads(config_of(transcript).read_text(encoding="utf-8")).get("mcp")
    names = children_of(config_of(transcript))
    return bool(servers) or any(name in line for name in names for line in sent(transcript))


INSIDE: Final = "it begins with a rule that asks: here only the model can begin it"


def param(path: Path) -> ParameterSet:
    transcript = read_transcript(path)
    reason = INSIDE if transcript.is_inside else ""
    if transcript.level == "admin":
        reason = "what an administrator asks about is the whole daemon"
    if "second_channel" in transcript.needs:
        reason = "an agent in memory has one channel"
    if "slow" in transcript.needs:
        reason = "memory takes every byte at once, and its time jumps"
    return pytest.param(path, id=path.stem, marks=[pytest.mark.skip(reason=reason)] if reason else [])


with_children = [param(path) for path in transcripts() if starts_children(read_transcript(path))]
without_children = [param(path) for path in transcripts() if not starts_children(read_transcript(path))]


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


@pytest.mark.parametrize("path", without_children)
async def test_a_transcript_holds_in_memory(path: Path, autojump_clock: MockClock, tmp_path: Path) -> None:
    transcript = read_transcript(path)
    async with open_runtime(load_catalog(config_of(transcript), {}), logs_calls=False, spool=tmp_path) as runtime:
        agent = Agent(runtime)
        await play(transcript, agent)
    assert agent.closings == 1


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("path", with_children)
async def test_a_transcript_with_children_holds_in_memory(path: Path) -> None:
    transcript = read_transcript(path)
    catalog = load_catalog(config_of(transcript), {})
    async with open_runtime(catalog, patience_s=PATIENCE_S, logs_calls=False) as runtime:
        agent = Agent(runtime)
        await play(transcript, agent)
    assert agent.closings == 1


def test_every_transcript_is_played() -> None:
    assert with_children
    assert without_children
