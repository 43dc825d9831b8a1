"""Where a wire goes besides its server's own origin, and what it takes along."""

import pytest
import trio

from tests.http.names import answer_names
from tests.servers.raw_http import Peer, RawServer, Script, polite, serving
from tooldispatchd.http.errors import WireError
from tooldispatchd.http.reach import Reach
from tooldispatchd.http.wire import HttpWire

SECRET = (("Authorization", "Bearer hunter2"),)


def sending_on(status: int, *locations: str) -> Script:
    """Redirect as many requests as there are locations, then be polite."""
    left = list(locations)

    async def script(peer: Peer) -> None:
        while left:
            await peer.read_request()
            await peer.answer(b"moved", status=f"{status} Moved", headers=f"Location: {left.pop(0)}\r\n")
        await polite(peer)

    return script


async def ask(server: RawServer, *, hosts: tuple[str, ...] = (), private: bool = False, method: str = "POST") -> int:
    reach = Reach(url=server.url, headers=SECRET, hosts=hosts, private=private)
    body = b"{}" if method == "POST" else b""
    wire = HttpWire(reach, max_bytes=1000)
    async with wire, wire.exchange(method, [("Mcp-Session-Id", "s")], body) as reply:
        await reply.read(1000)
        return reply.status


@pytest.mark.parametrize("status", [307, 308])
async def test_a_post_follows_within_the_origin_with_all_that_it_has(status: int) -> None:
    async with serving(sending_on(status, "/v2?a=b")) as server:
        assert await ask(server) == 200
        assert [(asked.method, asked.target, asked.body) for asked in server.asked] == [
            ("POST", "/mcp", b"{}"),
            ("POST", "/v2?a=b", b"{}"),
        ]
        assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer hunter2"] * 2
        assert server.connections == 1


async def test_a_post_does_not_become_a_get() -> None:
    async with serving(sending_on(302, "/login?next=hunter2")) as server:
        with pytest.raises(WireError, match="only 303, 307 and 308 are followed with a POST") as caught:
            await ask(server)
        assert "hunter2" not in caught.value.why
        assert len(server.asked) == 1


async def test_what_lies_elsewhere_is_got_without_the_body() -> None:
    async with serving(sending_on(303, "/v2", "/v3")) as server:
        assert await ask(server) == 200
    assert [(asked.method, asked.target, asked.body) for asked in server.asked] == [
        ("POST", "/mcp", b"{}"),
        ("GET", "/v2", b""),
        ("GET", "/v3", b""),
    ]
    assert "content-type" not in server.asked[1].headers
    assert "content-length" not in server.asked[1].headers


