import gzip
import tracemalloc
import zlib
from pathlib import Path

import pytest
import trio

from tests.forked.python.test_context import context
from tests.http.certificates import Authority
from tests.toolbox.web.sites import Names, Site, page, redirect, site
from tooldispatchd.forked.python.context import ToolFailedError
from tooldispatchd.toolbox.web.addresses import AllowedHosts
from tooldispatchd.toolbox.web.downloading import Download, download, within_time

PRIVATE = AllowedHosts(private=True)
# httpx2 leaves its inner generators to the collector where a body is not read to its end.
LEFT_TO_THE_COLLECTOR = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def got(url: str, *, max_bytes: int = 100_000, left_s: float = 8.0) -> Download:
    async with within_time(context(left_s=left_s), f"fetch {url}"):
        return await download(url, PRIVATE, max_bytes=max_bytes)


async def failure(url: str, *, max_bytes: int = 100_000, left_s: float = 8.0) -> str:
    with pytest.raises(ToolFailedError) as raised:
        await got(url, max_bytes=max_bytes, left_s=left_s)
    return str(raised.value).replace(url, "URL")


async def test_a_request_says_who_asks_and_nothing_else() -> None:
    async with site({"/": page(b"hello")}) as here:
        found = await got(f"{here.url}/?q=1#part")
    assert (found.status, found.body, found.is_whole) == (200, b"hello", True)
    lines = here.heads[0].split("\r\n")
    assert lines[0] == "GET /?q=1 HTTP/1.1"
    names = {line.partition(":")[0].lower() for line in lines[1:]}
    assert names == {"host", "accept", "accept-encoding", "connection", "user-agent"}
    assert "User-Agent: tooldispatchd/" in here.heads[0]


async def test_a_name_is_resolved_once_and_what_was_checked_is_connected_to() -> None:
    names = Names(rebind_test=[["127.0.0.1"], ["127.0.0.2"]])
    async with site({"/": page(b"checked")}) as first, site({}, host="127.0.0.2", port=first.port) as second:
        found = await got(f"http://rebind.test:{first.port}/")
    assert found.body == b"checked"
    assert names.asked == ["rebind.test"]
    assert f"Host: rebind.test:{first.port}" in first.heads[0]
    assert second.heads == []


async def test_a_second_answer_of_the_name_server_leads_to_no_private_address() -> None:
    names = Names(rebind_test=[["2d00::1"], ["127.0.0.1"]])  # an address that nobody has
    async with site({"/": page(b"secret")}) as here:
        with pytest.raises(ToolFailedError):
            async with within_time(context(left_s=2.0), "fetch"):
                await download(f"http://rebind.test:{here.port}/", AllowedHosts(), max_bytes=1000)
    assert (names.asked, here.heads) == (["rebind.test"], [])


async def test_the_next_address_is_tried_where_one_does_not_answer() -> None:
    Names(two_test=[["127.0.0.3", "127.0.0.1"]])
    async with site({"/": page(b"second")}) as here:
        assert (await got(f"http://two.test:{here.port}/")).body == b"second"


async def test_what_an_address_answered_badly_no_other_is_asked() -> None:
    Names(two_test=[["127.0.0.1", "127.0.0.2"]])
    async with site({"/": b"nonsense\r\n\r\n"}) as first, site({}, host="127.0.0.2", port=first.port) as second:
        assert "its answer is no valid HTTP" in await failure(f"http://two.test:{first.port}/")
    assert second.heads == []


async def test_redirects_are_followed_without_cookies_and_referer() -> None:
    first = redirect("/b?x#y").replace(b"\r\n\r\n", b"\r\nSet-Cookie: a=1; Path=/\r\n\r\n")
    async with site({"/a": first, "/b": redirect("c", "308 Permanent Redirect"), "/c": page(b"end")}) as here:
        found = await got(f"{here.url}/a")
    assert (str(found.url), found.body) == (f"{here.url}/c", b"end")
    assert [head.split()[1] for head in here.heads] == ["/a", "/b?x", "/c"]
    assert "cookie" not in "".join(here.heads).lower()
    assert "referer" not in "".join(here.heads).lower()


async def test_five_redirects_are_followed_and_no_sixth() -> None:
    hops = {f"/{number}": redirect(f"/{number + 1}") for number in range(6)}
    async with site({**hops, "/6": page(b"end")}) as here:
        assert (await got(f"{here.url}/1")).body == b"end"
        assert (
            await failure(f"{here.url}/0")
            == f"cannot fetch URL: it redirects more than 5 times, at last to {here.url}/6"
        )


