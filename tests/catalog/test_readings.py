from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.readings import Readings
from tooldispatchd.catalog.spelling import SEPARATORS, Provider, Separator, Spelling, escape

TOOLS = ["Fs.read", "agent__x", "github:search", "github:list_all", "web:search", "a" * 70, "x.b_c", "x_b.c"]
NAMES = st.lists(st.text(alphabet="abB_.:-", min_size=1, max_size=5), max_size=8, unique=True)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Fs.read", "Fs.read"),
        ("Fs_read", "Fs.read"),
        ("Fs__-2eread", "Fs.read"),
        ("agent__-5f_x", "agent__x"),
        ("github__search", "github:search"),
        ("github_search", "github:search"),
        ("github_list_all", "github:list_all"),
        (escape("a" * 70, "openai"), "a" * 70),
        (escape("a" * 70, "google"), "a" * 70),
        ("x_b_c", None),
        ("x__-2eb_c", "x.b_c"),
        ("fs_read", None),
        ("search", None),
        ("Fsread", None),
        ("", None),
    ],
)
def test_a_name_in_any_spelling_means_the_one_tool_that_is_shown_so(text: str, meant: str | None) -> None:
    assert Readings(TOOLS).spelled(text) == meant


def test_the_last_part_of_a_name_means_the_one_tool_that_ends_so() -> None:
    readings = Readings(TOOLS)
    assert readings.bare("read") == "Fs.read"
    assert readings.bare("list_all") == "github:list_all"
    assert readings.bare("search") is None
    assert readings.bare("github") is None


@pytest.mark.parametrize(
    ("text", "near"),
    [("fs_READ", "Fs.read"), ("Github-Search", "github:search"), ("search", "github:search"), ("reed", None)],
)
def test_what_differs_by_case_and_separators_alone_is_near(text: str, near: str | None) -> None:
    assert Readings(TOOLS).near(text) == near


@given(NAMES, st.sampled_from(get_args(Provider)), st.sampled_from([":", *SEPARATORS]))
def test_what_is_shown_alone_among_all_forms_means_the_tool_that_it_is_shown_for(
    names: list[str], provider: Provider, separator: Separator
) -> None:
    spelling = Spelling(provider, separator)
    spelling.add(names)
    readings = Readings(names)
    for name in names:
        shown = spelling.shown(name)
        others = {other for other in names if other != name}
        # Another form may show another tool so: then the name means one of both, or none, and never a third.
        assert readings.spelled(shown) in {name, None} | others
        if not any(Readings([other]).spelled(shown) for other in others):
            assert readings.spelled(shown) == name or "__-h" in shown


@given(NAMES, st.text(alphabet="abB_.:-", max_size=6))
def test_every_text_means_one_tool_or_none_whatever_order_the_names_come_in(names: list[str], text: str) -> None:
    meant = Readings(names).spelled(text)
    assert meant is None or meant in names
    assert Readings(reversed(names)).spelled(text) == meant
    assert all(Readings(names).spelled(name) == name for name in names)
