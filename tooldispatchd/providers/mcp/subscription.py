"""What a server tells unasked, on a request that stays open (MCP 2026-07-28, "Subscriptions").

Older revisions tell it on the connection itself, and have requests that this one has no more: `resources/subscribe` is
the request that is open made anew with another resource in it, `logging/setLevel` another `_meta` of all that follow.
Whoever asks for them is answered here, as a server of an older revision would.
"""

import math
from collections.abc import Callable
from typing import Final

import msgspec

from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.providers.mcp.answers import PendingCall, PendingRequest
from tooldispatchd.providers.mcp.greeting import Greeting
from tooldispatchd.providers.mcp.messages import INVALID_PARAMS, METHOD_NOT_FOUND, Incoming, error_in
from tooldispatchd.wire.faults import Fault

# Between the end of a subscription and the next try. A server that is restarted is back in seconds; asking anew costs a
# request and a list of tools.
SUBSCRIBE_AGAIN_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
# One that lived for so long begins the row anew: proxies cut what is idle after a minute or so.
STEADY_S: Final = 50.0
# A server that is not there, or refuses, shows it within milliseconds. What is open for so long stands.
STANDS_S: Final = 0.5
# All of them go into one request; an editor has as many files open.
MAX_RESOURCES: Final = 256
MAX_URI_CHARS: Final = 2048

SUBSCRIBE: Final = "resources/subscribe"
UNSUBSCRIBE: Final = "resources/unsubscribe"
SET_LEVEL: Final = "logging/setLevel"


class _Changing(msgspec.Struct, frozen=True):
    list_changed: bool = msgspec.field(default=False, name="listChanged")
    subscribe: bool = False


class _Besides(msgspec.Struct, frozen=True):
    """What a server says of what it has besides tools."""

    resources: _Changing = _Changing()
    prompts: _Changing = _Changing()
    logging: object = None


class _Level(msgspec.Struct, frozen=True):
    level: str


class _Resource(msgspec.Struct, frozen=True):
    uri: str


_decode_besides: Final = msgspec.json.Decoder(_Besides).decode
_decode_level: Final = msgspec.json.Decoder(_Level).decode
_decode_resource: Final = msgspec.json.Decoder(_Resource).decode
_encode: Final = msgspec.json.Encoder().encode


class Subscription:
    """Changes of the tools, and for an agent that `hears` them of resources and prompts.

    `listen` makes the request, `end` ends it when another has taken its place, `list_again` has the tools listed. One
    that ends (a proxy that cuts what is idle, a server that is renewed) is made again after the waits of
    `SUBSCRIBE_AGAIN_S`, and once it stands the tools are listed again, as changes may have been missed. One that is
    refused is made again without resources, and after that not until something else is wanted.
    """

    __slots__ = (
        "_began",
        "_due",
        "_end",
        "_ends",
        "_has",
        "_heard",
        "_hears",
        "_is_stale",
        "_list_again",
        "_listen",
        "_log_from",
        "_open",
        "_tools",
        "_uris",
    )

    def __init__(
        self,
        listen: Callable[[dict[str, object]], PendingRequest],
        end: Callable[[PendingRequest], None],
        list_again: Callable[[], None],
        *,
        greeting: Greeting,
        hears: Callable[[], bool],
        log_from: Callable[[str], None],
    ) -> None:
        self._listen = listen
        self._end = end
        self._list_again = list_again
        self._hears = hears
        self._log_from = log_from
        self._tools = greeting.tools_list_changed
        try:
            self._has = _decode_besides(greeting.capabilities)
        except msgspec.ValidationError:
            self._has = _Besides()
        self._heard = hears()
        self._uris: dict[str, None] = {}
        self._is_stale = False
        self._open: PendingRequest | None = None
        self._due = self._began = -math.inf
        # In a row, since one lived for long.
        self._ends = 0

    def take(self, call: PendingCall) -> Outcome | None:
        """The answer to a request that this revision has no more; None for any other."""
        method = call.tool.method
        if method not in {SUBSCRIBE, UNSUBSCRIBE, SET_LEVEL}:
            return None
        offers = self._has.logging is not None if method == SET_LEVEL else self._has.resources.subscribe
        if not offers:
            return _error(METHOD_NOT_FOUND, "Method not found")
        # The plan has looked at the one member that each of them has, and at no other that somebody may add.
        if method == SET_LEVEL:
            self._log_from(_decode_level(call.arguments).level)
            return Answer("{}")
        uri = _decode_resource(call.arguments).uri
        if method == UNSUBSCRIBE:
            self._is_stale = self._is_stale or uri in self._uris
            self._uris.pop(uri, None)
        elif len(uri) > MAX_URI_CHARS:
            return _error(INVALID_PARAMS, f"A URI of more than {MAX_URI_CHARS} characters")
        elif uri not in self._uris:
            if len(self._uris) >= MAX_RESOURCES:
                return _error(INVALID_PARAMS, f"More than {MAX_RESOURCES} subscriptions to resources")
            self._uris[uri] = None
            self._is_stale = True
        return Answer("{}")

    def look(self, now: float) -> float:
        """Subscribe where that is due at `now`, see whether the subscription has ended, and say when to look again.

        In trio's time; infinite while it is open and nothing was missed.
        """
        before: PendingRequest | None = None
        if self._is_stale or self._heard is not self._hears():
            self._is_stale, self._heard = False, self._hears()
            before, self._open, self._due = self._open, None, now
        reply = None if self._open is None else self._open.reply
        if reply is not None:
            self._open = None
            self._ends = 1 if now - self._began >= STEADY_S else self._ends + 1
            again_s = SUBSCRIBE_AGAIN_S[min(self._ends, len(SUBSCRIBE_AGAIN_S)) - 1]
            self._due = now + again_s
            if _is_refusal(reply):
                # It may be one of the resources that is refused, and changes of the lists are still to be told.
                self._due = now if self._uris else math.inf
                self._uris.clear()
        if now >= self._due:
            if self._open is None:
                wanted = self._wanted()
                # What the first one could have missed, the handshake has listed.
                self._due = now + STANDS_S if self._ends and wanted else math.inf
                self._began = now
                self._open = self._listen(wanted) if wanted else None
            else:
                # Listed after the subscription stands: a change in between is told, and not lost.
                self._due = math.inf
                self._list_again()
        if before is not None:
            # Only now: nothing is missed between the two.
            self._end(before)
        return self._due

    def _wanted(self) -> dict[str, object]:
        heard, has = self._heard, self._has
        wanted: dict[str, object] = {"toolsListChanged": True} if self._tools else {}
        if heard and has.prompts.list_changed:
            wanted["promptsListChanged"] = True
        if heard and has.resources.list_changed:
            wanted["resourcesListChanged"] = True
        if heard and self._uris:
            wanted["resourceSubscriptions"] = list(self._uris)
        return wanted


def _error(code: int, message: str) -> Answer:
    return Answer(_encode({"code": code, "message": message}).decode(), is_error=True)


def _is_refusal(reply: Incoming | Fault) -> bool:
    """Whether it makes no sense to ask again: an error, or a status of HTTP that says no."""
    if isinstance(reply, Fault):
        status = reply.extras.get("http_status")
        return isinstance(status, int) and status // 100 == 4 and status not in {408, 429}
    return error_in(reply) is not None
