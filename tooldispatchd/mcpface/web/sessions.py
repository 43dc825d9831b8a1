"""Sessions of HTTP clients: for each one Face, one channel to the daemon, and the feeds that its requests read.

    request ─▶ take ─▶ Face ─▶ lines ─▶ daemon
                        │  ◀── lines ◀──┘
                        └─▶ feeds: one for each request, one for what is said unasked

A session belongs to the credential that opened it, and to anyone else it does not exist. Nothing that one client does
or leaves undone waits for another session.
"""

import math
import os
import secrets
import socket
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Final

import trio

from tooldispatchd.mcpface.clientside import Said
from tooldispatchd.mcpface.face import Face
from tooldispatchd.mcpface.web.budget import ByteBudget
from tooldispatchd.mcpface.web.feeds import MessageFeed
from tooldispatchd.mcpface.web.guard import Credential, RefusalError
from tooldispatchd.mcpface.web.logbook import LogBook
from tooldispatchd.wire.lines import LineCutter, LongLine
from tooldispatchd.wire.webplaces import WebPlace

# Of all places. Under the thousand that the daemon gives one user by default (`limits.sessions_per_uid`).
MAX_SESSIONS: Final = 900
# Where others are waiting, a session that nobody has used for so long makes room.
SPARE_S: Final = 60.0
# A client that thinks for longer begins anew, which all of them can; one that listens is never idle.
IDLE_S: Final = 30 * 60.0
# Without a handshake there is nothing to lose but background jobs and rounds of questions.
STATELESS_IDLE_S: Final = 5 * 60.0
# How long an answer is kept for a client whose line broke, and how many of them.
KEPT_S: Final = 60.0
KEPT_FEEDS: Final = 16
CONNECT_S: Final = 10.0
READ_BYTES: Final = 64 * 1024
# Unread by the client: more, and the daemon is not read.
UNREAD_BYTES: Final = 1024 * 1024
# Unread by the daemon: more, and the client's requests wait.
UNSENT_BYTES: Final = 1024 * 1024
# How often a session that waits for room looks for it.
ROOM_S: Final = 0.05


