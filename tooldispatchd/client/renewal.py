"""The channels of a trio client, one after the other: where one has ended, what is asked next may open another.

What was asked on a channel that has ended is never asked again: it may have been done.
"""

from collections.abc import Awaitable, Callable

import msgspec
import trio

from tooldispatchd.client.conversation import PendingRequests
from tooldispatchd.client.exchange import ClientExchange
from tooldispatchd.client.shown import ShownReady, is_plain
from tooldispatchd.wire.messages import Ready


class Opened(msgspec.Struct, frozen=True):
    """What the `hello` of an agent said, and on which channel it last did."""

    fields: dict[str, object]
    exchange: ClientExchange


class Renewal:
    """The exchange on the channel as it is now; `dial` gives the next stream, where there may be one."""

    exchange: ClientExchange

    def __init__(self, stream: trio.abc.Stream, dial: Callable[[], Awaitable[trio.abc.Stream]] | None) -> None:
        self.opened: dict[str | None, Opened] = {}
        self._stream = stream
        self._dial = dial
        # Tasks that find the channel gone must not each open one.
        self._turn = trio.Lock()

    def start(self, nursery: trio.Nursery, conversation: PendingRequests) -> None:
        """Begin a conversation on the stream; before anything else."""
        self._nursery = nursery
        self.exchange = ClientExchange(self._stream, conversation, nursery)
        nursery.start_soon(self.exchange.read)
        nursery.start_soon(self.exchange.write)

    async def channel(self) -> ClientExchange:
        """The exchange on a channel that is open, where one can be had, with room to speak. Raises `ClientError`."""
        if self._dial is not None:
            # The reader learns of an end when it runs: before anything more is said.
            for _ in range(2):
                await trio.lowlevel.checkpoint()
            if self.exchange.conversation.lost is not None:
                async with self._turn:
                    await self._renew(self._dial)
        exchange = self.exchange
        await exchange.room()
        return exchange

    async def session(self, agent: str | None) -> ClientExchange:
        """As `channel`; an agent whose `hello` was said on another one says it again. Raises `FaultError` too."""
        exchange = await self.channel()
        before = self.opened.get(agent)
        if before is not None and before.exchange is not exchange:
            async with self._turn:
                before = self.opened.get(agent)
                if before is not None and before.exchange is not exchange:
                    await self.greet(exchange, agent, before.fields)
        return exchange

    async def greet(self, exchange: ClientExchange, agent: str | None, fields: dict[str, object]) -> Ready | ShownReady:
        """Open an agent's session, and remember how."""
        said = exchange.conversation.hello(agent, **fields)
        ready: Ready | ShownReady
        if is_plain(fields["schemas"]):
            ready = await exchange.answer(said, Ready, agent=agent)
        else:
            ready = await exchange.answer(said, ShownReady, agent=agent)
        self.opened[agent] = Opened(fields, exchange)
        return ready

    def end(self) -> None:
        """Nothing more is said, on this channel or another."""
        self._dial = None
        self.exchange.lose("the channel is closed")

    async def aclose(self) -> None:
        """Close the stream."""
        await trio.aclose_forcefully(self._stream)

    async def _renew(self, dial: Callable[[], Awaitable[trio.abc.Stream]]) -> None:
        last = self.exchange
        # Another task may have done it while this one waited for its turn.
        if last.conversation.lost is None:
            return
        stream = await dial()
        await self.aclose()
        self._stream = stream
        self.start(self._nursery, last.conversation.renewed())
        self.exchange.callbacks = last.callbacks
