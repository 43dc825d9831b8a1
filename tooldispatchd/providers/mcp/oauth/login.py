"""A person's login at a server: what `tooldispatchd login` runs. It imports the SDK.

ask the server ─▶ its challenge ─▶ discovery, registration ─▶ the browser ─▶ the code ─▶ tokens ─▶ stored, tried
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import trio
from mcp.shared.auth import AuthorizationCodeResult

from tooldispatchd.providers.mcp.http.errors import WireError
from tooldispatchd.providers.mcp.http.wire import Headers, Wire
from tooldispatchd.providers.mcp.oauth.accounts import entry_name
from tooldispatchd.providers.mcp.oauth.challenge import Challenge, read_challenge, union
from tooldispatchd.providers.mcp.oauth.errors import AuthorizationError
from tooldispatchd.providers.mcp.oauth.flow import MAX_ANSWER_BYTES, Client, obtain
from tooldispatchd.providers.mcp.oauth.providers import Person
from tooldispatchd.providers.mcp.oauth.redirect import Listener, open_listener
from tooldispatchd.providers.mcp.oauth.tokens import Grant, TokenStore, TokenStoreError
from tooldispatchd.providers.mcp.server import Reach

# A server that answers at all answers this at once.
ASK_S: Final = 30.0

# A request that begins nothing: no revision opens a session for it.
_PING: Final = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
_HEADERS: Final = (("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json"))


async def log_in(reach: Reach, environ: Mapping[str, str], show: Callable[[str], None]) -> Path:
    """Get tokens for the server of `reach` and store them, in the file that is returned.

    `show` is given the address for the browser.

    Raises `WireError`, of which `AuthorizationError` is one, with words for the person.
    """
    oauth = reach.oauth
    assert oauth is not None
    store, entry = TokenStore(environ), entry_name(reach.url, oauth)
    granted: list[Grant] = []
    try:
        before = store.read(entry) or Grant()
        async with Wire(reach, max_bytes=MAX_ANSWER_BYTES) as wire, open_listener(oauth.redirect_port) as listener:
            challenge = await _ask(wire)
            scope = union(*oauth.scopes, before.wanted) if oauth.scopes else union(challenge.scope, before.wanted)
            client = Client(reach.url, oauth, wire.fetch, granted.append)
            # A 401, whatever it was: a step-up would leave out what a first token needs.
            asked = Challenge(401, scope=scope, resource_metadata=challenge.resource_metadata)
            await obtain(client, Grant(client=before.client), asked, person=_person(listener, show))
            async with store.lock(entry):
                store.write(entry, granted[-1])
            await _try(wire, granted[-1])
            return store.path_of(entry)
    except TokenStoreError as error:
        raise AuthorizationError(str(error)) from None


def _person(listener: Listener, show: Callable[[str], None]) -> Person:
    async def send_away(url: str) -> None:  # noqa: ASYNC124  # the SDK awaits it
        listener.expect(url)
        show(url)

    async def await_redirect() -> AuthorizationCodeResult:
        said = await listener.redirected()
        return AuthorizationCodeResult(code=said.code, state=said.state, iss=said.iss)

    return Person(listener.uri, send_away, await_redirect)


async def _ask(wire: Wire, given: Headers = ()) -> Challenge:
    """What the server says to a request with these credentials."""
    with trio.move_on_after(ASK_S):
        async with wire.exchange("POST", (*_HEADERS, *given), _PING) as reply:
            return read_challenge(reply.status, reply.headers.get("www-authenticate", ""))
    raise WireError(f"it did not answer within {ASK_S:.0f} s")


async def _try(wire: Wire, grant: Grant) -> None:
    """A token that the server itself refuses is better known now than at the first call."""
    challenge = await _ask(wire, (("Authorization", f"Bearer {grant.access_token}"),))
    if challenge.status == 401:
        raise AuthorizationError("the tokens are stored, but the server refuses them (HTTP 401)")
