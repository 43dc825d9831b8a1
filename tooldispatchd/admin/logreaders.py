"""Administrators who read the log as it is written, each what it asked for and as fast as it reads.

    a line is logged, in any thread ─▶ LogSubscription: a bounded queue ─▶ its task ─▶ the channel

One that does not read keeps nothing waiting: lines that it has no room for are dropped, and counted in its next one.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from threading import Lock
from typing import Final

import trio
from msgspec import Raw

from tooldispatchd.admin.acts import level_fault
from tooldispatchd.agent.faults import queue_full
from tooldispatchd.agent.session.administration import NO_ADMINISTRATOR, AdminChannel, AdministeredLog
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.messages import AdminNote, AdminReq

# What a busy second logs at debug, for a reader that is only slow; the last line may be over it.
MAX_QUEUED: Final = 1_000
MAX_QUEUED_BYTES: Final = 256 * 1024
# Between two looks whether a reader has read.
LOOK_S: Final = 0.05
# Between two looks whether a reader whose lines are rare still has its right.
RIGHT_S: Final = 10.0
# No person notices it, and the lines of a busy moment leave in one write.
GATHER_S: Final = 0.02
# So many lines leave in one go.
BATCH: Final = 100
# Of all channels; each costs a line of its own for each line that it reads.
MAX_SUBSCRIPTIONS: Final = 64


class LogReaders:
    """All who read one log. Each time that there is one more or less, `tell_sessions` is to be called."""

    def __init__(self, log: AdministeredLog, tell_sessions: Callable[[], Awaitable[None]]) -> None:
        self.log: Final = log
        self.tell_sessions: Final = tell_sessions
        self.reading: Final[set[LogSubscription]] = set()

    async def open(self, asked: AdminReq, channel: AdminChannel) -> "LogSubscription | Fault":
        """Open the subscription that is asked for, which is to be run; or say why there is none."""
        level = asked.level or "info"
        fault = level_fault(level)
        if fault is not None:
            return fault
        if len(self.reading) >= MAX_SUBSCRIPTIONS:
            return queue_full("admin")
        if channel.is_closed or not channel.may_administer:
            # The right has ended since it was asked for, and with it what was subscribed to.
            return NO_ADMINISTRATOR
        subscription = LogSubscription(self, asked, channel, level)
        self.reading.add(subscription)
        self.log.attach(subscription)
        try:
            # Each call that comes after the answer is told.
            await self.tell_sessions()
        except BaseException:
            subscription.end()
            raise
        return subscription


class LogSubscription:
    """The `LogReader` that one line of an administrator asked for."""

    def __init__(self, readers: LogReaders, asked: AdminReq, channel: AdminChannel, level: str) -> None:
        self.level = level
        self._id = asked.id
        self._readers = readers
        filters = {"session": asked.session, "agent": asked.agent, "tool": asked.tool, "server": asked.server}
        self._filters: Final = {name: value for name, value in filters.items() if value is not None}
        self._channel = channel
        # Of the three that follow, which threads change at the same time.
        self._lock: Final = Lock()
        self._queued: Final[deque[bytes]] = deque()
        self._queued_bytes = 0
        self._dropped = 0
        self._token: Final = trio.lowlevel.current_trio_token()
        self._arrived = trio.Event()
        self._scope: Final = trio.CancelScope()

    # --- the log's side, in any thread ---

    def has_room_for(self, fields: Mapping[str, object]) -> bool:
        """Tell whether a line with these fields is wanted and can be taken; one that is and cannot be is counted."""
        if any(fields.get(name) != value for name, value in self._filters.items()):
            return False
        with self._lock:
            if len(self._queued) < MAX_QUEUED and self._queued_bytes < MAX_QUEUED_BYTES:
                return True
            self._dropped += 1
            return False

    def take(self, line: bytes) -> None:
        """One line, an object in JSON."""
        with self._lock:
            is_first = not self._queued
            self._queued.append(line)
            self._queued_bytes += len(line)
        # Behind others it is sent with them: waking the reader is dearer than a line. And the loop may have ended: then
        # nobody reads any more.
        with suppress(trio.RunFinishedError):
            if is_first:
                self._token.run_sync_soon(self._wake, idempotent=True)

    def _wake(self) -> None:
        self._arrived.set()

    # --- the reader's side ---

    @property
    def is_behind(self) -> bool:
        """Whether lines are left to be sent."""
        return bool(self._queued)

    async def run(self) -> None:
        """Send what comes, until it is ended, or the latest configuration has taken the right away."""
        try:
            with self._scope:
                while self._channel.may_administer:
                    with trio.move_on_after(RIGHT_S):
                        await self._arrived.wait()
                    self._arrived = trio.Event()
                    await trio.sleep(GATHER_S)
                    await self._send_queued()
                    # The daemon may end, and have waited for the last of these.
                    self._channel.answered()
        finally:
            self.end()
        await self._readers.tell_sessions()

    async def _send_queued(self) -> None:
        while self._queued and self._channel.may_administer:
            if self._channel.is_behind or self._channel.crowding(0) is not None:
                await trio.sleep(LOOK_S)
            else:
                self._send()
                await trio.lowlevel.checkpoint()

    def _send(self) -> None:
        for _ in range(min(BATCH, len(self._queued))):
            with self._lock:
                line, dropped = self._queued.popleft(), self._dropped or None
                self._queued_bytes -= len(line)
                self._dropped = 0
            self._channel.say(AdminNote(self._id, Raw(line), dropped))
        self._channel.flush()

    def end(self) -> None:
        """Send nothing more. Idempotent."""
        self._readers.reading.discard(self)
        self._readers.log.detach(self)
        self._scope.cancel()
        with self._lock:
            self._queued.clear()
            self._queued_bytes = 0
