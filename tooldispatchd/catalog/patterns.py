"""What a pattern unfolds to: `cost_of` bounds what it takes to be compiled, and to be looked for in a text.

A few characters may ask for much: a counted repetition is as long as what it repeats, so many times, and a class of
Unicode has hundreds of ranges. That is counted in the pattern's text in one pass, never too little: what this does not
understand costs as much as can be. The compiler's own bound on what it makes is no help, for it makes it before it
looks, once for each pattern.
"""

import re
from typing import Final

# Beyond it every pattern is the same: no text is short enough for it, and none is compiled in the loop.
MAX_COST: Final = 1_000_000
# Measured, in states of the compiler's, of which each takes a microsecond and less.
_UNICODE_COST: Final = 300
_ANY_COST: Final = 4
# Characters and ranges of a class that are no more than a state.
_PLAIN_PER_STATE: Final = 4

_TOKEN: Final = re.compile(
    r"""
      (?P<unicode> \\[pP] (?: \{ [^}]* \} | . ) )
    | (?P<any> \\[sSwWdD] | \. )
    | (?P<escape> \\ (?: u\{ [0-9a-fA-F]* \} | . ) )
    | (?P<class> \[ \^? \]? (?: \\. | [^\[\]\\] )* \] )
    | (?P<open> \( (?: \?: | \?P?< [A-Za-z_] \w* > )? (?! \? ) )
    | (?P<close> \) )
    | \{ (?P<least> \d{1,9} ) (?P<most> , \d{0,9} )? \}
    | (?P<strange> [\[\]] | \( \? | \{ )
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_PARTS: Final = re.compile(r"\\[pP]|\\[sSwWdD]|.", re.DOTALL)


def cost_of(pattern: str) -> int:
    """States that a pattern may unfold to, and the square of its classes that stand for many; at most `MAX_COST`."""
    # Of each group that is open, what stands in it so far; and of the innermost, its last part.
    sums, last, classes = [0], 0, 0
    # Flags of the whole pattern that change no size.
    for token in _TOKEN.finditer(pattern.removeprefix("(?i)")):
        kind = token.lastgroup
        if kind == "close" and len(sums) > 1:
            inner = sums.pop()
            last = inner
            sums[-1] += inner
        elif kind in {"least", "most"}:
            times = max(int(token["least"]), int((token["most"] or ",")[1:] or 0), 1)
            sums[-1] += last * (times - 1)
            last *= times
        elif kind in {"close", "strange"}:
            return MAX_COST
        elif kind == "open":
            sums.append(0)
            last = 0
        else:
            last, found = _weigh(kind, token[0])
            classes += found
            sums[-1] += last
        if sums[-1] > MAX_COST:
            return MAX_COST
    return MAX_COST if len(sums) > 1 else min(sums[0] + classes * classes, MAX_COST)


def _weigh(kind: str | None, text: str) -> tuple[int, int]:
    """What one part costs, and how many classes that stand for many characters it has."""
    if kind == "class":
        parts = [_weigh(_kind_of(part), part) for part in _PARTS.findall(text[1:-1])]
        cost = (_ANY_COST if text.startswith("[^") else 1) + len(parts) // _PLAIN_PER_STATE
        return cost + sum(each for each, found in parts if found), sum(found for _, found in parts)
    if kind == "unicode":
        return _UNICODE_COST, 1
    if kind == "any":
        return _ANY_COST, text != "."
    return 1, 0


def _kind_of(part: str) -> str | None:
    if len(part) == 1:
        return None
    return "unicode" if part[1] in "pP" else "any"
