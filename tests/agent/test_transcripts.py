"""The golden transcripts, played against a session in memory: everything but descriptors and a process."""

from pathlib import Path
from typing import Final

import pytest
from trio.testing import MockClock

from tests.agent.fakes import PATIENCE_S, Agent, open_runtime
from tests.test_documents import TRANSCRIPTS, EndInput, Expect, ExpectEnd, Send, Step, expect, read_transcript
from tooldispatchd.daemon.configuration import load_catalog

# Tools that are real children: time must be real too.
COMMANDS: Final = (b'"liar"', b'"upper"', b'"fails"', b'"stuck"', b'"slow"')


def starts_children(path: Path) -> bool:
    lines = [step.line for step in read_transcript(path) if isinstance(step, Send)]
    return any(command in line for command in COMMANDS for line in lines)


paths = sorted(TRANSCRIPTS.glob("*.jsonl"))
with_children = [path for path in paths if starts_children(path)]
without_children = [path for path in paths if not starts_children(path)]


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


@pytest.mark.parametrize("path", without_children, ids=lambda path: path.stem)
async def test_a_transcript_holds_in_memory(path: Path, autojump_clock: MockClock) -> None:
    catalog = load_catalog(TRANSCRIPTS / "tooldispatchd.toml", {})
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        await play(read_transcript(path), agent)
    assert agent.closings == 1


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("path", with_children, ids=lambda path: path.stem)
async def test_a_transcript_with_children_holds_in_memory(path: Path) -> None:
    catalog = load_catalog(TRANSCRIPTS / "tooldispatchd.toml", {})
    async with open_runtime(catalog, patience_s=PATIENCE_S) as runtime:
        agent = Agent(runtime)
        await play(read_transcript(path), agent)
    assert agent.closings == 1


def test_every_transcript_is_played() -> None:
    assert with_children
    assert without_children
