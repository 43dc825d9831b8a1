"""What a regular expression of `matches` costs, as an upper bound, from its text alone.

The engine compiles a pattern at every evaluation, and RE2, which it uses, is linear in the text but not cheap: each
step of a search may build a new state out of all positions of the pattern. So the bound counts positions: repetitions
multiply them, and a class of characters is several, since its UTF-8 is spelled out. Times are nanoseconds, rounded up
from what `benchmarks/expressions.py` measured.
"""

import re
from typing import Final

# A position compiles in 0.05-0.35 µs, and takes 5-15 ns of each step that builds a state.
CALL_NS: Final = 7_000
COMPILE_NS: Final = 350
STATE_NS: Final = 14
# A step between states that are known already.
STEP_NS: Final = 3
# A class in UTF-8 is as many ranges of bytes; `.` is the widest of the cheap ones.
CLASS: Final = 8
# A letter of any case is a class too: k is also the Kelvin sign.
FOLDED: Final = 5
# What a Unicode class such as \pL compiles to: over a millisecond each, so that no budget holds it.
UNICODE_CLASS: Final = 10_000

_TOKEN: Final = re.compile(
    r"(?P<unicode>\\[pP])"
    r"|(?P<quoted>\\Q(?s:.*?)(?:\\E|$))"
    r"|(?P<class>\\[dDsSwW.C]|\.|\[\^?\]?(?:\[:\^?\w+:\]|\\(?s:.)|[^\]\\])*\])"
    r"|(?P<open>\((?:\?(?:P?<\w+>|[imsU-]*:?))?)"
    r"|(?P<close>\))"
    r"|(?P<times>\{(?P<least>\d*)(?:,(?P<most>\d*))?\})"
    r"|(?P<sign>[*+?|^$])"
    r"|(?P<one>\\x\{[0-9A-Fa-f]+\}|\\(?s:.)|(?s:.))"
)
_FOLDING: Final = re.compile(r"\(\?[a-zA-Z]*i")
_PLAIN: Final = re.compile(r"[A-Za-z0-9 _:/,;=@#%&'\"<>|-]*")


def positions(pattern: str) -> int:
    """How many positions a pattern has at most once its repetitions are written out."""
    # Each level: what stands before the last atom, and the last atom, which a repetition multiplies.
    levels: list[tuple[int, int]] = [(1, 0)]
    letter = FOLDED if _FOLDING.search(pattern) else 1
    for match in _TOKEN.finditer(pattern):
        before, last = levels[-1]
        kind = match.lastgroup
        if kind == "open":
            levels.append((1, 0))
        elif kind == "close":
            if len(levels) > 1:
                levels.pop()
                outer, previous = levels[-1]
                levels[-1] = (outer + previous, before + last)
        elif match["times"] is not None:
            times = max(int(match["least"] or 1), int(match["most"] or 1), 1)
            # Each copy may be left out, which is a fork before it.
            levels[-1] = (before, (last + 1) * min(times, UNICODE_CLASS) + 1)
        elif kind == "sign":
            levels[-1] = (before + 1, last)
        else:
            levels[-1] = (before + last, _weight(match, letter))
    return min(sum(before + last for before, last in levels), UNICODE_CLASS)


def _weight(match: re.Match[str], letter: int) -> int:
    text = match.group()
    if match["unicode"] or (match["class"] and "\\p" in text.lower()):
        return UNICODE_CLASS
    if match["class"]:
        return CLASS + len(text)
    return len(text) * (letter if text.isascii() else CLASS)


def match_ns(pattern: str, size: int) -> int:
    """What one `matches` with a pattern costs on a text of `size` bytes, in nanoseconds."""
    count = positions(pattern)
    # Words and alternatives of words have a state for each position and no more; of others the sets of positions count.
    states = count if _PLAIN.fullmatch(pattern) else 1 << min(count, 20)
    fresh = min(size + 1, states * (count + 1))
    return CALL_NS + count * COMPILE_NS + fresh * count * STATE_NS + size * STEP_NS
