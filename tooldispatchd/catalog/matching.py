"""Patterns that are not matched, and why: an engine that takes linear time knows fewer of them than JavaScript.

Look-around is told apart from what is too large, and from what is no pattern: the first two are right elsewhere.
"""

import re
from functools import lru_cache
from typing import Final

from tooldispatchd.catalog.schemas import MAX_PATTERN
from tooldispatchd.catalog.violations import validator_of

LOOK_AROUND: Final = "look-around or a back-reference, which no engine matches in linear time"
TOO_LARGE: Final = "a pattern that is too large to be compiled"
NO_PATTERN: Final = "a pattern that the engine does not understand"
_BACKTRACKING: Final = re.compile(
    r"(?P<found>\(\?<?[=!]|\(\?>|\\[1-9]|\\k[<{'])|\\.|\[\^?\]?(?:\\.|[^\]\\])*(?:\]|\Z)", re.DOTALL
)
_TIMES: Final = re.compile(r"\{\d+(?:,\d*)?\}")


def why_unmatched(pattern: str) -> str | None:
    """Find out why a pattern is not checked: one of the three reasons above; None for one that is."""
    # Looked at first, so that none is remembered that is large.
    return TOO_LARGE if len(pattern) > MAX_PATTERN else _why_not_compiled(pattern)


@lru_cache(maxsize=256)
def _why_not_compiled(pattern: str) -> str | None:
    if _compiles(pattern):
        return None
    if looks_around(pattern):
        return LOOK_AROUND
    return TOO_LARGE if _compiles(_TIMES.sub("{1}", pattern)) else NO_PATTERN


def looks_around(pattern: str) -> bool:
    """Whether a pattern has look-around or a back-reference; a long one is taken to have it."""
    return len(pattern) > MAX_PATTERN or any(token.lastgroup for token in _BACKTRACKING.finditer(pattern))


def _compiles(pattern: str) -> bool:
    try:
        validator_of({"pattern": pattern})
    except ValueError:
        return False
    return True
