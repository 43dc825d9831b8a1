"""Find tools by words: which of thousands fit a query best. Pure, and the same for the same tools and query.

    a tool ──▶ its words: of its name, title, description, properties ──▶ SearchIndex ──▶ BM25 ──▶ the best few

What a query names comes before all that it describes: the tool of that name, then names that begin so. Making an index
and asking one are generators, so that whoever has others to serve can do so between two steps, each of less than a
millisecond.
"""

import re
from array import array
from bisect import bisect_left, insort
from collections.abc import Generator, Iterable
from functools import lru_cache
from heapq import nsmallest
from itertools import islice
from math import log
from typing import Final

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
_TOOLS: Final = 4
_POSTINGS: Final = 512
# Words that a word of a query may begin; for a single letter that would be half of all.
_BEGUN: Final = 8
_LEAST_BEGUN: Final = 3
_BEGUN_WORTH: Final = 0.4
# The usual constants of BM25 (Robertson and Zaragoza 2009, 3.2).
_K1: Final = 1.2
_B: Final = 0.75
# Words of a tool, each as often as it counts. Not the true average: what a word is worth to a tool would be known only
# when all tools are.
_AVERAGE: Final = 50
# How often a word counts by where it stands.
_NAME, _TITLE, _TEXT = 4, 2, 1

# A run of capitals is a word, before another too (`HTTPServer`, `URLs`), and so is each part of `camelCase`.
_WORD: Final = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|\d+")

# At run time an array has no type parameters before Python 3.12.
Postings = tuple["array[int]", "array[float]"]
SearchedText = tuple[str, str, str]
Steps = Generator[None, None, "SearchIndex"]
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


def words(text: str) -> list[str]:
    """The words of a text in the form in which they are compared: small letters, singular."""
    return list(map(_normal, _WORD.findall(text)))


# The words of a language come again and again.
@lru_cache(maxsize=8192)
def _normal(word: str) -> str:
    """A word in small letters, without its plural; wrong for some, but in the same way for tools and queries."""
    word = word.lower()
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):  # "gas"
        return word
    return f"{word[:-3]}y" if word.endswith("ies") else word[:-1]


def searched_text(tool: Offered) -> SearchedText:
    """What of a tool is searched: its name, its title, and its description with its properties."""
    properties = tool.input_schema.get("properties")
    named = islice(properties, MAX_PROPERTIES) if isinstance(properties, dict) else ()
    return tool.name, (tool.title or "")[:MAX_TEXT], f"{tool.description[:MAX_TEXT]}\n{' '.join(named)[:MAX_TEXT]}"


class SearchIndex:
    """The words of some tools, each with the tools that have it; made by `build_index`.

    It holds no more than some hundred words of each tool, as two small numbers for each.
    """

    __slots__ = ("_folded", "_names", "_postings", "_vocabulary")

    def __init__(self) -> None:
        self._names: list[str] = []
        self._postings: dict[str, Postings] = {}
        # In order, always: to sort them all at the end would be one long step.
        self._vocabulary: list[str] = []
        # Each name, and its part after the prefix or the module, with its tool and whether it is the whole.
        self._folded: list[tuple[str, int, bool]] = []

    def __len__(self) -> int:
        return len(self._names)

    def add(self, name: str, title: str, text: str) -> None:
        """One more tool, as `searched_text` has it."""
        place = len(self._names)
        self._names.append(name)
        for part in sorted({name, bare(name)}):
            insort(self._folded, (fold(part), place, part == name))
        counts: dict[str, int] = {}
        for field, worth in ((name, _NAME), (title, _TITLE), (text, _TEXT)):
            for word in words(field):
                counts[word] = counts.get(word, 0) + worth
        long = _K1 * (1 - _B + _B * sum(counts.values()) / _AVERAGE)
        for word, count in counts.items():
            if word not in self._postings:
                self._postings[word] = array("I"), array("f")
                insort(self._vocabulary, word)
            places, weights = self._postings[word]
            places.append(place)
            weights.append(count * (_K1 + 1) / (count + long))

    def search(self, query: str, limit: int) -> Search:
        """The at most `limit` best tools; a query without any word is answered with the first of all."""
        asked = list(dict.fromkeys(words(query[:MAX_QUERY])))[:MAX_WORDS]
        if not asked:
            return FoundTools(self._names[:limit], len(self._names))
        scores: dict[int, float] = {}
        for word in asked:
            for term, worth in self._terms(word):
                yield from self._add(scores, term, worth)
        tiers = self._named(fold("".join(query[:MAX_QUERY].split())))
        best: list[Rank] = []
        places = iter(dict.fromkeys([*tiers, *scores]))
        while some := list(islice(places, _POSTINGS)):
            ranks = [Rank(tiers.get(place, 3), -scores.get(place, 0.0), place) for place in some]
            best = nsmallest(limit, [*best, *ranks])
            yield
        return FoundTools([self._names[rank.place] for rank in best], len({*tiers, *scores}))

    def _terms(self, word: str) -> Iterable[tuple[str, float]]:
        """The words of tools that a word of a query means, and how much each counts: itself, and what it begins."""
        if word in self._postings:
            yield word, 1.0
        if len(word) >= _LEAST_BEGUN:
            start = bisect_left(self._vocabulary, word)
            for term in self._vocabulary[start : start + _BEGUN]:
                if term != word and term.startswith(word):
                    yield term, _BEGUN_WORTH

    def _add(self, scores: dict[int, float], term: str, worth: float) -> Generator[None, None, None]:
        places, weights = self._postings[term]
        number = len(self._names)
        rarity = worth * log(1 + (number - len(places) + 0.5) / (len(places) + 0.5))
        for start in range(0, len(places), _POSTINGS):
            end = start + _POSTINGS
            for place, weight in zip(places[start:end], weights[start:end], strict=True):
                scores[place] = scores.get(place, 0.0) + rarity * weight
            yield

    def _named(self, folded: str) -> dict[int, int]:
        """The tools that are named by a query: 0 those of that name, 1 of that bare name, 2 whose name begins so."""
        tiers: dict[int, int] = {}
        if not folded:
            return tiers
        for at in range(bisect_left(self._folded, (folded,)), len(self._folded)):
            name, place, is_whole = self._folded[at]
            if not name.startswith(folded):
                break
            is_exact = name == folded
            if is_exact or len(folded) >= _LEAST_BEGUN:
                tiers[place] = min(tiers.get(place, 2), (0 if is_whole else 1) if is_exact else 2)
        return tiers


def bare(name: str) -> str:
    """A name without the prefix of its server, or without its module."""
    return name.partition(":")[2] or name.rpartition(".")[2]


def build_index(tools: Iterable[SearchedText]) -> Steps:
    """An index of tools, each as `searched_text` has it; they are found in this order where nothing else is said."""
    index = SearchIndex()
    each = iter(tools)
    while some := list(islice(each, _TOOLS)):
        for tool in some:
            index.add(*tool)
        yield
    return index
