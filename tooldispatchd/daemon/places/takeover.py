"""Take over the places of the daemon that runs: as an administrator of it, over its first Unix socket.

    reach ─▶ hello, where a profile administers ─▶ take_over ─▶ names of its places; all others are opened meanwhile
    take  ─▶ take_over, apply ─▶ their descriptors: from now on it accepts nobody, and serves those that it has
    close ─▶ it ends when they have, or after its grace

Nothing has changed before `take`, which comes when all else is there: should the new daemon fail after it, nobody
listens any more.
"""

import os
import socket
from array import array
from collections.abc import Sequence
from typing import Final, NoReturn

import msgspec
import trio

from tooldispatchd.agent.session.administration import ROOT_UID
from tooldispatchd.config.listen_values import ListenAddress, ListenKind
from tooldispatchd.daemon.places.doors import peer_of
from tooldispatchd.daemon.places.inheritance import Inheritance, names_of
from tooldispatchd.daemon.places.listeners import ListenError

# It answers in milliseconds, but a session of a profile with servers may open slowly.
ANSWER_S: Final = 30.0
# `ready` has what a profile's tools take; a list of some thousands is a tenth of it.
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
READ_BYTES: Final = 64 * 1024
# What the kernel passes at once (net/scm.h, SCM_MAX_FD).
MAX_DESCRIPTORS: Final = 253
TOKEN: Final = "TOOLDISPATCHD_TOKEN"  # noqa: S105  # the variable's name


class Predecessor:
    """The daemon that runs, on a channel of ours; `names` are those of the places that it has."""

    def __init__(self, where: str, channel: socket.socket) -> None:
        self.names: frozenset[str] = frozenset()
        self._where = where
        self._channel = trio.socket.from_stdlib_socket(channel)
        self._asked = 0
        self._input = bytearray()
        self._fds: list[int] = []

    def has(self, place: ListenAddress) -> bool:
        """Whether it listens there."""
        return names_of(place)[0] in self.names

    async def greet(self, profile: str) -> None:
        """Open a session of the profile, where one is named, and learn the names. Raises `ListenError`."""
        if profile:
            hello = {"__port": "hello", "profile": profile, "token": os.environ.get(TOKEN)}
            await self._say({name: value for name, value in hello.items() if value is not None})
        self.names = frozenset(await self._ask(applies=False))

    async def take(self) -> Inheritance:
        """The sockets and locks of its places; it has let go of them. Raises `ListenError`."""
        names = await self._ask(applies=True)
        fds, self._fds = self._fds, []
        inheritance = Inheritance(list(zip(fds, names, strict=False)))
        if len(fds) != len(names):
            inheritance.close()
            self.refuse(f"it named {len(names)} descriptors and passed {len(fds)}")
        return inheritance

    def close(self) -> None:
        """Say that it is not needed any more. Idempotent."""
        self._channel.close()
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()

    async def _ask(self, *, applies: bool) -> list[str]:
        self._asked += 1
        asked_id, names = str(self._asked), None
        with trio.move_on_after(ANSWER_S):
            await self._say({"__port": "admin_req", "id": asked_id, "ask": "take_over", "apply": applies})
            while names is None:
                line = self._read(await self._hear())
                if line.port == "fault":
                    self.refuse(f"{line.error}: {line.detail}")
                if line.port == "admin_resp" and line.id == asked_id and line.value is not None:
                    names = line.value.names
        if names is None:
            self.refuse(f"it did not answer within {ANSWER_S:g} s")
        return names

    def _read(self, line: bytes) -> "_Line":
        try:
            return msgspec.json.decode(line, type=_Line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.refuse("it says what no daemon says")

    async def _say(self, line: dict[str, object]) -> None:
        left = memoryview(msgspec.json.encode(line) + b"\n")
        try:
            while left:
                left = left[await self._channel.send(left) :]
        except OSError as error:
            self.refuse(error.strerror or str(error))

    async def _hear(self) -> bytes:
        """The next line; descriptors that come with it are kept."""
        while (end := self._input.find(b"\n")) < 0:
            if len(self._input) > MAX_LINE_BYTES:
                self.refuse("it sent a line that is too long")
            try:
                chunk = await self._receive()
            except OSError as error:
                self.refuse(error.strerror or str(error))
            if not chunk:
                self.refuse("it has ended")
            self._input += chunk
        line = bytes(self._input[:end])
        del self._input[: end + 1]
        return line

    async def _receive(self) -> bytes:
        room = socket.CMSG_SPACE(MAX_DESCRIPTORS * array("i").itemsize)
        chunk, rights, _flags, _address = await self._channel.recvmsg(READ_BYTES, room, socket.MSG_CMSG_CLOEXEC)
        for level, kind, passed in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds = array("i")
                fds.frombytes(passed[: len(passed) - len(passed) % fds.itemsize])
                self._fds += fds
        return chunk

    def refuse(self, why: str) -> NoReturn:
        """Raise `ListenError`."""
        raise ListenError(self._where, f"the daemon there does not hand it over: {why}")


async def reach(places: Sequence[ListenAddress], profile: str) -> Predecessor | None:
    """The daemon that listens on the first Unix socket of the places, or None. Raises `ListenError`.

    With a `profile` it is asked in a session of that, whose token $TOOLDISPATCHD_TOKEN is.
    """
    place = next((each for each in places if each.kind in {ListenKind.UNIX, ListenKind.ABSTRACT}), None)
    if place is None:
        raise ListenError("the places of the daemon that runs", "there is no Unix socket among them to ask it")
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    predecessor = None
    try:
        channel.settimeout(ANSWER_S)
        channel.connect(place.name if place.kind is ListenKind.UNIX else b"\0" + os.fsencode(place.name))
        predecessor = Predecessor(place.text, channel)
        # Nothing is taken from anybody but those who may rule the daemon.
        if peer_of(channel).uid not in {os.geteuid(), ROOT_UID}:
            predecessor.refuse("it is another user's")
        await predecessor.greet(profile)
    except (FileNotFoundError, ConnectionRefusedError):
        channel.close()
        return None
    except OSError as error:
        (predecessor or channel).close()
        raise ListenError(place.text, error.strerror or str(error)) from error
    except BaseException:
        (predecessor or channel).close()
        raise
    return predecessor


class _Taken(msgspec.Struct):
    names: list[str]


class _Line(msgspec.Struct):
    port: str = msgspec.field(name="__port")
    id: str | None = None
    error: str = ""
    detail: str = ""
    value: _Taken | None = None
