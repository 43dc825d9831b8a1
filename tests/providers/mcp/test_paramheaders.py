"""Marks in a tool's schema; the SDK judges them alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.providers.mcp.paramheaders import ParamHeaderError, read_param_headers

MARKED: dict[str, object] = {"type": "string", "x-mcp-header": "Region"}


def having(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties}


def test_a_schema_without_marks_has_no_headers() -> None:
    assert read_param_headers(having(region={"type": "string"})) == ()


@pytest.mark.parametrize("type_", ["string", "integer", "boolean"])
def test_a_marked_property_has_a_header(type_: str) -> None:
    schema = having(region={"type": type_, "x-mcp-header": "Region"})
    assert read_param_headers(schema) == (("Mcp-Param-Region", ("region",)),)


def test_properties_are_marked_at_any_depth_and_come_in_their_order() -> None:
    schema = having(a={"type": "string", "x-mcp-header": "A"}, b=having(c=MARKED), d={"type": "string"})
    assert read_param_headers(schema) == (("Mcp-Param-A", ("a",)), ("Mcp-Param-Region", ("b", "c")))


def test_a_property_may_be_called_like_the_mark() -> None:
    schema = having(**{"x-mcp-header": MARKED})
    assert read_param_headers(schema) == (("Mcp-Param-Region", ("x-mcp-header",)),)


@pytest.mark.parametrize("keyword", ["default", "const", "examples", "enum", "$ref", "x-more"])
def test_what_is_no_schema_holds_no_marks(keyword: str) -> None:
    assert read_param_headers(having(region={"type": "string", keyword: [MARKED]})) == ()


@pytest.mark.parametrize("name", ["", "a b", "a:b", "é", "a\n", "a\r\nX", "a/b", 7, None, True, ["Region"], {}])
def test_a_mark_that_is_no_name_of_a_header_is_not_allowed(name: object) -> None:
    with pytest.raises(ParamHeaderError, match="no name of a header"):
        read_param_headers(having(region={"type": "string", "x-mcp-header": name}))


@pytest.mark.parametrize("type_", ["number", "object", "array", "null", ["string", "null"], None, 7])
def test_only_texts_integers_and_booleans_may_be_marked(type_: object) -> None:
    with pytest.raises(ParamHeaderError, match="neither string nor integer nor boolean"):
        read_param_headers(having(region={"type": type_, "x-mcp-header": "Region"}))


def test_two_marks_must_differ_by_more_than_their_case() -> None:
    schema = having(a=MARKED, b={"type": "string", "x-mcp-header": "REGION"})
    with pytest.raises(ParamHeaderError, match="of another property"):
        read_param_headers(schema)


@pytest.mark.parametrize(
    "schema",
    [
        MARKED,
        {"items": MARKED},
        {"prefixItems": [MARKED]},
        {"anyOf": [{"properties": {"region": MARKED}}]},
        {"if": {"properties": {"region": MARKED}}},
        {"not": MARKED},
        {"$defs": {"region": MARKED}},
        {"definitions": {"region": MARKED}},
        {"patternProperties": {"^r": MARKED}},
        {"additionalProperties": MARKED},
        {"properties": {"list": {"items": {"properties": {"region": MARKED}}}}},
    ],
)
def test_a_mark_elsewhere_is_not_allowed(schema: dict[str, object]) -> None:
    with pytest.raises(ParamHeaderError, match="where no property of the arguments is"):
        read_param_headers(schema)


def test_what_is_shown_of_a_property_is_bounded_and_printable() -> None:
    with pytest.raises(ParamHeaderError) as caught:
        read_param_headers(having(**{"\n" + "x" * 1000: {"type": "number", "x-mcp-header": "A"}}))
    assert caught.value.where == "property '\\n" + "x" * 79 + "'"


KEYWORDS = st.sampled_from(
    ["properties", "items", "anyOf", "$defs", "not", "default", "x-mcp-header", "type", "a", "b"]
)
VALUES = st.sampled_from(["Region", "Zone", "region", "string", "integer", "number", "a b", 7, None, True])
SCHEMAS = st.recursive(
    VALUES, lambda inner: st.dictionaries(KEYWORDS, inner, max_size=4) | st.lists(inner, max_size=2), max_leaves=12
)


@given(st.dictionaries(KEYWORDS, SCHEMAS, max_size=4))
def test_the_sdk_finds_the_same_headers_and_the_same_schemas_wrong(schema: dict[str, object]) -> None:
    inbound = pytest.importorskip("mcp.shared.inbound")
    wrong = inbound.find_invalid_x_mcp_header(schema)
    try:
        found = {path: header for header, path in read_param_headers(schema)}
    except ParamHeaderError:
        assert wrong is not None
        return
    assert wrong is None
    expected = inbound.x_mcp_header_map(schema)
    assert found == {path: f"Mcp-Param-{token}" for path, token in expected.items()}
