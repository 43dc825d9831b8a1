"""One link to a server, and what is said over it: requests out, messages to those who wait, whoever they are.

    Connection, Handshake ──▶ Conversation ──▶ Link
                                   ▲             │ Inbox
                                   └── Answers ◀─┘

The owner's task alone opens, turns and closes; anything else may be called by any task of the loop.
"""

import math
import signal
from collections.abc import Callable
from typing import Final

import msgspec
import trio

from tooldispatchd.calls.memory import Share
from tooldispatchd.checkers.pool import Running
from tooldispatchd.children.tail import telling_line
from tooldispatchd.providers.mcp.answers import Answers, More, PendingRequest
from tooldispatchd.providers.mcp.asking import AgentSide, ServerRequests
from tooldispatchd.providers.mcp.content import error_in
from tooldispatchd.providers.mcp.dialects import Dialect
from tooldispatchd.providers.mcp.link import Link, LinkError, Transport
from tooldispatchd.providers.mcp.logmessages import BoundLog, printable
from tooldispatchd.providers.mcp.messages import Incoming, Outgoing
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.wire.faults import Fault

# A line of an error.
MAX_LAST_CHARS: Final = 200
# Longer than any that the protocol knows.
MAX_METHOD: Final = 64
# Between the end of a subscription and the next try. A server that is restarted is back in seconds; asking anew costs a
# request and a list of tools.
SUBSCRIBE_AGAIN_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
# One that lived for so long begins the row anew: proxies cut what is idle after a minute or so.
STEADY_S: Final = 50.0
# A server that is not there, or refuses, shows it within milliseconds. What is open for so long stands.
STANDS_S: Final = 0.5


# How a server exits whose input was closed; the last one is what a shell makes of the TERM that comes next.
_GOOD_CODES: Final = frozenset({None, 0, 128 + signal.SIGTERM})


