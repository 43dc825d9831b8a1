"""Lists of tools, page by page."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tests.providers.mcp.linking import SHARE
from tests.providers.mcp.listings import SERVER, listed
from tooldispatchd.providers.mcp.listing import (
    MAX_LIST_BYTES,
    MAX_TOOLS,
    MAX_TTL_S,
    MAX_WARNINGS,
    Listing,
    is_light_tool,
)


def test_a_tool_is_read_with_all_that_is_said_of_it() -> None:
    listing = Listing(SERVER, SHARE)
    listing.add(
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


def test_null_fields_are_absent_ones() -> None:
    listing = Listing(SERVER, SHARE)
    listing.add(listed("search", title=None, description=None, outputSchema=None))
    tool = listing.tools["search"]
    assert (tool.title, tool.description, tool.output_schema, tool.output) == (None, "", None, None)


def test_equal_tools_of_two_connections_are_one_for_as_long_as_one_of_them_lives() -> None:
    one, two = Listing(SERVER, SHARE), Listing(SERVER, SHARE)
    one.add(listed("search"))
    two.add(listed("search"))
    assert one.tools["search"] is two.tools["search"]


def test_a_page_without_a_further_cursor_is_the_last() -> None:
    listing = Listing(SERVER, SHARE)
    assert listing.read_page(Raw(b'{"tools":[]}')) == ([], None)
    assert listing.read_page(Raw(b'{"tools":[],"nextCursor":null}')) == ([], None)
    assert listing.read_page(Raw(b'{"tools":[],"nextCursor":""}')) == ([], None)
    assert listing.read_page(Raw(b'{"tools":[],"nextCursor":"b"}')) == ([], "b")


def test_a_tool_that_a_declared_one_is_made_of_is_taken_besides_those_on_the_whitelist() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=("a",), declared=("b",)), SHARE)
    for name in "abc":
        listing.add(listed(name))
    assert list(listing.tools) == ["a", "b"]


def test_a_tool_that_is_denied_is_not_there_for_declared_ones_either() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, declared=("a",), deny=("a",)), SHARE)
    listing.add(listed("a"))
    assert not listing.tools


@pytest.mark.parametrize("page", [b"null", b"{}", b'{"tools":{}}', b'{"tools":[],"nextCursor":7}', b"{"])
def test_what_is_no_page_is_none(page: bytes) -> None:
    assert Listing(SERVER, SHARE).read_page(Raw(page)) is None


def test_tools_over_the_bound_on_all_of_them_are_left_out() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, deny=("denied",)), SHARE)
    description = "x" * (MAX_LIST_BYTES // 2 - 1000)
    for name in ("one", "denied", "two", "three", "small"):
        listing.add(listed(name, description="" if name == "small" else description))
    assert list(listing.tools) == ["one", "two", "small"]
    assert listing.warnings == ["tool 'three' is left out: the tools of a server may have 4194304 bytes together"]


def test_a_page_of_too_many_tools_is_cut() -> None:
    listing = Listing(SERVER, SHARE)
    page = listing.read_page(Raw(b'{"tools":[' + b",".join([b"{}"] * (MAX_TOOLS + 1)) + b'],"nextCursor":"b"}'))
    assert page is not None
    assert (len(page[0]), page[1]) == (MAX_TOOLS, None)
    assert listing.all_warnings() == ["the list of tools is cut short: a server may have 1000 tools"]


def test_a_cursor_over_its_bound_ends_the_list() -> None:
    listing = Listing(SERVER, SHARE)
    assert listing.read_page(Raw(b'{"tools":[],"nextCursor":"' + b"c" * 5000 + b'"}')) == ([], None)
    assert len(listing.warnings) == 1


def test_warnings_are_bounded_and_the_rest_is_counted() -> None:
    listing = Listing(SERVER, SHARE)
    for _ in range(MAX_WARNINGS + 5):
        listing.add(listed("not a name"))
    warnings = listing.all_warnings()
    assert len(warnings) == MAX_WARNINGS + 1
    assert warnings[-1] == "5 more warnings"


def test_no_warning_is_given_of_tools_that_nobody_wants() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=("search",)), SHARE)
    listing.add(listed("not a name"))
    listing.add(listed("search"))
    assert listing.all_warnings() == []
    assert listing.missing() is None


def test_a_whitelisted_tool_that_is_broken_is_missing() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=("search",)), SHARE)
    listing.add(listed("search", inputSchema=7))
    assert listing.missing() == "search"


def test_a_tool_on_both_lists_is_neither_offered_nor_missing() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=("search",), deny=("search",)), SHARE)
    listing.add(listed("search"))
    assert listing.tools == {}
    assert listing.missing() is None


@pytest.mark.parametrize(("depth", "is_taken"), [(64, True), (65, False)])
def test_a_schema_may_be_nested_64_deep(depth: int, *, is_taken: bool) -> None:
    schema: object = 1
    for _ in range(depth - 1):
        schema = {"x": schema}
    listing = Listing(SERVER, SHARE)
    listing.add(listed("search", inputSchema={"default": schema}))
    assert ("search" in listing.tools) is is_taken


@given(st.binary())
def test_any_bytes_are_a_tool_or_a_warning(raw: bytes) -> None:
    listing = Listing(SERVER, SHARE)
    listing.add(Raw(raw))
    listing.read_page(Raw(raw))
    assert len(listing.tools) + len(listing.all_warnings()) == 1


# --- what else a page says -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [b"null", b'"complete"'])
def test_a_page_that_is_complete_is_read(kind: bytes) -> None:
    assert Listing(SERVER, SHARE).read_page(Raw(b'{"tools":[],"resultType":' + kind + b"}")) == ([], None)


@pytest.mark.parametrize("kind", [b'"input_required"', b'"task"', b'""', b"7", b"{}"])
def test_a_page_of_another_kind_is_none(kind: bytes) -> None:
    assert Listing(SERVER, SHARE).read_page(Raw(b'{"tools":[],"resultType":' + kind + b"}")) is None


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
def test_a_list_is_good_for_as_long_as_the_server_says_within_a_day(ttl_ms: bytes, ttl_s: float) -> None:
    listing = Listing(SERVER, SHARE)
    listing.read_page(Raw(b'{"tools":[],"ttlMs":' + ttl_ms + b"}"))
    assert listing.ttl_s == ttl_s


def test_a_list_is_good_for_as_long_as_each_of_its_pages() -> None:
    listing = Listing(SERVER, SHARE)
    assert listing.ttl_s == 0.0
    listing.read_page(Raw(b'{"tools":[],"ttlMs":9000,"nextCursor":"b"}'))
    assert listing.ttl_s == 9.0
    listing.read_page(Raw(b'{"tools":[],"ttlMs":5000,"nextCursor":"c"}'))
    assert listing.ttl_s == 5.0
    listing.read_page(Raw(b'{"tools":[]}'))
    assert listing.ttl_s == 0.0


# --- names -----------------------------------------------------------------------------------------------------------


def test_the_names_of_all_tools_are_known_also_of_those_that_nobody_wants_and_of_broken_ones() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=("a",), deny=("b",)), SHARE)
    for raw in [listed("c"), listed("b"), listed("a"), listed("a"), listed("d", inputSchema=7), listed("no name")]:
        listing.add(raw)
    assert list(listing.listed) == ["c", "b", "a", "d"]
    assert list(listing.tools) == ["a"]


def test_no_more_names_are_kept_than_a_server_may_have_tools() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=()), SHARE)
    for number in range(MAX_TOOLS + 1):
        listing.add(listed(f"t{number}"))
    assert len(listing.listed) == MAX_TOOLS


@pytest.mark.parametrize("name", ["a\nb", "a\x00", "\x1b[31m", "a\u202e", "", "x" * 129])
def test_a_name_with_control_characters_is_left_out_and_shown_escaped(name: str) -> None:
    listing = Listing(SERVER, SHARE)
    listing.add(listed(name))
    assert (listing.tools, listing.listed) == ({}, {})
    (warning,) = listing.all_warnings()
    assert warning.isprintable()


# --- arguments in headers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schemas", "is_light"),
    [
        (b'"inputSchema":{"pattern":"^[a-z]{1,64}$"},"outputSchema":null', True),
        (b'"inputSchema":{"properties":{"content":{"type":"string"}}},"outputSchema":{}', True),
        (b'"inputSchema":{"pattern":".{1000}"}', False),
        (b'"inputSchema":{"\\u0070\\u0061ttern":".{1000}"}', False),
        (b'"inputSchema":{"pattern":".{200}"},"outputSchema":{"pattern":".{200}"}', False),
        (b'"inputSchema":{"pattern":".{1000}"},"outputSchema":7', False),
        (b'"inputSchema":{"enum":[' + b"1e308," * 200 + b"1]}", False),
    ],
)
def test_a_tool_is_light_where_its_schemas_are_quickly_compiled(schemas: bytes, *, is_light: bool) -> None:
    assert is_light_tool(Raw(b'{"name":"t",' + schemas + b"}")) is is_light
