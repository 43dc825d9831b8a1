"""HTTP to the one server of a `Reach`: exchanges over kept TCP connections, under the rules of where they may go.

    Wire.exchange ── authorizer's headers ──▶ redirects, up to a bound ──▶ an idle connection, or a new one ──▶ Reply
          ▲                                                                                                      │
          └──────────────── the authorizer, told of 401 and 403, may ask for one more attempt ◀──────────────────┘

A wire has no tasks: an exchange lives in the task that makes it. It keeps no cookies and no caches. How long anything
but connecting and writing takes is the caller's to bound.
"""

import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final, Protocol, Self

import h11
import trio

from tooldispatchd.http.errors import UnansweredError, WireError, question
from tooldispatchd.http.http1 import USER_AGENT, Http1
from tooldispatchd.http.network import Files, Proxy, files_of, open_connection, proxy_for
from tooldispatchd.http.places import SEE_OTHER, HttpTarget, Origin, Territory
from tooldispatchd.http.reach import Reach
from tooldispatchd.http.reply import HttpReply
from tooldispatchd.wire.lines import Text

Headers = Sequence[tuple[str, str]]

# Real servers redirect once: to the path with a slash, or to where they have moved.
MAX_REDIRECTS: Final = 3
# Exchanges at once; each has a descriptor. What is over waits, under its own deadline.
MAX_EXCHANGES: Final = 256
# As many as a busy agent has calls in flight; shorter than what servers and what stands before them keep (60 s, often).
MAX_IDLE: Final = 32
IDLE_S: Final = 50.0
# A request's way to the server, and a slow moment of either.
KEEP_ALIVE_MARGIN_S: Final = 1.0
# Metadata, registrations and tokens are a few KiB.
MAX_FETCHED_BYTES: Final = 64 * 1024
# To read an unwanted answer to its end for so long costs less than a new TCP connection.
_LEFTOVER_S: Final = 0.25
# Without a body these say so: a server may want a length (RFC 9110, 8.6).
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
# Repeating these once more than asked for does no harm (RFC 9110, 9.2.2).
_REPEATABLE: Final = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"})


class Authorizer(Protocol):
    """The source of credentials for the server's own origin, where the configuration does not hold them.

    The first two may send requests of their own with `wire.fetch`, and all raise `WireError`, which ends the
    exchange. Any number of exchanges ask at the same time.
    """

    async def credentials(self, wire: "HttpWire") -> Headers:
        """The headers to send with any request; none where there are no credentials yet."""

    async def challenged(self, status: int, headers: Mapping[str, str], wire: "HttpWire") -> Headers | None:
        """The server answered 401 or 403 (`headers` in lower case): those for one more attempt; None to let it be."""

    def refused(self, headers: Mapping[str, str]) -> None:
        """The server's last answer is 403: raise `WireError` where its `headers` say more than the status."""


# The log of a step: the event, and its fields as keywords.
Debug = Callable[..., object]


def to_nobody(event: str, **fields: object) -> None:
    """Nobody looks closely."""


