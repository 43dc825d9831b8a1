"""The right to administer the daemon, and the interfaces between it and what shows and changes it.

    admin line ─▶ ChannelHost: may this channel? ─▶ AdminSide, which is loaded with the first line that is let in
                        └─ no ─▶ one and the same fault

An *administrator* is a channel with an open session of a profile with `admin = true`; where no profile has that, the
daemon's own user, or root, at a socket that it listens on. An agent that another one called never is, nor, without such
a profile, any process below the daemon: a tool must not rule what runs it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

import msgspec

from tooldispatchd.agent.session.entrance import Visitor
from tooldispatchd.children.ancestry import is_descendant
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import AdminReq, Outgoing

# It tells nothing of what was asked for.
NO_ADMINISTRATOR: Final = Fault(Code.NOT_ALLOWED, "this channel does not administer the daemon")
ROOT_UID: Final = 0
# The levels of the log, by how much they weigh.
LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Offer(msgspec.Struct, frozen=True):
    """Descriptors to be passed on, each with its name; `passed` must be called in the moment in which they were."""

    handed: Sequence[tuple[int, str]]
    passed: Callable[[], None]


class AdminChannel(Protocol):
    """`ChannelHost`, as what answers an administrator uses it."""

    @property
    def visitor(self) -> Visitor: ...
    @property
    def may_administer(self) -> bool: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def is_behind(self) -> bool: ...
    @property
    def administrators(self) -> tuple[str, ...]:
        """The profiles of its sessions that make it an administrator's."""

    def crowding(self, size: int) -> Fault | None: ...
    def say(self, line: Outgoing) -> None:
        """Send a line, with the next flush."""

    def hand(self, line: bytes, fds: Sequence[int]) -> bool:
        """Send a line with descriptors, now; whether that could be done."""

    def refuse(self, asked: AdminReq, fault: Fault, *, line: int) -> None: ...
    def flush(self) -> None: ...
    def answered(self) -> None:
        """Send the answer to the last line that was owed one; the channel may have waited for that."""


@runtime_checkable
class AdminSubscription(Protocol):
    """Something that an administrator hears more of after its answer."""

    async def run(self) -> None:
        """Tell it, until it is ended or its channel loses the right to it."""

    @property
    def is_behind(self) -> bool:
        """Whether something is left to be sent; when nothing is any more, the channel has `answered`."""

    def end(self) -> None:
        """Tell nothing more. Idempotent."""


class AdminSide(Protocol):
    """The daemon's side that answers administrators."""

    def take(self, asked: AdminReq, channel: AdminChannel, *, line: int) -> None:
        """Answer a line of a channel that may administer the daemon, now or later."""

    def owes(self, channel: AdminChannel) -> bool:
        """Tell whether a line of the channel is not answered yet, or something of a subscription is left to be sent."""

    def dismiss(self, channel: AdminChannel) -> None:
        """End the subscriptions of a channel that is no administrator's any more; what it asked for is answered."""

    def forget(self, channel: AdminChannel) -> None:
        """The channel is no more."""


class LogReader(Protocol):
    """A reader of the log beside its sink. Both methods may be called in any thread, and neither waits."""

    level: str

    def has_room_for(self, fields: Mapping[str, object]) -> bool:
        """Tell whether a line with these fields is wanted and can be taken; one that is and cannot be is counted."""

    def take(self, line: bytes) -> None:
        """One line, an object in JSON."""


class AdministeredLog(Protocol):
    """The `LogOutput` of the daemon."""

    @property
    def level(self) -> str: ...
    def set_level(self, level: str) -> None: ...
    def attach(self, reader: LogReader) -> None: ...
    def detach(self, reader: LogReader) -> None: ...


class ReadConfiguration(msgspec.Struct, frozen=True):
    """The source of the latest generation, and when it was read, in seconds since 1970.

    `origin_of` says in which file and line what stands at a path was written; None where it was not.
    """

    path: str
    sha256: str
    loaded_at: float
    generation: int
    origin_of: Callable[[tuple[str | int, ...]], str | None]


# Reads the configuration anew, for open sessions too where the argument is true.
Reload = Callable[[bool], Awaitable[dict[str, object] | Fault]]


class CountedDaemon(Protocol):
    """`Daemon`, as far as its numbers go."""

    turned_away: int
    """Connections that were not served."""

    @property
    def channels(self) -> int: ...
    @property
    def lost_lines(self) -> int:
        """Of the log."""

    @property
    def turns_taken(self) -> int:
        """Steps of all tasks."""

    @property
    def longest_turn(self) -> tuple[float, str]:
        """Seconds of processor time, and the task's name."""


class RunningDaemon(CountedDaemon, Protocol):
    """`Daemon`, as it is shown and ended."""

    started_at: float
    """In seconds since 1970, as the machine's clock said then."""
    began: float
    """The same moment on the monotonic clock, which nobody sets."""
    drains_until: float | None
    """When what still runs is ended, on the monotonic clock; None unless it drains."""

    @property
    def listening(self) -> tuple[str, ...]: ...

    @property
    def is_stopping(self) -> bool: ...

    @property
    def log_output(self) -> AdministeredLog: ...
    def stop(self) -> None: ...
    def offer(self) -> Offer | Fault:
        """The descriptors that another daemon needs to take over its places; nothing has changed yet."""

    reload: Reload | None
    configuration: Callable[[], ReadConfiguration] | None


def is_owner(visitor: Visitor, *, own_uid: int) -> bool:
    """Tell whether it is the daemon's own user or root, at a listening socket, and known to be no process below it."""
    if visitor.accepted_at is None or visitor.pid is None or visitor.uid not in {own_uid, ROOT_UID}:
        return False
    return is_descendant(visitor.pid, seen_at=visitor.accepted_at) is False
