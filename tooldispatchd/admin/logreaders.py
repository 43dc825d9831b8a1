"""Administrators who read the log as it is written, each what it asked for and as fast as it reads.

    a line is logged, in any thread ─▶ LogSubscription: a bounded queue ─▶ its task ─▶ the channel

One that does not read keeps nothing waiting: lines that it has no room for are dropped, and counted in its next one.
"""

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import trio
from msgspec import Raw

from tooldispatchd.agent.session.administration import AdminChannel
from tooldispatchd.wire.messages import AdminNote, AdminReq

# Some 256 KiB: what a busy second logs at debug, for a reader that is only slow.
MAX_QUEUED: Final = 1_000
# Between two looks whether a reader has read.
LOOK_S: Final = 0.05
# So many lines leave in one go.
BATCH: Final = 100


class LogSubscription:
    """The `LogReader` that one line of an administrator asked for."""

    def __init__(self, asked: AdminReq, channel: AdminChannel, level: str) -> None:
        self.id: Final = asked.id
        self.level = level
        filters = {"session": asked.session, "agent": asked.agent, "tool": asked.tool, "server": asked.server}
        self._filters: Final = {name: value for name, value in filters.items() if value is not None}
        self._channel = channel
        self._queued: Final[deque[bytes]] = deque()
        self._dropped = 0
        self._token: Final = trio.lowlevel.current_trio_token()
        self._arrived = trio.Event()
        self._scope: Final = trio.CancelScope()

    # --- the log's side, in any thread ---

    def has_room_for(self, fields: Mapping[str, object]) -> bool:
        """Whether a line with these fields is wanted, and can be taken; one that is and cannot be is counted."""
        if any(fields.get(name) != value for name, value in self._filters.items()):
            return False
        if len(self._queued) < MAX_QUEUED:
            return True
        self._dropped += 1
        return False

    def take(self, line: bytes) -> None:
        """One line, an object in JSON."""
        self._queued.append(line)
        # The loop may have ended: then nobody reads any more.
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._wake, idempotent=True)

    def _wake(self) -> None:
        self._arrived.set()

    # --- the reader's side ---

    async def run(self) -> None:
        """Send what comes, until it is ended."""
        with self._scope:
            while True:
                await self._arrived.wait()
                self._arrived = trio.Event()
                while self._queued:
                    if not self._channel.may_administer:
                        # The latest configuration may have taken the right away.
                        return
                    if self._channel.is_behind or self._channel.crowding(0) is not None:
                        await trio.sleep(LOOK_S)
                    else:
                        self._send()
                        await trio.lowlevel.checkpoint()

    def _send(self) -> None:
        for _ in range(min(BATCH, len(self._queued))):
            dropped, self._dropped = self._dropped or None, 0
            self._channel.say(AdminNote(self.id, Raw(self._queued.popleft()), dropped))
        self._channel.flush()

    def end(self) -> None:
        """Send nothing more."""
        self._scope.cancel()
        self._queued.clear()
