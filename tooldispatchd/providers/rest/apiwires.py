"""The wire to one API, with what the API adds to each request; and the wires of all APIs of a daemon.

    ApiWires ─▶ ApiWire: one for each API, whoever calls ─▶ HttpWire: its connections, which are kept for a while

What belongs to an API goes to its own origin alone: a redirect to another one takes the body and what it is along, and
neither credentials nor any other header or query entry of the configuration.
"""

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from tooldispatchd.catalog.masker import Masker
from tooldispatchd.catalog.rest.declared import BuiltRequest, RestApi
from tooldispatchd.catalog.rest.styles import encode, encode_cookie
from tooldispatchd.http.places import HttpTarget
from tooldispatchd.http.reach import OAuth, Reach, reach_by
from tooldispatchd.http.reply import HttpReply
from tooldispatchd.http.wire import Authorizer, Debug, HttpWire

MAX_REDIRECTS: Final = 5
ANY_TYPE: Final = "application/json, text/*;q=0.9, */*;q=0.8"
MakeAuthorizer = Callable[[Reach], Authorizer]


class ApiWire:
    """The wire to one API; `kept` is called after each exchange, which may have left an idle connection.

    `masker` knows what of its credentials nobody may be told, tokens that come while the daemon runs among them.
    """

    def __init__(
        self,
        api: RestApi,
        *,
        max_bytes: int,
        authorizer: MakeAuthorizer | None,
        masker: Masker,
        kept: Callable[[], None],
        debug: Debug,
    ) -> None:
        self.api = api
        self.name = api.name
        self.max_bytes = max_bytes
        self.masker = masker
        self._kept = kept
        reach = reach_of(api)
        self.wire = HttpWire(
            reach,
            max_bytes=max_bytes,
            max_redirects=MAX_REDIRECTS,
            authorizer=None if authorizer is None or reach.oauth is None else authorizer(reach),
            debug=debug,
        )
        self._origin = self.wire.territory.own.origin
        self._cookies = tuple(f"{name}={encode_cookie(value)}" for name, value in api.credentials.cookies)
        self._query = tuple((name, f"{encode(name)}={encode(value)}") for name, value in api.credentials.query)
        self._has_accept = any(name.lower() == "accept" for name, _ in api.credentials.headers)

    @asynccontextmanager
    async def exchange(
        self, method: str, request: BuiltRequest, *, accept: str = ANY_TYPE, url: str | None = None
    ) -> AsyncIterator[HttpReply]:
        """Send a request, to `url` in the place of its own target where that is given. Raises `WireError`."""
        place = HttpTarget(self._origin, request.path)
        query = request.query
        if url is not None:
            place = self.wire.territory.admit(url)
            path, _, query = place.target.partition("?")
            place = place._replace(target=path)
        own = list(request.headers)
        cookies = [*request.cookies, *self._cookies]
        if cookies:
            own.append(("Cookie", "; ".join(cookies)))
        if not self._has_accept and not any(name.lower() == "accept" for name, _ in own):
            own.append(("Accept", accept))
        headers = [] if request.media_type is None else [("Content-Type", request.media_type)]
        whole = place._replace(target=f"{place.target}{self._whole_query(query)}")
        try:
            async with self.wire.exchange(method, headers, request.body, whole, own=own) as reply:
                yield reply
        finally:
            self._kept()

    def _whole_query(self, query: str) -> str:
        """The query with the API's own entries, but those that it has already."""
        said = {entry.partition("=")[0] for entry in query.split("&")} if self._query else ()
        entries = [query, *(entry for name, entry in self._query if encode(name) not in said)]
        whole = "&".join(filter(None, entries))
        return f"?{whole}" if whole else ""


def reach_of(api: RestApi) -> Reach:
    """How an API is reached."""
    spec, credentials = api.spec, api.credentials
    oauth = None
    if spec.oauth is not None:
        oauth = OAuth(
            grant=spec.oauth.grant,
            client_id=spec.oauth.client_id,
            client_secret=credentials.client_secret,
            scopes=spec.oauth.scopes,
            token_url=spec.oauth.token_url,
            refresh_token=credentials.refresh_token,
        )
    return reach_by(spec, f"{api.origin}/", credentials.headers, oauth)


class ApiWires:
    """The wires of all APIs, each made for its first call. APIs with equal tables and credentials have one."""

    def __init__(self, *, authorizer: MakeAuthorizer | None, masker: Masker, debug: Debug) -> None:
        self._authorizer = authorizer
        self._masker = masker
        self._debug = debug
        self._wires: list[ApiWire] = []
        self._has_kept = trio.Event()

    def wire(self, api: RestApi, max_bytes: int) -> ApiWire:
        """The wire to an API, over which an answer of so many bytes comes at most."""
        max_bytes = min(api.spec.max_bytes, max_bytes)
        for wire in self._wires:
            if wire.max_bytes == max_bytes and wire.api == api:
                return wire
        made = ApiWire(
            api,
            max_bytes=max_bytes,
            authorizer=self._authorizer,
            masker=self._masker,
            kept=self._note_kept,
            debug=self._debug,
        )
        self._wires.append(made)
        return made

    def keep(self, apis: Sequence[RestApi]) -> None:
        """From now on these alone are called; the connections to all others are closed."""
        unused = [wire for wire in self._wires if wire.api not in apis]
        self._wires = [wire for wire in self._wires if wire.api in apis]
        for wire in unused:
            wire.wire.close()

    async def close_idle(self) -> None:
        """Close connections that nobody has used for long; never returns."""
        while True:
            await self._has_kept.wait()
            self._has_kept = trio.Event()
            while (due := self._next_end()) < math.inf:  # noqa: ASYNC110  # time alone tells it
                await trio.sleep_until(due)

    async def aclose(self) -> None:
        """Close every connection."""
        for wire in self._wires:
            await wire.wire.aclose()

    def _next_end(self) -> float:
        """Close what is due; when the next connection is, which is infinity where none is kept."""
        return min((each.wire.close_idle() for each in self._wires), default=math.inf)

    def _note_kept(self) -> None:
        self._has_kept.set()


@asynccontextmanager
async def open_api_wires(*, authorizer: MakeAuthorizer | None, masker: Masker, debug: Debug) -> AsyncIterator[ApiWires]:
    """The wires of a daemon; no connection is left when the block is."""
    wires = ApiWires(authorizer=authorizer, masker=masker, debug=debug)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wires.close_idle)
        try:
            yield wires
        finally:
            # It waits for nothing; but each wire has a turn, and none may be left out.
            with trio.CancelScope(shield=True):
                await wires.aclose()
            nursery.cancel_scope.cancel()
