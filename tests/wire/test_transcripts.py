"""The golden transcripts, played against the machines alone: bytes in, bytes out, nothing else."""

from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.test_documents import TRANSCRIPTS, EndInput, Expect, ExpectEnd, Send, Step, expect, read_transcript
from tests.wire.answerer import Answerer

# What a machine without a clock and without children cannot mean.
NOT_PURE: Final = {
    "deadline": "a deadline passes on a clock, and a pure machine has none",
    "tool_failed": "an exit code and what stands on stderr are a real child's",
}

paths = [
    pytest.param(
        path, id=path.stem, marks=[pytest.mark.skip(reason=NOT_PURE[path.stem])] if path.stem in NOT_PURE else []
    )
    for path in sorted(TRANSCRIPTS.glob("*.jsonl"))
]


class Listener:
    """Reads what the machines say; where they say nothing, calls that wait are ended one by one."""

    def __init__(self) -> None:
        self.answerer = Answerer()
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
        self._lines += [msgspec.json.decode(line) for line in self.answerer.channel.take().splitlines()]


def play(steps: list[Step], *, pieces: int) -> None:
    """Play `steps`, each line cut into about so many pieces; what is not as they say fails the test."""
    listener = Listener()
    for step in [*steps, EndInput(), ExpectEnd()]:
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


@pytest.mark.parametrize("path", paths)
def test_a_transcript_holds_for_the_machines(path: Path) -> None:
    play(read_transcript(path), pieces=1)


@pytest.mark.parametrize("path", paths)
def test_a_transcript_holds_for_the_machines_when_its_lines_come_in_pieces(path: Path) -> None:
    play(read_transcript(path), pieces=1000)


def test_only_transcripts_that_exist_are_skipped() -> None:
    assert set(NOT_PURE) <= {path.stem for path in TRANSCRIPTS.glob("*.jsonl")}
