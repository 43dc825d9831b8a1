import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tooldispatchd.catalog.violations import Violation
from tooldispatchd.providers.mcp.headers import (
    MAX_VALUE_BYTES,
    ParamHeaderError,
    encode_value,
    name_in,
    param_headers,
    read_param_headers,
)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("", ""),
        ("eu-west", "eu-west"),
        ("two words", "two words"),
        ('~!"#$', '~!"#$'),
        (" eu", "=?base64?IGV1?="),
        ("eu ", "=?base64?ZXUg?="),
        (" ", "=?base64?IA==?="),
        ("a\tb", "=?base64?YQli?="),
        ("a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="),
        ("é", "=?base64?w6k=?="),
        ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
        ("=?BASE64?eA==?=", "=?base64?PT9CQVNFNjQ/ZUE9PT89?="),
        ("=?base64?eA==", "=?base64?eA=="),
    ],
)
def test_a_value_is_plain_where_it_is_safe_and_in_base64_where_not(value: str, encoded: str) -> None:
    assert encode_value(value) == encoded


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_one_printable_header_that_the_sdk_decodes_to_the_same(text: str) -> None:
    inbound = pytest.importorskip("mcp.shared.inbound")
    encoded = encode_value(text)
    assert encoded.isascii()
    assert not encoded or encoded.isprintable()
    assert encoded == encoded.strip()
    assert inbound.decode_header_value(encoded) == text


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "search"}, "search"),
        ("prompts/get", {"name": "greet"}, "greet"),
        ("resources/read", {"uri": "file:///a", "name": "b"}, "file:///a"),
        ("resources/read", {"uri": Raw(b'"file:///a"')}, "file:///a"),
        ("resources/read", {"uri": Raw(b"{")}, None),
        ("resources/read", {"uri": 7}, None),
        ("resources/read", {}, None),
        ("tools/list", {"name": "search"}, None),
    ],
)
def test_a_request_is_about_what_its_method_names(method: str, params: dict[str, object], name: str | None) -> None:
    assert name_in(method, params) == name


REGION = (("Mcp-Param-Region", ("region",)),)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        (b'"eu"', "eu"),
        (b'""', ""),
        ('"é"'.encode(), "=?base64?w6k=?="),
        (b"true", "true"),
        (b"false", "false"),
        (b"0", "0"),
        (b"-7", "-7"),
        (b"9007199254740993", "9007199254740993"),
        (b"42.0", "42"),
    ],
)
def test_an_argument_stands_in_its_header(argument: bytes, value: str) -> None:
    assert param_headers(REGION, b'{"region":' + argument + b"}") == [("Mcp-Param-Region", value)]


@pytest.mark.parametrize(
    "arguments",
    [
        b"{}",
        b'{"region":null}',
        b'{"region":[]}',
        b'{"region":{}}',
        b"[]",
        b"{",
        b'{"region":' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_not_there_or_cannot_be_said_has_no_header(arguments: bytes) -> None:
    assert param_headers(REGION, arguments) == []


def test_an_argument_is_found_at_its_depth() -> None:
    params = (("Mcp-Param-A", ("x", "y")), ("Mcp-Param-B", ("x", "y", "z")))
    assert param_headers(params, b'{"x":{"y":"deep"}}') == [("Mcp-Param-A", "deep")]


def test_what_stands_beside_an_argument_is_not_decoded() -> None:
    beside = b'"other":[1e999],"other":{"region":2}'
    assert param_headers(REGION, b'{"region":"eu",' + beside + b"}") == [("Mcp-Param-Region", "eu")]


def test_an_argument_may_be_as_long_as_a_header_and_no_longer() -> None:
    longest = b"x" * (MAX_VALUE_BYTES - 2)
    assert param_headers(REGION, b'{"region":"%b"}' % longest) == [("Mcp-Param-Region", longest.decode())]
    why = "is longer than 65536 bytes, and the header Mcp-Param-Region repeats it"
    assert param_headers(REGION, b'{"region":"x%b"}' % longest) == Violation("/region", why)
    assert param_headers(REGION, b'{"region":[%b1]}' % (b"1," * MAX_VALUE_BYTES)) == []


def test_arguments_are_not_read_where_no_header_repeats_any() -> None:
    assert param_headers((), b"no JSON at all") == []


@given(st.dictionaries(st.just("region"), st.none() | st.text() | st.booleans() | st.integers(-(2**53), 2**53)))
def test_the_server_of_the_sdk_accepts_the_headers_of_any_arguments(arguments: dict[str, object]) -> None:
    inbound = pytest.importorskip("mcp.shared.inbound")
    kind = {str: "string", bool: "boolean", int: "integer"}.get(type(arguments.get("region")), "string")
    schema = {"type": "object", "properties": {"region": {"type": kind, "x-mcp-header": "Region"}}}
    headers = param_headers(REGION, msgspec.json.encode(arguments))
    assert isinstance(headers, list)
    assert inbound.validate_mcp_param_headers(schema, arguments, dict(headers)) is None


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


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb"])
def test_a_property_whose_name_cannot_be_read_alone_has_no_header(name: str) -> None:
    marked = {"type": "string", "x-mcp-header": "A"}
    with pytest.raises(ParamHeaderError, match="a name with a quote"):
        read_param_headers({"properties": {name: marked}})


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
