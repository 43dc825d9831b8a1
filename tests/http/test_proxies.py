import pytest

from tooldispatchd.http.errors import WireError
from tooldispatchd.http.network import proxy_for
from tooldispatchd.http.places import Origin

SERVER = Origin("https", "mcp.example", 443)
NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_without_a_word_in_the_environment_there_is_no_proxy() -> None:
    assert proxy_for(SERVER) is None


@pytest.mark.parametrize("name", ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])
def test_a_proxy_is_named_for_the_scheme_or_for_all(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "http://proxy.example:3128")
    found = proxy_for(SERVER)
    assert found is not None
    assert str(found.origin) == "http://proxy.example:3128"


def test_a_proxy_for_http_is_none_for_https(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    assert proxy_for(SERVER) is None


def test_a_proxy_may_be_named_without_a_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "proxy.example:3128")
    found = proxy_for(SERVER)
    assert found is not None
    assert str(found.origin) == "http://proxy.example:3128"


@pytest.mark.parametrize("hosts", ["*", "mcp.example", "example", ".example", "mcp.example:443", "x, mcp.example"])
def test_hosts_may_be_excepted(hosts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", hosts)
    assert proxy_for(SERVER) is None


@pytest.mark.parametrize("hosts", ["", "other.example", "mcp.example:8443", "cp.example"])
def test_other_hosts_are_not_excepted(hosts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", hosts)
    assert proxy_for(SERVER) is not None


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_this_machine_is_never_reached_through_a_proxy(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "http://proxy.example:3128")
    assert proxy_for(Origin("https", host, 443)) is None


def test_credentials_of_a_proxy_are_a_header_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://user:p%40ss@proxy.example:3128")
    found = proxy_for(SERVER)
    assert found is not None
    assert found.authorization == "Basic dXNlcjpwQHNz"
    assert repr(found) == "Proxy(http://proxy.example:3128)"


@pytest.mark.parametrize("url", ["socks5://u:hunter2@p:1080", "ftp://hunter2@p", "http://hunter2:x@[::1", "http://"])
def test_another_kind_of_proxy_is_refused_without_its_password(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", url)
    with pytest.raises(WireError, match="cannot use") as caught:
        proxy_for(SERVER)
    assert "hunter2" not in caught.value.why
