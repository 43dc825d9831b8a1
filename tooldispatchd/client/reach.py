"""Connect to a daemon's Unix socket, and wait while its backlog is full.

A connect that does not block fails at once there (EAGAIN, unix(7)), also one with Python's own timeout.
"""

import socket
import struct
from typing import Final

from tooldispatchd.client.address import socket_name

# A daemon accepts within milliseconds; one that does not in this time has stopped.
CONNECT_S: Final = 10.0


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


def _limit(channel: socket.socket, seconds: float) -> None:
    """How long a write, or a connect, may wait in the kernel; 0 for ever."""
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
