"""Keep names and instructions of servers in the state directory, for the first agent of the next daemon."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.catalog.statedirectory import find_state_directory
from tooldispatchd.privatefiles import replace_private
from tooldispatchd.providers.mcp.remembered import Introductions
from tooldispatchd.providers.mcp.server import ServerOffer

NAME: Final = "servers.json"
# Of all configurations of a user; the instructions of most are a page.
MAX_KEPT: Final = 256
MAX_BYTES: Final = 4 * 1024 * 1024
# The servers of a session answer within a second of each other, and are written once.
GATHER_S: Final = 1.0
# The daemon's end waits so long for a disk.
LAST_S: Final = 1.0


class _Said(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str | None = None
    instructions: str | None = None
    capabilities: dict[str, object] = {}


_decode: Final = msgspec.json.Decoder(dict[str, _Said]).decode


class IntroductionFile:
    """The file of one user's daemons, in `environ`'s directory; without one nothing is kept."""

    def __init__(self, introductions: Introductions, environ: Mapping[str, str]) -> None:
        state = find_state_directory(environ)
        self._path = None if state is None else Path(state) / NAME
        self._introductions = introductions
        self._changed = trio.Event()
        introductions.read({key: _offer(said) for key, said in self._read().items()})
        introductions.changed = self._note

    def _note(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Write what is new; runs until cancelled."""
        while self._path is not None:
            await self._changed.wait()
            await trio.sleep(GATHER_S)
            await self.write()

    async def write(self) -> None:
        """Write what is new. May be cancelled, and then goes on by itself."""
        if self._path is not None and self._changed.is_set():
            self._changed = trio.Event()
            await trio.to_thread.run_sync(self._write, self._introductions.written(), abandon_on_cancel=True)

    def _read(self) -> dict[str, _Said]:
        # It only saves a wait: one that cannot be read is written anew.
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if self._path is not None:
                with os.fdopen(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), "rb") as file:
                    return _decode(file.read(MAX_BYTES))
        return {}

    def _write(self, known: Mapping[str, ServerOffer]) -> None:
        assert self._path is not None
        # Those of other daemons stay.
        said = self._read()
        for key, offer in known.items():
            said.pop(key, None)
            said[key] = _Said(offer.said_name, offer.instructions, msgspec.json.decode(offer.capabilities))
        lines = list(said.items())[-MAX_KEPT:]
        while lines and len(written := msgspec.json.encode(dict(lines))) > MAX_BYTES:
            lines = lines[len(lines) // 2 + 1 :]
        with suppress(OSError):
            self._path.parent.mkdir(0o700, parents=True, exist_ok=True)
            replace_private(self._path, [written if lines else b"{}"])


def _offer(said: _Said) -> ServerOffer:
    capabilities = Raw(msgspec.json.encode(said.capabilities))
    return ServerOffer(said_name=said.name, instructions=said.instructions, capabilities=capabilities)
