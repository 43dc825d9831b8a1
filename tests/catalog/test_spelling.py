from typing import Final, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tooldispatchd.catalog.spelling import HASH_LENGTH, PROVIDER_RULES, Provider, Spelling, spell, unspell

PROVIDERS: Final[tuple[Provider, ...]] = get_args(Provider)
REWRITING = st.sampled_from(sorted(PROVIDER_RULES))
# What is easily confused, what servers give, and any text at all.
TRICKY = st.text(alphabet="ab5fh_-:.é7", max_size=12)
LONG = st.text(alphabet="ab_-:.", min_size=40, max_size=140)
ANY = st.text(st.characters(), max_size=20)
NAMES = TRICKY | LONG | ANY


@pytest.mark.parametrize(
    ("name", "provider", "spelt"),
    [
        ("search", "anthropic", "search"),
        ("_web-search_2_", "google", "_web-search_2_"),
        ("github:search", "openai", "github__search"),
        ("github:search", "plain", "github:search"),
        ("web.search", "openai_responses", "web__-2esearch"),
        ("web.search", "google", "web__-2esearch"),
        ("web.search", "mcp", "web.search"),
        ("a/b", "mcp", "a__-2fb"),
        ("a__b", "anthropic", "a__-5f_b"),
        ("a_:b", "anthropic", "a__-5f__b"),
        ("a:_b", "anthropic", "a____-5fb"),
        ("a:-b", "anthropic", "a____-2db"),
        ("a::b", "anthropic", "a____b"),
        ("2b", "anthropic", "2b"),
        ("2b", "google", "__-32b"),
        ("-b", "google", "__-2db"),
        ("é", "anthropic", "__-c3a9"),
        ("\ud800", "anthropic", "__-eda080"),
        ("a" * 64, "anthropic", "a" * 64),
        ("a" * 128, "mcp", "a" * 128),
        ("a" * 128, "plain", "a" * 128),
    ],
)
def test_a_name_has_its_spelling_and_is_read_back(name: str, provider: Provider, spelt: str) -> None:
    assert spell(name, provider) == spelt
    assert unspell(spelt, provider) == name


@pytest.mark.parametrize(
    ("name", "provider", "spelt"),
    [
        ("a" * 65, "anthropic", "a" * 50 + "__-hmnjwdrelxh"),
        ("a" * 64, "google", "a" * 49 + "__-h77qfj7t24d"),
        ("github:" + "é" * 20, "anthropic", "github__" + "__-c3a9" * 6 + "__-h"),
        ("a" * 49 + "_" + "b" * 20, "anthropic", "a" * 49 + "__-h"),
        ("", "anthropic", "__-h4oymiquy7q"),
    ],
)
def test_a_name_without_a_spelling_of_the_right_length_ends_in_a_hash(
    name: str, provider: Provider, spelt: str
) -> None:
    assert spell(name, provider).startswith(spelt)
    assert unspell(spell(name, provider), provider) is None


@pytest.mark.parametrize(
    "text",
    ["a:b", "a__-", "a__-5g", "a__-5Fb", "a__-61", "__-c3", "__-c0af", "__-80", "a___b", "é", "", "a" * 65, "a__-h"],
)
def test_what_is_no_spelling_is_not_read(text: str) -> None:
    assert unspell(text, "anthropic") is None


def test_each_provider_takes_what_it_says_it_takes() -> None:
    assert PROVIDER_RULES.keys() | {"plain"} == set(PROVIDERS)
    assert PROVIDER_RULES["google"].admits("_a-1")
    assert not PROVIDER_RULES["google"].admits("1a")
    assert not PROVIDER_RULES["google"].admits("a" * 64)
    assert PROVIDER_RULES["anthropic"].admits("a" * 64)
    assert not PROVIDER_RULES["anthropic"].admits("a\n")
    assert not PROVIDER_RULES["openai"].admits("")
    assert PROVIDER_RULES["mcp"].admits(".a")


@given(NAMES, REWRITING)
@example("", "google")
@example("\udfff" * 30, "mcp")
def test_every_spelling_is_one_that_the_provider_takes(name: str, provider: Provider) -> None:
    assert PROVIDER_RULES[provider].admits(spell(name, provider))


@given(NAMES, st.sampled_from(PROVIDERS))
def test_a_spelling_is_read_back_exactly_or_has_a_hash(name: str, provider: Provider) -> None:
    spelt = spell(name, provider)
    assert unspell(spelt, provider) == (None if "__-h" in spelt and provider != "plain" else name)


@given(st.text(alphabet="ab_-0123456789cdef", max_size=40) | st.text(max_size=20), REWRITING)
def test_what_is_read_is_spelt_so_again(text: str, provider: Provider) -> None:
    name = unspell(text, provider)
    assert name is None or spell(name, provider) == text


@given(st.from_regex(r"[A-Za-z](-?_?[A-Za-z0-9]){0,20}", fullmatch=True), st.sampled_from(PROVIDERS))
def test_a_simple_name_stays_as_it_is(name: str, provider: Provider) -> None:
    assert spell(name, provider) == name


@given(st.lists(NAMES, max_size=30), st.sampled_from(PROVIDERS))
def test_no_two_names_of_a_session_have_one_spelling(names: list[str], provider: Provider) -> None:
    spelling = Spelling(provider)
    shown = [spelling.add(name) for name in names]
    assert len(set(shown)) == len(set(names))
    assert [spelling.canonical(text) for text in shown] == names
    assert [spelling.add(name) for name in names] == shown


# Two names whose hashes begin with the same 50 bits.
TWINS = ("a" * 60 + "3671b57189583", "a" * 60 + "0f581b214c37b")


def test_two_names_of_one_hash_are_told_apart_by_a_longer_one() -> None:
    first, second = TWINS
    spelling = Spelling("anthropic")
    assert spell(first, "anthropic") == spell(second, "anthropic")
    assert spelling.add(first) == spell(first, "anthropic")
    assert spelling.add(second) == spell(second, "anthropic", HASH_LENGTH + 1)
    assert spelling.canonical(spelling.add(first)) == first
    assert spelling.canonical(spelling.add(second)) == second


def test_a_spelling_that_the_session_was_not_shown_is_unknown() -> None:
    spelling = Spelling("anthropic")
    spelling.add("github:search")
    assert spelling.canonical("github__search") == "github:search"
    assert spelling.canonical("github__list") is None
    assert spelling.canonical("github:search") is None
