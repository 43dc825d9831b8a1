"""Lists of tools, page by page."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tooldispatchd.providers.mcp.listing import (
    MAX_LIST_BYTES,
    MAX_PAGE_BYTES,
    MAX_TOOLS,
    MAX_TTL_S,
    MAX_WARNINGS,
    Listing,
)
from tooldispatchd.providers.mcp.server import Server

SERVER = Server(name="docs", argv=("docs",), max_line_bytes=10_000, max_content_bytes=100)


def listed(name: str, **fields: object) -> Raw:
    return Raw(msgspec.json.encode({"name": name, "inputSchema": {"type": "object"}, **fields}))


def test_a_tool_is_read_with_all_that_is_said_of_it() -> None:
    listing = Listing(SERVER)
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
    listing = Listing(SERVER)
    listing.add(listed("search", title=None, description=None, outputSchema=None))
    tool = listing.tools["search"]
    assert (tool.title, tool.description, tool.output_schema, tool.output) == (None, "", None, None)


def test_equal_tools_of_two_connections_are_one_for_as_long_as_one_of_them_lives() -> None:
    one, two = Listing(SERVER), Listing(SERVER)
    one.add(listed("search"))
    two.add(listed("search"))
    assert one.tools["search"] is two.tools["search"]


def test_a_page_without_a_further_cursor_is_the_last() -> None:
    listing = Listing(SERVER)
    assert listing.read_page(Raw(b'{"tools":[]}')) == ([], None)
    assert listing.read_page(Raw(b'{"tools":[],"nextCursor":null}')) == ([], None)
    assert listing.read_page(Raw(b'{"tools":[],"nextCursor":""}')) == ([], None)
    assert listing.read_page(Raw(b'{"tools":[],"nextCursor":"b"}')) == ([], "b")


def test_a_tool_that_a_declared_one_is_made_of_is_taken_besides_those_on_the_whitelist() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=("a",), declared=("b",)))
    for name in "abc":
        listing.add(listed(name))
    assert list(listing.tools) == ["a", "b"]


def test_a_tool_that_is_denied_is_not_there_for_declared_ones_either() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, declared=("a",), deny=("a",)))
    listing.add(listed("a"))
    assert not listing.tools


@pytest.mark.parametrize("page", [b"null", b"{}", b'{"tools":{}}', b'{"tools":[],"nextCursor":7}', b"{"])
def test_what_is_no_page_is_none(page: bytes) -> None:
    assert Listing(SERVER).read_page(Raw(page)) is None


def test_a_page_over_its_bound_is_none() -> None:
    assert Listing(SERVER).read_page(Raw(b'{"tools":[' + b" " * MAX_PAGE_BYTES + b"]}")) is None


def test_tools_over_the_bound_on_all_of_them_are_left_out() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, deny=("denied",)))
    description = "x" * (MAX_LIST_BYTES // 2 - 1000)
    for name in ("one", "denied", "two", "three", "small"):
        listing.add(listed(name, description="" if name == "small" else description))
    assert list(listing.tools) == ["one", "two", "small"]
    assert listing.warnings == ["tool 'three' is left out: the tools of a server may have 4194304 bytes together"]


def test_a_page_of_too_many_tools_is_cut() -> None:
    listing = Listing(SERVER)
    page = listing.read_page(Raw(b'{"tools":[' + b",".join([b"{}"] * (MAX_TOOLS + 1)) + b'],"nextCursor":"b"}'))
    assert page is not None
    assert (len(page[0]), page[1]) == (MAX_TOOLS, None)
    assert listing.all_warnings() == ["the list of tools is cut short: a server may have 1000 tools"]


def test_a_cursor_over_its_bound_ends_the_list() -> None:
    listing = Listing(SERVER)
    assert listing.read_page(Raw(b'{"tools":[],"nextCursor":"' + b"c" * 5000 + b'"}')) == ([], None)
    assert len(listing.warnings) == 1


def test_warnings_are_bounded_and_the_rest_is_counted() -> None:
    listing = Listing(SERVER)
    for _ in range(MAX_WARNINGS + 5):
        listing.add(listed("not a name"))
    warnings = listing.all_warnings()
    assert len(warnings) == MAX_WARNINGS + 1
    assert warnings[-1] == "5 more warnings"


def test_no_warning_is_given_of_tools_that_nobody_wants() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=("search",)))
    listing.add(listed("not a name"))
    listing.add(listed("search"))
    assert listing.all_warnings() == []
    assert listing.missing() is None


def test_a_whitelisted_tool_that_is_broken_is_missing() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=("search",)))
    listing.add(listed("search", inputSchema=7))
    assert listing.missing() == "search"


def test_a_tool_on_both_lists_is_neither_offered_nor_missing() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=("search",), deny=("search",)))
    listing.add(listed("search"))
    assert listing.tools == {}
    assert listing.missing() is None


@pytest.mark.parametrize(("depth", "is_taken"), [(64, True), (65, False)])
def test_a_schema_may_be_nested_64_deep(depth: int, *, is_taken: bool) -> None:
    schema: object = 1
    for _ in range(depth - 1):
        schema = {"x": schema}
    listing = Listing(SERVER)
    listing.add(listed("search", inputSchema={"default": schema}))
    assert ("search" in listing.tools) is is_taken


@given(st.binary())
def test_any_bytes_are_a_tool_or_a_warning(raw: bytes) -> None:
    listing = Listing(SERVER)
    listing.add(Raw(raw))
    listing.read_page(Raw(raw))
    assert len(listing.tools) + len(listing.all_warnings()) == 1


# --- what else a page says -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [b"null", b'"complete"'])
def test_a_page_that_is_complete_is_read(kind: bytes) -> None:
    assert Listing(SERVER).read_page(Raw(b'{"tools":[],"resultType":' + kind + b"}")) == ([], None)


@pytest.mark.parametrize("kind", [b'"input_required"', b'"task"', b'""', b"7", b"{}"])
def test_a_page_of_another_kind_is_none(kind: bytes) -> None:
    assert Listing(SERVER).read_page(Raw(b'{"tools":[],"resultType":' + kind + b"}")) is None


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
    listing = Listing(SERVER)
    listing.read_page(Raw(b'{"tools":[],"ttlMs":' + ttl_ms + b"}"))
    assert listing.ttl_s == ttl_s


def test_a_list_is_good_for_as_long_as_each_of_its_pages() -> None:
    listing = Listing(SERVER)
    assert listing.ttl_s == 0.0
    listing.read_page(Raw(b'{"tools":[],"ttlMs":9000,"nextCursor":"b"}'))
    assert listing.ttl_s == 9.0
    listing.read_page(Raw(b'{"tools":[],"ttlMs":5000,"nextCursor":"c"}'))
    assert listing.ttl_s == 5.0
    listing.read_page(Raw(b'{"tools":[]}'))
    assert listing.ttl_s == 0.0


# --- names -----------------------------------------------------------------------------------------------------------


def test_the_names_of_all_tools_are_known_also_of_those_that_nobody_wants_and_of_broken_ones() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=("a",), deny=("b",)))
    for raw in [listed("c"), listed("b"), listed("a"), listed("a"), listed("d", inputSchema=7), listed("no name")]:
        listing.add(raw)
    assert list(listing.listed) == ["c", "b", "a", "d"]
    assert list(listing.tools) == ["a"]


def test_no_more_names_are_kept_than_a_server_may_have_tools() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, whitelist=()))
    for number in range(MAX_TOOLS + 1):
        listing.add(listed(f"t{number}"))
    assert len(listing.listed) == MAX_TOOLS


@pytest.mark.parametrize("name", ["a\nb", "a\x00", "\x1b[31m", "a\u202e", "", "x" * 129])
def test_a_name_with_control_characters_is_left_out_and_shown_escaped(name: str) -> None:
    listing = Listing(SERVER)
    listing.add(listed(name))
    assert (listing.tools, listing.listed) == ({}, {})
    (warning,) = listing.all_warnings()
    assert warning.isprintable()


# --- arguments in headers --------------------------------------------------------------------------------------------


def region(name: object) -> dict[str, object]:
    return {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": name}}}


def test_a_modern_tool_over_http_knows_the_headers_of_its_arguments() -> None:
    listing = Listing(SERVER, is_http=True, is_modern=True)
    listing.add(listed("search", inputSchema=region("Region")))
    assert listing.tools["search"].params == (("Mcp-Param-Region", ("region",)),)


def test_a_modern_tool_over_http_with_a_wrong_mark_is_left_out() -> None:
    listing = Listing(SERVER, is_http=True, is_modern=True)
    listing.add(listed("search", inputSchema=region("a b")))
    listing.add(listed("other"))
    assert list(listing.tools) == ["other"]
    assert listing.all_warnings() == [
        "tool 'search' is left out: its property 'region' has an x-mcp-header that is no name of a header"
    ]


@pytest.mark.parametrize(("is_http", "is_modern"), [(False, False), (True, False), (False, True)])
def test_marks_mean_nothing_elsewhere(is_http: bool, is_modern: bool) -> None:
    listing = Listing(SERVER, is_http=is_http, is_modern=is_modern)
    listing.add(listed("search", inputSchema=region("a b")))
    assert listing.tools["search"].params == ()


def test_equal_tools_of_two_transports_are_not_one() -> None:
    stdio, http = Listing(SERVER), Listing(SERVER, is_http=True, is_modern=True)
    stdio.add(listed("search", inputSchema=region("Region")))
    http.add(listed("search", inputSchema=region("Region")))
    assert stdio.tools["search"].params == ()
    assert http.tools["search"].params == (("Mcp-Param-Region", ("region",)),)


# --- schemas ---------------------------------------------------------------------------------------------------------

DRAFT_07 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("schema", "is_valid"),
    [
        # A list of schemas means one for each place in draft 7, and nothing since 2020-12 renamed it.
        ({"$schema": DRAFT_07, "properties": {"x": {"items": [{"type": "string"}]}}}, False),
        ({"$schema": DRAFT_2020, "properties": {"x": {"prefixItems": [{"type": "string"}]}}}, False),
        ({"$schema": DRAFT_07, "properties": {"x": {"prefixItems": [{"type": "string"}]}}}, True),
        ({"properties": {"x": {"prefixItems": [{"type": "string"}]}}}, False),
    ],
)
def test_a_schema_is_read_by_the_draft_that_it_names_and_else_by_the_newest(
    schema: dict[str, object], is_valid: bool
) -> None:
    listing = Listing(SERVER)
    listing.add(listed("search", inputSchema={"type": "object", **schema}))
    assert listing.tools["search"].input.is_valid({"x": [1]}) is is_valid


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://schemas.example/a.json"},
        {"properties": {"x": {"$ref": "http://127.0.0.1:9/a.json"}}},
        {"properties": {"x": {"$ref": "file:///etc/passwd"}}},
        {"$schema": "https://schemas.example/own-dialect.json"},
        {"properties": {"x": {"$ref": "#/$defs/missing"}}},
        {"type": 7},
        {"properties": []},
        {"properties": {"x": {"pattern": "("}}},
    ],
)
def test_a_schema_that_is_broken_or_lies_elsewhere_disables_its_tool_alone(schema: dict[str, object]) -> None:
    listing = Listing(SERVER)
    listing.add(listed("search", inputSchema={"type": "object", **schema}))
    listing.add(listed("other", outputSchema=schema))
    listing.add(listed("good"))
    assert list(listing.tools) == ["good"]
    first, second = listing.all_warnings()
    assert first.startswith("tool 'search' is left out: its inputSchema is broken: ")
    assert second.startswith("tool 'other' is left out: its outputSchema is broken: ")


def test_any_keyword_of_the_newest_draft_may_stand_in_a_schema() -> None:
    listing = Listing(SERVER)
    schema = {
        "type": "object",
        "$defs": {"city": {"$anchor": "city", "type": "string"}},
        "properties": {"city": {"$ref": "#city"}, "zip": {"type": "string"}},
        "oneOf": [{"required": ["city"]}, {"required": ["zip"]}],
        "if": {"required": ["city"]},
        "then": {"properties": {"city": {"minLength": 2}}},
        "unevaluatedProperties": False,
    }
    listing.add(listed("search", inputSchema=schema, outputSchema={"type": "array", "items": {"type": "integer"}}))
    tool = listing.tools["search"]
    assert tool.input.is_valid({"city": "Rome"})
    assert not tool.input.is_valid({"city": "R"})
    assert not tool.input.is_valid({"city": "Rome", "zip": "1"})
    assert tool.output is not None
    assert tool.output.is_valid([1, 2])


def test_a_schema_that_unfolds_to_too_much_disables_its_tool() -> None:
    defs: dict[str, object] = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(12)}
    listing = Listing(SERVER)
    listing.add(listed("bomb", inputSchema={"$ref": "#/$defs/d0", "$defs": {**defs, "d12": {"type": "object"}}}))
    assert listing.tools == {}
    assert len(listing.all_warnings()) == 1


def test_what_people_read_of_a_tool_is_bounded() -> None:
    listing = Listing(SERVER)
    listing.add(listed("search", title="x" * 5000, description="y" * 100_000, annotations={"title": "z" * 20_000}))
    tool = listing.tools["search"]
    assert (tool.title, len(tool.description), tool.annotations) == ("x" * 1024, 65_536, None)


def test_what_is_not_known_of_an_entry_is_ignored() -> None:
    listing = Listing(SERVER)
    listing.add(listed("search", icons=[{"src": "x"}], _meta={"a": 1}, execution={"taskSupport": "optional"}, more=7))
    assert list(listing.tools) == ["search"]
