import json
import time

import pytest
from msgspec import Raw

from tests.providers.rest.calls import calling_at
from tests.servers.raw_http import Peer, Script
from tooldispatchd.calls.content import Wanted
from tooldispatchd.providers.rest.pages import next_link
from tooldispatchd.wire.faults import Code
from tooldispatchd.wire.messages import ContentKind


def pages(*answers: tuple[object, str]) -> Script:
    """A server that gives one answer after the other, each with the headers beside it."""
    left = list(answers)

    async def script(peer: Peer) -> None:
        while True:
            await peer.read_request()
            value, headers = left.pop(0)
            await peer.answer(json.dumps(value).encode(), headers=headers)

    return script


def link(to: str) -> str:
    return f'Link: <{to}>; rel="next"\r\n'


async def test_a_link_is_got_with_nothing_of_what_was_posted() -> None:
    rest = {"method": "POST", "body": {"a": 1}, "headers": {"X-A": "1", "Content-Language": "en"}}
    script = pages(([1], link("?page=2")), ([2], ""))
    async with calling_at(script, {**rest, "paginate": {"by": "link"}}) as (caller, server):
        assert await caller.value() == [1, 2]
    first, second = server.asked
    assert (first.method, first.body) == ("POST", b'{"a":1}')
    assert (second.method, second.body, second.headers["x-a"]) == ("GET", b"", "1")
    assert not [name for name in second.headers if name.startswith("content-")]


async def test_a_link_that_is_no_url_is_a_failure_of_the_api() -> None:
    script = pages(([1], link("http://[::1/x")))
    async with calling_at(script, {"paginate": {"by": "link"}}) as (caller, _):
        fault = await caller.fault()
    assert (fault.code, fault.extras["reason"]) == (Code.TOOL_FAILED, "the link to its next page is not a URL")


@pytest.mark.parametrize(
    ("by", "targets"),
    [
        ({"by": "page"}, ["/base/t?a=1&page=1&z=2", "/base/t?a=1&page=2&z=2"]),
        (
            {"by": "cursor", "cursor": "/next", "query": "page"},
            ["/base/t?a=1&page=7&z=2&pa%67e=8", "/base/t?a=1&page=c&z=2"],
        ),
    ],
)
async def test_a_page_is_asked_for_once_in_the_place_of_what_its_entry_was(
    by: dict[str, object], targets: list[str]
) -> None:
    script = pages(({"items": [1], "next": "c"}, ""), ({"items": []}, ""))
    rest = {"path": "/t?a=1&page=${parameters.page}&z=2&pa%67e=8", "pick": "/items", "paginate": by}
    async with calling_at(script, rest, tool={"type": "{page: int} -> json"}) as (caller, server):
        assert await caller.value({"page": 7}) == [1]
    assert [asked.target for asked in server.asked] == targets


async def test_pages_by_link_are_joined() -> None:
    script = pages(([1, 2], link("/base/t?page=2&x=1")), ([3], link("?page=3")), ([4], 'Link: </x>; rel="prev"\r\n'))
    rest = {"method": "POST", "body": {"a": 1}, "paginate": {"by": "link"}}
    async with calling_at(script, rest, api={"query": {"key": "k"}}) as (caller, server):
        assert await caller.value() == [1, 2, 3, 4]
    assert [f"{asked.method} {asked.target}" for asked in server.asked] == [
        "POST /base/t?key=k",
        "GET /base/t?page=2&x=1&key=k",
        "GET /base/t?page=3&key=k",
    ]
    assert [asked.body for asked in server.asked] == [b'{"a":1}', b"", b""]


async def test_pages_by_cursor_are_joined() -> None:
    script = pages(
        ({"items": ["a"], "meta": {"next": "c 1"}}, ""),
        ({"items": [], "meta": {"next": 7}}, ""),
        ({"items": ["b"], "meta": {"next": ""}}, ""),
    )
    rest = {
        "path": "/t?limit=1",
        "pick": "/items",
        "paginate": {"by": "cursor", "cursor": "/meta/next", "query": "after"},
    }
    async with calling_at(script, rest) as (caller, server):
        assert await caller.value() == ["a", "b"]
    assert [asked.target for asked in server.asked] == [
        "/base/t?limit=1",
        "/base/t?limit=1&after=c%201",
        "/base/t?limit=1&after=7",
    ]


async def test_a_cursor_that_stays_the_same_is_the_last() -> None:
    script = pages(({"i": [1], "n": "x"}, ""), ({"i": [2], "n": "x"}, ""), ({"i": [3], "n": "x"}, ""))
    rest = {"pick": "/i", "paginate": {"by": "cursor", "cursor": "/n"}}
    async with calling_at(script, rest) as (caller, server):
        assert await caller.value() == [1, 2]
        assert len(server.asked) == 2


