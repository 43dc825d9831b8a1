"""Where the daemon's socket is, for the daemon and its clients alike (PROTOCOL.md, "The socket")."""

from collections.abc import Mapping
from typing import Final

SYSTEM_SOCKET: Final = "/run/tooldispatchd/dispatch.sock"


def find_socket(environ: Mapping[str, str]) -> str:
    """The path that the environment names, most particular first; `SYSTEM_SOCKET` where it names none."""
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
    """The descriptors to read and to write of the channel that who started this process gave it; None without one."""
    writes, comma, reads = environ.get("TOOLDISPATCHD_CHANNEL", "").partition(",")
    return (int(reads), int(writes)) if comma and reads.isdecimal() and writes.isdecimal() else None


def socket_name(address: str) -> str:
    """What `connect` of a Unix socket takes for `PATH`, `@NAME` (abstract) or either of them after `unix:`."""
    path = address.removeprefix("unix:")
    return "\0" + path[1:] if path.startswith("@") else path
