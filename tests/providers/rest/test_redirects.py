"""Where an API may lead, and what goes along: within its origin everything, elsewhere nothing that is ours."""

import pytest
import trio

from tests.http.names import Names
from tests.providers.rest.calls import calling_at
from tests.servers.raw_http import Peer, Script, polite, serving
from tooldispatchd.wire.faults import Code

SECRETS = {
    "token": "secret-token",
    "headers": {"X-Fixed": "secret-header"},
    "query": {"fixed": "secret-entry"},
    "api_key": {"cookie": "sid", "value": "secret-cookie"},
}


def leads(to: str, status: int = 307) -> Script:
    """A server that sends each request on, but those for /end."""

    async def script(peer: Peer) -> None:
        while True:
            asked = await peer.read_request()
            if asked.target.startswith("/end"):
                await peer.answer()
            else:
                await peer.answer(b"", f"{status} x", f"Location: {to}\r\n")

    return script


async def test_within_its_origin_all_goes_along() -> None:
    rest = {"headers": {"Authorization": "Custom secret"}}
    api = {"headers": {"X-Fixed": "1"}, "query": {"fixed": "1"}}
    async with calling_at(leads("/end?a=1"), rest, api=api) as (caller, server):
        assert await caller.value() == {}
    assert [asked.target for asked in server.asked] == ["/base/t?fixed=1", "/end?a=1"]
    assert {asked.headers["authorization"] for asked in server.asked} == {"Custom secret"}


async def test_to_another_origin_nothing_of_ours_goes_along() -> None:
    async with serving(polite) as other:
        api = {**SECRETS, "hosts": [f"127.0.0.1:{other.port}"]}
        rest = {
            "method": "POST",
            "body": {"a": 1},
            "headers": {"X-Tool": "secret-tool", "Authorization": "Custom secret"},
            "cookies": {"c": "secret"},
        }
        async with calling_at(leads(f"http://127.0.0.1:{other.port}/x"), rest, api=api) as (caller, _):
            assert await caller.value() == {}
    [asked] = other.asked
    assert (asked.method, asked.target, asked.body) == ("POST", "/x", b'{"a":1}')
    assert "secret" not in f"{asked.headers}{asked.target}"
    assert set(asked.headers) == {"host", "accept-encoding", "content-type", "content-length", "user-agent"}


async def test_a_host_that_is_not_listed_is_not_asked() -> None:
    async with serving(polite) as other:
        async with calling_at(leads(f"http://localhost:{other.port}/x"), {}) as (caller, _):
            fault = await caller.fault()
        assert other.connections == 0
    assert (fault.code, fault.extras["http_status"]) == (Code.TOOL_FAILED, 307)
    assert "not among its `hosts`" in fault.detail


@pytest.mark.parametrize(
    "to",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]:1/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "//user:pw@127.0.0.1/x",
        "http://127.0.0.1:99999/",
    ],
)
async def test_no_redirect_leads_out(to: str) -> None:
    async with calling_at(leads(to), {}) as (caller, server):
        fault = await caller.fault()
        assert len(server.asked) == 1
    assert fault.code is Code.TOOL_FAILED


async def test_a_listed_name_with_a_private_address_needs_the_operators_word() -> None:
    async with serving(polite) as other:
        trio.socket.set_custom_hostname_resolver(Names({"evil.example": [["127.0.0.1"]]}))
        script, hosts = leads(f"http://evil.example:{other.port}/"), [f"evil.example:{other.port}"]
        async with calling_at(script, {}, api={"hosts": hosts}) as (caller, _):
            fault = await caller.fault()
        assert other.connections == 0
        assert "private" in fault.detail
        async with calling_at(script, {}, api={"hosts": hosts, "private": True}) as (caller, _):
            assert await caller.value() == {}


async def test_a_name_is_looked_up_once_so_that_it_cannot_change_its_mind() -> None:
    names = Names({"evil.example": [["93.184.215.14", "127.0.0.1"], ["127.0.0.1"]]})
    async with serving(polite) as other:
        trio.socket.set_custom_hostname_resolver(names)
        api = {"hosts": [f"evil.example:{other.port}"]}
        async with calling_at(leads(f"http://evil.example:{other.port}/"), {}, api=api) as (caller, _):
            await caller.fault()
        assert (other.connections, names.asked) == (0, ["evil.example"])


async def test_five_redirects_are_followed_and_no_more() -> None:
    def counting(most: int) -> Script:
        async def script(peer: Peer) -> None:
            while True:
                asked = await peer.read_request()
                number = int(asked.target.partition("n=")[2] or "0")
                if number == most:
                    await peer.answer()
                else:
                    await peer.answer(b"", "307 x", f"Location: /base/t?n={number + 1}\r\n")

        return script

    async with calling_at(counting(5), {}) as (caller, server):
        assert await caller.value() == {}
        assert len(server.asked) == 6
    async with calling_at(counting(6), {}) as (caller, server):
        fault = await caller.fault()
        assert len(server.asked) == 6
    assert "more than 5 redirects" in fault.detail


async def test_a_post_does_not_become_a_get() -> None:
    async with calling_at(leads("/end", 302), {"method": "POST"}) as (caller, _):
        fault = await caller.fault()
    assert "only 303, 307 and 308 are followed with a POST" in fault.detail


# --- what is sent again ---


def dies_once(*, after: bytes = b"") -> Script:
    """A server whose first connection answers once, and ends at the second request, after these bytes."""
    deaths: list[int] = []

    async def script(peer: Peer) -> None:
        if deaths:
            await polite(peer)
        await peer.read_request()
        await peer.answer()
        await peer.read_request()
        deaths.append(1)
        await peer.send(after)

    return script


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
async def test_what_may_be_repeated_is_sent_again_where_a_kept_connection_dies(method: str) -> None:
    async with calling_at(dies_once(), {"method": method}) as (caller, server):
        await caller.value()
        await caller.value()
        assert len(server.asked) == 3


@pytest.mark.parametrize("method", ["POST", "PATCH", "QUERY"])
async def test_what_may_not_is_sent_once(method: str) -> None:
    async with calling_at(dies_once(), {"method": method}) as (caller, server):
        await caller.value()
        fault = await caller.fault()
        assert len(server.asked) == 2
    assert fault.code is Code.TOOL_FAILED
    assert "ran" not in fault.extras


async def test_nothing_is_sent_again_once_an_answer_has_begun() -> None:
    async with calling_at(dies_once(after=b"HTTP/1.1 200 OK\r\n"), {"method": "GET"}) as (caller, server):
        await caller.value()
        await caller.fault()
        assert len(server.asked) == 2


async def test_a_first_connection_that_dies_is_not_tried_again() -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()

    async with calling_at(script, {"method": "GET"}) as (caller, server):
        await caller.fault()
        assert len(server.asked) == 1
