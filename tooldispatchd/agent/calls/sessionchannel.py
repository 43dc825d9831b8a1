"""What is around calls, as they use it: the channel, the other calls, whoever hears of them, what filters updates."""

from collections.abc import Hashable
from enum import Enum
from typing import Final, Protocol

from tooldispatchd.agent.session.entrance import Visitor
from tooldispatchd.calls.jobs import Job, Jobs
from tooldispatchd.calls.memory import Share
from tooldispatchd.calls.outcome import Update
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.session import SessionMachine


class Lookup(Enum):
    """The answer of `find` where there is neither a plan nor a fault yet."""

    HOLD = "the server that may offer it is still starting"


HOLD: Final = Lookup.HOLD


class Hearer(Protocol):
    """`Events` of a session, as its calls and breakers report to it."""

    def tool_started(self, names: dict[str, object], tool: str, *, provider: str, queued_s: float) -> None: ...
    def breaker_moved(self, of: dict[str, object], *, is_open: bool) -> None: ...


class SessionChannel(Protocol):
    """`ChannelHost`, as a session uses it."""

    share: Share
    """Its share of the daemon's memory."""

    def crowding(self, size: int) -> Fault | None: ...
    def fit(self, content: str) -> str | Fault: ...

    gate_key: Hashable
    """The channel's key at gates: one for all channels of a foreign user, and for all agents below one agent."""

    visitor: Visitor
    """The process at its other end."""

    @property
    def may_administer(self) -> bool: ...
    def has_answered(self, size: int) -> None: ...
    @property
    def is_behind(self) -> bool: ...
    def flush(self) -> None: ...
    def hold(self) -> None: ...
    def release(self) -> None: ...
    def closed(self, agent: str | None) -> None: ...


class SessionCalls(Protocol):
    """`InFlight`, as the tools for jobs use it."""

    @property
    def machine(self) -> SessionMachine: ...
    @property
    def jobs(self) -> Jobs: ...
    def cancel(self, key: str | Job) -> None: ...


class UpdateFilter(Protocol):
    """What the updates of one call go through."""

    def take(self, update: Update) -> None: ...
    def close(self) -> None:
        """The call has ended."""
