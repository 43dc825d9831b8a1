"""Connect to a daemon's Unix socket, and wait while its backlog is full.

A connect that does not block fails at once there (EAGAIN, unix(7)), also one with Python's own timeout.
"""

import socket
import struct
from collections.abc import Iterator
from typing import Final

from tooldispatchd.client.address import socket_name

# A daemon accepts within milliseconds; one that does not in this time has stopped.
CONNECT_S: Final = 10.0
# A daemon is back within a second or two of its restart; one that takes long is not looked for in vain too often.
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0


def reach(address: str, *, within_s: float) -> socket.socket:
    """A connected, blocking socket; raises OSError, after `within_s` with EAGAIN where nobody accepts."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _limit(channel, within_s)
        channel.connect(socket_name(address))
        _limit(channel, 0)
    except BaseException:
        channel.close()
        raise
    return channel


def pauses(retry_s: float) -> Iterator[float]:
    """Seconds to wait before each further look for a daemon, until `retry_s` have passed in all."""
    left_s, pause_s = retry_s, FIRST_PAUSE_S
    while left_s > 0:
        yield min(pause_s, left_s)
        left_s -= pause_s
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _limit(channel: socket.socket, seconds: float) -> None:
    """How long a write, or a connect, may wait in the kernel; 0 for ever."""
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
