"""What an authorizer sees of an exchange, and what it can do about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
import trio

from tests.servers.raw_http import Peer, polite, serving
from tooldispatchd.http.errors import WireError
from tooldispatchd.http.reach import Reach
from tooldispatchd.http.wire import Headers, HttpWire


@dataclass
class Tokens:
    """Has a token, and gets another one where it is told to."""

    token: str | None = None
    next_token: str | None = None
    token_url: str | None = None
    seen: list[tuple[int, str]] = field(default_factory=list)

    async def credentials(self, wire: HttpWire) -> Headers:
        return [] if self.token is None else [("Authorization", f"Bearer {self.token}")]

    async def challenged(self, status: int, headers: Mapping[str, str], wire: HttpWire) -> Headers | None:
        self.seen.append((status, headers.get("www-authenticate", "")))
        if self.token_url is not None:
            _, body = await wire.fetch("GET", self.token_url, (), b"")
            self.next_token = body.decode()
        if self.next_token is None:
            return None
        self.token = self.next_token
        return await self.credentials(wire)

    def refused(self, headers: Mapping[str, str]) -> None:
        pass


async def guarded(peer: Peer) -> None:
    """Give `/token` to anybody, and the rest to who has it."""
    while True:
        asked = await peer.read_request()
        if asked.target == "/token":
            await peer.answer(b"right")
        elif asked.headers.get("authorization") == "Bearer right":
            await peer.answer()
        else:
            challenge = 'WWW-Authenticate: Bearer error="invalid_token"\r\n'
            await peer.answer(b"who?", status="401 Unauthorized", headers=challenge)


async def ask(wire: HttpWire) -> tuple[int, bytes]:
    with trio.fail_after(5):
        async with wire.exchange("POST", (), b"{}") as reply:
            return reply.status, await reply.read(100)


async def test_credentials_go_with_each_request() -> None:
    async with serving(guarded) as server:
        tokens = Tokens(token="right")
        async with HttpWire(Reach(url=server.url), max_bytes=1000, authorizer=tokens) as wire:
            assert await ask(wire) == (200, b"{}")
        assert tokens.seen == []


async def test_a_challenge_is_met_by_one_more_attempt() -> None:
    async with serving(guarded) as server:
        tokens = Tokens(token_url=f"http://127.0.0.1:{server.port}/token")
        async with HttpWire(Reach(url=server.url), max_bytes=1000, authorizer=tokens) as wire:
            assert await ask(wire) == (200, b"{}")
            assert await ask(wire) == (200, b"{}")
        assert tokens.seen == [(401, 'Bearer error="invalid_token"')]
        assert [asked.target for asked in server.asked] == ["/mcp", "/token", "/mcp", "/mcp"]


async def test_a_second_challenge_is_the_answer() -> None:
    async with serving(guarded) as server:
        tokens = Tokens(next_token="wrong")
        async with HttpWire(Reach(url=server.url), max_bytes=1000, authorizer=tokens) as wire:
            assert await ask(wire) == (401, b"who?")
        assert len(server.asked) == 2


async def test_a_challenge_that_nobody_meets_is_the_answer() -> None:
    async with serving(guarded) as server:
        async with HttpWire(Reach(url=server.url), max_bytes=1000, authorizer=Tokens()) as wire:
            assert await ask(wire) == (401, b"who?")
        assert server.connections == 1


async def test_what_an_authorizer_cannot_do_ends_the_exchange() -> None:
    async with serving(guarded) as server:
        tokens = Tokens(token_url="http://elsewhere.test/token")
        async with HttpWire(Reach(url=server.url), max_bytes=1000, authorizer=tokens) as wire:
            with pytest.raises(WireError, match="is not among its `hosts`"):
                await ask(wire)


async def test_what_an_authorizer_gives_stays_with_its_origin() -> None:
    async with serving(polite) as other:

        async def script(peer: Peer) -> None:
            await peer.read_request()
            await peer.answer(status="307 On", headers=f"Location: {other.url}\r\n")

        async with serving(script) as server:
            reach = Reach(url=server.url, hosts=(f"127.0.0.1:{other.port}",), private=True)
            async with HttpWire(reach, max_bytes=1000, authorizer=Tokens(token="hunter2")) as wire:
                assert await ask(wire) == (200, b"{}")
            assert server.asked[0].headers["authorization"] == "Bearer hunter2"
        assert "authorization" not in other.asked[0].headers


async def test_a_challenge_of_another_origin_is_not_the_authorizers() -> None:
    async with serving(guarded) as other:

        async def script(peer: Peer) -> None:
            await peer.read_request()
            await peer.answer(status="307 On", headers=f"Location: {other.url}\r\n")

        async with serving(script) as server:
            tokens = Tokens(next_token="right")
            reach = Reach(url=server.url, hosts=(f"127.0.0.1:{other.port}",), private=True)
            async with HttpWire(reach, max_bytes=1000, authorizer=tokens) as wire:
                assert await ask(wire) == (401, b"who?")
            assert tokens.seen == []
