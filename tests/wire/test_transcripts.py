"""The golden transcripts, played against the machines alone: bytes in, bytes out, nothing else."""

from pathlib import Path
from typing import Final

import msgspec
import pytest

from protocol.conformance.run import HEARS, SENDS, Transcript, bytes_of, differs, read_transcript, transcripts
from tests.wire.answerer import Answerer
from tests.wire.conversations import THE_END, config_of, expected, hold
from tests.wire.taking import taken

# What a machine without children cannot mean, by the fixtures.
NOT_PURE: Final = {
    "admin": "what an administrator asks about is the whole daemon",
    "called": "an agent that calls tools itself is a real child",
    "servers": "the life of an MCP server is a real child's",
    "questions": "tools that ask, or change, are a server's, which is a real child",
    "refused": "a session is refused for what its MCP server lacks, which is a real child",
    "names": "tools of such names are a server's, which is a real child",
    "searched": "a request that stands for another is read by the whole session",
    "native": "the machines know of no provider",
    "queued": "queues and breakers are of the daemon's own calls",
    "sized": "what is stored is in files",
    "ruled": "rules and approvals are of the daemon's own calls",
    "locked": "the machines open every channel's own profile",
    "spelled": "some of the tools are a server's, which is a real child",
}
# Levels of which the machines do nothing that came with edition 1.2: they have no events, orders and promotions, and
# parse no texts.
NOT_YET: Final = frozenset({"events", "jobs", "limits", "views"})


def marks(path: Path) -> list[pytest.MarkDecorator]:
    transcript = read_transcript(path)
    reason = NOT_PURE.get(transcript.fixtures, "")
    if transcript.since == "1.2" and transcript.level in NOT_YET:
        reason = "the machines are of edition 1.1 of this level"
    if transcript.level == "sizes":
        reason = "the machines have no windows, and store nothing"
    if "second_channel" in transcript.needs:
        reason = "a machine is one channel"
    if "drain" in transcript.needs:
        reason = "the whole daemon is told to end"
    if "slow" in transcript.needs:
        reason = "a machine has no clock, and nothing that is unread"
    return [pytest.mark.skip(reason=reason)] if reason else []


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

    def is_silent(self) -> bool:
        """Whether nothing was said that was not heard; nothing is ended for it."""
        self._read()
        return not self._lines

    def _read(self) -> None:
        self._lines += [msgspec.json.decode(line) for line in taken(self.answerer.channel).splitlines()]


def play(transcript: Transcript, *, pieces: int) -> None:
    """Play the steps, each line cut into about so many pieces; what is not as they say fails the test."""
    listener = Listener(config_of(transcript))
    bound: dict[str, object] = {}
    for step in (*transcript.steps, *THE_END):
        match step.verb:
            case verb if verb in SENDS:
                line = bytes_of(step, bound)
                size = -(-len(line) // pieces)
                for at in range(0, len(line), size):
                    listener.answerer.receive(line[at : at + size])
            case verb if verb in HEARS:
                hold(step, [listener.hear() for _ in expected(step)], bound)
            case "silence_ms":
                assert listener.is_silent()
            case "agent_ends":
                listener.answerer.end()
            case "daemon_ends":
                assert listener.hear() == "the end"
            case "daemon_is_told":
                told = msgspec.to_builtins(listener.answerer.told.pop(0), enc_hook=as_json)
                assert differs(step.value, told, bound) == ""
            case verb:
                listener.answerer.do(verb, step.value)
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
    assert set(NOT_PURE) <= {read_transcript(path).fixtures for path in transcripts()}