class Conversation:
    """What goes to and fro between a connection and its server.

    `batch_done` is called after each turn in which calls were completed, `more` with a call that needs another request.
    """

    __slots__ = (
        "_batch_done",
        "_has_queued",
        "_is_overrun",
        "_log",
        "_more",
        "_nursery",
        "_server",
        "_until",
        "_way",
        "answers",
        "asked",
        "checkers",
        "dialect",
        "link",
        "share",
    )

    def __init__(
        self,
        server: Server,
        way: Transport,
        *,
        nursery: trio.Nursery | None,
        agent: AgentSide,
        batch_done: Callable[[], None],
        more: More,
        checkers: Running,
        log: BoundLog,
        share: Share,
    ) -> None:
        self.share = share
        self.dialect: Dialect | None = None
        self.asked = ServerRequests(server, agent, log, send=self._reply)
        trace = self._trace_incoming if server.traced else None
        self.answers = Answers(
            server, share, asked=self.asked, more=more, checkers=checkers, taken=self._taken, trace=trace
        )
        self.checkers = checkers
        self.link: Link = way.link(self, nursery)
        self._server = server
        self._way = way
        self._nursery = nursery
        self._batch_done = batch_done
        self._log = log
        self._until = math.inf
        self._has_queued = False
        self._is_overrun = False

    # --- out ---------------------------------------------------------------------------------------------------------

    def send(self, message: Outgoing) -> None:
        """Queue a message; `flush` sends it. After an overrun nothing is queued any more: the connection is to end."""
        if self._is_overrun:
            return
        if self._server.traced:
            self._trace("message sent", message.method, message.number, len(message.line) - 1)
        self._has_queued = True
        self.link.send(message)

    def flush(self) -> bool:
        """Send what is queued, as far as the server takes it now; false where that is too little.

        The owner's turn then ends the connection, whoever has flushed: a server's own requests are answered in tasks of
        the link, where nobody would look at it.
        """
        self._has_queued = False
        if not self._is_overrun and not self.link.flush():
            self._is_overrun = True
            self.link.wake()
        return not self._is_overrun

    def _reply(self, message: Outgoing) -> None:
        """Answer a request of the server; an agent that was asked does so in no turn of ours."""
        self.send(message)
        self.flush()

    def give_up(self, number: int, reason: str) -> None:
        """Wait for a request no more, and tell the server; never for one of the handshake."""
        if not self.link.give_up(number) and self.dialect is not None:
            cancelled = self.dialect.notification("notifications/cancelled", {"requestId": number, "reason": reason})
            self.send(cancelled)
            self.flush()

    async def request(self, method: str, params: dict[str, object], until: float = math.inf) -> Incoming | Fault | None:
        """A request of the connection itself, and its answer; None where there is none at the time `until`.

        Raises `LinkError`. Who must go on after that time bounds it so, and not by cancelling: a turn that is cancelled
        may lose what it was about to deal with, which others wait for.
        """
        assert self.dialect is not None
        exchange = PendingRequest()
        number = self.answers.pending.add(exchange)
        self.send(self.dialect.request(number, method, params))
        self.flush()
        try:
            while exchange.reply is None and trio.current_time() < until:
                await self.turn(until)
        finally:
            if self.answers.pending.take(number) is not None:
                # Not told: some of these must never be cancelled, and none of them is work.
                self.link.give_up(number)
        return exchange.reply

    # --- turns -------------------------------------------------------------------------------------------------------

    @property
    def due(self) -> float:
        """When something is to be told, in trio's time."""
        answers, asked = self.answers.due, self.asked.due
        # Twice in each turn: `min` takes twice the time.
        return answers if answers < asked else asked

    async def turn(self, until: float = math.inf) -> None:
        """Wait for the server to do something, and deal with all of it. Raises `LinkError` once it is gone."""
        due = self.due
        self._until = until if until < due else due
        await self.link.turn(self._until)
        if self.due < math.inf:
            self._tell(trio.current_time())
        if self._is_overrun:
            raise LinkError("it does not read its input")

    def _tell(self, now: float) -> None:
        if self.answers.due <= now:
            self.answers.tell_updates(now)
            self._batch_done()
        if self.asked.due <= now:
            self.asked.tell(now)
            self.flush()

    # --- in ----------------------------------------------------------------------------------------------------------

    async def take_chunk(self, chunk: bytes) -> None:
        """Bytes of a stream of lines."""
        await self.answers.take_chunk(chunk)
        self._taken()

    async def take(self, message: bytes | msgspec.Raw) -> None:
        """One whole message."""
        await self.answers.take(message)
        self._taken()

    def take_message(self, message: Incoming) -> None:
        """One message that is read already."""
        self.answers.take_message(message)
        self._taken()

    def fail(self, number: int, fault: Fault) -> None:
        """Request `number` will not be answered."""
        self.answers.fail(number, fault)
        self._taken()

    def is_waiting(self, number: int) -> bool:
        """Whether somebody waits for the answer to request `number`."""
        return number in self.answers.pending

    def debug(self, event: str, **fields: object) -> None:
        """Log what happens on the link's way."""
        self._log.debug(event, server=self._server.name, **fields)

    def _taken(self) -> None:
        answers = self.answers
        if answers.has_completed:
            answers.has_completed = False
            self._batch_done()
        # Without tasks of the link's own this is the owner's turn, which ends by itself.
        if self._nursery is not None and (answers.has_replied or self.asked.wants_list or self.due < self._until):
            answers.has_replied = False
            self.link.wake()
        if self._has_queued:
            # Whoever was told of an answer has called again.
            self.flush()

    def _trace(self, event: str, method: str | None, number: object, size: int) -> None:
        # What it says may be secret, and its number may be the server's own words.
        shown = number if isinstance(number, int) else None
        self._log.info(
            event, method=None if method is None else printable(method, MAX_METHOD), number=shown, bytes=size
        )

    def _trace_incoming(self, message: Incoming, size: int) -> None:
        self._trace("message received", message.method or None, message.id, size)

    # --- links -------------------------------------------------------------------------------------------------------

    async def renew(self, way: Transport) -> None:
        """Leave the link for a new one, which is opened. Raises `LinkError`."""
        with trio.move_on_after(self.close_s, shield=True):
            await self.close()
        self.answers.renew()
        self.asked.renew()
        self._way = way
        self.link = way.link(self, self._nursery)
        # Whoever ended the connection meanwhile wants no new server.
        await trio.lowlevel.checkpoint_if_cancelled()
        await self.link.open()

    def drop(self) -> None:
        """Nothing is sent any more, and nothing is waited for of the agent."""
        self.asked.close()
        self.link.drop()

    @property
    def last_words(self) -> str:
        """Why a server that exited with a code says it did, in brackets: a warning shows one line of a fault."""
        said = telling_line(self.link.stderr_tail) if self.link.ended.get("exit_code") else ""
        return f" ({printable(said, MAX_LAST_CHARS)})" if said else ""

    @property
    def close_s(self) -> float:
        """The longest that `close` takes; whoever calls it shields it for so long."""
        return self._way.close_s

    async def close(self) -> None:
        """Leave nothing of the link behind."""
        await self.link.close()

    def log_end(self, reason: object, *, calls: int, has_failed: bool) -> None:
        """Log how it ended, after `close`: a warning where the server failed, or ended badly when it was asked to."""
        server, ended, stderr = self._server.name, self.link.ended, self.link.stderr_tail
        is_bad = has_failed or ended.get("exit_code") not in _GOOD_CODES
        (self._log.warning if is_bad else self._log.info)(
            "connection ended",
            server=server,
            reason=reason,
            **ended,
            calls=calls,
            skipped_lines=self.answers.skipped,
            ignored_answers=self.answers.ignored,
            **({"stderr_tail": stderr} if is_bad and stderr else {}),
        )
        if stderr and not is_bad:
            self._log.debug("stderr ended", server=server, stderr_tail=stderr)

    def forget(self) -> None:
        """Let go of all that holds this, after the end: so it is freed at once, with what was half read."""
        self.answers.renew()
        del self.link, self.answers, self.asked


