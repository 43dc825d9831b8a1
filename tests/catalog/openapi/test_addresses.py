"""Where an API is: variables, and URLs relative to the document's."""

from typing import Any

import pytest

from tooldispatchd.catalog.openapi.addresses import address_of, origin_of


@pytest.mark.parametrize(
    ("server", "document_url", "address"),
    [
        ({"url": "https://a.example/v1/"}, None, "https://a.example/v1"),
        (
            {"url": "https://{r}.example/{b}", "variables": {"r": {"default": "eu"}, "b": {"default": "v2"}}},
            None,
            "https://eu.example/v2",
        ),
        ({"url": "https://{r}.example"}, None, None),
        ({"url": "https://{r}.example", "variables": {"r": {"default": True}}}, None, None),
        ({"url": "https://a.example:{p}", "variables": {"p": {"default": 8443}}}, None, "https://a.example:8443"),
        ({"url": "/v1"}, None, None),
        ({"url": "/v1"}, "https://d.example/docs/openapi.json", "https://d.example/v1"),
        ({"url": "v1/../v2/./x"}, "https://d.example/docs/openapi.json?key=1", "https://d.example/docs/v2/x"),
        ({"url": "../../../x"}, "https://d.example/docs/openapi.json", "https://d.example/x"),
        ({"url": "//other.example/v1"}, "http://d.example/openapi.json", "http://other.example/v1"),
        ({"url": "//other.example/v1"}, None, "https://other.example/v1"),
        ({"url": ""}, "https://d.example/openapi.json", "https://d.example"),
        ({}, "https://d.example/a/openapi.json", "https://d.example/a"),
        ({"url": "ftp://a.example"}, None, None),
        ("x", None, None),
        ({"url": "HTTPS://A.example/v1?q#f"}, None, "HTTPS://A.example/v1"),
    ],
)
def test_the_address_of_a_server(server: Any, document_url: str | None, address: str | None) -> None:
    assert address_of(server, document_url) == address


def test_an_origin_is_scheme_host_and_port() -> None:
    assert origin_of("HTTPS://A.example:8443/v1") == "https://a.example:8443"
    assert origin_of("/v1") == ""
