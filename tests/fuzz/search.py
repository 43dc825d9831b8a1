"""The search: play an input, check it, and keep it to be mutated where the daemon did something new.

What is new is judged by what the daemon says and logs (ports, codes and their order), which costs nothing; a tracer on
every line of Python would halve the inputs that a second takes more than twice.
"""

import random
import re
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from tests.fuzz.corpus import make_conversation, mutate, seeds
from tests.fuzz.oracle import Heard, check
from tests.fuzz.target import play
from tooldispatchd.wire.messages import FaultLine, NestedResp, ShortResp

FINDINGS: Final = Path("build") / "fuzz"
# Of a finding only so much is printed; the file has it all.
SHOWN_BYTES: Final = 2000
# More kept inputs than this only slow down the choice of a good one.
MAX_KEPT: Final = 5000

_DIGITS: Final = re.compile(r"\d+")


class Finding(msgspec.Struct, frozen=True):
    """An input that broke an invariant, and which."""

    data: bytes
    error: Exception

    def tell(self) -> str:
        """What somebody needs to look into it; the bytes lie in a file of their own."""
        FINDINGS.mkdir(parents=True, exist_ok=True)
        path = FINDINGS / f"{zlib.crc32(self.data):08x}.bin"
        path.write_bytes(self.data)
        shown = repr(self.data[:SHOWN_BYTES]) + (" …" if len(self.data) > SHOWN_BYTES else "")
        error = f"{type(self.error).__name__}: {self.error}"
        return f"{error}\n{shown}\nplay it again: python -m tests.fuzz {path}"


def try_input(data: bytes) -> list[Heard] | Finding:
    """What was heard, where every invariant held."""
    try:
        return check(play(data))
    except Exception as error:  # noqa: BLE001  # whatever it is, it is the finding
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        return Finding(data, error)


def signs(heard: Iterable[Heard]) -> Iterator[tuple[object, ...]]:
    """What the daemon did, without the names and numbers of this one input: each thing, and each pair in order."""
    before: tuple[object, ...] = ()
    for line in heard:
        sign: tuple[object, ...] = (type(line).__name__, getattr(line, "agent", None) is None)
        answer = line.msg if isinstance(line, NestedResp) else line
        if isinstance(line, FaultLine):
            sign += (line.error, _DIGITS.sub("0", line.detail))
        elif isinstance(answer, ShortResp):
            sign += (answer.is_error, answer.fault, _DIGITS.sub("0", answer.content)[:60] if answer.fault else "")
        yield sign
        yield before[:3] + sign[:3]
        before = sign


def search(seconds: float, seed: int) -> Iterator[tuple[int, Finding | None]]:
    """Try inputs for so long; gives the count after each, with what was found."""
    chance = random.Random(seed)
    until = time.monotonic() + seconds
    seen: set[tuple[object, ...]] = set()
    fresh = seeds()
    kept = [b"\n"]
    count = 0
    while time.monotonic() < until:
        if fresh:
            data = fresh.pop()
        elif chance.random() < 0.15:
            data = make_conversation(chance)
        else:
            # Those that were found last are least explored.
            picked = kept[-1 - int(len(kept) * chance.random() ** 2)]
            data = mutate(picked, chance.choice(kept), chance)
        result = try_input(data)
        count += 1
        yield count, result if isinstance(result, Finding) else None
        if isinstance(result, Finding):
            continue
        new = set(signs(result)) - seen
        if new and len(kept) < MAX_KEPT:
            seen |= new
            kept.append(data)


def shrink(finding: Finding, seconds: float) -> Finding:
    """A smaller input that breaks the same invariant, as far as it is found in that time."""
    until = time.monotonic() + seconds
    kind = _kind(finding)
    size = max(len(finding.data) // 2, 1)
    while size and time.monotonic() < until:
        at = 0
        while at < len(finding.data) and time.monotonic() < until:
            data = finding.data[:at] + finding.data[at + size :]
            # The schedule follows from the bytes: a smaller input needs its own luck, for which spaces are tried.
            tries = (try_input(data + b" " * more) for more in range(4))
            found = next((new for new in tries if isinstance(new, Finding) and _kind(new) == kind), None)
            if found is not None and len(found.data) < len(finding.data):
                finding = found
            else:
                at += size
        size //= 2
    return finding


def _kind(finding: Finding) -> tuple[str, str]:
    return type(finding.error).__name__, str(finding.error)[:20]
