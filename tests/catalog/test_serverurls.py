"""URLs of servers: one way of writing each, and nothing else taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.servers import (
    MAX_URL_CHARS,
    host_of,
    is_meant_as_url,
    is_readable_on_the_way,
    normal_url,
    without_query,
)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("http://a", "http://a/"),
        ("HTTP://A.Example/Path", "http://a.example/Path"),
        ("https://a:443/", "https://a/"),
        ("http://a:0080/", "http://a/"),
        ("https://a:80/", "https://a:80/"),
        ("http://a?q=A%20b", "http://a/?q=A%20b"),
        ("http://a/p?q#fragment", "http://a/p?q"),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/mcp"),
        ("http://my_host/", "http://my_host/"),
        ("WS://a:80/x", "ws://a/x"),
        ("wss://a:443", "wss://a/"),
        ("wss://a:80", "wss://a:80/"),
    ],
)
def test_a_url_is_written_in_one_way(text: str, normal: str) -> None:
    assert normal_url(text) == normal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "docs",
        "ftp://a/",
        "http:/a",
        "http:///path",
        "http://user:word@host/",
        "http://a b/",
        "http://a/ b",
        "http://a/\n",
        "http://a:/",
        "http://a:0/",
        "http://a:65536/",
        "http://a:x/",
        "http://[::1/",
        "http://a/%zz",
        "http://a\\b",
        "http://ä/",
        "http://a/" + "x" * MAX_URL_CHARS,
    ],
)
def test_what_is_no_url_is_none(text: str) -> None:
    assert normal_url(text) is None


@given(st.text(max_size=30) | st.from_regex(r"(https?|wss?)://[a-z0-9.:@/?#%\[\]-]{0,20}", fullmatch=True))
def test_writing_a_url_anew_changes_nothing_more(text: str) -> None:
    normal = normal_url(text)
    if normal is not None:
        assert normal_url(normal) == normal


def test_the_host_of_a_url_is_its_host_alone() -> None:
    assert [host_of(url) for url in ("HTTP://A.b:9/x", "wss://[::1]/", "docs")] == ["a.b", "[::1]", ""]


def test_what_begins_as_a_url_is_meant_as_one() -> None:
    assert [text for text in ("Http://", "WSS://x y", "docs", "ftp://a") if is_meant_as_url(text)] == [
        "Http://",
        "WSS://x y",
    ]


@pytest.mark.parametrize(
    ("url", "is_readable"),
    [
        ("http://a/", True),
        ("ws://a/", True),
        ("https://a/", False),
        ("wss://a/", False),
        ("http://localhost:1/", False),
        ("http://localhost.example/", True),
        ("http://127.0.0.1.example/", True),
        ("http://[::1]/", False),
        ("http://[::2]/", True),
    ],
)
def test_what_is_not_encrypted_and_leaves_the_machine_may_be_read(url: str, is_readable: bool) -> None:
    assert is_readable_on_the_way(url) is is_readable


def test_a_query_is_not_shown() -> None:
    assert without_query("https://a/b?key=hunter2") == "https://a/b"
