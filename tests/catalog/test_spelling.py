from random import Random
from typing import Final, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tooldispatchd.catalog.spelling import (
    HASH_LENGTH,
    PROVIDER_RULES,
    Provider,
    Separator,
    Spelling,
    escape,
    legible,
    spell,
    unescape,
)

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
def test_a_name_has_its_escape_and_is_read_back(name: str, provider: Provider, spelt: str) -> None:
    assert escape(name, provider) == spelt
    assert unescape(spelt, provider) == name


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
    assert escape(name, provider).startswith(spelt)
    assert unescape(escape(name, provider), provider) is None


@pytest.mark.parametrize(
    "text",
    ["a:b", "a__-", "a__-5g", "a__-5Fb", "a__-61", "__-c3", "__-c0af", "__-80", "a___b", "é", "", "a" * 65, "a__-h"],
)
def test_what_is_no_spelling_is_not_read(text: str) -> None:
    assert unescape(text, "anthropic") is None


def test_each_provider_takes_what_it_says_it_takes() -> None:
    assert PROVIDER_RULES.keys() | {"plain", "text"} == set(PROVIDERS)
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
    assert PROVIDER_RULES[provider].admits(escape(name, provider))


@given(NAMES, st.sampled_from(PROVIDERS))
def test_a_spelling_is_read_back_exactly_or_has_a_hash(name: str, provider: Provider) -> None:
    spelt = escape(name, provider)
    assert unescape(spelt, provider) == (None if "__-h" in spelt and provider in PROVIDER_RULES else name)


@given(st.text(alphabet="ab_-0123456789cdef", max_size=40) | st.text(max_size=20), REWRITING)
def test_what_is_read_is_spelt_so_again(text: str, provider: Provider) -> None:
    name = unescape(text, provider)
    assert name is None or escape(name, provider) == text


@given(st.from_regex(r"[A-Za-z](-?_?[A-Za-z0-9]){0,20}", fullmatch=True), st.sampled_from(PROVIDERS))
def test_a_simple_name_stays_as_it_is(name: str, provider: Provider) -> None:
    assert escape(name, provider) == name


@pytest.mark.parametrize(
    ("name", "provider", "separator", "spelt"),
    [
        ("Fs.read", "openai", ":", "Fs_read"),
        ("Fs.read", "google", ":", "Fs_read"),
        ("Fs.read", "mcp", ":", "Fs.read"),
        ("Fs.read", "text", ":", "Fs.read"),
        ("agent__x", "openai", ":", "agent__x"),
        ("router__handoff-to", "anthropic", ":", "router__handoff-to"),
        ("github:get.issue", "openai", ":", "github__get_issue"),
        ("github:search", "plain", "_", "github_search"),
        ("github:search", "text", "__", "github__search"),
        ("github:search", "anthropic", "_", "github_search"),
        ("a:_b", "openai", ":", "a___b"),
        ("files:.hidden", "google", ":", "files___hidden"),
        ("2b", "google", ":", "__-32b"),
        ("a:-b", "openai", ":", "a____-2db"),
    ],
)
def test_a_name_that_looks_like_no_other_is_shown_legibly(
    name: str, provider: Provider, separator: Separator, spelt: str
) -> None:
    spelling = Spelling(provider, separator)
    spelling.add([name])
    assert spelling.shown(name) == spelt
    assert spell(name, provider, separator) == spelt


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["Fs_read", "Fs.read"], ["Fs_read", "Fs__-2eread"]),
        (["a.b_c", "a_b.c", "a.d"], ["a__-2eb_c", "a_b__-2ec", "a_d"]),
        (["time:now", "time__now"], ["time__now", "time__-5f_now"]),
        (["text__-2etrim", "text.trim", "text_trim"], ["text__-5f_-2etrim", "text__-2etrim", "text_trim"]),
    ],
)
def test_names_that_look_alike_are_escaped_and_no_others(names: list[str], shown: list[str]) -> None:
    spelling = Spelling("openai")
    spelling.add(names)
    assert [spelling.shown(name) for name in names] == shown


def test_a_name_that_was_shown_stays_so_when_another_comes_that_looks_like_it() -> None:
    spelling = Spelling("openai")
    spelling.add(["time__now"])
    spelling.add(["time:now"])
    assert spelling.shown("time__now") == "time__now"
    assert spelling.canonical(spelling.shown("time:now")) == "time:now"


ALIKE = st.text(alphabet="ab_.:-", min_size=1, max_size=5)
SEPARATORS = st.sampled_from([":", "_", "__"])


@given(st.lists(NAMES | ALIKE, max_size=30, unique=True), st.sampled_from(PROVIDERS), SEPARATORS, st.randoms())
def test_no_two_names_of_a_session_have_one_spelling_in_whatever_order_they_come(
    names: list[str], provider: Provider, separator: Separator, random: Random
) -> None:
    spelling, other = Spelling(provider, separator), Spelling(provider, separator)
    spelling.add(names)
    shown = [spelling.shown(name) for name in names]
    random.shuffle(mixed := list(names))
    other.add(mixed)
    assert len(set(shown)) == len(names)
    assert [spelling.canonical(text) for text in shown] == names
    assert [other.shown(name) for name in names] == shown
    assert provider not in PROVIDER_RULES or all(map(PROVIDER_RULES[provider].admits, shown))


@given(st.lists(ALIKE, max_size=12), st.lists(ALIKE, max_size=12), st.sampled_from(PROVIDERS), SEPARATORS)
def test_what_comes_later_takes_no_spelling_from_what_was_shown(
    first: list[str], later: list[str], provider: Provider, separator: Separator
) -> None:
    spelling = Spelling(provider, separator)
    spelling.add(first)
    before = {name: spelling.shown(name) for name in first}
    spelling.add(later)
    assert {name: spelling.shown(name) for name in first} == before
    assert len({spelling.shown(name) for name in {*first, *later}}) == len({*first, *later})


@given(st.lists(ALIKE, max_size=12, unique=True), ALIKE, st.sampled_from(PROVIDERS))
def test_a_tool_that_looks_like_no_other_changes_no_spelling(names: list[str], other: str, provider: Provider) -> None:
    without, beside = Spelling(provider), Spelling(provider)
    without.add(names)
    beside.add([*names, other])
    looks = {legible(name, provider) for name in names if name != other}
    if legible(other, provider) not in looks:
        assert [beside.shown(name) for name in names] == [without.shown(name) for name in names]


# Two names whose hashes begin with the same 50 bits.
TWINS = ("a" * 60 + "3671b57189583", "a" * 60 + "0f581b214c37b")


def test_two_names_of_one_hash_are_told_apart_by_a_longer_one() -> None:
    spelling = Spelling("anthropic")
    assert escape(TWINS[0], "anthropic") == escape(TWINS[1], "anthropic")
    spelling.add(TWINS)
    second, first = TWINS
    assert spelling.shown(first) == escape(first, "anthropic")
    assert spelling.shown(second) == escape(second, "anthropic", HASH_LENGTH + 1)
    assert spelling.canonical(spelling.shown(first)) == first
    assert spelling.canonical(spelling.shown(second)) == second


def test_a_spelling_that_the_session_was_not_shown_is_unknown() -> None:
    spelling = Spelling("anthropic")
    spelling.add(["github:search"])
    assert spelling.canonical("github__search") == "github:search"
    assert spelling.canonical("github__list") is None
    assert spelling.canonical("github:search") is None
