"""One listed tool: its schemas, its headers, what is made beside it, and what is denied."""

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tests.providers.mcp.linking import SHARE
from tests.providers.mcp.listings import SERVER, listed
from tooldispatchd.checkers.pool import IN_PLACE
from tooldispatchd.providers.mcp.listing import (
    Listing,
)
from tooldispatchd.providers.mcp.resources import resource_tools


def region(name: object) -> dict[str, object]:
    return {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": name}}}


async def test_a_modern_tool_over_http_knows_the_headers_of_its_arguments() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE, is_http=True, is_modern=True)
    await listing.add(listed("search", inputSchema=region("Region")))
    assert listing.tools["search"].params == (("Mcp-Param-Region", ("region",)),)


async def test_a_modern_tool_over_http_with_a_wrong_mark_is_left_out() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE, is_http=True, is_modern=True)
    await listing.add(listed("search", inputSchema=region("a b")))
    await listing.add(listed("other"))
    assert list(listing.tools) == ["other"]
    assert listing.all_warnings() == [
        "tool 'search' is left out: its property 'region' has an x-mcp-header that is no name of a header"
    ]


@pytest.mark.parametrize(("is_http", "is_modern"), [(False, False), (True, False), (False, True)])
async def test_marks_mean_nothing_elsewhere(is_http: bool, is_modern: bool) -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE, is_http=is_http, is_modern=is_modern)
    await listing.add(listed("search", inputSchema=region("a b")))
    assert listing.tools["search"].params == ()


async def test_equal_tools_of_two_transports_are_not_one() -> None:
    stdio, http = Listing(SERVER, SHARE, IN_PLACE), Listing(SERVER, SHARE, IN_PLACE, is_http=True, is_modern=True)
    await stdio.add(listed("search", inputSchema=region("Region")))
    await http.add(listed("search", inputSchema=region("Region")))
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
async def test_a_schema_is_read_by_the_draft_that_it_names_and_else_by_the_newest(
    schema: dict[str, object], is_valid: bool
) -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    await listing.add(listed("search", inputSchema={"type": "object", **schema}))
    assert listing.tools["search"].input.is_valid({"x": [1]}) is is_valid


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"$schema": "https://schemas.example/own-dialect.json"}, "/$schema"),
        ({"properties": {"x": {"$ref": "#/$defs/missing"}}}, "/properties/x/$ref"),
        ({"properties": {"x": {"type": 7}}}, "/properties/x/type"),
        ({"properties": 7}, "/properties"),
        ({"properties": {"x": {"pattern": "("}}}, "/properties/x/pattern"),
        ({"properties": {"x": {"pattern": "^(?!a)"}}}, "/properties/x/pattern"),
    ],
)
async def test_a_schema_that_cannot_be_checked_in_full_is_one_warning_that_names_the_place(
    schema: dict[str, object], place: str
) -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    await listing.add(listed("search", inputSchema={"type": "object", **schema}))
    await listing.add(listed("other", outputSchema=schema))
    await listing.add(listed("good"))
    assert list(listing.tools) == ["search", "other", "good"]
    assert not listing.tools["search"].input.is_valid(7)
    first, second = listing.all_warnings()
    assert first.startswith(f"tool 'search': not checked are its inputSchema at {place} (")
    assert second.startswith(f"tool 'other': not checked are its outputSchema at {place} (")


async def test_a_schema_in_a_text_is_read_and_an_output_that_says_nothing_asks_for_nothing() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    source = '{"type":"object","properties":{"x":{"type":"string"}}}'
    for name, target in (("text", source), ("empty", {}), ("word", "none"), ("no", False)):
        await listing.add(listed(name, inputSchema=source, outputSchema=target))
    assert not listing.tools["text"].input.is_valid({"x": 1})
    assert [name for name, tool in listing.tools.items() if tool.output is None] == ["empty", "word", "no"]


async def test_an_entry_in_another_encoding_is_read_but_for_the_letters_that_are_lost() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    await listing.add(Raw(b'{"name":"a","description":"caf\xe9","inputSchema":{}}'))
    assert listing.tools["a"].description == "caf\ufffd"