async def test_a_loop_of_redirects_ends() -> None:
    async with site({"/": redirect("/")}) as here:
        assert "more than 5 times" in await failure(f"{here.url}/")
    assert len(here.heads) == 6


async def test_a_redirect_is_judged_as_the_url_was() -> None:
    Names(out_test=[["127.0.0.1"]])
    async with site({"/": redirect("http://localhost/")}) as here:
        allowed = AllowedHosts(hosts=("out.test",), private=True)
        with pytest.raises(ToolFailedError, match="the host localhost is not one that this tool may fetch from"):
            await download(f"http://out.test:{here.port}/", allowed, max_bytes=1000)


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://h/", "http://u:p@h/", "http://h:99999/", "http://["])
async def test_a_redirect_to_what_is_no_page_is_refused(location: str) -> None:
    async with site({"/": redirect(location)}) as here:
        assert "it redirects to a place that is no page" in await failure(f"{here.url}/")


@LEFT_TO_THE_COLLECTOR
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "its answer is no valid HTTP: Server disconnected without sending a response."),
        (b"nonsense\r\n\r\n", "its answer is no valid HTTP: illegal status line"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000, "its answer is no valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", "its answer is no valid HTTP: peer closed connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "its answer is no valid HTTP"),
        (
            page(b"no gzip at all", headers=("Content-Encoding: gzip",)),
            "its answer is compressed in a way that was not asked for",
        ),
        (page(b"x", headers=("Content-Encoding: br",)), "its answer is compressed in a way that was not asked for"),
        (page(b"x", headers=("Content-Encoding: " + "gzip, " * 9,)), "its answer is compressed in a way that was not"),
    ],
)
async def test_an_answer_that_is_none_is_one_sentence(answer: bytes, why: str) -> None:
    async with site({"/": answer}) as here:
        said = await failure(f"{here.url}/")
    assert said.startswith(f"cannot fetch URL: {why}")
    assert len(said) < 400
    assert "\n" not in said