async def test_pages_by_number_end_with_an_empty_one() -> None:
    script = pages(([1], ""), ([2], ""), ([], ""))
    async with calling_at(script, {"paginate": {"by": "page", "first": 0, "query": "p"}}) as (caller, server):
        assert await caller.value() == [1, 2]
    assert [asked.target for asked in server.asked] == ["/base/t?p=0", "/base/t?p=1", "/base/t?p=2"]


async def test_there_are_no_more_pages_than_the_table_says() -> None:
    script = pages(*(([number], "") for number in range(9)))
    details = Wanted(ContentKind.JSON, details=True)
    async with calling_at(script, {"paginate": {"by": "page", "max_pages": 3}}) as (caller, server):
        answer = await caller.answer(wanted=details)
        assert len(server.asked) == 3
    assert (answer.content, answer.details) == ("[0,1,2]", Raw(b'{"pages":3,"more":true}'))


async def test_a_page_over_the_bound_on_all_bytes_is_left_out() -> None:
    script = pages((["x" * 600], ""), (["y" * 600], ""))
    details = Wanted(ContentKind.JSON, details=True)
    async with calling_at(script, {"paginate": {"by": "page"}}, max_bytes=1_000) as (caller, _):
        answer = await caller.answer(wanted=details)
    assert (answer.content, answer.details) == (json.dumps(["x" * 600]), Raw(b'{"pages":1,"more":true}'))


async def test_a_first_page_over_the_bound_is_a_failure() -> None:
    async with calling_at(pages((["x" * 2_000], "")), {"paginate": {"by": "page"}}, max_bytes=1_000) as (caller, _):
        assert (await caller.fault()).extras["limit"] == "content_bytes"


async def test_large_pages_are_read_by_a_checker() -> None:
    script = pages((list(range(50_000)), ""), (list(range(50_000)), ""), ([], ""))
    async with calling_at(script, {"paginate": {"by": "page"}}) as (caller, _):
        value = await caller.value()
    assert isinstance(value, list)
    assert len(value) == 100_000


@pytest.mark.parametrize("page", [{"items": {}}, {"items": None}, {}, [1]])
async def test_a_page_without_a_list_is_a_failure(page: object) -> None:
    async with calling_at(pages((page, "")), {"pick": "/items", "paginate": {"by": "link"}}) as (caller, _):
        fault = await caller.fault()
    assert fault.code is Code.TOOL_FAILED
    assert "what stands at /items of a page of its answer is no list" in fault.detail


async def test_a_refusal_of_a_later_page_is_the_answer() -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.answer(b"[1]")
        await peer.read_request()
        await peer.answer(b"{}", "429 x")
        await peer.wait_for_close()

    async with calling_at(script, {"paginate": {"by": "page"}}) as (caller, _):
        answer = await caller.answer()
    assert answer.is_error


async def test_a_link_to_another_origin_is_not_followed() -> None:
    async with calling_at(pages(([1], link("http://127.0.0.1:1/x"))), {"paginate": {"by": "link"}}) as (caller, _):
        fault = await caller.fault()
    assert fault.code is Code.TOOL_FAILED
    assert "hosts" in fault.detail


async def test_all_pages_together_are_checked() -> None:
    tool = {"type": "{} -> [int]"}
    async with calling_at(pages(([1], ""), (["x"], ""), ([], "")), {"paginate": {"by": "page"}}, tool=tool) as (
        caller,
        _,
    ):
        assert (await caller.fault()).code is Code.INVALID_OUTPUT


@pytest.mark.parametrize(
    ("header", "target"),
    [
        ('<https://x/?a=1,2>; rel="next", </y>; rel="last"', "https://x/?a=1,2"),
        ('</y>; rel="last", </x>; title="a, b"; REL=next', "/x"),
        ('</x>; rel="prev next"', "/x"),
        ('</x>; rel="nexter"', None),
        ("</x>", None),
        ("", None),
        ("<<<>>>;;;rel=next", None),
        ('</x>; rel="next', None),
        ('</x>; rel=prev; rel=next, </y>; title="<, >"; rel=next', "/y"),
    ],
)
def test_the_next_link_is_found(header: str, target: str | None) -> None:
    assert next_link(header) == target


def test_a_long_header_of_links_is_read_in_linear_time() -> None:
    before = time.process_time()
    for header in ("<" * 60_000, "<>;" * 20_000, "<>" + "; a" * 20_000, '<>;a="' * 9_000, "<>;" + " " * 60_000):
        assert next_link(header) is None
    # One that looked again from each sign took a second for the first of them.
    assert time.process_time() - before < 0.2
