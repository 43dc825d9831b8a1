"""One request of a client, from its head to its answer: Streamable HTTP, as MCP has it.

    guard ─▶ POST: a message; its answers as JSON, or as events where something comes before the last
           ▶ GET: what is said unasked, or from `Last-Event-ID` on what a broken line has lost
           ▶ DELETE: the end of the session

Since revision 2026-07-28 there is POST alone, and to close its answer is to cancel the call.
"""

import math
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Final, Protocol

import trio

from tooldispatchd.mcpface.jsonrpc import HEADER_MISMATCH, PARSE_ERROR, error_json
from tooldispatchd.mcpface.paramheaders import PREFIX
from tooldispatchd.mcpface.revisions import R2025_11, R2026_07, REVISIONS
from tooldispatchd.mcpface.web.bodies import Peeked, is_error, mismatch, peek_body, status_of
from tooldispatchd.mcpface.web.budget import ByteBudget
from tooldispatchd.mcpface.web.connection import ClientConnection, ConnectionEndError
from tooldispatchd.mcpface.web.feeds import MessageFeed
from tooldispatchd.mcpface.web.guard import Credential, Guard, Head, Headers, RefusalError, Unverified
from tooldispatchd.mcpface.web.logbook import LogBook
from tooldispatchd.mcpface.web.sessions import WebSession, WebSessions
from tooldispatchd.wire.webplaces import WebPlace

# When a client may still wait for an answer as JSON; then events begin, whose comments keep the line alive.
JSON_S: Final = 5.0
# Most calls are answered by then; a client that leaves before is found out only afterwards.
QUICK_S: Final = 0.05
# Under the minute after which proxies commonly close a line that says nothing.
COMMENT_S: Final = 15.0
# So long an answer to a wrong token takes: guessing is slow on each of few connections.
WRONG_TOKEN_S: Final = 0.5
# Without sessions and without a handshake.
STATELESS: Final = R2026_07.name
# Since then a stream begins with an event without data, so that it can be resumed from its very beginning.
PRIMED: Final = R2025_11.name
# The feed of what is said unasked.
UNASKED: Final = 0
# The headers by which a proxy tells of its client.
_PROXIED: Final = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-real-ip"})
_COMMENT: Final = b":\n\n"
_JSON: Final = ("Content-Type", "application/json")
_TEXT: Final = ("Content-Type", "text/plain; charset=utf-8")
# Load balancers ask there, by whatever name and without a token: one learns that somebody answers, and nothing else.
HEALTH: Final = "/healthz"
READINESS: Final = "/readyz"


class TokenVerifier(Protocol):
    """Knows the tokens of a place's authorization server."""

    async def verify(self, token: str) -> tuple[str, float] | None:
        """Whose token it is, and until when on trio's clock; None where it is none.

        Raises `MissingScopeError` and `NoKeysError`.
        """


class NoKeysError(Exception):
    """The keys of the authorization server cannot be had: nothing can be said of any token."""


class MissingScopeError(Exception):
    """A token is good, and lacks a scope."""


class Site:
    """The place: its guard, its sessions, and the account of bytes of both."""

    def __init__(
        self,
        place: WebPlace,
        sessions: WebSessions,
        *,
        budget: ByteBudget,
        log: LogBook,
        verifier: TokenVerifier | None,
    ) -> None:
        self.sessions = sessions
        self.admit(place, verifier)
        self.budget = budget
        self.log = log

    def admit(self, place: WebPlace, verifier: TokenVerifier | None) -> None:
        """From the next request on admit whom the place says now; its socket stays."""
        self.place = place
        self.guard = Guard(place)
        self.verifier = verifier


