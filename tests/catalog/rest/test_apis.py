from collections.abc import Mapping

import msgspec
import pytest

from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.explanation import explain
from tooldispatchd.catalog.rest.declared import ApiCredentials
from tooldispatchd.catalog.specs import Config


def catalog(table: Mapping[str, object]) -> Catalog:
    built = build_catalog(msgspec.convert(table, Config))
    assert isinstance(built, Catalog), built
    return built


def test_tools_whose_urls_have_one_origin_are_at_one_api() -> None:
    tools = {
        "a": {"rest": {"url": "https://x.example/a"}},
        "b": {"rest": {"url": "HTTPS://X.example:443/b"}},
        "c": {"rest": {"url": "https://x.example:8443/"}},
    }
    built = catalog({"tools": tools})
    assert {name: (api.origin, api.base) for name, api in built.apis.items()} == {
        "https://x.example": ("https://x.example", ""),
        "https://x.example:8443": ("https://x.example:8443", ""),
    }
    assert [tool.rest.api for tool in built.tools.values() if tool.rest] == [
        "https://x.example",
        "https://x.example",
        "https://x.example:8443",
    ]


def test_a_table_has_its_own_even_where_its_origin_is_another_ones() -> None:
    built = catalog(
        {
            "rest": {"a": {"base_url": "https://x.example/v1/"}, "b": {"base_url": "https://x.example"}},
            "tools": {"t": {"rest": {"url": "https://x.example/"}}, "u": {"rest": {"api": "a", "path": "/"}}},
        }
    )
    assert list(built.apis) == ["a", "b", "https://x.example"]
    assert (built.apis["a"].base, built.apis["b"].base) == ("/v1", "")


def test_a_configuration_without_requests_has_no_apis() -> None:
    assert catalog({"tools": {"a": {"inline": "id"}}}).apis == {}


@pytest.mark.parametrize(
    ("table", "warnings"),
    [
        ({"rest": {"a": {"base_url": "http://x.example", "token": "t"}}}, 1),
        ({"rest": {"a": {"base_url": "http://x.example", "api_key": {"query": "k", "value": "v"}}}}, 1),
        ({"rest": {"a": {"base_url": "http://x.example", "headers": {"X-Api-Key": "v"}}}}, 1),
        ({"tools": {"t": {"rest": {"url": "http://x.example/", "headers": {"Authorization": "x"}}}}}, 1),
        ({"rest": {"a": {"base_url": "http://127.0.0.1", "token": "t"}}}, 0),
        ({"rest": {"a": {"base_url": "https://x.example", "token": "t"}}}, 0),
        ({"rest": {"a": {"base_url": "http://x.example"}}}, 0),
    ],
)
def test_a_secret_that_may_be_read_on_the_way_is_warned_of(table: dict[str, object], warnings: int) -> None:
    said = [warning for warning in catalog(table).warnings if "http://" in warning]
    assert len(said) == warnings
    assert all("https:// encrypts them" in warning for warning in said)


def test_no_secret_is_shown() -> None:
    table = {
        "rest": {
            "a": {
                "base_url": "https://x.example/hunter2",
                "token": "hunter2",
                "headers": {"X": "hunter2"},
                "query": {"k": "hunter2"},
                "api_key": {"query": "key", "value": "hunter2"},
                "call_s": 5,
                "hosts": ["y.example"],
            },
            "b": {"base_url": "https://b.example", "basic": {"user": "hunter2", "password": "hunter2"}},
        },
        "tools": {
            "t": {
                "rest": {
                    "api": "a",
                    "path": "/hunter2?k=hunter2",
                    "headers": {"X": "hunter2"},
                    "query": {"k": "hunter2"},
                    "cookies": {"c": "hunter2"},
                    "body": {"k": ["hunter2"]},
                    "pick": "/items",
                }
            },
            "u": {"rest": {"url": "https://z.example/hunter2", "text": "hunter2"}},
        },
    }
    built = catalog(table)
    assert "hunter2" not in "\n".join(explain(built))
    assert "hunter2" not in repr(built.config)
    assert "hunter2" not in repr(ApiCredentials((("X", "hunter2"),), client_secret="hunter2"))
    assert explain(built) == [
        "tool t : {} -> json",
        "    runs: POST request to the API a",
        "    answer: what stands at /items",
        "    limit: 5 s",
        "    offered to: default",
        "tool u : {} -> json",
        "    runs: POST request to the API https://z.example",
        "    limit: 60 s",
        "    offered to: default",
        "api a",
        "    at: https://x.example",
        "    credentials: token, key in the query",
        "    limits: 5 s a call, 8,388,608 bytes an answer",
        "    redirects: within its origin, and to 1 of its hosts",
        "    used by: tool t",
        "api b",
        "    at: https://b.example",
        "    credentials: basic",
        "    limits: 60 s a call, 8,388,608 bytes an answer",
        "    not used",
        "api https://z.example",
        "    at: https://z.example",
        "    credentials: none",
        "    limits: 60 s a call, 8,388,608 bytes an answer",
        "    used by: tool u",
    ]