async def test_what_lies_at_another_host_is_not_got_unless_that_is_listed() -> None:
    async with serving(sending_on(303, "http://localhost:1/v2")) as server:
        with pytest.raises(WireError, match="not among its `hosts`"):
            await ask(server)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_get_follows_each_kind(status: int) -> None:
    async with serving(sending_on(status, "/v2")) as server:
        assert await ask(server, method="GET") == 200


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_head_stays_a_head(status: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(b"HTTP/1.1 %d Moved\r\nLocation: /v2\r\nContent-Length: 9\r\n\r\n" % status)
        await peer.read_request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")

    async with serving(script) as server:
        assert await ask(server, method="HEAD") == 200
        assert [asked.method for asked in server.asked] == ["HEAD", "HEAD"]


async def test_three_redirects_are_followed_and_no_fourth() -> None:
    async with serving(sending_on(307, "/a", "/b", "/c")) as server:
        assert await ask(server) == 200
    async with serving(sending_on(307, "/a", "/b", "/c", "/d")) as server:
        with pytest.raises(WireError, match="more than 3 redirects") as caught:
            await ask(server)
        assert caught.value.extras == {"http_status": 307}
        assert len(server.asked) == 4


async def test_as_many_redirects_are_followed_as_the_wire_was_made_for() -> None:
    for most, locations in ((0, ["/a"]), (5, ["/a", "/b", "/c", "/d", "/e", "/f"])):
        async with serving(sending_on(307, *locations)) as server:
            wire = HttpWire(Reach(url=server.url), max_bytes=1000, max_redirects=most)
            async with wire:
                with pytest.raises(WireError, match=f"more than {most} redirects"):
                    async with wire.exchange("GET"):
                        pass
            assert len(server.asked) == most + 1


async def test_headers_for_the_own_origin_stay_there() -> None:
    async with serving(polite) as other, serving(sending_on(307, "/v2", f"{other.url}x")) as server:
        reach = Reach(url=server.url, hosts=(f"127.0.0.1:{other.port}",))
        wire = HttpWire(reach, max_bytes=1000)
        async with wire, wire.exchange("GET", [("Accept", "text/html")], own=[("X-Key", "hunter2")]) as reply:
            assert reply.status == 200
        assert [asked.headers.get("x-key") for asked in server.asked] == ["hunter2", "hunter2"]
        assert "x-key" not in other.asked[0].headers
        assert other.asked[0].headers["accept"] == "text/html"


@pytest.mark.parametrize("status", [307, 308])
async def test_what_is_fetched_is_redirected_within_its_origin_alone_unless_it_is_a_get(status: int) -> None:
    async with serving(polite) as other, serving(sending_on(status, "/v2", other.url)) as server:
        reach = Reach(url=server.url, hosts=(f"127.0.0.1:{other.port}",))
        async with HttpWire(reach, max_bytes=1000) as wire:
            with pytest.raises(WireError, match="goes to no other origin") as caught:
                await wire.fetch("PUT", server.url, (), b"hunter2")
        assert caught.value.extras == {"http_status": status}
        assert [asked.body for asked in server.asked] == [b"hunter2", b"hunter2"]
        assert other.connections == 0


async def test_credentials_stay_with_their_origin() -> None:
    async with serving(polite) as other, serving(sending_on(307, f"http://localhost:{other.port}/x")) as server:
        assert await ask(server, hosts=(f"localhost:{other.port}",), private=True) == 200
        [asked] = other.asked
        assert asked.headers["host"] == f"localhost:{other.port}"
        assert "authorization" not in asked.headers
        assert asked.headers["mcp-session-id"] == "s"


async def test_another_port_is_another_origin() -> None:
    async with serving(polite) as other, serving(sending_on(307, other.url)) as server:
        with pytest.raises(WireError, match="is not among its `hosts`"):
            await ask(server)
        assert other.connections == 0


async def test_a_listed_host_with_a_private_address_is_refused() -> None:
    answer_names(other_test=[["127.0.0.1"]])
    async with serving(polite) as other, serving(sending_on(307, f"http://other.test:{other.port}/")) as server:
        with pytest.raises(WireError, match=r"other\.test has the private address 127\.0\.0\.1") as caught:
            await ask(server, hosts=(f"other.test:{other.port}",))
        assert caught.value.was_sent
        assert other.connections == 0


async def test_a_listed_host_that_an_idle_connection_leads_to_needs_no_second_look() -> None:
    names = answer_names(other_test=[["127.0.0.1"], ["10.0.0.1"]])
    async with serving(polite) as other:
        there = f"http://other.test:{other.port}/"
        async with serving(sending_on(307, there, there)) as server:
            reach = Reach(url=server.url, hosts=(f"other.test:{other.port}",), private=True)
            async with HttpWire(reach, max_bytes=1000) as wire:
                for _ in range(2):
                    async with wire.exchange("POST", (), b"{}") as reply:
                        assert reply.status == 200
        assert other.connections == 1
        assert names.asked == ["other.test"]


# What is fetched


async def test_a_fetch_reads_a_document_of_the_own_origin_with_what_is_configured() -> None:
    async with serving(polite) as server, HttpWire(Reach(url=server.url, headers=SECRET), max_bytes=1000) as wire:
        url = f"http://127.0.0.1:{server.port}/.well-known/x"
        assert await wire.fetch("GET", url, [("Accept", "application/json")], b"") == (200, b"{}")
        assert server.asked[0].headers["authorization"] == "Bearer hunter2"


async def test_a_fetch_takes_no_credentials_elsewhere() -> None:
    async with serving(polite) as other, serving(polite) as server:
        reach = Reach(url=server.url, headers=SECRET, hosts=(f"127.0.0.1:{other.port}",), private=True)
        async with HttpWire(reach, max_bytes=1000) as wire:
            await wire.fetch("POST", other.url, [("Content-Type", "text/plain")], b"a=b")
        [asked] = other.asked
        assert (asked.method, asked.body) == ("POST", b"a=b")
        assert "authorization" not in asked.headers


async def test_a_fetch_is_bounded() -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.answer(bytes(100_000))

    async with serving(script) as server, HttpWire(Reach(url=server.url), max_bytes=1_000_000) as wire:
        with pytest.raises(WireError, match="over 65536 bytes") as caught:
            await wire.fetch("GET", server.url, (), b"")
        assert caught.value.is_too_large


@pytest.mark.parametrize("url", ["http://other.test/", "file:///etc/passwd", "http://127.0.0.1:1/"])
async def test_a_fetch_goes_nowhere_else(url: str) -> None:
    async with serving(polite) as server, HttpWire(Reach(url=server.url), max_bytes=1000) as wire:
        with pytest.raises(WireError):
            await wire.fetch("GET", url, (), b"")


async def test_a_redirect_of_a_fetch_is_held_to_the_same() -> None:
    async with serving(polite) as other, serving(sending_on(302, other.url)) as server:
        async with HttpWire(Reach(url=server.url), max_bytes=1000) as wire:
            with pytest.raises(WireError, match="is not among its `hosts`"):
                await wire.fetch("GET", server.url, (), b"")
        assert other.connections == 0


async def test_redirects_at_the_same_time_do_not_meet() -> None:
    async def script(peer: Peer) -> None:
        while True:
            asked = await peer.read_request()
            if asked.target == "/mcp":
                await peer.answer(status="307 On", headers="Location: /v2\r\n")
            else:
                await peer.answer(asked.body)

    async with serving(script) as server, HttpWire(Reach(url=server.url), max_bytes=1000) as wire:
        bodies: list[bytes] = []

        async def echo(body: bytes) -> None:
            async with wire.exchange("POST", (), body) as reply:
                bodies.append(await reply.read(100))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(echo, b"%d" % number)
        assert sorted(bodies, key=int) == [b"%d" % number for number in range(20)]
