import json
from typing import Any

import pytest

from tests.forked.python.test_context import context
from tests.toolbox.web.sites import Answer, Site, page, redirect, site
from tooldispatchd.forked.python.context import ToolFailedError
from tooldispatchd.toolbox.web.search import search

KEY = "k3y-that-is-secret"
PATHS = {"searxng": "/search", "brave": "/res/v1/web/search", "tavily": "/search"}
HITS: list[dict[str, Any]] = [
    {"url": "https://a.test/", "title": "A &amp; B", "content": "one\n two", "description": "one\n two", "score": 1},
    {"url": "https://b.test/", "title": "", "content": None, "description": None},
    {"url": "https://c.test/", "title": "C", "content": "x" * 700, "description": "x" * 700},
]
TOLD = "1. A & B\n   https://a.test/\n   one two\n\n2. (no title)\n   https://b.test/"


def answer_of(engine: str, hits: list[dict[str, Any]]) -> bytes:
    return json.dumps({"web": {"results": hits}} if engine == "brave" else {"query": "q", "results": hits}).encode()


async def searched(
    engine: str, answer: Answer, *, query: str = "two words", limit: int = 5, key: str = KEY
) -> tuple[str, Site]:
    told = ""
    async with site({PATHS[engine]: answer}) as here:
        ctx = context(left_s=8.0, options={"search": {"engine": engine, "url": f"{here.url}/", "key": key}})
        try:
            told = await search(query, ctx, limit=limit)
        except ToolFailedError as error:
            told = f"failed: {error}"
    assert key not in told
    return told, here


@pytest.mark.parametrize("engine", PATHS)
async def test_results_are_numbered_with_title_url_and_snippet(engine: str) -> None:
    told, _ = await searched(engine, page(answer_of(engine, HITS), "application/json"), limit=2)
    assert told == TOLD


async def test_a_long_snippet_is_cut() -> None:
    told, _ = await searched("tavily", page(answer_of("tavily", HITS[2:])))
    assert told == "1. C\n   https://c.test/\n   " + "x" * 600 + "…"


@pytest.mark.parametrize("engine", PATHS)
async def test_no_result_is_an_answer(engine: str) -> None:
    told, _ = await searched(engine, page(answer_of(engine, [])))
    assert told == "No results."


async def test_brave_leaves_out_what_it_has_not_found() -> None:
    told, _ = await searched("brave", page(b'{"type": "search"}'))
    assert told == "No results."


async def test_searxng_is_asked_for_json() -> None:
    _, here = await searched("searxng", page(b"{}"))
    assert here.heads[0].startswith("GET /search?q=two+words&format=json HTTP/1.1\r\n")


@pytest.mark.parametrize("engine", PATHS)
@pytest.mark.parametrize("end", ["", "/", "PATH", "PATH/"])
async def test_a_url_may_be_given_with_the_path_of_the_api(engine: str, end: str) -> None:
    async with site({PATHS[engine]: page(answer_of(engine, HITS[:1]))}) as here:
        url = here.url + end.replace("PATH", PATHS[engine])
        assert "A & B" in await search("q", context(options={"search": {"engine": engine, "url": url, "key": KEY}}))
        assert here.heads[0].split(" ")[1].partition("?")[0] == PATHS[engine]


async def test_brave_is_given_the_key_in_a_header_of_its_own() -> None:
    _, here = await searched("brave", page(b"{}"), limit=7)
    assert here.heads[0].startswith("GET /res/v1/web/search?q=two+words&count=7&text_decorations=false HTTP/1.1\r\n")
    assert f"X-Subscription-Token: {KEY}" in here.heads[0]
    assert "authorization" not in here.heads[0].lower()


async def test_tavily_is_given_the_key_as_a_bearer() -> None:
    _, here = await searched("tavily", page(b"{}"), limit=7)
    assert here.heads[0].startswith("POST /search HTTP/1.1\r\n")
    assert f"Authorization: Bearer {KEY}" in here.heads[0]
    assert json.loads(here.bodies[0]) == {"query": "two words", "max_results": 7}


@pytest.mark.parametrize(
    ("engine", "status", "said"),
    [
        ("brave", "401 Unauthorized", "brave refused the configured key or the query (401)"),
        ("brave", "422 Unprocessable", "brave refused the configured key or the query (422)"),
        ("tavily", "401 Unauthorized", "tavily refused the configured key or the query (401)"),
        ("tavily", "432 Limit", "the limit of requests to tavily is reached (432); it says to wait 9 s"),
        ("brave", "429 Too Many", "the limit of requests to brave is reached (429); it says to wait 9 s"),
        (
            "searxng",
            "403 Forbidden",
            "this SearXNG gives no JSON (403): its settings need `json` among the formats of `search`",
        ),
        ("searxng", "500 Oops", "searxng answered with the status 500"),
    ],
)
async def test_a_refusal_is_one_sentence_without_what_the_engine_says(engine: str, status: str, said: str) -> None:
    answer = page(f"the key {KEY} is wrong".encode(), "text/plain", status, ("Retry-After: 9",))
    told, _ = await searched(engine, answer)
    assert told == f"failed: cannot search: {said}"


async def test_no_redirect_is_followed_with_the_key() -> None:
    told, here = await searched("brave", redirect("/elsewhere"))
    assert (
        told == "failed: cannot search: brave redirects (302), which is not followed; the configured url may be wrong"
    )
    assert len(here.heads) == 1


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b'{"results": 5}', b'{"results": [{"title": 1}]}', b"[" * 9999, b"\xff"]
)
async def test_an_answer_that_is_not_the_engines_is_one_sentence(body: bytes) -> None:
    told, _ = await searched("tavily", page(body, "application/json"))
    assert told == "failed: cannot search: the answer of tavily is not what its API promises"


async def test_a_key_that_the_engine_repeats_is_not_told() -> None:
    hits = [{"url": f"https://a.test/?key={KEY}", "title": KEY}]
    told, _ = await searched("tavily", page(answer_of("tavily", hits)))
    assert told == "1. [key]\n   https://a.test/?key=[key]"


@pytest.mark.parametrize("key", ["k3y\r\nX: y", "schlüssel", "k3y\0"])
async def test_a_key_that_no_header_can_hold_is_one_sentence_without_it(key: str) -> None:
    told, _ = await searched("brave", page(b"{}"), key=key)
    assert told == "failed: cannot search: the configured key has characters that a header cannot hold"


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
async def test_an_answer_that_is_too_large_is_one_sentence() -> None:
    told, _ = await searched("brave", page(b" " * 5_000_000))
    assert told == "failed: cannot search: the answer of brave is larger than 4,194,304 bytes"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "cannot search: no search engine is configured"),
        ({"search": {"engine": "searxng"}}, "cannot search: the configured url of searxng is no http or https URL"),
        (
            {"search": {"engine": "brave", "url": "h", "key": KEY}},
            "cannot search: the configured url of brave is no http or https URL",
        ),
        (
            {"search": {"engine": "brave", "url": "http://h:x", "key": KEY}},
            "cannot search: the configured url of brave is no http or https URL",
        ),
        (
            {"search": {"engine": "brave", "url": "http://127.0.0.1:1", "key": KEY}},
            "cannot search: brave: connection refused",
        ),
    ],
)
async def test_an_engine_that_cannot_be_asked_is_one_sentence(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ToolFailedError) as raised:
        await search("q", context(options=options))
    assert str(raised.value) == said
