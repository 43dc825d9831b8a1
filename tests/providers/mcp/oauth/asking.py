"""A client of a server that wants tokens, as a connection would make one."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
import trio
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from msgspec.structs import replace

from tests.providers.mcp.recording import Recording
from tests.servers.authorization_server import OAuthServer
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.http.oauth.refusals import AuthorizationError
from tooldispatchd.http.oauth.tokens import TokenStore
from tooldispatchd.http.reach import OAuth, Reach
from tooldispatchd.http.wire import HttpWire
from tooldispatchd.providers.mcp.oauth.accounts import Accounts
from tooldispatchd.providers.mcp.oauth.documents import AuthorizationServer, ProtectedResource, RegisteredClient
from tooldispatchd.providers.mcp.oauth.grants import Grant, entry_name
from tooldispatchd.providers.mcp.oauth.login import log_in
from tooldispatchd.providers.mcp.server import Server

SECRET = OAuth(grant="client_credentials", client_id="daemon", client_secret="secret-of-client")
PERSON = OAuth(grant="authorization_code")


class Daemon:
    """The accounts of one daemon, and what it warned of."""

    def __init__(self, home: Path) -> None:
        self.environ = {"XDG_STATE_HOME": str(home)}
        self.log = Recording()
        self.masker = Masker()
        self.accounts = Accounts(self.environ, self.log, self.masker.learn)

    @property
    def warnings(self) -> list[tuple[str, object]]:
        """The events of the log's warnings, and their reasons."""
        return [(event, fields.get("reason")) for level, event, fields in self.log.lines if level == "warning"]

    @asynccontextmanager
    async def wire(self, server: OAuthServer, oauth: OAuth, **reach: Any) -> AsyncIterator[HttpWire]:
        found = reach_of(server, oauth, **reach)
        authorizer = self.accounts.authorizer("docs", found)
        async with HttpWire(found, max_bytes=1 << 20, authorizer=authorizer, debug=self.log.debug) as wire:
            yield wire

    def store(self, server: OAuthServer, oauth: OAuth, grant: Grant) -> None:
        """Put `grant` where a login would have, with what a login would have learned."""
        grant = replace(
            grant,
            client=RegisteredClient(client_id="client-0", redirect_uris=("http://127.0.0.1/callback",)),
            resource=ProtectedResource(server.mcp, (server.url,)),
            server=AuthorizationServer(
                issuer=server.url,
                authorization_endpoint=f"{server.url}/authorize",
                token_endpoint=f"{server.url}/token",
            ),
        )
        TokenStore(self.environ, Grant).write(entry_name(server.mcp, oauth), grant)

    def stored(self, server: OAuthServer, oauth: OAuth) -> Grant | None:
        return TokenStore(self.environ, Grant).read(entry_name(server.mcp, oauth))


def reach_of(server: OAuthServer, oauth: OAuth, **reach: Any) -> Reach:
    return Reach(url=server.mcp, oauth=oauth, **reach)


def server_of(reach: Reach) -> Server:
    """The server `docs`, as a login is told of it."""
    return Server(name="docs", reach=reach, max_line_bytes=1 << 20, max_content_bytes=1 << 20)


def keys(algorithm: str) -> tuple[str, str]:
    """A private and a public key for `algorithm`, as PEM."""
    key = (
        ec.generate_private_key(ec.SECP256R1())
        if algorithm == "ES256"
        else rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


async def until(is_true: Callable[[], object]) -> None:
    """Wait for what a server in another task comes to."""
    with trio.fail_after(10):
        while not is_true():  # noqa: ASYNC110  # a server that tells nobody is a real one
            await trio.sleep(0.005)


async def logged_in(
    daemon: Daemon, reach: Reach, tamper: Callable[[str], str] = str, trusted: tuple[str, ...] = ()
) -> dict[str, str]:
    """Log in; what the browser was sent away with. `tamper` changes where it is sent back to."""
    urls: list[str] = []

    def is_shown(number: int) -> bool:
        return len(urls) > number

    async def browse() -> None:
        async with httpx2.AsyncClient(trust_env=False) as browser:
            for number in count():
                await until(partial(is_shown, number))
                away = await browser.get(urls[number].replace("login.test", "127.0.0.1"))
                if away.status_code == 302:
                    await browser.get(tamper(away.headers["Location"]))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(browse)
            try:
                await log_in(server_of(reach), daemon.environ, urls.append, trusted)
            finally:
                nursery.cancel_scope.cancel()
    assert urls[0].isascii()
    assert urls[0].isprintable()
    return dict(parse_qsl(urlsplit(urls[0]).query))


async def call(wire: HttpWire) -> int:
    """The status of one request."""
    async with wire.exchange("POST", [("Content-Type", "application/json")], b'{"id":1}') as reply:
        await reply.read(1 << 20)
        return reply.status


async def refused_for(scope: str, wire: HttpWire) -> None:
    """Make one request that the server turns away for `scope`."""
    with pytest.raises(AuthorizationError) as caught:
        await call(wire)
    assert caught.value.extras == {"http_status": 403, "missing_scopes": [scope]}
