"""What `daemon.listen` and `--listen` may say: `unix:PATH` or `stdio`."""

from typing import Final

from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.daemon.planned_keys import planned_listen

ALLOWED: Final = '"unix:PATH" or "stdio"'
# sockaddr_un has 108 bytes (unix(7)): one is the NUL at the end, four the suffix of the name that is bound first.
MAX_SOCKET_PATH_BYTES: Final = 103


def check_listen(value: str, path: Path = ()) -> Problem | None:
    """The problem of one place to listen, if it has one; `path` is where it stands in the configuration."""
    planned = planned_listen(value)
    if planned is not None:
        return Problem(path, planned, value=value, allowed=ALLOWED)
    if value == "stdio":
        return None
    kind, _, socket = value.partition(":")
    if kind != "unix" or not socket:
        meant = f"unix:{value}" if value.startswith(("/", "./")) else None
        return Problem(path, "no such way to listen", value=value, allowed=ALLOWED, nearest=meant)
    if len(socket.encode("utf-8", "surrogateescape")) > MAX_SOCKET_PATH_BYTES:
        return Problem(path, f"a socket's path has at most {MAX_SOCKET_PATH_BYTES} bytes", value=value)
    return None
