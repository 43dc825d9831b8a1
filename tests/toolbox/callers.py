"""A caller of the toolbox's functions: it sees what is shown while a call runs, and can give it up."""

import json
import select
import socket
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from tooldispatchd.forked.python.context import ToolContext
from tooldispatchd.forked.python.frames import FrameKind
from tooldispatchd.providers.python.tool import CallHeader


def inventory(place: Path) -> dict[str, bytes | None]:
    """What lies below a directory: the content of each file, None for all else."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(place.rglob("*"))}


class Caller:
    """A `context.Teller` on a real socket, for any number of calls one after the other."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self.shown: list[str] = []

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._ours.close()
        self._theirs.close()

    def ctx(
        self, *, state: dict[str, Any] | None = None, left_s: float | None = None, **options: object
    ) -> ToolContext:
        """The context of a call."""
        header = msgspec.to_builtins(CallHeader(id="c1", left_s=left_s, updates=True))
        return ToolContext(header | {"state": state, "options": options}, self)

    def cancel(self) -> None:
        """Give the call up."""
        self._ours.sendall(b"x")

    def tell(self, kind: FrameKind, payload: bytes) -> None:
        self.shown.append(json.loads(payload)["content"])
        if self.shown[-1] == "cancel me\n":
            self.cancel()

    def is_cancelled(self) -> bool:
        return bool(select.select([self._theirs], [], [], 0)[0])

    def fileno(self) -> int:
        return self._theirs.fileno()
