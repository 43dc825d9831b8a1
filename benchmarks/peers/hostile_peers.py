"""Peers of one hostile kind, on so many channels, as fast as one process can; until stdin ends.

    hostile_peers.py SOCKET KIND CHANNELS

It prints a line "ready" when all of them have begun, and at the end how many bytes it sent. `KINDS` says what each
kind does. A peer that the daemon drops comes again.
"""

import os
import select
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
BLOCK_BYTES: Final = 256 * KIB
LINE_BYTES: Final = 8 * MIB
"""The longest line that is served."""
INPUT_BYTES: Final = 14 * MIB // 10
"""Of a value that is not large."""
NEVER: Final = float("inf")
SETTLED_S: Final = 0.3
LATE_S: Final = 1.0
REQUEST: Final = b'{"__port":"tool_req","id":"%b","name":"echo","input":"%b"}\n'
HELLO: Final = b'{"__port":"hello"}\n'


def request(call_id: bytes = b"1", text: bytes = b"hullo") -> bytes:
    """One call."""
    return REQUEST % (call_id, text)


def call(value: bytes, name: bytes = b"echo") -> bytes:
    """One call whose input is this JSON, or is none."""
    return b'{"__port":"tool_req","id":"1","name":"%b","input":%b}\n' % (name, value)