async def test_more_than_the_length_that_was_said_is_not_read() -> None:
    async with site({"/": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n"}) as here:
        assert (await got(f"{here.url}/")).body == b"ok"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_compressed_answer_is_unpacked(coding: str) -> None:
    body = gzip.compress(b"packed") if coding == "gzip" else zlib.compress(b"packed")
    async with site({"/": page(body, headers=(f"Content-Encoding: {coding}",))}) as here:
        assert (await got(f"{here.url}/")).body == b"packed"


@LEFT_TO_THE_COLLECTOR
async def test_of_a_bomb_no_more_is_held_than_may_be_downloaded() -> None:
    bomb = gzip.compress(bytes(256 * 1024 * 1024), compresslevel=1)
    async with site({"/": page(bomb, headers=("Content-Encoding: gzip",))}) as here:
        tracemalloc.start()
        try:
            found = await got(f"{here.url}/", max_bytes=5_000)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (len(found.body), found.is_whole) == (5_000, False)
    assert peak < 16 * 1024 * 1024


@LEFT_TO_THE_COLLECTOR
async def test_chunks_without_end_are_read_up_to_the_bound() -> None:
    async def endless(stream: trio.abc.Stream) -> None:
        await stream.send_all(CHUNKED)
        while True:
            await stream.send_all(b"3e8\r\n" + b"x" * 1000 + b"\r\n")

    async with site({"/": endless}) as here:
        found = await got(f"{here.url}/", max_bytes=50_000)
    assert (len(found.body), found.is_whole) == (50_000, False)


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\n", CHUNKED, b"HTTP/1.1 200 OK\r\nX-Long: "])
async def test_a_site_that_drips_is_given_up_in_time(beginning: bytes) -> None:
    async def drip(stream: trio.abc.Stream) -> None:
        await stream.send_all(beginning)
        while True:
            await trio.sleep(0.05)
            await stream.send_all(b"1\r\nx\r\n" if beginning == CHUNKED else b"x")

    async with site({"/": drip}) as here:
        assert await failure(f"{here.url}/", left_s=1.0) == "cannot fetch URL: the answer was not complete within 0.5 s"


async def test_a_port_where_nobody_listens_is_one_sentence() -> None:
    async with site({}) as here:
        pass
    assert await failure(f"{here.url}/") == "cannot fetch URL: connection refused"


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """An authority that this process trusts."""
    found = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", found.ca)
    return found


async def test_the_certificate_is_that_of_the_name(authority: Authority) -> None:
    Names(site_test=[["127.0.0.1"]], other_test=[["127.0.0.1"]])
    async with site({"/": page(b"safe")}, tls=authority.server_context("site.test")) as here:
        assert (await got(f"https://site.test:{here.port}/")).body == b"safe"
        assert (await got(f"https://site.test.:{here.port}/")).body == b"safe"
        said = await failure(f"https://other.test:{here.port}/")
    assert said.startswith("cannot fetch URL: its certificate cannot be trusted: Hostname mismatch")


async def test_a_certificate_of_a_stranger_is_not_trusted(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "strange").mkdir()
    strange = Authority(tmp_path / "strange", "strange")
    async with site({"/": page(b"x")}, tls=strange.server_context("127.0.0.1")) as here:
        said = await failure(f"{here.url}/")
    assert said.startswith("cannot fetch URL: its certificate cannot be trusted: unable to get local issuer")


async def test_a_site_without_tls_is_one_sentence() -> None:
    async with site({"/": page(b"x")}) as here:
        assert (await failure(f"https://127.0.0.1:{here.port}/")).startswith("cannot fetch URL: TLS failed: ")


async def test_a_redirect_away_from_tls_is_told_and_not_followed(authority: Authority) -> None:
    async with site({"/": redirect("http://127.0.0.1/")}, tls=authority.server_context("127.0.0.1")) as here:
        said = await failure(f"{here.url}/")
    assert said == "cannot fetch URL: it redirects from https to http://127.0.0.1/; fetch that if you want to"


async def test_certificates_that_cannot_be_read_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent.pem")
    async with site({}) as here:
        assert await failure(f"{here.url}/") == "cannot read the certificates to trust: No such file or directory"


async def through_proxy(here: Site, url: str, monkeypatch: pytest.MonkeyPatch) -> Download:
    monkeypatch.setenv("http_proxy", f"http://me:pa55@127.0.0.1:{here.port}")
    return await download(url, AllowedHosts(), max_bytes=1000)


async def test_a_proxy_of_the_environment_resolves_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    Names()
    async with site({"http://far.test/page": page(b"by proxy")}) as proxy:
        found = await through_proxy(proxy, "http://far.test/page", monkeypatch)
    assert found.body == b"by proxy"
    assert "Host: far.test" in proxy.heads[0]
    assert "proxy-authorization: basic" in proxy.heads[0].lower()


async def test_through_a_tunnel_the_certificate_is_that_of_the_name(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    Names()

    async def tunnel(stream: trio.abc.Stream) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n")
        safe = trio.SSLStream(stream, authority.server_context("far.test"), server_side=True, https_compatible=True)
        await safe.receive_some()
        await safe.send_all(page(b"by tunnel"))

    async with site({"far.test:443": tunnel, "near.test:443": tunnel}) as proxy:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        assert (await got("https://far.test/")).body == b"by tunnel"
        assert "Hostname mismatch" in await failure("https://near.test/")
    assert await failure("https://far.test/") == "cannot fetch URL: connection refused"


async def test_no_proxy_is_asked_for_a_private_address(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site({}) as proxy:
        for url in ("http://10.0.0.1/", "http://169.254.169.254/", "http://0x7f.1/"):
            with pytest.raises(ToolFailedError, match="may not connect"):
                await through_proxy(proxy, url, monkeypatch)
    assert proxy.heads == []


async def test_hosts_that_need_no_proxy_are_reached_without(monkeypatch: pytest.MonkeyPatch) -> None:
    Names(near_test=[["127.0.0.2"]])
    monkeypatch.setenv("no_proxy", "near.test")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with site({"/": page(b"direct")}, host="127.0.0.2") as here:
        assert (await got(f"http://near.test:{here.port}/")).body == b"direct"


async def test_an_address_that_needs_no_proxy_changes_nothing_for_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    Names(far_test=[["1.1.1.1"]])
    monkeypatch.setenv("no_proxy", "1.1.1.1")
    async with site({"http://far.test/": page(b"by proxy")}) as proxy:
        assert (await through_proxy(proxy, "http://far.test/", monkeypatch)).body == b"by proxy"


async def test_a_proxy_of_another_kind_is_one_sentence_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    Names(far_test=[["1.1.1.1"]])
    monkeypatch.setenv("all_proxy", "gopher://me:pa55@h")
    said = await failure("http://far.test/")
    assert said == "the proxy that the environment names is no http:// or https:// URL"