class HttpWire:
    """HTTP to one server, for one connection; `max_bytes` bounds an answer that says its length beforehand.

    No more than `max_redirects` are followed in a row. `debug` is told the status of each answer, and of its URL no
    more than the origin.

    Raises `WireError` where the URL of the reach is not valid. The task tree that makes a wire closes it with `aclose`.
    """

    def __init__(
        self,
        reach: Reach,
        *,
        max_bytes: int,
        max_redirects: int = MAX_REDIRECTS,
        authorizer: Authorizer | None = None,
        debug: Debug = to_nobody,
    ) -> None:
        self._reach = reach
        self._debug = debug
        self._max_bytes = max_bytes
        self._max_redirects = max_redirects
        self._authorizer = authorizer
        self.territory = Territory(reach)
        self._own = self.territory.own
        self._files = files_of(reach)
        # By origin; no more than the configuration lists.
        self._proxies: dict[Origin, Proxy | None] = {}
        self._slots = trio.Semaphore(MAX_EXCHANGES)
        self._idle: list[tuple[Origin, Http1]] = []
        self._live: set[Http1] = set()
        self._is_closed = False
        # Until there was an answer, the configuration may be wrong.
        self.has_answered = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        headers: Headers = (),
        body: Text = b"",
        url: str | HttpTarget | None = None,
        *,
        own: Headers = (),
    ) -> AsyncIterator[HttpReply]:
        """Send a request to `url`, of the server's own origin, or else to the server's; the reply's head is read.

        A target goes out as it is, so that what is escaped in it, and how, is its maker's alone.
        A redirect takes `headers` and body along, `own` only within the server's origin. To leave the context early
        closes the TCP connection, which tells the server to stop. Raises `WireError`.
        """
        place = self._own if url is None else url
        if isinstance(place, str):
            place = self.territory.admit(place)
        if place.origin != self._own.origin:
            raise WireError(f"it leads to {place.origin}, which is not its own origin")
        async with self._slots:
            reply = await self._authorized(place, method, headers, own, body)
            try:
                yield reply
            finally:
                self._put_back(reply)

    async def fetch(self, method: str, url: str, headers: Headers, body: Text) -> tuple[int, bytes]:
        """Status and body of an exchange with a URL that the server named, where it may lead there.

        The headers of the configuration go along to the server's own origin alone, and the authorizer is not asked.
        Raises `WireError`.
        """
        # It takes no slot: it is done within an exchange that has one, and could wait for all the others like it. What
        # goes out here may hold a client's secret: nothing but a GET is redirected to another origin.
        reply = await self._followed(self.territory.admit(url), method, headers, (), body, may_leave=method == "GET")
        try:
            return reply.status, await reply.read(MAX_FETCHED_BYTES)
        finally:
            self._put_back(reply)

    def close_idle(self) -> float:
        """Close the connections that have been idle for too long; when the next one is due, infinite where none is."""
        now = trio.current_time()
        for idle in [each for each in self._idle if each[1].idle_until <= now]:
            self._idle.remove(idle)
            idle[1].close()
        return min((connection.idle_until for _, connection in self._idle), default=math.inf)

    def close(self) -> None:
        """Close every TCP connection, also those of exchanges that are under way."""
        self._is_closed = True
        for connection in (*self._live, *(idle for _, idle in self._idle)):
            connection.close()
        self._idle.clear()

    async def aclose(self) -> None:
        """Likewise. It waits for nothing."""
        self.close()
        await trio.lowlevel.checkpoint()

    async def _authorized(
        self, place: HttpTarget, method: str, headers: Headers, own: Headers, body: Text
    ) -> HttpReply:
        """The exchange, and once more if the authorizer got other credentials for it."""
        if self._authorizer is None:
            return await self._followed(place, method, headers, own, body)
        given = [*own, *await self._authorizer.credentials(self)]
        reply = await self._followed(place, method, headers, given, body)
        # What another origin refuses, these credentials are not for.
        if reply.status not in {401, 403} or reply.origin != self._own.origin:
            return reply
        with self._dropped_on_error(reply):
            again = await self._authorizer.challenged(reply.status, reply.headers, self)
        if again is not None:
            await self._leave(reply)
            reply = await self._followed(place, method, headers, [*own, *again], body)
        if reply.status == 403 and reply.origin == self._own.origin:
            with self._dropped_on_error(reply):
                self._authorizer.refused(reply.headers)
        return reply

    async def _followed(
        self, place: HttpTarget, method: str, headers: Headers, given: Headers, body: Text, *, may_leave: bool = True
    ) -> HttpReply:
        """The exchange, wherever the server sends it on to; another origin only if it `may_leave` the first."""
        first = place.origin
        for hop in range(self._max_redirects + 1):
            try:
                request = self._request(place, method, headers, given, body)
                connection, response = await self._answered(place.origin, request, method, body)
            except WireError as error:
                # The server that redirected has seen it in any case.
                error.was_sent = error.was_sent or hop > 0
                raise
            self._debug("http answered", method=method, origin=str(place.origin), status=response.status_code)
            try:
                reply = HttpReply(connection, response, place.origin, method=method, max_bytes=self._max_bytes)
            except WireError:
                self._live.discard(connection)
                connection.close()
                raise
            try:
                onward = self.territory.redirected(method, place, reply.status, reply.headers.get("location"))
            except WireError:
                self._put_back(reply)
                raise
            if onward is None:
                return reply
            await self._leave(reply)
            if onward.origin != first and not may_leave:
                raise WireError(
                    f"HTTP {reply.status} to {onward.origin}: what is asked here goes to no other origin",
                    was_sent=True,
                    extras={"http_status": reply.status},
                )
            place = onward
            if reply.status == SEE_OTHER and method != "HEAD":
                # What the body was sent for is done, and what says of which type it was is said of it alone.
                method, body = "GET", b""
                headers = [line for line in headers if not line[0].lower().startswith("content-")]
        raise WireError(
            f"HTTP {reply.status} to {place.origin}: more than {self._max_redirects} redirects in a row",
            was_sent=True,
            extras={"http_status": reply.status},
        )

    async def _answered(
        self, origin: Origin, request: h11.Request, method: str, body: Text
    ) -> tuple[Http1, h11.Response]:
        """A connection and the head of an answer, on an idle connection if one is alive.

        A server may close an idle connection at the very moment in which a request leaves. The request is then sent
        again if it cannot have been read, or if reading it twice does no harm; else it may have been run.
        """
        if self._is_closed:
            raise WireError("the connection to the server is closed")
        idle = self._take_idle(origin)
        if idle is not None:
            try:
                return idle, await self._ask(idle, request, body)
            except UnansweredError as error:
                if error.was_sent and method not in _REPEATABLE:
                    raise
        must_be_public = self.territory.must_be_public(origin)
        socket, stream = await open_connection(
            origin, files=self._files_for(origin), proxy=self._proxy(origin), must_be_public=must_be_public
        )
        connection = Http1(socket, stream)
        try:
            return connection, await self._ask(connection, request, body)
        except UnansweredError as error:
            is_server_itself = origin == self._own.origin and self._proxy(origin) is None
            if error.is_explained or self.has_answered or not is_server_itself:
                raise
            raise UnansweredError(error.why + question(self._reach), was_sent=error.was_sent) from error

    async def _ask(self, connection: Http1, request: h11.Request, body: Text) -> h11.Response:
        if self._is_closed:
            connection.close()
            raise WireError("the connection to the server is closed")
        self._live.add(connection)
        try:
            response = await connection.ask(request, body)
        except BaseException:
            self._live.discard(connection)
            raise
        self.has_answered = True
        return response

    def _request(self, place: HttpTarget, method: str, headers: Headers, given: Headers, body: Text) -> h11.Request:
        """The request as it goes out; `given`, and what the configuration adds, go to the own origin alone."""
        lines = [("Host", place.origin.authority), ("Accept-Encoding", "identity"), *headers]
        if place.origin == self._own.origin:
            lines += given
            # Headers of one request win over those that the configuration has for all.
            said = {name.lower() for name, _ in lines}
            lines += [line for line in self._reach.headers if line[0].lower() not in said]
        if not any(name.lower() == "user-agent" for name, _ in lines):
            lines.append(USER_AGENT)
        if body or method in _WITH_BODY:
            lines.append(("Content-Length", str(len(body))))
        target = place.target
        proxy = self._proxy(place.origin)
        if proxy is not None and place.origin.scheme == "http":
            target = place.url
            if proxy.authorization is not None:
                lines.append(("Proxy-Authorization", proxy.authorization))
        try:
            return h11.Request(method=method, target=target, headers=lines)
        except (h11.LocalProtocolError, UnicodeEncodeError):
            # h11 quotes what it refuses, which may be a credential.
            raise WireError("cannot write the request: a header of it is not HTTP") from None

    def _files_for(self, origin: Origin) -> Files:
        """The certificate is shown to the own origin alone, as all that says whose request it is."""
        return self._files if origin == self._own.origin else Files(self._files.ca)

    def _proxy(self, origin: Origin) -> Proxy | None:
        """The proxy to an origin; looked up once, as going through the environment takes longer than a call."""
        if origin not in self._proxies:
            self._proxies[origin] = proxy_for(origin)
        return self._proxies[origin]

    def _take_idle(self, origin: Origin) -> Http1 | None:
        """The idle connection to an origin that was used last and is still open, if there is one."""
        self.close_idle()
        for index in range(len(self._idle) - 1, -1, -1):
            if self._idle[index][0] == origin:
                _, connection = self._idle.pop(index)
                if connection.is_alive():
                    return connection
                connection.close()
        return None

    @contextmanager
    def _dropped_on_error(self, reply: HttpReply) -> Iterator[None]:
        """Close the connection of a reply that nobody gets where this raises."""
        try:
            yield
        except BaseException:
            reply.close()
            self._put_back(reply)
            raise

    async def _leave(self, reply: HttpReply) -> None:
        try:
            await reply.drain(_LEFTOVER_S)
        finally:
            self._put_back(reply)

    def _put_back(self, reply: HttpReply) -> None:
        """Keep the connection of an exchange that is over, or close it."""
        connection = reply.connection
        self._live.discard(connection)
        if self._is_closed or not reply.is_spent() or len(self._idle) >= MAX_IDLE:
            connection.close()
        elif connection.rewind():
            said_s = reply.keep_alive_s
            # Given up before the server does it: a request that meets a closing looks like one that was run.
            idle_s = IDLE_S if said_s is None else min(IDLE_S, said_s - KEEP_ALIVE_MARGIN_S)
            connection.idle_until = trio.current_time() + idle_s
            self._idle.append((reply.origin, connection))
