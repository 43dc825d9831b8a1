"""How a connection gets from a way to its server to the list of its tools: the asynchronous half of `negotiation`.

    open ─▶ negotiate, over as many links as it takes ─▶ tools/list, page by page ─▶ prompts/list, where wanted

Listing once more, later, is the last two steps by themselves.
"""

import math
from typing import Final, Protocol

import trio
from msgspec import Raw, UnsetType

from tooldispatchd.calls.memory import Share
from tooldispatchd.checkers.pool import Running
from tooldispatchd.providers.mcp.dialects import Dialect
from tooldispatchd.providers.mcp.greeting import Greeting
from tooldispatchd.providers.mcp.link import Link, LinkError, Transport
from tooldispatchd.providers.mcp.listing import MAX_PAGE_BYTES, Listing
from tooldispatchd.providers.mcp.logmessages import printable
from tooldispatchd.providers.mcp.messages import Incoming, Outgoing, error_in, error_words
from tooldispatchd.providers.mcp.negotiation import (
    MAX_WORDS,
    Agreed,
    Negotiation,
    NegotiationFailure,
    Older,
    Respawn,
    Send,
)
from tooldispatchd.providers.mcp.remembered import Eras
from tooldispatchd.providers.mcp.resources import MAX_PROMPT_PAGES, Prompt, read_prompts, resource_tools
from tooldispatchd.providers.mcp.server import Server, ServerOffer
from tooldispatchd.wire.faults import Fault

# Compiling a tool's schemas takes 50 µs, and 100 ms where they are as large and entangled as they may be: so it is time
# that is counted between two turns of the loop. Other agents wait so long meanwhile.
LISTING_TURN_S: Final = 0.002
# How long a server that declares no tools may take to list them: it may never answer, and the others answer at once.
UNDECLARED_S: Final = 3.0


class HandshakeError(LinkError):
    """The server is there, and cannot be used."""


class RequestRefusedError(HandshakeError):
    """The server answers a request of the handshake with an error."""


class Talk(Protocol):
    """The connection, as far as the handshake speaks through it."""

    share: Share
    checkers: Running
    dialect: Dialect | None

    @property
    def link(self) -> Link:
        """The link that there is now."""

    async def renew(self, way: Transport) -> None:
        """Leave the link for one by `way`, which is opened. Raises `LinkError`."""

    def send(self, message: Outgoing) -> None:
        """Queue a message."""

    def flush(self) -> None:
        """Send what is queued."""

    async def request(self, method: str, params: dict[str, object], until: float = math.inf) -> Incoming | Fault | None:
        """Make a request: its answer, None where there is none at the time `until`. Raises `LinkError`."""