async def test_the_warning_comes_with_a_tool_that_another_connection_has_read() -> None:
    first, second = Listing(SERVER, SHARE, IN_PLACE), Listing(SERVER, SHARE, IN_PLACE)
    for listing in (first, second):
        await listing.add(listed("search", inputSchema={"properties": {"x": {"pattern": "(?=a)"}}}))
    assert first.tools["search"] is second.tools["search"]
    assert first.all_warnings() == second.all_warnings() != []


async def test_what_is_left_out_is_told_before_what_is_not_checked() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    for at in range(30):
        await listing.add(listed(f"t{at}", inputSchema={"type": "object", "properties": 7, "title": str(at)}))
    await listing.add(listed("no", inputSchema={"type": "string"}))
    assert len(listing.tools) == 30
    why = 'its inputSchema takes no object: its root is of type "string"'
    assert listing.all_warnings()[0] == f"tool 'no' is left out: {why}"
    assert listing.all_warnings()[-1] == "10 more warnings"


@pytest.mark.parametrize("schema", [None, {}, [], True, {"properties": {"x": {"type": "integer"}}}])
async def test_an_input_without_a_type_is_an_object(schema: object) -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    await listing.add(listed("search", inputSchema=schema))
    await listing.add(Raw(b'{"name":"bare","title":7,"description":["x"]}'))
    assert listing.tools["search"].input_schema["type"] == "object"
    assert not listing.tools["search"].input.is_valid([1])
    assert (listing.tools["bare"].input_schema, listing.tools["bare"].title) == ({"type": "object"}, None)
    assert listing.all_warnings() == []


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"$ref": "https://schemas.example/a.json"}, "https://schemas.example/a.json"),
        ({"properties": {"x": {"$ref": "http://127.0.0.1:9/a.json#/b"}}}, "http://127.0.0.1:9/a.json"),
        ({"properties": {"x": {"$ref": "file:///etc/passwd"}}}, "file:///etc/passwd"),
        ({"properties": {"x": {"$ref": "other.json"}}}, "other.json"),
        ({"$id": "http://a.example/s.json", "allOf": [{"$ref": "b.json"}]}, "http://a.example/b.json"),
    ],
)
async def test_a_schema_that_lies_elsewhere_disables_its_tool_and_is_never_fetched(
    schema: dict[str, object], place: str
) -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    await listing.add(listed("search", inputSchema={"type": "object", **schema}))
    await listing.add(listed("other", outputSchema=schema))
    await listing.add(listed("good"))
    assert list(listing.tools) == ["other", "good"]
    assert listing.left_out == {"search": f"its inputSchema refers to {place}, which is never fetched"}
    # Nobody needs an output's schema to call the tool.
    first, second = listing.all_warnings()
    assert first == f"tool 'search' is left out: its inputSchema refers to {place}, which is never fetched"
    assert second.startswith("tool 'other': not checked are its outputSchema at /")


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats() | st.sampled_from(["object", "#", "(?=a)", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "properties", "items", "$ref", "pattern", "not", "x"]), inner)
    ),
    max_leaves=20,
)


@given(ANY_JSON, ANY_JSON)
def test_any_schemas_are_those_of_a_tool_or_say_why_nobody_can_call_it(source: object, target: object) -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    trio.run(listing.add, listed("any", inputSchema=source, outputSchema=target))
    why = listing.left_out.get("any", "")
    assert (why == "") is ("any" in listing.tools)
    assert why == "" or why.startswith(
        ("its inputSchema takes no object: ", "its inputSchema is broken: the schema unfolds")
    )


