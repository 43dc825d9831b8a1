"""An HTTP API in a thread, which keeps the raw bytes of each request and sends raw bytes, as a test says."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

# A connection that is silent for so long is over.
SILENT_S: Final = 20.0

Respond = Callable[[bytes], Iterable[bytes]]
"""The pieces of the answer to a raw request; nothing more closes the connection."""


@dataclass
class Recorder:
    """What it was asked, whole, over all its connections; how many there were and how many are over."""

    port: int
    asked: list[bytes] = field(default_factory=list)
    connections: int = 0
    closed: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def lines(self) -> list[str]:
        """The first line of each request."""
        return [request.partition(b"\r\n")[0].decode() for request in self.asked]


def answer(
    body: bytes = b"{}", *, status: str = "200 OK", media_type: str = "application/json", more: str = ""
) -> bytes:
    """A well-formed answer; `more` are whole lines of headers."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


@contextmanager
def recording(respond: Respond) -> Iterator[Recorder]:
    """It listens on the loopback while this is entered."""
    listener = socket.create_server(("127.0.0.1", 0))
    recorder = Recorder(listener.getsockname()[1])
    threads: list[threading.Thread] = []
    channels: list[socket.socket] = []

    def serve(channel: socket.socket) -> None:
        channel.settimeout(SILENT_S)
        buffered = b""
        with contextlib.suppress(OSError), channel:
            while True:
                while (request := _whole(buffered)) is None:
                    chunk = channel.recv(65_536)
                    if not chunk:
                        break
                    buffered += chunk
                if request is None:
                    break
                buffered = buffered[len(request) :]
                recorder.asked.append(request)
                for piece in respond(request):
                    channel.sendall(piece)
        recorder.closed += 1

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                channel, _ = listener.accept()
                recorder.connections += 1
                channels.append(channel)
                threads.append(threading.Thread(target=serve, args=(channel,)))
                threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield recorder
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for channel in channels:
            with contextlib.suppress(OSError):
                channel.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def _whole(buffered: bytes) -> bytes | None:
    """The first request, if all of it is here."""
    head, mark, rest = buffered.partition(b"\r\n\r\n")
    if not mark:
        return None
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    return head + mark + rest[:length] if len(rest) >= length else None
