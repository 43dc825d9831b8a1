"""The bare echo: an epoll loop and msgspec, no trio, no checks; what the front is measured against.

    bare_epoll.py SOCKET

Each turn reads what a connection has, decodes every request, and sends all its answers at once.
"""

import select
import socket
import sys

import msgspec


class Request(msgspec.Struct):
    """The fields of a `tool_req` that an echo needs."""

    id: str
    name: str
    input: msgspec.Raw


class Response(msgspec.Struct, tag_field="__port", tag="tool_resp"):
    """A `tool_resp`."""

    id: str
    content: str
    is_error: bool = False


class Echo:
    """A listening socket, its connections and one epoll set over all of them."""

    def __init__(self, path: str) -> None:
        self.set = select.epoll()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(4096)
        self._listener.setblocking(False)
        self.set.register(self._listener.fileno(), select.EPOLLIN)
        self._peers: dict[int, socket.socket] = {}
        self._tails: dict[int, bytes] = {}
        self._decode = msgspec.json.Decoder(Request).decode
        self._encode = msgspec.json.Encoder().encode

    def serve(self, ready: list[tuple[int, int]]) -> None:
        """Serve every descriptor of one poll once."""
        for fd, _events in ready:
            peer = self._peers.get(fd)
            if peer is None:
                self._accept()
            else:
                self._answer(fd, peer)

    def _accept(self) -> None:
        peer, _address = self._listener.accept()
        peer.setblocking(False)
        self._peers[peer.fileno()] = peer
        self._tails[peer.fileno()] = b""
        self.set.register(peer.fileno(), select.EPOLLIN)

    def _answer(self, fd: int, peer: socket.socket) -> None:
        try:
            chunk = peer.recv(65536)
        except ConnectionResetError:
            chunk = b""
        if not chunk:
            self.set.unregister(fd)
            del self._peers[fd], self._tails[fd]
            peer.close()
            return
        *lines, self._tails[fd] = (self._tails[fd] + chunk).split(b"\n")
        answers = []
        for line in lines:
            request = self._decode(line)
            answers.append(self._encode(Response(id=request.id, content=bytes(request.input).decode())))
        if answers:
            answers.append(b"")
            # The load is bounded by its calls in flight, far below a socket's buffer: a short send cannot happen.
            peer.send(b"\n".join(answers))


def main() -> None:
    echo = Echo(sys.argv[1])
    while True:
        echo.serve(echo.set.poll())


if __name__ == "__main__":
    main()
