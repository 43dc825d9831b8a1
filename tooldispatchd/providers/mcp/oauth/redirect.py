"""Where a browser comes back to after a login: a listener on the loopback interface, for one redirect (RFC 8252, 7.3).

Anything on this machine can connect to it. A request without the state that the browser was sent away with is answered
with an error, and the wait goes on.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import h11
import trio

from tooldispatchd.http.oauth.refusals import AuthorizationError
from tooldispatchd.providers.mcp.oauth.documents import RegisteredClient

PATH: Final = "/callback"
_URI: Final = re.compile(r"http://127\.0\.0\.1:([1-9][0-9]{0,4})" + PATH)
# Browsers open connections that they never use; and one request is all that any of them needs.
MAX_CONNECTIONS: Final = 16
CONNECTION_S: Final = 10.0
MAX_HEAD_BYTES: Final = 32 * 1024

_CLOSE_PAGE: Final = b"You can close this page: the login goes on where it was started.\n"
_NOT_IT: Final = b"This is not the redirect that the login waits for.\n"
_ERROR: Final = re.compile(r"[a-z_]{1,64}")


class Redirected(NamedTuple):
    """The answer that the browser brought: the code of RFC 6749, 4.1.2, and the issuer of RFC 9207."""

    code: str
    iss: str | None


class RedirectListener:
    """The listener of `open_listener`; `uri` is the `redirect_uri` of the login."""

    def __init__(self, listener: trio.SocketListener) -> None:
        self._listener = listener
        self.port: int = listener.socket.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}{PATH}"
        self._state: str | None = None
        self._said: dict[str, str] | None = None
        self._came = trio.Event()
        self._connections = 0

    async def redirected(self, state: str) -> Redirected:
        """Wait until the browser brings `state`; the caller bounds it. Raises `AuthorizationError` for a refusal."""
        self._state = state
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self._serve, [self._listener])
            await self._came.wait()
            nursery.cancel_scope.cancel()
        assert self._said is not None
        if "code" not in self._said:
            error = self._said.get("error", "")
            shown = f" ({error})" if _ERROR.fullmatch(error) else ""
            raise AuthorizationError(f"the authorization server refused the login{shown}")
        return Redirected(self._said["code"], self._said.get("iss"))

    async def _serve(self, stream: trio.SocketStream) -> None:
        self._connections += 1
        try:
            async with stream:
                if self._connections <= MAX_CONNECTIONS:
                    with trio.move_on_after(CONNECTION_S):
                        await self._converse(stream)
        except (h11.ProtocolError, trio.BrokenResourceError):
            pass  # it is no browser, or has gone
        finally:
            self._connections -= 1
        if self._said is not None:
            self._came.set()

    async def _converse(self, stream: trio.SocketStream) -> None:
        """Answer one request."""
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        event = connection.next_event()
        while event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some(MAX_HEAD_BYTES))
            event = connection.next_event()
        is_it = isinstance(event, h11.Request) and self._takes(event)
        body = _CLOSE_PAGE if is_it else _NOT_IT
        headers = [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
            # The code stands in the page's address.
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
        ]
        if isinstance(event, h11.Request):
            response = h11.Response(status_code=200 if is_it else 404, headers=headers)
            await stream.send_all((connection.send(response) or b"") + (connection.send(h11.Data(data=body)) or b""))

    def _takes(self, request: h11.Request) -> bool:
        target = request.target.decode("ascii", "replace")
        if self._said is not None or request.method != b"GET" or target.partition("?")[0] != PATH:
            return False
        try:
            found = parse_qs(urlsplit(target).query, max_num_fields=32)
        except ValueError:
            return False
        # One that is given twice is left out (RFC 6749, 3.1).
        said = {name: values[0] for name, values in found.items() if len(values) == 1}
        if self._state is None or said.get("state") != self._state or not said.keys() & {"code", "error"}:
            return False
        self._said = said
        return True


@asynccontextmanager
async def open_listener(port: int | None, last: int | None = None) -> AsyncIterator[RedirectListener]:
    """Listen on 127.0.0.1: on `port`, else on the `last` port if that is free, else on any.

    Raises `AuthorizationError`.
    """
    listener = None
    if port is None and last is not None:
        with suppress(OSError):
            listener = await _listen(last)
    try:
        listener = listener or await _listen(port or 0)
    except OSError as error:
        raise AuthorizationError(f"cannot listen on 127.0.0.1 port {port or 0}: {error.strerror}") from None
    async with listener:
        yield RedirectListener(listener)


async def _listen(port: int) -> trio.SocketListener:
    # By address: `localhost` may be another one in the browser.
    [listener] = await trio.open_tcp_listeners(port, host="127.0.0.1")
    return listener


def port_in(client: RegisteredClient | None) -> int | None:
    """The port that a client was registered for; None where its redirect does not lead to a listener like this one."""
    found = _URI.fullmatch(client.redirect_uris[0]) if client is not None and client.redirect_uris else None
    return None if found is None or int(found[1]) > 65535 else int(found[1])
