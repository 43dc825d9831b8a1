"""Peers of one hostile kind, on so many channels, as fast as one process can; until stdin ends.

    hostile_peers.py SOCKET KIND CHANNELS

It prints a line "ready" when all of them have begun, and at the end how many bytes it sent. `KINDS` says what each
kind does.
"""

import os
import select
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
BLOCK_BYTES: Final = 256 * KIB
NEVER: Final = float("inf")
SETTLED_S: Final = 0.3
REQUEST: Final = b'{"__port":"tool_req","id":"%b","name":"echo","input":"%b"}\n'
HELLO: Final = b'{"__port":"hello"}\n'


def request(call_id: bytes = b"1", text: bytes = b"hullo") -> bytes:
    """One call."""
    return REQUEST % (call_id, text)


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
                self._left = self._left[taken:] or memoryview(self._flood)
        with suppress(BlockingIOError):
            if mask & select.EPOLLIN and not self.socket.recv(self._read_bytes):
                sys.exit("the daemon closed the channel")

    def look(self, now: float) -> None:
        """Read where it is time to."""
        if self._read_every_s and now >= self._read_at:
            self._read_at = now + self._read_every_s
            with suppress(BlockingIOError):
                self.socket.recv(self._read_bytes)


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
    peers = {}
    for _ in range(channels):
        peer = make(path)
        peers[peer.socket.fileno()] = peer
        polled.register(peer.socket.fileno(), peer.interest)
    polled.register(0, select.EPOLLIN)
    began = moved_at = time.monotonic()
    is_said, sent = False, 0
    while True:
        now = time.monotonic()
        for fd, mask in polled.poll(0.05):
            if fd == 0:
                return sent
            peers[fd].work(mask)
            polled.modify(fd, peers[fd].interest)
        for peer in peers.values():
            peer.look(now)
        before, sent = sent, sum(peer.sent for peer in peers.values())
        moved_at = now if sent > before + channels else moved_at
        # Those that read go on for ever; the others have begun when the daemon takes no more from them.
        if not is_said and now > (moved_at if is_stuck else began) + SETTLED_S:
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
            peer.sendall(said)
            peers.append(peer)
        for peer in peers:
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


def slow(flood: bytes, *, read_every_s: float) -> Run:
    """Peers that read one byte at a time, or none at all."""
    return lambda path, channels: keep(
        lambda to: Peer(to, flood, read_bytes=1, read_every_s=read_every_s), path, channels, is_stuck=True
    )


KINDS: Final[dict[str, Run]] = {
    "never reads": slow(FLOOD, read_every_s=NEVER),
    "reads a byte a second": slow(FLOOD, read_every_s=1.0),
    "sends a byte a second": lambda path, channels: keep(Trickler, path, channels, is_stuck=True),
    "half-closes": lambda path, channels: come_and_go(request() * 20, path, channels, half=True),
    "closes, answers unread": lambda path, channels: come_and_go(request() * 100, path, channels, half=False),
    "lines of 8 MiB": pump(request(text=b"x" * (8 * MIB - len(request(text=b""))))),
    "lines over 8 MiB": pump(request(text=b"x" * 9 * MIB)),
    "half a line of 8 MiB": pump(b"", first=request(text=b"x" * 8 * MIB)[: 7 * MIB]),
    "100,000 brackets": pump(b"[" * 100_000 + b"\n"),
    "NULs": pump((b"\0" * 100 + b"\n") * 1000),
    "lone surrogates": pump(request(text=b"\\ud800") * 1000),
    "duplicate keys": pump(request(text=b'","input":"hullo","id":"2') * 1000),
    "ids of 64 KiB": pump(request(b"i" * 64 * KIB) * 10),
    "pings": pump(b'{"__port":"ping"}\n' * 1000),
    "hello after requests": pump((request() + HELLO) * 1000),
    "hellos": pump(HELLO * 1000),
    "floods": pump(FLOOD),
}


def main() -> None:
    path, kind, channels = sys.argv[1:]
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        print(KINDS[kind](path, int(channels)))
    except BrokenPipeError:
        sys.exit("the daemon closed a channel")


if __name__ == "__main__":
    main()
