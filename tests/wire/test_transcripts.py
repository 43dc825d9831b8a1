"""The golden transcripts, played against the machines alone: bytes in, bytes out, nothing else."""

from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.wire.answerer import Answerer
from tests.wire.conversations import (
    EndInput,
    Expect,
    ExpectEnd,
    Inside,
    Send,
    Transcript,
    expect,
    is_equal,
    read_transcript,
    transcripts,
)

# What a machine without children cannot mean, by the configuration.
NOT_PURE: Final = {
    "agents": "an agent that calls tools itself is a real child",
    "servers": "the life of an MCP server is a real child's",
}


def marks(path: Path) -> list[pytest.MarkDecorator]:
    config = read_transcript(path).config.stem
    return [pytest.mark.skip(reason=NOT_PURE[config])] if config in NOT_PURE else []


paths = [pytest.param(path, id=path.stem, marks=marks(path)) for path in transcripts()]


class Listener:
    """Reads what the machines say; where they say nothing, calls that wait are ended one by one."""

    def __init__(self, config: Path) -> None:
        self.answerer = Answerer(config)
        self._lines: list[object] = []

    def hear(self) -> object:
        """The next line; the words `the end` or `silence` where there is none."""
        self._read()
        while not self._lines and self.answerer.finish_one():
            self._read()
        if self._lines:
            return self._lines.pop(0)
        return "the end" if self.answerer.is_closed else "silence"

    def _read(self) -> None:
        self._lines += [msgspec.json.decode(line) for line in self.answerer.channel.take_whole().splitlines()]


def play(transcript: Transcript, *, pieces: int) -> None:
    """Play the steps, each line cut into about so many pieces; what is not as they say fails the test."""
    listener = Listener(transcript.config)
    for step in [*transcript.steps, EndInput(), ExpectEnd()]:
        match step:
            case Send(line):
                size = -(-len(line) // pieces)
                for at in range(0, len(line), size):
                    listener.answerer.receive(line[at : at + size])
            case Expect(lines):
                expect(lines, [listener.hear() for _ in lines])
            case EndInput():
                listener.answerer.end()
            case ExpectEnd():
                assert listener.hear() == "the end"
            case Inside("daemon_is_told", told):
                assert is_equal(told, msgspec.to_builtins(listener.answerer.told.pop(0), enc_hook=as_json))
            case Inside(verb, value):
                listener.answerer.do(verb, value)
    assert not listener.answerer.told


def as_json(value: object) -> object:
    """What was kept as it came, and nothing for what was left out."""
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else None


@pytest.mark.parametrize("path", paths)
def test_a_transcript_holds_for_the_machines(path: Path) -> None:
    play(read_transcript(path), pieces=1)


@pytest.mark.parametrize("path", paths)
def test_a_transcript_holds_for_the_machines_when_its_lines_come_in_pieces(path: Path) -> None:
    play(read_transcript(path), pieces=1000)


def test_only_configurations_that_exist_are_skipped() -> None:
    assert set(NOT_PURE) <= {read_transcript(path).config.stem for path in transcripts()}