class Handshake:
    """One handshake with `server`; `stage` is what it waits for."""

    def __init__(self, server: Server, way: Transport, talk: Talk, eras: Eras) -> None:
        self.stage = "initialize"
        self._server = server
        self._way = way
        # The transport in use: `way`, or the older one that it has.
        self._used = way
        self._talk = talk
        self._eras = eras
        self._capabilities: dict[str, object] = {}

    async def greet(self, capabilities: dict[str, object]) -> Greeting:
        """Open the link and agree on a revision. Raises `HandshakeError`, `LinkError`."""
        await self._talk.link.open()
        self._capabilities = capabilities
        return await self._agree()

    async def _agree(self) -> Greeting:
        """Agree on a revision, over a link that is open. Raises `HandshakeError`, `LinkError`."""
        negotiation = Negotiation(
            self._server.protocol,
            self._eras.get(self._way.origin),
            capabilities=self._capabilities,
            is_http=self._way.is_http,
            has_older_way=self._way.older() is not None,
            may_probe=self._way.may_probe,
        )
        agreed = await self._negotiate(negotiation)
        if negotiation.is_mistaken:
            self._eras.forget(self._way.origin)
        if isinstance(agreed, NegotiationFailure):
            raise HandshakeError(agreed.why, agreed.extras)
        self._eras.keep(self._way.origin, agreed.era)
        self._speak(agreed.dialect)
        if not agreed.dialect.is_modern:
            self._talk.send(agreed.dialect.notification("notifications/initialized"))
            self._talk.flush()
        await self._talk.link.greeted()
        return agreed.greeting

    async def _negotiate(self, negotiation: Negotiation) -> Agreed | NegotiationFailure:
        """Do step after step, and tell the negotiation what came of each."""
        while True:
            # To read a step is to do it.
            step = negotiation.step
            try:
                if isinstance(step, Send):
                    self.stage = step.method
                    self._speak(step.dialect)
                    until = math.inf if step.limit_s is None else trio.current_time() + step.limit_s
                    reply = await self._talk.request(step.method, step.params, until)
                    if reply is None:
                        negotiation.timed_out()
                    elif isinstance(reply, Fault):
                        negotiation.refused(reply)
                    else:
                        negotiation.answered(reply)
                elif isinstance(step, Respawn):
                    await self._talk.renew(self._way)
                elif isinstance(step, Older):
                    older = self._way.older()
                    assert older is not None
                    self._used = older
                    await self._talk.renew(older)
                else:
                    return step
            except LinkError as error:
                negotiation.ended(error.why, error.extras)

    def _speak(self, dialect: Dialect) -> None:
        self._talk.dialect = self._talk.link.dialect = dialect

    # --- lists -------------------------------------------------------------------------------------------------------

    async def list_all(self, greeting: Greeting, until: float = math.inf) -> ServerOffer:
        """List everything that the server offers as tools; a list that is asked for again ends at the time `until`.

        Raises `HandshakeError`, `LinkError`.
        """
        dialect = self._talk.dialect
        assert dialect is not None
        listing = Listing(
            self._server,
            self._talk.share,
            self._talk.checkers,
            is_http=self._way.is_http,
            is_modern=dialect.is_modern,
        )
        if greeting.has_tools or until < math.inf:
            await self._list_tools(listing, until)
        else:
            await self._list_undeclared(listing)
        if self._server.resources:
            prompts = await self._list_prompts(until) if greeting.has_prompts else None
            for tool in resource_tools(has_resources=greeting.has_resources, prompts=prompts):
                listing.add_made(tool)
        return ServerOffer(
            tools=listing.tools,
            listed=tuple(listing.listed),
            left_out=listing.left_out,
            said_name=greeting.name,
            instructions=greeting.instructions,
            warnings=tuple(listing.all_warnings()),
            missing=listing.missing(),
            ttl_s=listing.ttl_s,
            capabilities=greeting.capabilities,
        )

    async def _list_tools(self, listing: Listing, until: float) -> None:
        self.stage = "tools/list"
        cursor: str | None = None
        while True:
            result = await self._page("tools/list", cursor, until)
            if len(result) > MAX_PAGE_BYTES:
                raise HandshakeError(f"a page of its list of tools is larger than {MAX_PAGE_BYTES} bytes")
            page = await listing.read_page(result)
            if page is None:
                raise HandshakeError("its list of tools cannot be read")
            raws, cursor = page
            await self._add_all(raws, listing)
            if cursor is None:
                return

    async def _list_undeclared(self, listing: Listing) -> None:
        """List the tools of a server that declares none: some have tools all the same, and others end or hang."""
        now = trio.current_time()
        # Half of the time that is left to the handshake, so that a server that does not answer comes up.
        until = now + min(UNDECLARED_S, (trio.current_effective_deadline() - now) / 2)
        try:
            await self._list_tools(listing, until)
        except RequestRefusedError:
            return
        except HandshakeError as error:
            listing.warn(f"it declares no tools, and was asked for them all the same: {error.why}")
        except LinkError as error:
            listing.warn(f"it declares no tools, and ended when it was asked for them: {error.why}")
            await self._talk.renew(self._used)
            await self._agree()

    async def _add_all(self, raws: list[Raw], listing: Listing) -> None:
        """Read the tools in short turns, between which the handshake's limit and the end of the server are noticed."""
        turn_ends = trio.current_time() + LISTING_TURN_S
        for raw in raws:
            await listing.add(raw)
            if trio.current_time() >= turn_ends:
                await trio.lowlevel.checkpoint()
                turn_ends = trio.current_time() + LISTING_TURN_S

    async def _list_prompts(self, until: float) -> list[Prompt]:
        """The prompts, which are there to be described: a list that cannot be read is cut short."""
        self.stage = "prompts/list"
        is_modern = self._talk.dialect is not None and self._talk.dialect.is_modern
        prompts: list[Prompt] = []
        cursor: str | None = None
        for _ in range(MAX_PROMPT_PAGES):
            page = read_prompts(await self._page("prompts/list", cursor, until), is_modern=is_modern)
            if page is None:
                break
            more, cursor = page
            prompts += more
            if cursor is None:
                break
        return prompts

    async def _page(self, method: str, cursor: str | None, until: float) -> Raw:
        reply = await self._talk.request(method, {} if cursor is None else {"cursor": cursor}, until)
        if reply is None:
            raise HandshakeError(f"it did not answer {method} in time")
        if isinstance(reply, Fault):
            reason = (
                "is too large" if "limit" in reply.extras else f"is missing: {reply.extras.get('reason', reply.detail)}"
            )
            raise HandshakeError(f"its answer to {method} {reason}", reply.extras)
        error = error_in(reply)
        if error is not None:
            raise RequestRefusedError(f"it refused {method}: {printable(error_words(error)[0], MAX_WORDS)}")
        if isinstance(reply.result, UnsetType):
            raise HandshakeError(f"its answer to {method} holds no result")
        return reply.result
