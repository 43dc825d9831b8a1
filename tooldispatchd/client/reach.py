"""Where the daemon's socket is (docs/command.md, "Where the socket is"), and how to connect to it.

Standard library alone: the quick commands import this and must answer within a tenth of a second.
"""

import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Final

SYSTEM_SOCKET: Final = "/run/tooldispatchd/dispatch.sock"
# Where `tooldispatchd run` puts an agent's tool channel.
REQUESTS_FD: Final = 4
ANSWERS_FD: Final = 5
# A daemon accepts within milliseconds; one that does not in this time has stopped.
CONNECT_S: Final = 10.0
# A daemon answers it in every state.
PING: Final = b'{"__port":"ping"}\n'
# A restarted daemon is back within a second or two; one that takes longer need not be tried more often than that.
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0


def find_socket(environ: Mapping[str, str]) -> str:
    """The path that the environment names, most specific first; `SYSTEM_SOCKET` where it names none."""
    named = environ.get("TOOLDISPATCHD_SOCKET")
    if named:
        return named.removeprefix("unix:")
    for variable, name in (("RUNTIME_DIRECTORY", "dispatch.sock"), ("XDG_RUNTIME_DIR", "tooldispatchd/dispatch.sock")):
        # systemd gives several runtime directories separated by colons; the first is the unit's own.
        directory = environ.get(variable, "").partition(":")[0]
        if directory:
            return f"{directory}/{name}"
    return SYSTEM_SOCKET


def given_channel(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """The descriptors (to read, to write) of the channel that this process was started with; None without one."""
    writes, comma, reads = environ.get("TOOLDISPATCHD_CHANNEL", "").partition(",")
    return (int(reads), int(writes)) if comma and reads.isdecimal() and writes.isdecimal() else None


def socket_name(address: str) -> str:
    """The argument for `connect` of a Unix socket, for `PATH`, `@NAME` (abstract) or either of them after `unix:`."""
    path = address.removeprefix("unix:")
    return "\0" + path[1:] if path.startswith("@") else path


def reach(address: str, *, within_s: float) -> socket.socket:
    """A connected, blocking socket; raises OSError, after `within_s` with EAGAIN where nobody accepts.

    The limit is the kernel's (SO_SNDTIMEO). A non-blocking connect fails at once while the backlog is full (EAGAIN,
    unix(7)), and so does one with Python's own timeout.
    """
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _limit_writes(channel, within_s)
        channel.connect(socket_name(address))
        _limit_writes(channel, 0)
    except BaseException:
        channel.close()
        raise
    return channel


def pauses(retry_s: float) -> Iterator[float]:
    """Seconds to wait before each further attempt to reach a daemon, until `retry_s` have passed in all."""
    left_s, pause_s = retry_s, FIRST_PAUSE_S
    while left_s > 0:
        yield min(pause_s, left_s)
        left_s -= pause_s
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _limit_writes(channel: socket.socket, seconds: float) -> None:
    """Bound the time that a write, or a connect, may wait in the kernel; 0 removes the bound."""
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
