"""What is told unasked: that lists have changed, that a resource has, and what servers log.

A client of a handshake hears it once that is done; one of the stateless revision under the `subscriptions/listen` that
asked for it.
"""

from functools import partial
from typing import Final

from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.mcpface.clientside import ClientRequest, ClientSide
from tooldispatchd.mcpface.daemonside import DaemonLine, DaemonSide
from tooldispatchd.mcpface.jsonrpc import UNAVAILABLE, UNREADABLE, WRONG_PARAMS
from tooldispatchd.mcpface.passing import Passing
from tooldispatchd.mcpface.revisions import SUBSCRIPTION, Wish, read_params

# One client needs one; each of a credential's clients over HTTP has its own.
MAX_LISTENS: Final = 64
MAX_SUBSCRIBED: Final = 256

_UPDATED: Final = "notifications/resources/updated"
# Told with their params: of a handshake alone, beside updates.
_WHOLE: Final = ("notifications/message", "notifications/elicitation/complete")
# By the field of `Wish` that asks for it.
_CHANGES: Final = {
    "notifications/tools/list_changed": "tools_list_changed",
    "notifications/prompts/list_changed": "prompts_list_changed",
    "notifications/resources/list_changed": "resources_list_changed",
}


class ClientNotes:
    """Tells the client what happened, where it wants to know."""

    def __init__(self, client: ClientSide, daemon: DaemonSide, passing: Passing) -> None:
        self.is_initialized = False
        """Whether the handshake is done."""
        self._is_owed = False
        self._client = client
        self._daemon = daemon
        self._passing = passing
        self._listens: dict[int, tuple[ClientRequest, Wish]] = {}
        daemon.listeners["tools_changed"] = self._tools_changed
        daemon.listeners["server_note"] = self._noted

    def listen(self, request: ClientRequest) -> None:
        """Serve `subscriptions/listen`: open until it is cancelled, or the daemon is lost."""
        wish = request.params.notifications
        if wish is None or len(wish.resource_subscriptions) > MAX_SUBSCRIBED:
            self._client.fail(
                request,
                WRONG_PARAMS,
                f"subscriptions/listen names notifications, of at most {MAX_SUBSCRIBED} resources",
            )
            return
        if len(self._listens) >= MAX_LISTENS:
            self._client.fail(request, UNAVAILABLE, f"more than {MAX_LISTENS} subscriptions are open")
            return
        honored = self._honored(wish)
        self._listens[request.number] = request, honored
        request.ended.append(partial(self._ended, request.number))
        for uri in honored.resource_subscriptions:
            self._passing.tell("resources/subscribe", self._passing.homes_of(uri))
        told = {"notifications": honored, "_meta": {SUBSCRIPTION: request.id}}
        self._client.notify("notifications/subscriptions/acknowledged", told, request)

    def initialized(self) -> None:
        """The handshake is done."""
        self.is_initialized = True
        if self._is_owed:
            self.tell_tools()

    def tell_tools(self) -> None:
        """Tell that the tools, or what is said of them, are others than the client was told, as soon as it can hear."""
        self._is_owed = not self.is_initialized
        self._tell("notifications/tools/list_changed", UNSET)

    def close(self) -> None:
        """End every subscription: nothing will be told any more."""
        for request, _ in list(self._listens.values()):
            self._client.answer(request, {}, {SUBSCRIPTION: request.id})

    def _honored(self, wish: Wish) -> Wish:
        has_resources, has_prompts = bool(self._passing.having("resources")), bool(self._passing.having("prompts"))
        return Wish(
            tools_list_changed=wish.tools_list_changed,
            prompts_list_changed=wish.prompts_list_changed and has_prompts,
            resources_list_changed=wish.resources_list_changed and has_resources,
            resource_subscriptions=wish.resource_subscriptions if has_resources else [],
        )

    def _ended(self, number: int) -> None:
        _, wish = self._listens.pop(number)
        kept = {uri for _, other in self._listens.values() for uri in other.resource_subscriptions}
        for uri in wish.resource_subscriptions:
            if uri not in kept:
                self._passing.tell("resources/unsubscribe", self._passing.homes_of(uri))

    def _tools_changed(self, line: DaemonLine) -> None:
        self._daemon.tools = line.tools
        self._tell("notifications/tools/list_changed", UNSET)

    def _noted(self, line: DaemonLine) -> None:
        method, has_params = line.method or "", line.method in (_UPDATED, *_WHOLE)
        if method == "notifications/resources/list_changed":
            self._passing.forget_homes()
        if method in _CHANGES or has_params:
            self._tell(method, line.params if has_params else UNSET)

    def _tell(self, method: str, params: Raw | UnsetType) -> None:
        if self.is_initialized:
            self._client.notify(method, params)
        if not self._listens:
            return
        about = {"uri": _uri_in(params)} if method == _UPDATED else {}
        for request, wish in list(self._listens.values()):
            is_wanted = getattr(wish, _CHANGES.get(method, ""), False)
            if is_wanted or about.get("uri") in wish.resource_subscriptions:
                self._client.notify(method, {"_meta": {SUBSCRIPTION: request.id}, **about}, request)


def _uri_in(params: Raw | UnsetType) -> str | None:
    try:
        return None if isinstance(params, UnsetType) else read_params(params).uri
    except UNREADABLE:
        return None