class WebSession:
    """One client's session; `run` must run as long as it lives."""

    def __init__(self, key: str, credential: Credential, owner: str, budget: ByteBudget, idle_s: float) -> None:
        self.key = key
        self.credential = credential
        self.owner = owner
        self.idle_s = idle_s
        self.is_over = False
        self.unasked = MessageFeed(0)
        self.used_at = trio.current_time()
        epoch = time.time() - self.used_at
        self._face = Face(profile=credential.profile, token=credential.token, now=self.used_at, epoch=epoch)
        self._budget = budget
        self.log: LogBook | None = None
        self._booked = 0
        self._feeds: dict[int, MessageFeed] = {}
        # Those of finished requests, with the time until which they are kept.
        self._kept: OrderedDict[int, float] = OrderedDict()
        self._numbers: dict[int, MessageFeed] = {0: self.unasked}
        self._next_number = 0
        self._unsent = bytearray()
        self._channel: int | None = None
        self._changed = trio.lowlevel.ParkingLot()
        self._stuck = trio.lowlevel.ParkingLot()
        # Of what is done by the clock; and until when that waits.
        self._sooner = trio.lowlevel.ParkingLot()
        self._waits_until = math.inf
        self.has_told_keys = False
        """Whether an answer may lead back here: the state of a request, a task."""
        self._scope = trio.CancelScope()
        self._why = "the session has ended"

    # --- the client's side ---

    async def take(
        self, message: bytes, revision: str | None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, MessageFeed]:
        """A message of the client: its ticket, and where its answers come; waits while the daemon does not read.

        What asks for nothing has an empty feed that is complete.
        """
        while len(self._unsent) > UNSENT_BYTES and not self.is_over:
            await self._changed.park()
        if self.is_over:
            raise RefusalError(404)
        # What it answers by itself, such as a list, is bounded by nothing else.
        if self._budget.is_full(self.owner):
            raise RefusalError(503, [("Retry-After", "5")], event="too many bytes")
        self.used_at = trio.current_time()
        ticket = self._face.take_client(message, self.used_at, revision, headers)
        self._next_number += 1
        feed = self._feeds[ticket] = self._numbers[self._next_number] = MessageFeed(self._next_number)
        self._settle()
        return ticket, feed

    def release(self, feed: MessageFeed) -> None:
        """A finished feed that nobody can come back to."""
        if self._kept.pop(feed.number, None) is not None:
            self._forget(feed)

    def abandon(self, ticket: int) -> None:
        """Nobody waits for the answer any more, and the call is to end."""
        if ticket in self._feeds and not self.is_over:
            self._face.abandon(ticket)
            self._settle()

    def find_feed(self, number: int) -> MessageFeed | None:
        """A feed that a client wants to go on with."""
        return self._numbers.get(number)

    def told(self, feed: MessageFeed, number: int) -> None:
        """The client has been sent messages of a feed up to this one."""
        feed.taken(number)
        self.used_at = trio.current_time()
        self._book()
        self._changed.unpark_all()

    def leave(self, feed: MessageFeed, reader: int) -> None:
        """A reader has gone; what it may come back for is kept from now on."""
        feed.detach(reader)
        if feed.number in self._kept:
            self._kept[feed.number] = trio.current_time() + KEPT_S
            self._sooner.unpark()
        self._changed.unpark_all()

    def knows(self, key: str) -> bool:
        """Whether this session gave that state of a request, or that task."""
        return self.has_told_keys and self._face.knows(key)

    def end(self) -> None:
        """End the session. Idempotent."""
        self.is_over = True
        self._scope.cancel()

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for anything here."""
        return not self._feeds and not self.unasked.has_reader

    # --- the daemon's side ---

    async def run(self, door: str, max_answer_bytes: int) -> None:
        """Carry lines until the session is over."""
        try:
            with self._scope, trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
                try:
                    with trio.fail_after(CONNECT_S):
                        await channel.connect("\0" + door)
                    self._channel = channel.fileno()
                    await self._carry(channel, LineCutter(max_answer_bytes))
                except (OSError, trio.TooSlowError):
                    self._why = "the daemon cannot be reached"
        finally:
            self.is_over = True
            self._channel = None
            self._face.lost(self._why)
            self._settle()
            for feed in self._numbers.values():
                feed.close()
            self._budget.change(self.owner, -self._booked)
            self._booked = 0
            self._changed.unpark_all()

    async def _carry(self, channel: trio.socket.SocketType, cutter: LineCutter) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write, channel)
            nursery.start_soon(self._wake)
            while chunk := await channel.recv(READ_BYTES):
                for line in cutter.cut(chunk):
                    if isinstance(line, LongLine):
                        self._why = "the daemon sent a line that is too long"
                        self.end()
                    else:
                        self._face.take_daemon(bytes(line), trio.current_time())
                self._settle(cutter.held)
                await self._have_room(cutter.held)
            self._why = "the daemon has ended the session"
            nursery.cancel_scope.cancel()

    async def _have_room(self, held: int) -> None:
        """Wait until the client has read enough of what it was told; a line that has begun comes to its end."""
        while self._booked and sum(feed.unread for feed in self._reading()) > UNREAD_BYTES:
            await self._changed.park()
        # What other sessions of this owner give back is told by no event.
        while self._booked - held > UNREAD_BYTES and self._budget.is_full(self.owner):  # noqa: ASYNC110
            await trio.sleep(ROOM_S)

    def _reading(self) -> list[MessageFeed]:
        return [feed for feed in self._numbers.values() if feed.has_reader]

    async def _write(self, channel: trio.socket.SocketType) -> None:
        """Send what could not be sent at once."""
        while True:
            while not self._unsent:
                await self._stuck.park()
            try:
                sent = await channel.send(bytes(self._unsent[:READ_BYTES]))
            except OSError:
                # What it said before it stopped reading is still to be read.
                await trio.sleep_forever()
            del self._unsent[:sent]
            self._changed.unpark_all()

    async def _wake(self) -> None:
        while True:
            # One that is read again is kept until its reader leaves.
            kept_until = self._kept_until
            now = trio.current_time()
            idle_at = max(self.used_at, now - self.idle_s / 2) + self.idle_s
            self._waits_until = min(self._face.wake_at, kept_until, idle_at)
            with trio.move_on_at(self._waits_until):
                await self._sooner.park()
            now = trio.current_time()
            if now >= kept_until:
                self._drop_kept()
            if now >= self._face.wake_at:
                self._face.wake(now)
                self._settle()
            if self.is_idle and now >= self.used_at + self.idle_s:
                self.end()

    @property
    def _kept_until(self) -> float:
        unread = (until for number, until in self._kept.items() if not self._numbers[number].has_reader)
        return min(unread, default=math.inf)

    def _send(self) -> None:
        """Send what the daemon takes now; the rest is sent as it reads on."""
        try:
            sent = 0 if self._channel is None else os.write(self._channel, self._unsent)
        except OSError:
            sent = 0
        del self._unsent[:sent]

    def _settle(self, held: int = 0) -> None:
        """Hand on what the Face has said; `held` are bytes of a line of the daemon that is not whole yet."""
        said, self._face.to_client[:] = self._face.to_client[:], []
        for each in said:
            self._say(each)
        is_free = not self._unsent
        for line in self._face.to_daemon:
            self._unsent += line
        self._face.to_daemon.clear()
        if self._unsent and is_free:
            self._send()
            if self._unsent:
                self._stuck.unpark()
        for warning in self._face.to_log:
            if self.log is not None:
                self.log.tell("session warned", warning=warning)
        self._face.to_log.clear()
        self._drop_kept()
        self._book(held)
        self._changed.unpark_all()
        if min(self._face.wake_at, self._kept_until) < self._waits_until:
            self._sooner.unpark()
        if self._face.is_over:
            self.end()

    def _say(self, said: Said) -> None:
        feed = self.unasked if said.ticket is None else self._feeds.get(said.ticket)
        if feed is None:
            return
        if said.message:
            feed.put(said.message)
        if said.is_last and said.ticket is not None:
            feed.close()
            del self._feeds[said.ticket]
            self.has_told_keys |= b'"requestState"' in said.message or b'"taskId"' in said.message
            self._kept[feed.number] = trio.current_time() + KEPT_S

    def _drop_kept(self) -> None:
        now = trio.current_time()
        is_full = self._budget.is_full(self.owner)
        for number, until in [*self._kept.items()]:
            feed = self._numbers[number]
            if (now >= until or len(self._kept) > KEPT_FEEDS or is_full) and not feed.has_reader:
                del self._kept[number]
                self._forget(feed)

    def _forget(self, feed: MessageFeed) -> None:
        feed.close()
        self._numbers.pop(feed.number, None)
        self._book()

    def _book(self, held: int = 0) -> None:
        holds = sum(feed.held for feed in self._numbers.values()) + len(self._unsent) + held
        self._budget.change(self.owner, holds - self._booked)
        self._booked = holds


class WebSessions:
    """The sessions of one place. Those without a handshake are found by their caller, which may be the connection that
    they came over; and by what only their answers told."""

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        budget: ByteBudget,
        log: LogBook,
        most_of_all_places: int,
    ) -> None:
        self._nursery = nursery
        self._budget = budget
        self._log = log
        self._most_of_all_places = most_of_all_places
        self._sessions: dict[str, WebSession] = {}
        self._stateless: dict[Hashable, WebSession] = {}
        self._is_closed = False

    def find(self, key: str, credential: Credential) -> WebSession:
        """The session of that id; raises `RefusalError` where this credential has none such."""
        session = self._sessions.get(key)
        if session is None or session.is_over or session.credential.whose != credential.whose:
            raise RefusalError(404)
        return session

    def open(self, place: WebPlace, credential: Credential, owner: str, *, idle_s: float = IDLE_S) -> WebSession:
        """A new session at the place as it is now; raises `RefusalError` where there is no room."""
        if self._is_closed:
            raise RefusalError(503, [("Retry-After", "5")])
        self._make_room(owner, self._most_of_all_places // place.places_sharing)
        session = WebSession(secrets.token_urlsafe(24), credential, owner, self._budget, idle_s)
        session.log = self._log
        self._sessions[session.key] = session
        self._nursery.start_soon(self._run, session, place)
        return session

    def stateless(
        self, place: WebPlace, credential: Credential, owner: str, *, caller: Hashable, keys: tuple[str, ...]
    ) -> WebSession:
        """The session for a request that names none: the one that gave one of `keys`, else the caller's own."""
        for found in self._sessions.values() if keys else ():
            is_own = not found.is_over and found.credential.whose == credential.whose
            if is_own and any(map(found.knows, keys)):
                return found
        session = self._stateless.get(caller)
        if session is None or session.is_over:
            session = self._stateless[caller] = self.open(place, credential, owner, idle_s=STATELESS_IDLE_S)
        return session

    def leave(self, connection: Hashable) -> None:
        """A connection has ended, and with it a session that was its own, unless its answers lead back there."""
        session = self._stateless.pop(connection, None)
        if session is not None and session.is_idle and not session.has_told_keys:
            session.end()

    def close(self) -> None:
        """Open no more, and end those that nobody uses: with the listening the way to them has ended too."""
        self._is_closed = True
        for session in self._sessions.values():
            if session.is_idle:
                session.end()

    def _make_room(self, owner: str, most: int) -> None:
        own = [session for session in self._sessions.values() if session.owner == owner]
        # Half for one owner: the rest is left for those who come later.
        if len(self._sessions) < most and len(own) < most // 2:
            return
        spare_at = trio.current_time() - SPARE_S
        spare = [session for session in own if session.is_idle and session.used_at < spare_at]
        if not spare:
            raise RefusalError(503, [("Retry-After", "10")], event="too many sessions")
        min(spare, key=lambda session: session.used_at).end()

    async def _run(self, session: WebSession, place: WebPlace) -> None:
        """Run a session; the guard of what is wrong with it alone."""
        try:
            await session.run(place.door, place.max_answer_bytes)
        except Exception as error:  # noqa: BLE001  # guard: one client's session
            self._log.incident("session failed", error)
        finally:
            del self._sessions[session.key]
            for caller in [caller for caller, each in self._stateless.items() if each is session]:
                del self._stateless[caller]
