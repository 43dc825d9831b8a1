"""The golden transcripts, played against a host in memory: everything but descriptors and a process."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from _pytest.mark import ParameterSet
from trio.testing import MockClock

from tests.agent.fakes import PATIENCE_S, Agent, open_runtime
from tests.wire.conversations import (
    EndInput,
    Expect,
    ExpectEnd,
    Send,
    Step,
    Transcript,
    expect,
    read_transcript,
    transcripts,
)
from tooldispatchd.config.configuration import load_catalog


@cache
def children_of(config: Path) -> tuple[bytes, ...]:
    """The names of the tools that are real children, with which time must be real too, as they stand in a line.

    What is made of processes may be.
    """
    table = tomllib.loads(config.read_text(encoding="utf-8"))
    commands = [name for name, tool in table["tools"].items() if "command" in tool or "process" in tool]
    return tuple(f'"{name}"'.encode() for name in commands)


def starts_children(transcript: Transcript) -> bool:
    lines = [step.line for step in transcript.steps if isinstance(step, Send)]
    servers = tomllib.loads(transcript.config.read_text(encoding="utf-8")).get("mcp")
    return bool(servers) or any(name in line for name in children_of(transcript.config) for line in lines)


INSIDE: Final = "it begins with a server or a rule that asks: here only the model can begin it"


def param(path: Path) -> ParameterSet:
    skipped = [pytest.mark.skip(reason=INSIDE)] if read_transcript(path).is_inside else []
    return pytest.param(path, id=path.stem, marks=skipped)


with_children = [param(path) for path in transcripts() if starts_children(read_transcript(path))]
without_children = [param(path) for path in transcripts() if not starts_children(read_transcript(path))]


async def play(steps: list[Step], agent: Agent) -> None:
    """Play `steps`; what is not as they say fails the test."""
    for step in [*steps, EndInput(), ExpectEnd()]:
        match step:
            case Send(line):
                await agent.send(line)
            case Expect(lines):
                expect(lines, [await agent.hear() for _ in lines])
            case EndInput():
                await agent.end_input()
            case ExpectEnd():
                assert await agent.hear() == "the end"


@pytest.mark.parametrize("path", without_children)
async def test_a_transcript_holds_in_memory(path: Path, autojump_clock: MockClock) -> None:
    transcript = read_transcript(path)
    async with open_runtime(load_catalog(transcript.config, {})) as runtime:
        agent = Agent(runtime)
        await play(transcript.steps, agent)
    assert agent.closings == 1


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("path", with_children)
async def test_a_transcript_with_children_holds_in_memory(path: Path) -> None:
    transcript = read_transcript(path)
    async with open_runtime(load_catalog(transcript.config, {}), patience_s=PATIENCE_S) as runtime:
        agent = Agent(runtime)
        await play(transcript.steps, agent)
    assert agent.closings == 1


def test_every_transcript_is_played() -> None:
    assert with_children
    assert without_children
