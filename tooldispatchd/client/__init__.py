"""What an agent or a command needs to talk to the daemon; stands on wire alone.

The blocking client's names can be imported from here (that for trio is `concurrent`). Each is looked up when it is
asked for: who imports one module of this package, as the quick commands do, must not pay for msgspec and all others.
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
