import pytest

from tooldispatchd.http.errors import WireError
from tooldispatchd.http.places import HttpTarget, Origin, Territory, place
from tooldispatchd.http.reach import Reach

OWN = "https://mcp.example/mcp?key=secret"


def territory(*hosts: str, url: str = OWN) -> Territory:
    return Territory(Reach(url=url, hosts=hosts))


@pytest.mark.parametrize(
    ("url", "origin", "target"),
    [
        ("https://MCP.example", "https://mcp.example", "/"),
        ("https://mcp.example:443/a?b=c#d", "https://mcp.example", "/a?b=c"),
        ("http://mcp.example:443", "http://mcp.example:443", "/"),
        ("http://[::1]:8080/mcp", "http://[::1]:8080", "/mcp"),
        ("https://bücher.example/ä b", "https://xn--bcher-kva.example", "/%C3%A4%20b"),
        ("https://mcp.example/a%20b?c=%20[x]", "https://mcp.example", "/a%20b?c=%20%5Bx%5D"),
    ],
)
def test_a_url_is_an_origin_and_a_target(url: str, origin: str, target: str) -> None:
    found = place(url)
    assert (str(found.origin), found.target) == (origin, target)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://mcp.example/",
        "/mcp",
        "https://",
        "https://mcp.example:0/",
        "https://mcp.example:99999/",
        "https://.example/",
        "https://" + "a" * 64 + ".example/",
        "https://a b/",
        "https://[::1/",
        "https://user:pw@mcp.example/",
        "file:///etc/passwd",
        "https://" + "ü" * 100,
    ],
)
def test_what_is_no_http_url_is_refused(url: str) -> None:
    with pytest.raises(WireError):
        place(url)


def test_a_refusal_shows_neither_password_nor_query() -> None:
    with pytest.raises(WireError) as caught:
        place("https://user:hunter2@mcp.example/?key=hunter2")
    assert "hunter2" not in str(caught.value)


def test_a_server_may_lead_within_its_own_origin() -> None:
    assert territory().admit("https://mcp.example:443/other").target == "/other"


@pytest.mark.parametrize(
    ("hosts", "url"),
    [
        ((), "https://other.example/"),
        ((), "https://mcp.example:8443/"),
        ((), "https://sub.mcp.example/"),
        (("other.example",), "https://other.example:8443/"),
        (("other.example:8443",), "https://other.example/"),
        (("other.example",), "http://other.example/"),
        (("other.example:80",), "http://other.example/"),
    ],
)
def test_a_server_may_not_lead_elsewhere(hosts: tuple[str, ...], url: str) -> None:
    with pytest.raises(WireError, match="it leads"):
        territory(*hosts).admit(url)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("other.example", "https://other.example/x"),
        ("Other.example", "https://OTHER.example/x"),
        ("other.example:443", "https://other.example/x"),
        ("other.example:8443", "https://other.example:8443/x"),
    ],
)
def test_a_server_may_lead_to_listed_hosts(host: str, url: str) -> None:
    assert territory(host).admit(url).target == "/x"


def test_from_http_a_listed_host_may_be_led_to_with_or_without_tls() -> None:
    found = territory("other.example", url="http://mcp.example/")
    assert found.admit("http://other.example/").origin == Origin("http", "other.example", 80)
    assert found.admit("https://other.example/").origin == Origin("https", "other.example", 443)


AT = HttpTarget(Origin("https", "mcp.example", 443), "/mcp/")


@pytest.mark.parametrize("status", [200, 202, 300, 304, 305, 400])
def test_what_is_no_redirect_is_an_answer(status: int) -> None:
    assert territory().redirected("POST", AT, status, "/other") is None


def test_a_redirect_to_nowhere_is_an_answer() -> None:
    assert territory().redirected("POST", AT, 307, None) is None


@pytest.mark.parametrize("status", [307, 308])
def test_a_post_is_sent_on_where_its_body_goes_along(status: int) -> None:
    found = territory().redirected("POST", AT, status, "../v2")
    assert found is not None
    assert found.url == "https://mcp.example/v2"


@pytest.mark.parametrize("status", [301, 302])
def test_a_post_that_would_become_a_get_is_refused(status: int) -> None:
    with pytest.raises(WireError, match=f"HTTP {status} to https://mcp.example: only 303, 307 and 308") as caught:
        territory().redirected("POST", AT, status, "https://mcp.example/?key=hunter2")
    assert caught.value.extras == {"http_status": status}
    assert caught.value.was_sent
    assert "hunter2" not in caught.value.why
    assert territory().redirected("GET", AT, status, "/other") is not None


def test_a_redirect_elsewhere_is_refused_and_says_where() -> None:
    with pytest.raises(WireError, match=r"HTTP 307: it leads to https://other\.example, which is not among") as caught:
        territory().redirected("POST", AT, 307, "https://other.example/?key=hunter2")
    assert "hunter2" not in caught.value.why


@pytest.mark.parametrize("location", ["https://[::1", "https://a:b:c/", "javascript:alert(1)"])
def test_a_redirect_to_nonsense_is_a_refusal(location: str) -> None:
    with pytest.raises(WireError):
        territory(url="https://mcp.example/").redirected("GET", AT, 307, location)


@pytest.mark.parametrize(
    ("url", "is_named"),
    [
        ("https://10.0.0.5/", True),
        ("https://[fd00::1]/", True),
        ("https://localhost/", True),
        ("https://login.example/", False),
        ("https://localhost.example/", False),
        ("https://2130706433/", False),
        ("https://127.1/", False),
    ],
)
def test_only_a_host_that_says_itself_where_it_is_may_be_private_when_it_is_listed(url: str, is_named: bool) -> None:
    origin = place(url).origin
    assert territory(origin.authority).must_be_public(origin) is not is_named


def test_what_is_trusted_may_be_led_to_and_nothing_beside_it() -> None:
    found = territory()
    found.trust("https://login.example:8443")
    assert found.admit("https://login.example:8443/token").target == "/token"
    assert not found.must_be_public(place("https://login.example:8443").origin)
    for other in ("https://login.example/", "http://login.example:8443/"):
        with pytest.raises(WireError):
            found.admit(other)
