"""The bare echo of `bare_epoll.py` under trio: one task waits for the epoll set, then serves all that is ready.

bare_trio.py SOCKET
"""

import sys

import trio

from benchmarks.peers.bare_epoll import Echo


async def serve(path: str) -> None:
    """Wait for the set as for any descriptor; poll it without waiting."""
    echo = Echo(path)
    while True:
        await trio.lowlevel.wait_readable(echo.set.fileno())
        echo.serve(echo.set.poll(0, 512))


if __name__ == "__main__":
    trio.run(serve, sys.argv[1])