async def serve_request(site: Site, connection: ClientConnection, head: Head) -> None:
    """Answer one request. Raises `ConnectionEndError`."""
    cors: Headers = []
    try:
        if head.method in {"GET", "HEAD"} and head.path in {HEALTH, READINESS}:
            is_good = head.path == HEALTH or site.place.is_ready
            told = b"ok\n" if is_good else b"not ready: servers of warm profiles are starting\n"
            await connection.answer(200 if is_good else 503, [_TEXT, ("Cache-Control", "no-store")], told)
            return
        site.guard.check_place(head)
        cors = site.guard.cors(head)
        if head.method == "OPTIONS":
            await connection.answer(204, site.guard.preflight(head))
            return
        metadata = site.guard.metadata(head)
        if metadata is not None:
            await connection.answer(200, [*cors, _JSON], metadata)
            return
        if head.method in {"GET", "HEAD"} and head.path == "/" != site.place.path:
            words = f"This is a server for MCP clients: give them the address of this page with {site.place.path}.\n"
            await connection.answer(200, [*cors, _TEXT], words.encode())
            return
        credential = await _identify(site, head)
        connection.is_serving = True
        try:
            await _Exchange(site, connection, head, credential, cors).run()
        finally:
            connection.is_serving = False
            connection.since = trio.current_time()
    except RefusalError as refusal:
        await refuse(site, connection, refusal, cors)


async def refuse(site: Site, connection: ClientConnection, refusal: RefusalError, cors: Headers) -> None:
    """Answer with a status, and a sentence for a person."""
    if refusal.event is not None:
        site.log.tell(refusal.event, place=site.place.where, address=connection.address)
    if not connection.can_answer:
        raise ConnectionEndError
    words = f"{refusal.words}\n".encode() if refusal.words else b""
    await connection.answer(refusal.status, [*cors, *refusal.headers, *([_TEXT] if words else [])], words)


async def _identify(site: Site, head: Head) -> Credential:
    """Whose request it is; raises `RefusalError`."""
    try:
        found = site.guard.identify(head)
        if not isinstance(found, Unverified):
            return found
        holder, until = await _verify(site, head, found.token)
        return Credential(site.place.open_profile, holder, until=until)
    except RefusalError as refusal:
        refused = refusal
    if refused.event is not None:
        await trio.sleep(WRONG_TOKEN_S)
    raise refused


async def _verify(site: Site, head: Head, token: str) -> tuple[str, float]:
    """Whose token of the authorization server it is, and until when; raises `RefusalError`."""
    try:
        found = None if site.verifier is None else await site.verifier.verify(token)
    except MissingScopeError:
        raise site.guard.unauthorised(head, "insufficient_scope") from None
    except NoKeysError:
        raise RefusalError(503, [("Retry-After", "30")]) from None
    if found is None:
        raise site.guard.unauthorised(head, "invalid_token", event="token refused")
    return found


