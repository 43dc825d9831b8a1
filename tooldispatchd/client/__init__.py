"""The clients for agents, blocking (`blocking`) and for trio (`concurrent`). A wing: it imports `wire` alone.

    blocking ─▶ waiting ─▶ duplex            bytes over descriptors, with poll
       └──────────┴─▶ conversation           which answer belongs to which request; no I/O
    concurrent ─▶ exchange ─▲                bytes over a trio stream

The daemon imports none of it. Commands and `runner` use `reach` and `duplex`, which need the standard library alone.
The blocking client's names can be imported from here; each is loaded on first use, so that importing `reach` does not
import msgspec.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tooldispatchd.client.blocking import Agent, Client, connect, inherit
    from tooldispatchd.client.conversation import Call, Refusal, Verdict
    from tooldispatchd.client.errors import ClientError, FaultError

__all__ = ["Agent", "Call", "Client", "ClientError", "FaultError", "Refusal", "Verdict", "connect", "inherit"]

_HOMES: Final = {
    "blocking": ("Agent", "Client", "connect", "inherit"),
    "conversation": ("Call", "Refusal", "Verdict"),
    "errors": ("ClientError", "FaultError"),
}


def __getattr__(name: str) -> object:
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found
