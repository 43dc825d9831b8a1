"""The client's first root as the session's workspace, where the profile admits one that the agent names.

It is asked for when the handshake is done, or when the first request comes, and what waits for the session waits for
that too.
"""

from functools import partial
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Raw

from tooldispatchd.mcpface.alarms import Alarms
from tooldispatchd.mcpface.clientside import ClientSide
from tooldispatchd.mcpface.daemonside import DaemonSide, Phase
from tooldispatchd.mcpface.jsonrpc import UNREADABLE

# An editor knows its roots; a client that has to ask somebody keeps its calls waiting.
ROOTS_S: Final = 2.0
_KEY: Final = "roots"


class _Root(msgspec.Struct):
    uri: str = ""


class _Roots(msgspec.Struct):
    roots: list[_Root] = []


def root_path(result: Raw | None) -> str | None:
    """The path of the first root that is a file's; None without one."""
    try:
        roots = [] if result is None else msgspec.json.decode(result, type=_Roots).roots
        parts = [urlsplit(root.uri) for root in roots]
    except (*UNREADABLE, ValueError):
        return None
    path = next((unquote(one.path) for one in parts if one.scheme == "file"), "")
    return path if path.startswith("/") and "\0" not in path else None


class Roots:
    """Asks once for the roots, and opens the session anew in the first of them."""

    def __init__(self, client: ClientSide, daemon: DaemonSide, alarms: Alarms) -> None:
        self._client = client
        self._daemon = daemon
        self._alarms = alarms
        self._is_asked = False

    def hold(self) -> None:
        """Keep what waits for the session waiting, if roots are to be asked for. To be said before it opens."""
        self._daemon.is_held = self._client.offer.roots is not None
        self._is_asked = False

    def start(self) -> None:
        """Ask for them, now that the client may be asked."""
        if self._daemon.is_held and not self._is_asked:
            self._is_asked = True
            self._daemon.when_settled(self._ask)

    def _ask(self) -> None:
        if self._daemon.phase is not Phase.OPEN or self._daemon.capabilities.get("workspace") is not True:
            self._release()
            return
        self._alarms.after(ROOTS_S, partial(self._client.withdraw, _KEY))
        self._client.ask(_KEY, "roots/list", msgspec.UNSET, None, self._heard)

    def _heard(self, result: Raw | None) -> None:
        path = root_path(result)
        if path is None:
            self._release()
            return
        self._daemon.reopen(path)
        self._daemon.when_settled(self._reopened)

    def _reopened(self) -> None:
        if self._daemon.phase is Phase.REFUSED:
            # Not a directory, or not an admitted one: then as it was without.
            self._daemon.reopen(None)
        self._daemon.when_settled(self._release)

    def _release(self) -> None:
        self._daemon.is_held = False
        self._daemon.flush()
