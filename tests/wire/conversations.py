"""What the tests' players of transcripts share, and conversations of documents as steps of the same kind.

Reading a transcript, and what counts as equal, is `protocol/conformance/run.py`'s; nothing of that is here.
"""

import json
from pathlib import Path
from typing import Final

from protocol.conformance.run import FIXTURES, SENDS, Step, Transcript, bytes_of, unmet

# What every player does behind the last step.
THE_END: Final = (Step("agent_ends", "input"), Step("daemon_ends", True))
# For those who want an agent's bytes without a daemon that has named its jobs and questions.
GUESSES: Final[dict[str, object]] = {
    "h": "handle",
    "n": 1,
    "j": "job-1",
    **{
        f"{kind}{n}": f"{word}{n}"
        for kind, word in (("job", "job-"), ("question", "q"), ("q", "q"))
        for n in range(1, 9)
    },
}


def config_of(transcript: Transcript) -> Path:
    """The configuration that says of our daemon what the transcript's fixtures say."""
    return FIXTURES / f"{transcript.fixtures}.toml"


def sent(transcript: Transcript) -> list[bytes]:
    """What the agent sends in a transcript, whatever it is answered."""
    return [bytes_of(step, GUESSES) for step in transcript.steps if step.verb in SENDS]


def expected(step: Step) -> list[object]:
    """The lines that a step expects."""
    if step.verb == "daemon_repeat" and isinstance(step.value, dict):
        return [step.value["line"]] * step.value["times"]
    return step.value if step.verb == "daemon_any_order" and isinstance(step.value, list) else [step.value]


def hold(step: Step, seen: list[object], bound: dict[str, object]) -> None:
    """Fail the test where the lines that were seen are not those of the step."""
    reason = unmet(expected(step), seen, bound)
    assert not reason, f"line {step.number}: {reason}; got {seen}"


def spoken(line: str) -> Step:
    """A line of a conversation in a document, where `…` stands for any value."""
    arrow, _, text = line.partition(" ")
    if arrow == "→":
        return Step("agent_text", text)
    if arrow == "←":
        return Step("daemon", _without_dots("", json.loads(text)))
    raise ValueError(f"a line of a conversation begins with an arrow: {line}")


def _without_dots(name: str, value: object) -> object:
    if value == "…":
        return {"$is": "any"}
    if isinstance(value, dict):
        return {key: _without_dots(key, one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_dots("", one) for one in value]
    if name == "content" and isinstance(value, str) and "…" in value:
        return {"$json": _without_dots("", json.loads(value))}
    return value
