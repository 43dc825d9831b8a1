"""What an expression must hold as short literals: the patterns of `matches`, and time zones.

The engine compiles a pattern at every evaluation, and RE2, which it uses, is linear in the text but not cheap: each
step of a search may build a new state out of all positions of the pattern. So what a pattern costs is bounded by its
positions: repetitions multiply them, and a class of characters is several, since its UTF-8 is spelled out.

The engine looks a zone up by opening a file of its name, wherever an absolute name or one with dots leads, and keeps
every name that it was ever asked for. So a zone is never taken from an input: which there are is known when the
expression is loaded, and each is asked for then.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from tooldispatchd.catalog.expressions.tree import Node, NodeError, nodes_in

# A pattern of more is a grammar, and belongs into a program.
MAX_PATTERN: Final = 200
# A search is begun in 3-4 µs, a position compiles in 0.05-0.35 µs, and takes 5-15 ns of each step that builds a state.
SEARCH_NS: Final = 4_000
COMPILE_NS: Final = 350
STATE_NS: Final = 14
# A step between states that are known already.
STEP_NS: Final = 3
# What compiling a pattern alone may take; it is done again in each evaluation.
MAX_COMPILE_NS: Final = 200_000
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
# Of bytes below 128 alone: neither negated nor a dot.
_ASCII_CLASS: Final = re.compile(r"\\[dsw]|\[(?:\\[dsw]|[^\\\[^\u0080-\U0010ffff])+\]")
_PLAIN: Final = re.compile(r"[A-Za-z0-9 _:/,;=@#%&'\"<>|^$-]*")
_FOLDING: Final = re.compile(r"\(\?[a-zA-Z]*i")

GETTERS: Final = frozenset({
    "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear",
    "getHours", "getMinutes", "getSeconds", "getMilliseconds",
})  # fmt: skip
"""The functions that look at a time by the calendar; with an argument, in the zone of that name."""

# The longest name that the zone database has is America/Argentina/ComodRivadavia, which has 32 characters.
MAX_ZONE: Final = 64
_OFFSET: Final = re.compile(r"[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]")
_NAMED: Final = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){1,2}")


def patterns_in(root: Node) -> Iterator[tuple[Node, str]]:
    """Every pattern of a tree, with its text. Raises `NodeError` where it is no literal, or too much of one."""
    for node in nodes_in(root):
        if node.kind == "call" and node.text == "matches":
            pattern = node.parts[-1]
            if pattern.kind != "constant" or pattern.text is None:
                raise NodeError("matches needs a pattern that stands in the expression as one text", node)
            if len(pattern.text) > MAX_PATTERN:
                raise NodeError(f"a pattern has at most {MAX_PATTERN} characters", pattern)
            if match_ns(pattern.text, 0, 1) > MAX_COMPILE_NS:
                raise NodeError("this pattern would take too much work, whatever the text", pattern)
            yield pattern, pattern.text


def zones_in(root: Node) -> Iterator[tuple[Node, str]]:
    """Every time zone of a tree, with its text. Raises `NodeError` where it is no literal, or not of a zone's form."""
    for node in nodes_in(root):
        if node.kind == "call" and node.text in GETTERS:
            # The first part is the time; a function of no zone has no more.
            for zone in node.parts[1:]:
                text = zone.text if zone.kind == "constant" else None
                if text is None:
                    why = 'a time zone must stand in the expression as one text, such as "Europe/Paris"'
                    raise NodeError(why, zone)
                if not is_zone(text):
                    why = f'"{text[:MAX_ZONE]}" is no time zone: write UTC, +hh:mm, -hh:mm or Area/City'
                    raise NodeError(why, zone)
                yield zone, text


def is_zone(text: str) -> bool:
    """Whether a text has the form of a zone, which need not exist."""
    if text == "UTC" or _OFFSET.fullmatch(text):
        return True
    return len(text) <= MAX_ZONE and _NAMED.fullmatch(text) is not None


def match_ns(pattern: str, text: float, rounds: float) -> float:
    """What `matches` costs on so many bytes of text in so many evaluations together, in nanoseconds."""
    count = active = positions(pattern)
    # A step builds a state where its set of atoms is new, out of all that are active in it.
    sets = 1 << min(_written_out(pattern, lambda _: 1), 20)
    if _PLAIN.fullmatch(pattern):
        # Of words and alternatives of words a set is where one stands in each, and few are begun at once.
        sets, active = count, min(count, 4 + pattern.count("|"))
    built = min(text, rounds * sets * (count + 1))
    return rounds * (SEARCH_NS + count * COMPILE_NS) + built * active * STATE_NS + text * STEP_NS


def positions(pattern: str) -> int:
    """How many positions a pattern has at most once its repetitions are written out."""
    letter = FOLDED if _FOLDING.search(pattern) else 1
    return _written_out(pattern, lambda match: _weight(match, letter))


def _written_out(pattern: str, weigh: Callable[[re.Match[str]], int]) -> int:
    # Each level: what stands before the last atom, and the last atom, which a repetition multiplies.
    levels: list[tuple[int, int]] = [(1, 0)]
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
            levels[-1] = (before + last, weigh(match))
    return min(sum(before + last for before, last in levels), UNICODE_CLASS)


def _weight(match: re.Match[str], letter: int) -> int:
    text = match.group()
    if match["unicode"] or (match["class"] and "\\p" in text.lower()):
        return UNICODE_CLASS
    if match["class"]:
        is_ascii = letter == 1 and _ASCII_CLASS.fullmatch(text) is not None
        # \w has four ranges.
        return len(text) + (3 * text.count("\\") if is_ascii else CLASS)
    return len(text) * (letter if text.isascii() else CLASS)