async def test_any_keyword_of_the_newest_draft_may_stand_in_a_schema() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    schema = {
        "type": "object",
        "$defs": {"city": {"$anchor": "city", "type": "string"}},
        "properties": {"city": {"$ref": "#city"}, "zip": {"type": "string"}},
        "oneOf": [{"required": ["city"]}, {"required": ["zip"]}],
        "if": {"required": ["city"]},
        "then": {"properties": {"city": {"minLength": 2}}},
        "unevaluatedProperties": False,
    }
    await listing.add(
        listed("search", inputSchema=schema, outputSchema={"type": "array", "items": {"type": "integer"}})
    )
    tool = listing.tools["search"]
    assert tool.input.is_valid({"city": "Rome"})
    assert not tool.input.is_valid({"city": "R"})
    assert not tool.input.is_valid({"city": "Rome", "zip": "1"})
    assert tool.output is not None
    assert tool.output.is_valid([1, 2])


async def test_a_schema_that_unfolds_to_too_much_disables_its_tool() -> None:
    defs: dict[str, object] = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(12)}
    listing = Listing(SERVER, SHARE, IN_PLACE)
    await listing.add(listed("bomb", inputSchema={"$ref": "#/$defs/d0", "$defs": {**defs, "d12": {"type": "object"}}}))
    assert listing.tools == {}
    assert len(listing.all_warnings()) == 1


async def test_what_people_read_of_a_tool_is_bounded() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    await listing.add(
        listed(
            "search",
            title="x" * 5000,
            description="y" * 100_000,
            annotations={"title": "z" * 20_000},
            icons=["i" * 70_000],
        )
    )
    tool = listing.tools["search"]
    assert (tool.title, len(tool.description), tool.annotations, tool.icons) == ("x" * 1024, 65_536, None, None)


async def test_what_is_not_known_of_an_entry_is_ignored() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    await listing.add(
        listed("search", icons=[{"src": "x"}], _meta={"a": 1}, execution={"taskSupport": "optional"}, more=7)
    )
    assert list(listing.tools) == ["search"]


@pytest.mark.parametrize(
    ("settings", "offered", "missing"),
    [
        ({}, ["search", "read_resource", "list_resources"], None),
        ({"deny": ("read_resource",)}, ["search", "list_resources"], None),
        ({"whitelist": ("search",)}, ["search"], None),
        ({"whitelist": ("search", "read_resource")}, ["search", "read_resource"], None),
        ({"whitelist": ("get_prompt",)}, [], "get_prompt"),
    ],
)
async def test_tools_that_are_made_are_wanted_and_denied_like_those_that_are_listed(
    settings: dict[str, object], offered: list[str], missing: str | None
) -> None:
    listing = Listing(msgspec.structs.replace(SERVER, **settings), SHARE, IN_PLACE)
    await listing.add(listed("search"))
    for tool in resource_tools(has_resources=True, prompts=None):
        listing.add_made(tool)
    assert sorted(listing.tools) == sorted(offered)
    assert listing.missing() == missing
    assert set(listing.listed) == {"search", "read_resource", "list_resources"}


async def test_a_tool_of_the_server_s_own_goes_before_one_that_is_made() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    await listing.add(listed("read_resource"))
    for tool in resource_tools(has_resources=True, prompts=None):
        listing.add_made(tool)
    assert listing.tools["read_resource"].method == "tools/call"


async def test_a_tool_that_can_only_be_called_as_a_task_is_left_out() -> None:
    listing = Listing(SERVER, SHARE, IN_PLACE)
    await listing.add(listed("slow", execution={"taskSupport": "required"}))
    await listing.add(listed("either", execution={"taskSupport": "optional"}))
    await listing.add(listed("odd", execution=7))
    assert list(listing.tools) == ["either", "odd"]
    assert listing.all_warnings() == [
        "tool 'slow' is left out: it can only be called as a task, which is not spoken here"
    ]


async def test_a_denial_of_what_is_not_there_is_a_warning() -> None:
    listing = Listing(msgspec.structs.replace(SERVER, deny=("convert_tim", "get_time")), SHARE, IN_PLACE)
    await listing.add(listed("convert_time"))
    await listing.add(listed("get_time"))
    assert list(listing.tools) == ["convert_time"]
    assert listing.all_warnings() == ["deny names 'convert_tim', which it does not offer; did you mean convert_time?"]