def rows(part: bytes, length: int = LINE_BYTES - KIB) -> bytes:
    """A list of as many `part`s as so many bytes hold."""
    return b"[" + (part + b",") * (length // (len(part) + 1) - 1) + part + b"]"


FLOOD: Final = b"".join(request(b"%d" % number) for number in range(1000))


class Peer:
    """One channel: it sends `flood` over and over, and reads `read_bytes` every `read_every_s` seconds."""

    def __init__(
        self, path: str, flood: bytes, *, first: bytes = b"", read_bytes: int = MIB, read_every_s: float = 0.0
    ) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.socket.setblocking(False)
        self.sent = 0
        self.begins_at = 0.0
        self._flood = flood
        self._left = memoryview(first + flood)
        self._read_bytes = read_bytes
        self._read_every_s = read_every_s
        self._read_at = time.monotonic() + read_every_s

    @property
    def interest(self) -> int:
        """A peer that reads at its own times is not told of what it could read; nor one that is done, of room."""
        sending = select.EPOLLOUT if self._left else 0
        return sending if self._read_every_s else sending | select.EPOLLIN

    def work(self, mask: int) -> None:
        """Send what the kernel takes, read what there is."""
        with suppress(BlockingIOError):
            if mask & select.EPOLLOUT:
                taken = self.socket.send(self._left[:BLOCK_BYTES])
                self.sent += taken
                self._left = self._left[taken:] or self.more()
        with suppress(BlockingIOError):
            # Where nothing is to be read, the end is told none the less.
            if mask & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                self.hear(self.socket.recv(self._read_bytes))

    def more(self) -> memoryview:
        """What to send when all is sent."""
        return memoryview(self._flood)

    def hear(self, heard: bytes) -> None:
        """Take what was read; raises `BrokenPipeError` at the end of the channel."""
        if not heard:
            raise BrokenPipeError

    def look(self, now: float) -> None:
        """Read where it is time to."""
        if self._read_every_s and now >= self._read_at:
            self._read_at = now + self._read_every_s
            with suppress(BlockingIOError):
                self.socket.recv(self._read_bytes)


class Asker(Peer):
    """It says `first`, and then `flood` over and over, but never before it has heard a line."""

    def __init__(self, path: str, flood: bytes, *, first: bytes) -> None:
        super().__init__(path, first or flood)
        self._asks = flood
        # With its first answer, or when that should have come.
        self.begins_at = NEVER if first else time.monotonic() + LATE_S

    def more(self) -> memoryview:
        """Nothing yet."""
        return memoryview(b"")

    def hear(self, heard: bytes) -> None:
        """Say it again."""
        super().hear(heard)
        if b"\n" in heard and not self._left:
            self._left = memoryview(self._asks)
            self.begins_at = time.monotonic() + (LATE_S if self.begins_at == NEVER else 0)


class Trickler(Peer):
    """One byte a second of a request."""

    def __init__(self, path: str) -> None:
        super().__init__(path, request(), read_every_s=1.0)
        self._sent_at = 0.0

    @property
    def interest(self) -> int:
        """Its own clock is all that it heeds."""
        return 0

    def look(self, now: float) -> None:
        """One byte out."""
        super().look(now)
        if now >= self._sent_at + 1.0:
            self._sent_at = now
            self.socket.send(request()[self.sent % len(request()) :][:1])
            self.sent += 1


def keep(make: Callable[[str], Peer], path: str, channels: int, *, is_stuck: bool) -> int:
    """Hold so many peers, which come to send nothing more, or never do; the bytes they sent."""
    polled = select.epoll()
    peers: dict[int, Peer] = {}

    def enter() -> None:
        peer = make(path)
        peers[peer.socket.fileno()] = peer
        polled.register(peer.socket.fileno(), peer.interest)

    for _ in range(channels):
        enter()
    polled.register(0, select.EPOLLIN)
    began = moved_at = time.monotonic()
    is_said, sent = False, 0
    while True:
        now = time.monotonic()
        for fd, mask in polled.poll(0.05):
            if fd == 0:
                return sent
            try:
                peers[fd].work(mask)
                polled.modify(fd, peers[fd].interest)
            except (BrokenPipeError, ConnectionResetError):
                peers.pop(fd).socket.close()
                enter()
        for peer in peers.values():
            peer.look(now)
        before, sent = sent, sum(peer.sent for peer in peers.values())
        moved_at = now if sent > before + channels else moved_at
        # Those that read go on for ever; the others have begun when the daemon takes no more from them.
        begins_at = max((moved_at if is_stuck else began) + SETTLED_S, *(peer.begins_at for peer in peers.values()))
        if not is_said and now > begins_at:
            is_said = True
            print("ready", flush=True)


def come_and_go(said: bytes, path: str, channels: int, *, half: bool) -> int:
    """Connect, say it, and leave: after a half-close and all answers, or at once with them unread."""
    sent, is_said = 0, False
    while not select.select([0], [], [], 0)[0]:
        peers = []
        for _ in range(channels):
            peer = socket.socket(socket.AF_UNIX)
            peer.connect(path)
            peers.append(peer)
            # One that is turned away may be told so before it has said all.
            with suppress(ConnectionError):
                peer.sendall(said)
        for peer in peers:
            with suppress(ConnectionError):
                if half:
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(MIB):
                        pass
                else:
                    peer.recv(1)
            peer.close()
        sent += len(said) * channels
        if not is_said:
            is_said = True
            print("ready", flush=True)
    return sent


Run = Callable[[str, int], int]


def pump(flood: bytes, *, first: bytes = b"") -> Run:
    """Peers that read everything that they are told."""
    return lambda path, channels: keep(lambda to: Peer(to, flood, first=first), path, channels, is_stuck=not flood)


def ask(flood: bytes, *, first: bytes = b"") -> Run:
    """Peers that wait for each answer."""
    return lambda path, channels: keep(lambda to: Asker(to, flood, first=first), path, channels, is_stuck=False)


def slow(flood: bytes, *, read_every_s: float) -> Run:
    """Peers that read one byte at a time, or none at all."""
    return lambda path, channels: keep(
        lambda to: Peer(to, flood, read_bytes=1, read_every_s=read_every_s), path, channels, is_stuck=True
    )


def lines_of(value: bytes, name: bytes = b"echo") -> Callable[[], Run]:
    """The longest lines of small values."""
    return lambda: pump(call(rows(value), name))


# Made when one is asked for: together they would be large.
KINDS: Final[dict[str, Callable[[], Run]]] = {
    "never reads": lambda: slow(FLOOD, read_every_s=NEVER),
    "reads a byte a second": lambda: slow(FLOOD, read_every_s=1.0),
    "sends a byte a second": lambda: lambda path, channels: keep(Trickler, path, channels, is_stuck=True),
    "half-closes": lambda: lambda path, channels: come_and_go(request() * 20, path, channels, half=True),
    "closes, answers unread": lambda: lambda path, channels: come_and_go(request() * 100, path, channels, half=False),
    "lines of 8 MiB": lambda: pump(request(text=b"x" * (LINE_BYTES - len(request(text=b""))))),
    "lines over 8 MiB": lambda: pump(request(text=b"x" * 9 * MIB)),
    "half a line of 8 MiB": lambda: pump(b"", first=request(text=b"x" * LINE_BYTES)[: 7 * MIB]),
    "small lists": lines_of(b"[]"),
    "small numbers": lines_of(b"1"),
    "fractions": lines_of(b"1.5e-7"),
    "small records": lines_of(b'{"a":1}'),
    "small texts": lines_of(b'""'),
    "small lists for no tool": lines_of(b"[]", b"nobody"),
    "small lists that break off": lambda: pump(call(rows(b"[]")[:-1])),
    "names": lambda: pump(call(b"{%b}" % b",".join(b'"n%d":1' % number for number in range(600_000)))),
    "escapes": lambda: pump(call(b'"%b"' % (rb"\u00e9" * (LINE_BYTES // 7)))),
    "no ASCII": lambda: pump(call(b'"%b"' % ("\N{HIRAGANA LETTER A}".encode() * (LINE_BYTES // 4)))),
    "hellos of 8 MiB": lambda: pump(b'{"__port":"hello","agent":"a","spec":{"tools":%b}}\n' % rows(b'"echo"')),
    "pings of 8 MiB": lambda: pump(b'{"__port":"ping","t":%b}\n' % rows(b"[]")),
    "fields that nobody knows": lambda: pump(b'{"__port":"ping","x":%b}\n' % rows(b"[]")),
    "answers to no question": lambda: pump(b'{"__port":"ask_resp","id":"q1","result":%b}\n' % rows(b"[]")),
    "nested requests": lambda: pump(b'{"__port":"tool_req","msg":%b}\n' % call(rows(b"[]")).strip()),
    "an enum of 2,000 pairs": lambda: ask(call(rows(b"[1999,-1999]", INPUT_BYTES), b"pairs")),
    "60 MB of a program": lambda: ask(call(b"60000000", b"rows")),
    "100,000 brackets": lambda: pump(b"[" * 100_000 + b"\n"),
    "NULs": lambda: pump((b"\0" * 100 + b"\n") * 1000),
    "lone surrogates": lambda: pump(request(text=b"\\ud800") * 1000),
    "duplicate keys": lambda: pump(request(text=b'","input":"hullo","id":"2') * 1000),
    "ids of 64 KiB": lambda: pump(request(b"i" * 64 * KIB) * 10),
    "ids of 8 MiB": lambda: pump(request(b"i" * (LINE_BYTES - KIB))),
    "pings": lambda: pump(b'{"__port":"ping"}\n' * 1000),
    "hello after requests": lambda: pump((request() + HELLO) * 1000),
    "hellos": lambda: pump(HELLO * 1000),
    "floods": lambda: pump(FLOOD),
}


def main() -> None:
    play(KINDS, *sys.argv[1:])


def play(kinds: Mapping[str, Callable[[], Run]], path: str, kind: str, channels: str) -> None:
    """Be one of `kinds` until stdin ends."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        print(kinds[kind]()(path, int(channels)))
    except (BrokenPipeError, ConnectionRefusedError, FileNotFoundError):
        sys.exit("the daemon has gone, or closed a channel that was to be open")


if __name__ == "__main__":
    main()
