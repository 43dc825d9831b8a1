"""What servers are called here whose names in other clients' files no binding can have (`My Server`, `@scope/name`)."""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from tooldispatchd.catalog.speckinds import BINDING_PATTERN
from tooldispatchd.config.foreign_servers import WAYS

MAX_BINDING: Final = 32
# 40 bits: of a thousand servers two agree once in two million configurations.
_HASH_LENGTH: Final = 8
_REJECTED: Final = re.compile(r"[^A-Za-z0-9._-]+")


class ServerNames:
    """The names of all servers of a configuration: which binding each is, whatever the order of files and servers.

    A name that a binding may have is its own. Any other is mended (`My Server` is `My-Server`), and ends in a hash
    where nothing legible is left of it, where another would be the same, and where that is another's own name.
    """

    def __init__(self, tables: Mapping[str, object]) -> None:
        # A table without either completes a server of its name, which may be a mended one.
        whole = {name: table for name, table in tables.items() if isinstance(table, dict) and table.keys() & set(WAYS)}
        self._own: set[str] = set(map(str, whole))
        self._mended: dict[str, set[str]] = {}

    def add(self, names: Iterable[str]) -> None:
        """Know the names of a file."""
        for name in names:
            if is_binding(name):
                self._own.add(name)
            else:
                self._mended.setdefault(_mended(name), set()).add(name)

    def binding_of(self, name: str) -> str:
        """Name the binding of a server that was added."""
        mended = _mended(name)
        if is_binding(name) or (mended and mended not in self._own and len(self._mended[mended]) == 1):
            return name if is_binding(name) else mended
        digest = base64.b32encode(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()).decode().lower()
        return f"{mended[: MAX_BINDING - 1 - _HASH_LENGTH] or 'server'}-{digest[:_HASH_LENGTH]}"


def is_binding(name: str) -> bool:
    """Tell whether a binding may have this name."""
    return re.fullmatch(BINDING_PATTERN, name) is not None


def _mended(name: str) -> str:
    """Make the nearest name that a binding may have; empty where nothing is left."""
    return _REJECTED.sub("-", name).strip("-._")[:MAX_BINDING]
