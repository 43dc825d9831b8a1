import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.names import (
    declared_name_problem,
    default_prefix,
    free_name,
    is_server_tool_name,
    nearest,
    prefixed,
    split_name,
    unique_prefixes,
)


@pytest.mark.parametrize(
    "name", ["a", "Search", "web.search_2", "a-b.C-d", "agent__x", "router__handoff-to", "a" * 128]
)
def test_a_declared_name_is_words_with_dots_between(name: str) -> None:
    assert declared_name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "a declared name is letters, digits, - and _ after a letter, with dots between modules"),
        ("1a", "a declared name is letters, digits, - and _ after a letter, with dots between modules"),
        ("a.", "a declared name is letters, digits, - and _ after a letter, with dots between modules"),
        ("a..b", "a declared name is letters, digits, - and _ after a letter, with dots between modules"),
        ("é", "a declared name is letters, digits, - and _ after a letter, with dots between modules"),
        ("a\n", "a declared name is letters, digits, - and _ after a letter, with dots between modules"),
        ("a:b", "a declared name has no colon: what stands before one is a server's prefix"),
        ("a" * 129, "a name has at most 128 characters"),
    ],
)
def test_another_name_cannot_be_declared(name: str, why: str) -> None:
    assert declared_name_problem(name) == why


@pytest.mark.parametrize(
    ("name", "admitted"),
    [
        ("a", True),
        ("A.b/c-d_e", True),
        ("", False),
        ("a" * 128, True),
        ("a" * 1024, True),
        ("a" * 1025, False),
        ("查询 天气", True),
        ("a\n", True),
    ],
)
def test_the_names_of_a_servers_tools_are_any_characters(name: str, admitted: bool) -> None:
    assert is_server_tool_name(name) is admitted


def test_a_name_is_split_at_its_first_colon() -> None:
    assert split_name("github:search:all") == ("github", "search:all")
    assert split_name("search") == ("", "search")
    assert split_name(":search") == ("", "search")


@given(st.text(alphabet="abc-", min_size=1), st.text(alphabet="ab:/_"))
def test_a_prefixed_name_splits_into_what_it_was_made_of(prefix: str, tool: str) -> None:
    assert split_name(prefixed(prefix, tool)) == (prefix, tool)


def test_an_empty_prefix_offers_the_raw_name() -> None:
    assert prefixed("", "search") == "search"


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("mcp-time", "mcp-time"),
        ("GitHub MCP Server", "github-mcp-server"),
        ("@scope/pkg@1.2", "scope-pkg-1-2"),
        ("é:ü", "server"),
        ("", "server"),
        ("a" * 31 + "--b", "a" * 31),
    ],
)
def test_a_servers_own_name_makes_a_prefix(name: str, prefix: str) -> None:
    assert default_prefix(name) == prefix


def test_a_taken_prefix_gets_a_number() -> None:
    assert unique_prefixes(["a", "a", "a-2", "a", "", ""]) == ["a", "a-2", "a-2-2", "a-3", "", ""]
    assert unique_prefixes(["x" * 32, "x" * 32]) == ["x" * 32, "x" * 30 + "-2"]


@given(st.lists(st.text(alphabet="ab-2", min_size=1, max_size=32)))
def test_prefixes_are_unique_and_short(wanted: list[str]) -> None:
    prefixes = unique_prefixes(wanted)
    assert len(set(prefixes)) == len(wanted)
    assert all(1 <= len(prefix) <= 32 for prefix in prefixes)


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("serch", ["search", "fetch"], "search"),
        ("SEARCH", ["search"], "search"),
        ("github_search", ["github:search", "docs:search"], "github:search"),
        ("xyz", ["search"], None),
        ("", ["search"], None),
        ("search", [], None),
        ("a" * 129, ["a" * 128], None),
        ("a" * 128, ["a" * 200, "a" * 127], "a" * 127),
    ],
)
def test_the_nearest_known_name_is_offered(name: str, known: list[str], found: str | None) -> None:
    assert nearest(name, known) == found


def test_only_the_first_two_thousand_known_names_are_looked_at() -> None:
    assert nearest("search", ["x"] * 2_000 + ["search"]) is None


def test_a_name_that_is_taken_gets_the_next_number_however_many_have_it() -> None:
    taken: dict[str, int] = {}
    assert [free_name(name, taken) for name in ("a", "a", "a_2", "a")] == ["a", "a_2", "a_2_2", "a_3"]
    # Each would try all numbers before it.
    assert [free_name("a", taken) for _ in range(20_000)][-1] == "a_20003"
