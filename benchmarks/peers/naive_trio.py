"""An echo as one would first write it: a task for each connection, a task and a send for each line.

naive_trio.py SOCKET
"""

import socket
import sys

import msgspec
import trio

from benchmarks.peers.bare_epoll import Request, Response

decode = msgspec.json.Decoder(Request).decode
encode = msgspec.json.Encoder().encode


async def answer(stream: trio.SocketStream, lock: trio.Lock, line: bytes) -> None:
    request = decode(line)
    response = encode(Response(id=request.id, content=bytes(request.input).decode()))
    async with lock:
        await stream.send_all(response + b"\n")


async def converse(stream: trio.SocketStream) -> None:
    # Two tasks must not send at once; the lock is what one would reach for.
    lock = trio.Lock()
    tail = b""
    async with stream, trio.open_nursery() as nursery:
        async for chunk in stream:
            *lines, tail = (tail + bytes(chunk)).split(b"\n")
            for line in lines:
                nursery.start_soon(answer, stream, lock, line)


async def guard(stream: trio.SocketStream) -> None:
    """End one connection without its fellows when its peer goes away."""
    try:
        await converse(stream)
    except* trio.BrokenResourceError:
        pass


async def serve(path: str) -> None:
    listener = trio.socket.socket(socket.AF_UNIX)
    await listener.bind(path)
    listener.listen(4096)
    await trio.serve_listeners(guard, [trio.SocketListener(listener)])


if __name__ == "__main__":
    trio.run(serve, sys.argv[1])