class Subscription:
    """Changes of the tools, told on a request that stays open (MCP 2026-07-28, "Subscriptions").

    One that ends (a proxy that cuts what is idle, a server that is renewed) is made again after the waits of
    `SUBSCRIBE_AGAIN_S`, and once it stands the tools are listed again, as nobody knows what was missed; one that is
    refused is not.
    """

    __slots__ = ("_began", "_due", "_ends", "_open", "_talk")

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self._open: PendingRequest | None = None
        self._due = self._began = -math.inf
        # In a row, since one lived for long.
        self._ends = 0

    def look(self, now: float) -> float:
        """Subscribe where that is due at `now`, see whether the subscription has ended, and say when to look again.

        In trio's time; infinite while it is open and nothing was missed.
        """
        if self._open is not None and self._open.reply is not None:
            self._due = math.inf if _is_refusal(self._open.reply) else now + self._next_wait_s(now)
            self._open = None
        if now >= self._due:
            if self._open is None:
                # What the first one could have missed, the handshake has listed.
                self._due = now + STANDS_S if self._ends else math.inf
                self._began = now
                self._subscribe()
            else:
                # Listed after the subscription stands: a change in between is told, and not lost.
                self._due = math.inf
                self._talk.asked.wants_list = True
        return self._due

    def _next_wait_s(self, now: float) -> float:
        self._ends = 1 if now - self._began >= STEADY_S else self._ends + 1
        return SUBSCRIBE_AGAIN_S[min(self._ends, len(SUBSCRIBE_AGAIN_S)) - 1]

    def _subscribe(self) -> None:
        talk = self._talk
        assert talk.dialect is not None
        self._open = PendingRequest()
        number = talk.answers.pending.add(self._open)
        talk.send(talk.dialect.request(number, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
        talk.flush()


def _is_refusal(reply: Incoming | Fault) -> bool:
    """Whether it makes no sense to ask again: an error, or a status of HTTP that says no."""
    if isinstance(reply, Fault):
        status = reply.extras.get("http_status")
        return isinstance(status, int) and status // 100 == 4 and status not in {408, 429}
    return error_in(reply) is not None
