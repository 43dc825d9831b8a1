"""Headers that repeat parts of a message; the SDK's server reads them as the same."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tooldispatchd.providers.mcp.headers import encode_value, name_in, param_headers


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


def test_arguments_are_not_read_where_no_header_repeats_any() -> None:
    assert param_headers((), b"no JSON at all") == []


@given(st.dictionaries(st.just("region"), st.none() | st.text() | st.booleans() | st.integers(-(2**53), 2**53)))
def test_the_server_of_the_sdk_accepts_the_headers_of_any_arguments(arguments: dict[str, object]) -> None:
    inbound = pytest.importorskip("mcp.shared.inbound")
    kind = {str: "string", bool: "boolean", int: "integer"}.get(type(arguments.get("region")), "string")
    schema = {"type": "object", "properties": {"region": {"type": kind, "x-mcp-header": "Region"}}}
    headers = dict(param_headers(REGION, msgspec.json.encode(arguments)))
    assert inbound.validate_mcp_param_headers(schema, arguments, headers) is None
