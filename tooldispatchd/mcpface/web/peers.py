"""Find the user of a peer on this machine, in the kernel's tables of TCP sockets (proc(5), `/proc/net/tcp`)."""

import sys
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

# Ten thousand sockets are 1.5 MB. Of a longer table the beginning is looked at, in some milliseconds of a thread.
MAX_TABLE_BYTES: Final = 4 * 1024 * 1024
_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED: Final = "01"
# All users that this user namespace does not know (user_namespaces(7)).
_OVERFLOW_UID: Final = 65534

Endpoint = tuple[str, int]


def find_uid(peer: Endpoint, own: Endpoint) -> int | None:
    """Find the user whose socket `peer` is connected to our `own`; None where that is unknown, or not on loopback."""
    ends = [(_address(host), port) for host, port in (peer, own)]
    if not ends[0][0].is_loopback:
        return None
    for table, is_six in zip(_TABLES, (False, True), strict=True):
        if not is_six and any(address.version == 6 for address, _ in ends):
            continue
        needle = " ".join(["", *(_written(address, port, is_six=is_six) for address, port in ends), _ESTABLISHED, ""])
        with suppress(OSError), table.open("rb") as file:
            _, found, rest = file.read(MAX_TABLE_BYTES).partition(needle.encode())
            if found:
                # Queues, timer and retransmits stand before it.
                uid = int(rest.split(maxsplit=4)[3])
                return None if uid == _OVERFLOW_UID else uid
    return None


def _address(host: str) -> IPv4Address | IPv6Address:
    address = ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _written(address: IPv4Address | IPv6Address, port: int, *, is_six: bool) -> str:
    packed = address.packed
    if is_six and len(packed) == 4:
        packed = bytes(10) + b"\xff\xff" + packed
    words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return f"{''.join(f'{word:08X}' for word in words)}:{port:04X}"
