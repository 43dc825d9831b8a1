from fnmatch import fnmatchcase
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.globs import NameList, insisted, is_glob

NAMES = st.text(alphabet="aB_.:-", max_size=6)
PATTERNS = st.text(alphabet="aB_.:*?[]!\\", max_size=6)


@pytest.mark.parametrize(
    ("entry", "name", "is_meant"),
    [
        ("search", "search", True),
        ("search", "Search", False),
        ("s*", "search", True),
        ("S*", "search", False),
        ("*", "", True),
        ("s?arch", "search", True),
        ("s?arch", "sarch", False),
        ("*.read", "Fs.read", True),
        ("*.read", "Fs.reader", False),
        ("[ab]*", "a", False),
        ("[ab]*", "[ab]c", True),
        ("a*", "a\n", True),
    ],
)
def test_an_entry_stands_for_these_names(entry: str, name: str, is_meant: bool) -> None:
    assert NameList([entry]).admits(name) is is_meant


@given(st.lists(PATTERNS, max_size=4), st.lists(NAMES, max_size=6, unique=True))
def test_a_selection_is_what_each_of_its_entries_stands_for(entries: list[str], names: list[str]) -> None:
    def is_meant(entry: str, name: str) -> bool:
        return fnmatchcase(name, entry.replace("[", "[[]")) if is_glob(entry) else entry == name

    selection = NameList(entries)
    assert selection.of(names) == [name for name in names if any(is_meant(entry, name) for entry in entries)]
    assert selection.missing(names) == [entry for entry in entries if not any(is_meant(entry, name) for name in names)]


def test_a_hostile_pattern_takes_no_longer_than_its_length() -> None:
    began = perf_counter()
    assert not NameList(["*a" * 60 + "b"]).admits("a" * 128)
    assert perf_counter() - began < 0.5


def test_a_name_that_is_taken_away_again_is_not_asked_for_but_a_pattern_is() -> None:
    entries = ("have", "lack", "denied", "ha*", "no*")
    lacks = insisted(entries, usable={"have"}, listed={"have", "denied"}, keeps=lambda name: name != "denied")
    assert lacks == ["lack", "no*"]
