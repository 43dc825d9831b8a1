"""How tools are found by words."""

from collections.abc import Generator
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.searching import MAX_WORDS, FoundTools, SearchIndex, build_index, searched_text, words

T = TypeVar("T")

NAMES = st.from_regex(r"(?:[a-z]{1,4}:)?[a-z]{1,4}(?:_[a-z]{1,4}){0,2}", fullmatch=True)
TEXTS = st.text(alphabet="abc dAé-1", max_size=30)
TOOLS = st.lists(st.tuples(NAMES, TEXTS, TEXTS), max_size=12, unique_by=lambda tool: tool[0])


def finished(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: T = done.value
            return made


def tool(name: str, description: str = "", **properties: object) -> Offered:
    return Offered(name=name, description=description, input_schema={"type": "object", "properties": properties})


def index_of(*tools: Offered) -> SearchIndex:
    return finished(build_index(map(searched_text, tools)))


def found(index: SearchIndex, query: str, limit: int = 10) -> FoundTools:
    return finished(index.search(query, limit))


OFFICE = index_of(
    tool("mail:send", "Send a message to somebody.", recipients={}),
    tool("calendar:create_event", "Put an event into the calendar of a person."),
    tool("tracker:create_issue", "Open an issue. Events of the issue are sent by mail."),
    tool("tracker:issueComments", "What people said of an issue."),
    tool("weather", "Tell the weather of a city.", cityName={}),
    tool("calendar", "Describe the calendar."),
)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("open an issue", "tracker:create_issue"),
        ("create issue", "tracker:create_issue"),
        ("create_issue", "tracker:create_issue"),
        ("CreateIssue", "tracker:create_issue"),
        ("comments", "tracker:issueComments"),
        ("comment", "tracker:issueComments"),
        ("calendar", "calendar"),
        ("calendar event", "calendar:create_event"),
        ("mail", "mail:send"),
        ("recipient", "mail:send"),
        ("city name", "weather"),
        ("weath", "weather"),
        ("What is the weather like in Bern?", "weather"),
    ],
)
def test_the_tool_that_is_meant_comes_first(query: str, first: str) -> None:
    assert found(OFFICE, query).names[0] == first


@pytest.mark.parametrize(
    ("text", "made_of"),
    [
        ("HTTPServer getURLs", ["http", "server", "get", "url"]),
        ("create_issue-comments.v2", ["create", "issue", "comment", "v", "2"]),
        ("queries class status gas", ["query", "class", "status", "gas"]),
        ("Überschrift größe 日本語", ["überschrift", "größe", "日本語"]),
        ("", []),
    ],
)
def test_a_text_is_made_of_words(text: str, made_of: list[str]) -> None:
    assert words(text) == made_of


def test_what_no_tool_has_finds_nothing() -> None:
    assert found(OFFICE, "submarine") == FoundTools([], 0)


def test_a_query_without_words_is_answered_with_the_first_tools() -> None:
    assert found(OFFICE, " … ", 2) == FoundTools(["mail:send", "calendar:create_event"], 6)


def test_of_a_page_only_the_first_words_are_looked_up() -> None:
    page = " ".join(f"x{number}y" for number in range(MAX_WORDS)) + " weather"
    assert found(OFFICE, page).names == []


def test_equal_tools_are_found_in_their_order() -> None:
    index = index_of(tool("b:run", "Run it."), tool("a:run", "Run it."))
    assert found(index, "run").names == ["b:run", "a:run"]


def test_five_thousand_tools_are_searched_in_short_steps() -> None:
    several = [tool(f"s{n % 20}:do_{n}", f"Does the work of number {n} and every other one.") for n in range(5000)]
    steps = sum(1 for _ in build_index(map(searched_text, several)))
    assert steps >= len(several) // 4
    index = index_of(*several)
    asked = index.search("does the work of number 4711", 10)
    # A tenth of the tools at most in one step, by each of six words and by the ranking.
    assert sum(1 for _ in asked) >= 6 * 9
    assert found(index, "does the work of number 4711").names[0] == "s11:do_4711"


@given(tools=TOOLS, query=TEXTS, limit=st.integers(1, 5))
def test_the_same_query_is_answered_the_same_whatever_was_asked_before(
    tools: list[tuple[str, str, str]], query: str, limit: int
) -> None:
    index, again = finished(build_index(tools)), finished(build_index(tools))
    found(again, "abc d")
    answer = found(index, query, limit)
    assert answer == found(again, query, limit)
    assert answer.names == found(index, query, 50).names[:limit]
    assert len(set(answer.names)) == len(answer.names) == min(limit, answer.found)
    assert {*answer.names} <= {name for name, _, _ in tools}


@given(tools=TOOLS.filter(bool), data=st.data())
def test_a_name_finds_its_tool_before_all_others(
    tools: list[tuple[str, str, str]], data: st.DataObject
) -> None:  # [M247]
    name = data.draw(st.sampled_from(tools))[0]
    index = finished(build_index(tools))
    # Names that differ by their separators alone are one to a query.
    alike = [other for other, _, _ in tools if other.translate({ord(char): None for char in ":_"}) == _folded(name)]
    assert found(index, name, 1).names[0] in alike


def _folded(name: str) -> str:
    return name.replace(":", "").replace("_", "")
