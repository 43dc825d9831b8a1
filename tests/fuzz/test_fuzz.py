"""The fuzz target for some seconds, and what it has found so far; `python -m tests.fuzz` searches for longer."""

import json

import pytest

from tests.fuzz.corpus import seeds
from tests.fuzz.oracle import check
from tests.fuzz.search import Finding, search, try_input
from tests.fuzz.target import TOKEN, play

SECONDS = 5.0
# The same search each time: a change is judged by what it changed.
SEED = 20


def line_of(**fields: object) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def test_every_transcript_keeps_the_invariants() -> None:
    found = [result.tell() for data in seeds() if isinstance(result := try_input(data), Finding)]
    assert found == []


def test_mutated_conversations_keep_the_invariants() -> None:
    found = next((found for _count, found in search(SECONDS, SEED) if found is not None), None)
    assert found is None, found.tell()


@pytest.mark.parametrize("cause", ["a request without an answer", "an answer that nobody asked for", "a token"])
def test_the_invariants_are_not_always_kept(cause: str) -> None:
    record = play(line_of(__port="hello", token=TOKEN) + line_of(id="1", name="echo", input="x"))
    assert any(b'"id"' in line for line in record.heard)
    if cause == "a request without an answer":
        record.heard = [line for line in record.heard if b'"id"' not in line]
    elif cause == "a token":
        record.log.append(("said", {"token": TOKEN}))
    else:
        record.heard += [line for line in record.heard if b'"id"' in line]
    with pytest.raises(AssertionError):
        check(record)