class _Exchange:
    """A request that was admitted."""

    def __init__(
        self, site: Site, connection: ClientConnection, head: Head, credential: Credential, cors: Headers
    ) -> None:
        self._site = site
        self._connection = connection
        self._head = head
        self._credential = credential
        self._headers = cors
        self._revision = head.get(b"mcp-protocol-version")
        self._key = head.get(b"mcp-session-id")
        self._is_stateless = self._revision == STATELESS
        # Without a credential, its address; on a Unix socket all are one.
        self._owner = f"{credential.profile} {credential.holder}" if credential.holder else f"at {connection.address}"

    async def run(self) -> None:
        """Serve it; raises `RefusalError` and `ConnectionEndError`."""
        if self._head.path != self._site.place.path:
            raise RefusalError(404, words=f"Nothing is here: the address for MCP clients is {self._site.place.path}.")
        method = self._head.method
        allowed = ("POST",) if self._is_stateless else ("GET", "POST", "DELETE")
        if method not in allowed:
            raise RefusalError(405, [("Allow", ", ".join(allowed))])
        if method == "POST":
            await self._post()
        elif method == "GET":
            await self._get()
        else:
            self._session().end()
            await self._connection.answer(204, self._headers)

    def _session(self) -> WebSession:
        if self._key is None:
            words = "This is an address for MCP clients: give it to one. A request names its session (Mcp-Session-Id)."
            raise RefusalError(400, words=words)
        return self._site.sessions.find(self._key, self._credential)

    # --- POST ---

    async def _post(self) -> None:
        kind = (self._head.get(b"content-type") or "").partition(";")[0].strip().lower()
        if kind != "application/json":
            # A page can send anything else without asking first.
            raise RefusalError(415)
        body = await self._connection.body(self._site.place.max_line_bytes, self._site.budget, self._owner)
        peeked = peek_body(body)
        if self._revision is not None and self._revision not in REVISIONS and peeked.revision is None:
            raise RefusalError(400)
        self._is_stateless |= peeked.revision is not None and self._key is None
        if self._is_stateless:
            await self._post_stateless(body, peeked)
        else:
            await self._post_in_session(body, peeked)

    async def _post_stateless(self, body: bytes, peeked: Peeked) -> None:
        names = {"method": self._head.get(b"mcp-method"), "name": self._head.get(b"mcp-name")}
        wrong = mismatch(peeked, revision=self._revision, **names) if peeked.is_readable else None
        if wrong is not None:
            error = error_json(peeked.id, HEADER_MISMATCH, f"the header {wrong} does not say what the body says")
            await self._connection.answer(400, [*self._headers, _JSON], error)
            return
        site = self._site
        session = site.sessions.stateless(
            site.place, self._credential, self._owner, caller=await self._caller(peeked), keys=peeked.keys
        )
        ticket, feed = await session.take(body, self._revision, self._head.under(PREFIX))
        try:
            await self._reply(session, feed, peeked)
        finally:
            # Nobody reads on: the call is cancelled, if it still runs.
            session.abandon(ticket)

    async def _caller(self, peeked: Peeked) -> Hashable:
        """Say whose session a request shares: of a token; of a program of one user on loopback; of the connection."""
        if self._credential.holder:
            return self._credential.whose
        # Behind a proxy on this machine are many clients, and all have its user.
        if peeked.client is None or any(name in _PROXIED for name, _ in self._head.headers):
            return self._connection
        uid = await self._connection.peer_uid()
        if uid is None:
            return self._connection
        return self._credential.whose, uid, self._connection.address, peeked.client

    async def _post_in_session(self, body: bytes, peeked: Peeked) -> None:
        if self._key is None and peeked.method == "initialize":
            session = self._site.sessions.open(self._site.place, self._credential, self._owner)
            _, feed = await session.take(body, self._revision)
            try:
                await _while_connected(self._connection, partial(self._open, session, feed))
            except ConnectionEndError:
                # Nobody has heard of it.
                session.end()
                raise
            return
        if self._key is None and not peeked.is_readable:
            error = error_json(None, PARSE_ERROR, "cannot read the message: it is no JSON-RPC")
            await self._connection.answer(400, [*self._headers, _JSON], error)
            return
        session = self._session()
        _, feed = await session.take(body, self._revision)
        await self._reply(session, feed, peeked)

    async def _open(self, session: WebSession, feed: MessageFeed) -> None:
        """Answer `initialize`: it says which session there is, unless there is none."""
        messages = await feed.take(feed.attach(), 0)
        answer = messages[-1][1] if messages else b""
        session.release(feed)
        if not answer or is_error(answer):
            session.end()
        else:
            self._headers = [*self._headers, ("Mcp-Session-Id", session.key)]
        await self._connection.answer(200 if answer else 503, [*self._headers, _JSON], answer)

    async def _reply(self, session: WebSession, feed: MessageFeed, peeked: Peeked) -> None:
        reader = feed.attach()
        # A call has its own end; what only listens has that of its token.
        until = self._credential.until if peeked.method == "subscriptions/listen" else math.inf
        try:
            with trio.move_on_after(QUICK_S):
                await feed.take(reader, 0)
            tell = partial(self._tell, session, feed, reader, peeked)
            # Looking whether a client is still there takes a task of its own.
            await (tell() if feed.is_complete else _while_connected(self._connection, tell, until=until))
        finally:
            session.leave(feed, reader)

    async def _tell(self, session: WebSession, feed: MessageFeed, reader: int, peeked: Peeked) -> None:
        messages: list[tuple[int, bytes]] = []
        with trio.move_on_after(JSON_S if self._takes_events else math.inf):
            messages = await feed.take(reader, 0)
            while not self._takes_events and not feed.is_complete and messages:
                messages = await feed.take(reader, messages[-1][0])
        if feed.is_complete and (len(messages) <= 1 or not self._takes_events):
            await self._answer(session, feed, messages, peeked)
        else:
            await self._stream(session, feed, reader, after=0)

    async def _answer(
        self, session: WebSession, feed: MessageFeed, messages: list[tuple[int, bytes]], peeked: Peeked
    ) -> None:
        session.release(feed)
        if not messages:
            # It asked for nothing, or was taken back; or another request reads on from here.
            await self._connection.answer(202, self._headers)
            return
        answer = messages[-1][1]
        status = status_of(answer) if self._is_stateless else 200 if peeked.is_readable else 400
        await self._connection.answer(status, [*self._headers, _JSON], answer)

    @property
    def _takes_events(self) -> bool:
        accepted = self._head.get(b"accept") or "*/*"
        return any(kind in accepted for kind in ("text/event-stream", "text/*", "*/*"))

    # --- events ---

    async def _get(self) -> None:
        if not self._takes_events:
            raise RefusalError(406)
        session = self._session()
        number, after = _read_event_id(self._head.get(b"last-event-id"))
        feed = session.find_feed(number)
        if feed is None or after is None:
            # It is too old, or a new one: what nobody has read is all that there is.
            feed = session.unasked
            after = feed.read
        reader = feed.attach()
        try:
            stream = partial(self._stream, session, feed, reader, after=after)
            await _while_connected(self._connection, stream, until=self._credential.until)
        finally:
            session.leave(feed, reader)

    async def _stream(self, session: WebSession, feed: MessageFeed, reader: int, *, after: int) -> None:
        await self._connection.begin(self._headers)
        if self._revision is not None and PRIMED <= self._revision < STATELESS:
            await self._connection.more(b"id: %d-%d\ndata:\n\n" % (feed.number, after))
        while True:
            messages: list[tuple[int, bytes]] | None = None
            with trio.move_on_after(COMMENT_S):
                messages = await feed.take(reader, after)
            if messages is None:
                await self._connection.more(_COMMENT)
                continue
            if not messages:
                break
            for number, message in messages:
                head = b"" if self._is_stateless else b"id: %d-%d\n" % (feed.number, number)
                await self._connection.more(b"%bevent: message\ndata: %b\n\n" % (head, message))
                after = number
                session.told(feed, number)
        await self._connection.finish()


def _read_event_id(text: str | None) -> tuple[int, int | None]:
    """The feed, and the number of the last message that a client has had of it, if it has."""
    number, _, after = (text or "").partition("-")
    is_ours = all(part.isascii() and part.isdecimal() and len(part) < 16 for part in (number, after))
    return (int(number), int(after)) if is_ours else (UNASKED, None)


async def _while_connected(
    connection: ClientConnection, work: Callable[[], Awaitable[None]], *, until: float = math.inf
) -> None:
    """Do `work` until it is done; raises `ConnectionEndError` where the client is gone before, or it is too late."""
    is_done = False
    try:
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.deadline = until
            nursery.start_soon(connection.gone)
            await work()
            is_done = True
            nursery.cancel_scope.cancel()
    except* ConnectionEndError:
        # Once the answer is out, its client may well go.
        pass
    if not is_done:
        raise ConnectionEndError
