"""How tools are found by words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.searching import MAX_TEXT, MAX_WORDS, FoundTools, search, words

NAMES = st.from_regex(r"(?:[a-z]{1,4}:)?[a-z]{1,4}(?:_[a-z]{1,4}){0,2}", fullmatch=True)
TEXTS = st.text(alphabet="abc dAé-1", max_size=30)


def tool(name: str, description: str = "", **properties: object) -> Offered:
    return Offered(name=name, description=description, input_schema={"type": "object", "properties": properties})


TOOLS = st.lists(st.builds(tool, NAMES, TEXTS), max_size=12, unique_by=lambda one: one.name)


def found(tools: list[Offered], query: str, limit: int = 10) -> FoundTools:
    steps = search(tools, query, limit)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: FoundTools = done.value
            return made


OFFICE = [
    tool("mail:send", "Send a message to somebody.", recipients={}),
    tool("calendar:create_event", "Put an event into the calendar of a person."),
    tool("tracker:create_issue", "Open an issue. Events of the issue are sent by mail."),
    tool("tracker:issueComments", "What people said of an issue."),
    tool("weather", "Tell the weather of a city.", cityName={}),
    tool("calendar", "Describe the calendar."),
]


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
    assert found([tool("b:run", "Run it."), tool("a:run", "Run it.")], "run").names == ["b:run", "a:run"]


@pytest.mark.parametrize("query", ["query", "queries", "repository", "repositories", "class", "classes"])
def test_a_word_is_found_in_its_plural_and_in_its_singular(query: str) -> None:
    tools = [tool("other", "Quest and reposition."), tool("look", "Queries of the repository, and its classes.")]
    assert found(tools, query).names == ["look"]


@pytest.mark.parametrize("query", ["http server", "get urls", "url"])
def test_words_that_capitals_part_are_found(query: str) -> None:
    assert found([tool("other"), tool("HTTPServer_getURLs")], query).names == ["HTTPServer_getURLs"]


def test_of_a_long_description_the_beginning_is_searched() -> None:
    assert found([tool("look", "x " * MAX_TEXT + "weather")], "weather").names == []


def test_five_thousand_tools_are_searched_in_short_steps() -> None:
    several = [tool(f"s{n % 20}:do_{n}", f"Does the work of number {n} and every other one.") for n in range(5000)]
    # At most eight tools are looked at in one, and then at most 512 ranked.
    assert sum(1 for _ in search(several, "does the work of number 4711", 10)) == 625 + 10
    assert found(several, "does the work of number 4711").names[0] == "s11:do_4711"


@given(tools=TOOLS, query=TEXTS, limit=st.integers(1, 5))
def test_a_shorter_answer_is_the_beginning_of_a_longer_one(tools: list[Offered], query: str, limit: int) -> None:
    answer = found(tools, query, limit)
    assert answer.names == found(tools, query, 50).names[:limit]
    assert len(set(answer.names)) == len(answer.names) == min(limit, answer.found)
    assert {*answer.names} <= {one.name for one in tools}


@given(tools=TOOLS.filter(bool), data=st.data())
def test_a_name_finds_its_tool_before_all_others(tools: list[Offered], data: st.DataObject) -> None:  # [M247]
    name = data.draw(st.sampled_from(tools)).name
    # Names that differ by their separators alone are one to a query.
    alike = [one.name for one in tools if _folded(one.name) == _folded(name)]
    assert found(tools, name, 1).names[0] in alike


def _folded(name: str) -> str:
    return name.replace(":", "").replace("_", "")
