"""TCP to where a request goes, on addresses that may be connected to.

Names are resolved once: what was checked is what is connected to, so a second answer of the name server cannot lead
elsewhere.
"""

import ipaddress
import os
import socket
from typing import Final

import trio

from tooldispatchd.providers.mcp.http.errors import PrivateAddressError, WireError

# From the name to the end of the TLS handshake; longer than three lost SYNs (1 + 2 + 4 s).
CONNECT_S: Final = 10.0
_CHUNK_BYTES: Final = 64 * 1024
# Of a name's addresses, as many are tried: a name with hundreds is a mistake or an attack.
_MAX_ADDRESSES: Final = 8
# What leads to whatever IPv4 address follows it (RFC 6052), and the same within one network (RFC 8215), which Python
# takes for public.
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")


class Socket(trio.abc.Stream):
    """A connected TCP socket; `sent` is how many bytes the kernel took.

    trio's own stream does not say that, and whether a request may be repeated hangs on it. Closed in another task, it
    is a broken resource: what is closed under an exchange is gone for it as if the server had closed it.
    """

    def __init__(self, connected: trio.socket.SocketType) -> None:
        self._socket = connected
        self.sent = 0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """As `trio.abc.SendStream`."""
        with memoryview(data) as view:
            done = 0
            try:
                while done < len(view):
                    with view[done:] as rest:
                        taken = await self._socket.send(rest)
                    done += taken
                    self.sent += taken
            except (OSError, trio.ClosedResourceError) as error:
                raise trio.BrokenResourceError(str(error)) from error

    async def wait_send_all_might_not_block(self) -> None:
        """As `trio.abc.SendStream`."""
        await trio.lowlevel.wait_writable(self._socket)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """As `trio.abc.ReceiveStream`."""
        try:
            return await self._socket.recv(max_bytes or _CHUNK_BYTES)
        except (OSError, trio.ClosedResourceError) as error:
            raise trio.BrokenResourceError(str(error)) from error

    def is_readable(self) -> bool:
        """Whether something came in, or the other side closed."""
        return self._socket.is_readable()

    def close(self) -> None:
        """Close it at once; closing it twice does nothing."""
        self._socket.close()

    async def aclose(self) -> None:
        """As `trio.abc.AsyncResource`."""
        self.close()
        await trio.lowlevel.checkpoint()


def is_public(address: str) -> bool:
    """Whether the Internet routes to this address (IANA's registries), or to the IPv4 one that it holds."""
    found: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found in _LOCAL_NAT64:
            return False
        held = found.ipv4_mapped or found.sixtofour
        if held is None and found in _NAT64:
            held = ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
        if held is not None:
            found = held
    # Python takes what is reserved for public, IPv4 addresses in the form ::127.0.0.1 among it.
    return found.is_global and not found.is_multicast and not found.is_reserved


async def public_addresses(host: str, port: int) -> list[str]:
    """The addresses of a host, all of them public. Raises `WireError`, a `PrivateAddressError` where one is not."""
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise WireError(f"cannot find {host}: {error.strerror}") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for address in addresses:
        if not is_public(address):
            raise PrivateAddressError(f"{host} has the private address {address}, which only `private = true` allows")
    return addresses[:_MAX_ADDRESSES]


async def connect(host: str, port: int) -> Socket:
    """A TCP connection to any address of `host`, both families in parallel (RFC 8305). Raises `WireError`."""
    try:
        stream = await trio.open_tcp_stream(host, port)
    except OSError as error:
        raise WireError(f"cannot connect to {host} port {port}: {_reason(error)}") from error
    return Socket(stream.socket)


async def connect_public(host: str, port: int) -> Socket:
    """The same, where each address must be public: one after the other, each with its share of the time."""
    addresses = await public_addresses(host, port)
    for address in addresses:
        with trio.move_on_after(CONNECT_S / len(addresses)):
            try:
                return await connect(address, port)
            except WireError:
                continue
    raise WireError(f"cannot connect to {host} port {port}: none of its addresses answers")


def _reason(error: OSError) -> str:
    """Why, without trio's own sentence around it: the first attempt's words, as the others' are mostly the same."""
    cause = error.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    found = cause if isinstance(cause, OSError) else error
    # The name service has numbers below zero, and words of its own for them.
    if found.errno is None or found.errno < 0:
        return found.strerror or str(found)
    return os.strerror(found.errno)
