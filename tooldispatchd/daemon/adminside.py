"""The door to the wing that answers administrators: it is loaded with their first line, and costs nothing before."""

from collections.abc import Callable
from typing import Final

from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.administration import AdminChannel, AdminSide, RunningDaemon
from tooldispatchd.wire.messages import AdminReq


class AdminDoor:
    """The `AdminSide` of a daemon, from its first line on."""

    def __init__(self, daemon: RunningDaemon, latest: Callable[[], Runtime]) -> None:
        self._daemon: Final = daemon
        self._latest: Final = latest
        self._side: AdminSide | None = None

    def take(self, asked: AdminReq, channel: AdminChannel, *, line: int) -> None:
        """Answer a line of a channel that may administer the daemon, now or later."""
        if self._side is None:
            # Few daemons are ever asked.
            from tooldispatchd.admin.administration import Administration  # noqa: PLC0415  # as above

            self._side = Administration(self._daemon, self._latest)
        self._side.take(asked, channel, line=line)

    def owes(self, channel: AdminChannel) -> bool:
        """Whether a line of the channel is not answered yet."""
        return self._side is not None and self._side.owes(channel)

    def dismiss(self, channel: AdminChannel) -> None:
        """End the subscriptions of a channel that is no administrator's any more; what it asked for is answered."""
        if self._side is not None:
            self._side.dismiss(channel)

    def forget(self, channel: AdminChannel) -> None:
        """The channel is no more."""
        if self._side is not None:
            self._side.forget(channel)
