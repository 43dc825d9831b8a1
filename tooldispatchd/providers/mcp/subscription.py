"""Changes of the tools, told on a request that stays open (MCP 2026-07-28, "Subscriptions").

A subscription that ends (a proxy that cuts what is idle, a server that is renewed) is made again after the waits of
`SUBSCRIBE_AGAIN_S`, and once it stands the tools are listed again, as changes may have been missed. One that is refused
is not made again.
"""

import math
from collections.abc import Callable
from typing import Final

from tooldispatchd.providers.mcp.answers import PendingRequest
from tooldispatchd.providers.mcp.messages import Incoming, error_in
from tooldispatchd.wire.faults import Fault

# Between the end of a subscription and the next try. A server that is restarted is back in seconds; asking anew costs a
# request and a list of tools.
SUBSCRIBE_AGAIN_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
# One that lived for so long begins the row anew: proxies cut what is idle after a minute or so.
STEADY_S: Final = 50.0
# A server that is not there, or refuses, shows it within milliseconds. What is open for so long stands.
STANDS_S: Final = 0.5


class Subscription:
    """The subscription of one connection: `subscribe` makes the request, `list_again` has the tools listed."""

    __slots__ = ("_began", "_due", "_ends", "_list_again", "_open", "_subscribe")

    def __init__(self, subscribe: Callable[[], PendingRequest], list_again: Callable[[], None]) -> None:
        self._subscribe = subscribe
        self._list_again = list_again
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
                self._open = self._subscribe()
            else:
                # Listed after the subscription stands: a change in between is told, and not lost.
                self._due = math.inf
                self._list_again()
        return self._due

    def _next_wait_s(self, now: float) -> float:
        self._ends = 1 if now - self._began >= STEADY_S else self._ends + 1
        return SUBSCRIBE_AGAIN_S[min(self._ends, len(SUBSCRIBE_AGAIN_S)) - 1]


def _is_refusal(reply: Incoming | Fault) -> bool:
    """Whether it makes no sense to ask again: an error, or a status of HTTP that says no."""
    if isinstance(reply, Fault):
        status = reply.extras.get("http_status")
        return isinstance(status, int) and status // 100 == 4 and status not in {408, 429}
    return error_in(reply) is not None
