"""Lists of tools, page by page."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tests.providers.mcp.linking import SHARE
from tests.providers.mcp.listings import SERVER, listed
from tooldispatchd.calls.gate import Turns
from tooldispatchd.catalog.spelling import escape
from tooldispatchd.checkers.pool import IN_PLACE, Buffer, InPlace
from tooldispatchd.checkers.worker import Work
from tooldispatchd.providers.mcp.listing import (
    LIGHT_PAGE_BYTES,
    MAX_LIST_BYTES,
    MAX_TOOLS,
    MAX_TTL_S,
    MAX_WARNINGS,
    Listing,
)


async def test_a_tool_is_read_with_all_that_is_said_of_it() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    await listing.add(
        listed(
            "search",
            title="Search",
            description="Find it.",
            outputSchema={"type": "object", "required": ["hits"]},
            annotations={"readOnlyHint": True},
        )
    )
    tool = listing.tools["search"]
    assert (tool.title, tool.description) == ("Search", "Find it.")
    assert tool.input.is_valid({})
    assert tool.output is not None
    assert not tool.output.is_valid({})
    assert tool.annotations is not None
    assert bytes(tool.annotations) == b'{"readOnlyHint":true}'


async def test_null_fields_are_absent_ones() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    await listing.add(listed("search", title=None, description=None, outputSchema=None))
    tool = listing.tools["search"]
    assert (tool.title, tool.description, tool.output_schema, tool.output) == (None, "", None, None)


async def test_equal_tools_of_two_connections_are_one_for_as_long_as_one_of_them_lives() -> None:
    one, two = Listing(SERVER, SHARE, IN_PLACE), Listing(SERVER, SHARE, IN_PLACE)
    await one.add(listed("search"))
    await two.add(listed("search"))
    assert one.tools["search"] is two.tools["search"]


async def test_a_page_without_a_further_cursor_is_the_last() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    assert await listing.read_page(Raw(b'{"tools":[]}')) == ([], None)
    assert await listing.read_page(Raw(b'{"tools":[],"nextCursor":null}')) == ([], None)
    assert await listing.read_page(Raw(b'{"tools":[],"nextCursor":""}')) == ([], None)
    assert await listing.read_page(Raw(b'{"tools":[],"nextCursor":"b"}')) == ([], "b")


@pytest.mark.parametrize("size", [0, LIGHT_PAGE_BYTES])
async def test_an_empty_cursor_of_2026_07_28_is_one_and_ends_the_list_when_it_comes_again(size: int) -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE, is_modern=True)
    page = Raw(msgspec.json.encode({"tools": [], "nextCursor": "", "_meta": {"filler": "x" * size}}))
    assert await listing.read_page(page) == ([], "")
    assert await listing.read_page(page) == ([], None)
    assert listing.all_warnings() == ["the list of tools is cut short: a cursor came twice"]


async def test_a_tool_that_a_declared_one_is_made_of_is_taken_besides_those_on_the_whitelist() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=("a",), declared=("b",)), SHARE, IN_PLACE)
    for name in "abc":
        await listing.add(listed(name))
    assert list(listing.tools) == ["a", "b"]


async def test_a_tool_that_is_denied_is_not_there_for_declared_ones_either() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, declared=("a",), deny=("a",)), SHARE, IN_PLACE)
    await listing.add(listed("a"))
    assert not listing.tools


@pytest.mark.parametrize("page", [b"null", b"{}", b'{"tools":{}}', b'{"tools":[],"nextCursor":7}', b"{"])
async def test_what_is_no_page_is_none(page: bytes) -> None:
    assert await Listing(SERVER, SHARE, IN_PLACE).read_page(Raw(page)) is None


@pytest.mark.parametrize(
    "page",
    [
        b'[{"name":"a"},{"name":"b","inputSchema":{}}]',
        b'{"tools":{"a":{},"b":{"inputSchema":{}}}}',
        b'{"tools":{"0":{"name":"a"},"1":{"name":"b"}}}',
    ],
)
async def test_a_bare_list_is_a_page_and_so_are_tools_by_their_names(page: bytes) -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    read = await listing.read_page(Raw(page))
    assert read is not None
    for raw in read[0]:
        await listing.add(raw)
    assert list(listing.tools) == ["a", "b"]


async def test_tools_over_the_bound_on_all_of_them_are_left_out() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, deny=("denied",)), SHARE, IN_PLACE)
    description = "x" * (MAX_LIST_BYTES // 7 - 1000)
    for name in ("1", "2", "3", "4", "denied", "5", "6", "7", "8", "small"):
        await listing.add(listed(name, description="" if name == "small" else description))
    assert list(listing.tools) == ["1", "2", "3", "4", "5", "6", "7", "small"]
    assert listing.warnings == ["tool '8' is left out: the tools of a server may have 4194304 bytes together"]


async def test_a_page_of_too_many_tools_is_cut() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    page = await listing.read_page(Raw(b'{"tools":[' + b",".join([b"{}"] * (MAX_TOOLS + 1)) + b'],"nextCursor":"b"}'))
    assert page is not None
    assert (len(page[0]), page[1]) == (MAX_TOOLS, None)
    assert listing.all_warnings() == ["the list of tools is cut short: a server may have 1000 tools"]


async def test_a_cursor_over_its_bound_ends_the_list() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    assert await listing.read_page(Raw(b'{"tools":[],"nextCursor":"' + b"c" * 5000 + b'"}')) == ([], None)
    assert len(listing.warnings) == 1


async def test_warnings_are_bounded_and_the_rest_is_counted() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    for _ in range(MAX_WARNINGS + 5):
        await listing.add(listed(""))
    warnings = listing.all_warnings()
    assert len(warnings) == MAX_WARNINGS + 1
    assert warnings[-1] == "5 more warnings"


async def test_no_warning_is_given_of_tools_that_nobody_wants() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=("search",)), SHARE, IN_PLACE)
    await listing.add(listed(""))
    await listing.add(listed("search"))
    assert listing.all_warnings() == []
    assert listing.missing() is None


async def test_a_whitelisted_tool_that_is_broken_is_missing() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=("search",)), SHARE, IN_PLACE)
    await listing.add(listed("search", inputSchema=7))
    assert listing.missing() == "search"


async def test_a_tool_on_both_lists_is_neither_offered_nor_missing() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=("search",), deny=("search",)), SHARE, IN_PLACE)
    await listing.add(listed("search"))
    assert listing.tools == {}
    assert listing.missing() is None


@pytest.mark.parametrize(("depth", "is_taken"), [(64, True), (65, False)])
async def test_a_schema_may_be_nested_64_deep(depth: int, *, is_taken: bool) -> None:
    schema: object = 1
    for _ in range(depth - 1):
        schema = {"x": schema}
    listing = Listing(SERVER, SHARE, IN_PLACE)
    await listing.add(listed("search", inputSchema={"default": schema}))
    assert ("search" in listing.tools) is is_taken


@given(st.binary())
async def test_any_bytes_are_a_tool_or_a_warning(raw: bytes) -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    await listing.add(Raw(raw))
    await listing.read_page(Raw(raw))
    assert len(listing.tools) + len(listing.all_warnings()) == 1


# --- what else a page says -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [b"null", b'"complete"'])
async def test_a_page_that_is_complete_is_read(kind: bytes) -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    assert await listing.read_page(Raw(b'{"tools":[],"resultType":' + kind + b"}")) == ([], None)


@pytest.mark.parametrize("kind", [b'"input_required"', b'"task"', b'""', b"7", b"{}"])
async def test_a_page_of_another_kind_is_none(kind: bytes) -> None:
    assert await Listing(SERVER, SHARE, IN_PLACE).read_page(Raw(b'{"tools":[],"resultType":' + kind + b"}")) is None


@pytest.mark.parametrize(
    ("ttl_ms", "ttl_s"),
    [
        (b"60000", 60.0),
        (b"1.5e3", 1.5),
        (b"0", 0.0),
        (b"-1", 0.0),
        (b"1e300", MAX_TTL_S),
        (b"1e999", 0.0),
        (b"null", 0.0),
        (b"true", 0.0),
        (b'"60000"', 0.0),
    ],
)
async def test_a_list_is_good_for_as_long_as_the_server_says_within_a_day(ttl_ms: bytes, ttl_s: float) -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    await listing.read_page(Raw(b'{"tools":[],"ttlMs":' + ttl_ms + b"}"))
    assert listing.ttl_s == ttl_s


async def test_a_list_is_good_for_as_long_as_each_of_its_pages() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    assert listing.ttl_s == 0.0
    await listing.read_page(Raw(b'{"tools":[],"ttlMs":9000,"nextCursor":"b"}'))
    assert listing.ttl_s == 9.0
    await listing.read_page(Raw(b'{"tools":[],"ttlMs":5000,"nextCursor":"c"}'))
    assert listing.ttl_s == 5.0
    await listing.read_page(Raw(b'{"tools":[]}'))
    assert listing.ttl_s == 0.0


# --- names -----------------------------------------------------------------------------------------------------------


async def test_the_names_of_all_tools_are_known_also_of_those_that_nobody_wants_and_of_broken_ones() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=("a",), deny=("b",)), SHARE, IN_PLACE)
    for raw in [listed("c"), listed("b"), listed("a"), listed("a"), listed("d", inputSchema=7), listed("")]:
        await listing.add(raw)
    assert list(listing.listed) == ["c", "b", "a", "d"]
    assert list(listing.tools) == ["a"]


async def test_no_more_names_are_kept_than_a_server_may_have_tools() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=()), SHARE, IN_PLACE)
    for number in range(MAX_TOOLS + 1):
        await listing.add(listed(f"t{number}"))
    assert len(listing.listed) == MAX_TOOLS


@pytest.mark.parametrize("name", ["", "x" * 1025])
async def test_a_name_that_cannot_be_kept_is_left_out(name: str) -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    await listing.add(listed(name))
    assert (listing.tools, listing.listed) == ({}, {})
    (warning,) = listing.all_warnings()
    assert warning.endswith("a name has 1 to 1024 characters")


@pytest.mark.parametrize(
    "name", ["查询天气", "a b", "ns::tool", "x" * 150, 'say "hi"', "a\nb", "\x1b[31m", "what?", "@x/y"]
)
async def test_a_tool_of_any_name_is_offered_with_its_name_as_its_title(name: str) -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    await listing.add(listed(name))
    assert listing.tools[name].title == name
    assert listing.all_warnings() == []
    titled = Listing(SERVER, SHARE, IN_PLACE)
    await titled.add(listed(name, title="Weather"))
    assert titled.tools[name].title == "Weather"


@pytest.mark.parametrize("name", ["查询天气", "a b", "x" * 150, "what?", "@x/y"])
@pytest.mark.parametrize("key", ["deny", "declared"])
async def test_a_tool_is_listed_by_what_its_name_is_spelt_as_too(name: str, key: str) -> None:
    listing = Listing(
        msgspec.structs.replace(SERVER, whitelist=(), **{key: (escape(name, "openai"),)}), SHARE, IN_PLACE
    )
    await listing.add(listed(name))
    assert (list(listing.tools), listing.all_warnings()) == ([name] if key == "declared" else [], [])


# --- what a checker does ---------------------------------------------------------------------------------------------


class Counted(InPlace):
    """Counts the jobs that it does."""

    def __init__(self) -> None:
        self.jobs = 0

    async def run(
        self, work: Work, arguments: bytes, payload: Buffer | Sequence[Buffer], *, turns: Turns
    ) -> tuple[bytes, bytearray, bytearray]:
        self.jobs += 1
        return await super().run(work, arguments, payload, turns=turns)


@pytest.mark.parametrize(
    ("schemas", "jobs"),
    [
        (b'"inputSchema":{"pattern":"^[a-z]{1,64}$"},"outputSchema":null', 0),
        (b'"inputSchema":{"properties":{"content":{"type":"string"}}},"outputSchema":{}', 0),
        (b'"inputSchema":{"pattern":".{1000}"}', 1),
        (b'"inputSchema":{"\\u0070\\u0061ttern":".{1000}"}', 1),
        (b'"inputSchema":{"pattern":".{200}"},"outputSchema":{"pattern":".{200}"}', 1),
        (b'"inputSchema":{"enum":[' + b"1e308," * 200 + b"1]}", 1),
    ],
)
async def test_a_checker_tries_a_tool_whose_schemas_are_not_quickly_compiled(schemas: bytes, jobs: int) -> None:
    checkers = Counted()
    first, second = Listing(SERVER, SHARE, checkers), Listing(SERVER, SHARE, checkers)
    await first.add(Raw(b'{"name":"t",' + schemas + b"}"))
    await second.add(Raw(b'{"name":"t",' + schemas + b"}"))
    assert first.tools["t"] is second.tools["t"]
    assert (first.warnings, checkers.jobs) == ([], jobs)


async def test_no_checker_looks_at_a_tool_that_nobody_wants() -> None:
    checkers = Counted()
    listing = Listing(msgspec.structs.replace(SERVER, deny=("t",)), SHARE, checkers)
    await listing.add(listed("t", inputSchema={"pattern": ".{1000}"}))
    assert (list(listing.listed), listing.tools, checkers.jobs) == (["t"], {}, 0)


async def test_why_a_tool_is_left_out_is_kept_by_its_name_and_the_first_reason_counts() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    for raw in (listed("broken", inputSchema=7), listed("broken"), listed("good"), listed("good")):
        await listing.add(raw)
    assert listing.left_out == {"broken": "its inputSchema takes no object: it is no object itself"}
