"""Find tools by words: which of thousands fit a query best. Pure, and the same for the same tools and query.

What a query names comes before all that it describes: the tool of that name, then names that begin so. The others are
ranked by which words of the query they have: a word that few tools have says more, and so does one in a name.

Nothing is kept between two searches, which cost some 15 µs for each tool. An index answers in a hundredth of that, but
it takes as long to make as fifteen searches, more than an agent makes, and is megabytes that have to be bounded. A
search is a generator, so that whoever has others to serve can do so between two steps, each of less than a millisecond.
"""

import re
from collections import Counter
from collections.abc import Generator, Sequence
from heapq import nsmallest
from itertools import islice
from math import log
from typing import Final, NamedTuple

import msgspec

from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.readings import fold

# Of one tool; what a description says first says what the tool is for.
MAX_TEXT: Final = 2_000
MAX_PROPERTIES: Final = 64
# Of one query: a model writes ten, and one that copies a page would hold up all others that search.
MAX_QUERY: Final = 1_000
MAX_WORDS: Final = 24
# Of one step.
_TOOLS: Final = 8
_RANKED: Final = 512
# A word of a query may be the beginning of a tool's; for a single letter that would be half of all.
_LEAST_BEGUN: Final = 3
_BEGUN_WORTH: Final = 0.4
# By where a word stands: in the name, the title, the rest.
_WORTHS: Final = (3, 2, 1)
_UNNAMED: Final = 3

# A run of capitals is a word, before another too (`HTTPServer`, `URLs`), and so is each part of `camelCase`.
_WORD: Final = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|\d+")
_SIGNS: Final = str.maketrans({chr(code): " " for code in range(128) if not chr(code).isalnum()})

Search = Generator[None, None, "FoundTools"]


class Rank(msgspec.Struct, frozen=True, order=True):
    """Where a tool stands in an answer: smaller comes first. Equal tools are in the order in which they are offered."""

    tier: int
    against: float
    place: int


class FoundTools(msgspec.Struct, frozen=True):
    """The best tools for a query, the best one first, and how many fit it at all."""

    names: list[str]
    found: int


class AskedWord(NamedTuple):
    """A word of a query as it is looked for in a text whose words stand between spaces."""

    whole: str
    plural: str
    begun: str


def words(text: str) -> list[str]:
    """The words of a text in small letters and singular."""
    return list(map(_singular, _WORD.findall(text)))


def _singular(word: str) -> str:
    """Wrong for some, but whatever it is made of, `AskedWord.plural` has it back."""
    word = word.lower()
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):  # "gas"
        return word
    return f"{word[:-3]}y" if word.endswith("ies") else word[:-1]


def _asked(query: str) -> list[AskedWord]:
    asked = []
    for word in islice(dict.fromkeys(words(query)), MAX_WORDS):
        plural = f" {word[:-1]}ies " if word.endswith("y") else f" {word}s "
        asked.append(AskedWord(f" {word} ", plural, f" {word}" if len(word) >= _LEAST_BEGUN else f" {word} "))
    return asked


def search(tools: Sequence[Offered], query: str, limit: int) -> Search:
    """The at most `limit` best of the tools; a query without any word is answered with the first of all."""
    query = query[:MAX_QUERY]
    asked, folded = _asked(query), fold("".join(query.split()))
    if not asked:
        return FoundTools([tool.name for tool in tools[:limit]], len(tools))
    fitting: list[tuple[int, int, dict[AskedWord, float]]] = []
    having: Counter[AskedWord] = Counter()
    for start in range(0, len(tools), _TOOLS):
        for place, tool in enumerate(tools[start : start + _TOOLS], start):
            tier, worths = _tier(tool.name, folded), _fit(tool, asked)
            if worths or tier < _UNNAMED:
                fitting.append((tier, place, worths))
                having.update(worths.keys())
        yield
    # As BM25 has it (Robertson and Zaragoza 2009, 3.1).
    rarity = {word: log(1 + (len(tools) - count + 0.5) / (count + 0.5)) for word, count in having.items()}
    best: list[Rank] = []
    for start in range(0, len(fitting), _RANKED):
        ranks = [
            Rank(tier, -sum(rarity[word] * worth for word, worth in worths.items()), place)
            for tier, place, worths in fitting[start : start + _RANKED]
        ]
        best = nsmallest(limit, [*best, *ranks])
        yield
    return FoundTools([tools[rank.place].name for rank in best], len(fitting))


def _tier(name: str, folded: str) -> int:
    """How a folded query names a tool: 0 as it is, 1 without its prefix or module, 2 by a beginning, 3 not at all."""
    if not folded:
        return _UNNAMED
    whole, bare = fold(name), fold(name.partition(":")[2] or name.rpartition(".")[2])
    if folded == whole:
        return 0
    if folded == bare:
        return 1
    begins = len(folded) >= _LEAST_BEGUN and (whole.startswith(folded) or bare.startswith(folded))
    return 2 if begins else _UNNAMED


def _fit(tool: Offered, asked: Sequence[AskedWord]) -> dict[AskedWord, float]:
    """What each of the words that the tool has is worth there."""
    fields = _fields(tool)
    text = "".join(fields)
    return {word: _worth(fields, word) for word in asked if word.begun in text or word.plural in text}


def _worth(fields: Sequence[str], word: AskedWord) -> float:
    worth = 0.0
    for field, most in zip(fields, _WORTHS, strict=True):
        if word.whole in field or word.plural in field:
            worth += most
        elif word.begun in field:
            worth += _BEGUN_WORTH * most
    return worth


def _fields(tool: Offered) -> tuple[str, str, str]:
    """Name, title, and description with the names of properties: each word in small letters between spaces."""
    properties = tool.input_schema.get("properties")
    named = " ".join(islice(properties, MAX_PROPERTIES))[:MAX_TEXT] if isinstance(properties, dict) else ""
    said = f" {tool.description[:MAX_TEXT]} ".translate(_SIGNS).lower()
    return _parted(tool.name), _parted((tool.title or "")[:MAX_TEXT]), f"{said}{_parted(named)}"


def _parted(text: str) -> str:
    return f" {' '.join(_WORD.findall(text))} ".lower() if text else " "
