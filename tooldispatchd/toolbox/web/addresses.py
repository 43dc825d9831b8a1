"""Where a URL may lead: which hosts the operator allows, and which addresses belong to the Internet.

What is judged is the address, after the name is resolved, and what is connected to is that address and no other. So no
spelling of an address and no second answer of a name server leads elsewhere.
"""

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

import httpx2
import msgspec
import trio

from tooldispatchd.forked.python.context import InvalidInputError, ToolFailedError

# Of a name's addresses, as many are tried: a name with hundreds is a mistake or an attack.
_MAX_ADDRESSES: Final = 4
# Longer ones are made by machines for machines.
_SHOWN_CHARS: Final = 1000
# Of IPv6 the Internet has nothing else (IANA, "IPv6 Global Unicast Address Assignments") but what NAT64 makes of IPv4.
_UNICAST6: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")
# What Python takes for public and is not. In the order: protocols (some clouds' metadata), 6to4 relays, the host of
# virtual machines in Azure; protocols (Teredo), documentation, 6to4, documentation.
_CLOSED4: Final = tuple(map(IPv4Network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32")))
_CLOSED6: Final = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))


class AllowedHosts(msgspec.Struct, frozen=True):
    """The operator's options: names, or `*.name` for all below one; `hosts` None allows every host.

    `deny_hosts` may hold addresses too. `private` allows addresses that are not of the Internet.
    """

    hosts: tuple[str, ...] | None = None
    deny_hosts: tuple[str, ...] = ()
    private: bool = False


def parsed_url(text: str) -> httpx2.URL:
    """The URL that a model wrote; raises InvalidInputError."""
    try:
        url = httpx2.URL(text.strip())
    except ValueError as error:
        raise InvalidInputError("url", "it is no URL") from error
    except httpx2.InvalidURL as error:
        raise InvalidInputError("url", f"it is no URL: {error}") from error
    if url.scheme not in {"http", "https"}:
        raise InvalidInputError("url", "it has to begin with http:// or https://")
    if url.userinfo:
        raise InvalidInputError("url", "it holds a user name or a password, and this tool sends none")
    # Others read a backslash as a slash: so this would name two hosts. No name has a percent sign.
    if not url.raw_host or b"\\" in url.raw_host or b"%" in url.raw_host:
        raise InvalidInputError("url", "it names no host")
    if url.port is not None and not 0 < url.port < 65_536:
        raise InvalidInputError("url", "a port is a number from 1 to 65535")
    return url


def shown_url(url: httpx2.URL) -> str:
    """The URL for a model to read; a site may redirect to one of 64 KiB."""
    text = str(url)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


def host_of(url: httpx2.URL) -> str:
    """The host as certificates and lists spell it."""
    return url.raw_host.decode("ascii").lower().rstrip(".")


async def addresses_of(url: httpx2.URL, allowed: AllowedHosts, *, is_proxied: bool) -> list[str]:
    """What to connect to; none where only the proxy can resolve the name. Raises ToolFailedError for what is closed."""
    host = host_of(url)
    if (allowed.hosts is not None and not _is_listed(host, allowed.hosts)) or _is_listed(host, allowed.deny_hosts):
        raise ToolFailedError(
            f"cannot fetch {shown_url(url)}: the host {host} is not one that this tool may fetch from"
        )
    try:
        found = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        if is_proxied:
            return []
        why = error.strerror if isinstance(error, socket.gaierror) else "it is no host name"
        raise ToolFailedError(f"cannot fetch {shown_url(url)}: cannot resolve {host}: {why}") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    denied = {plain(one) for one in allowed.deny_hosts}
    for address in addresses:
        if plain(address) in denied or not (allowed.private or is_internet(address)):
            raise ToolFailedError(
                f"cannot fetch {shown_url(url)}: {host} has an address that this tool may not connect to"
            )
    return addresses[:_MAX_ADDRESSES]


def is_internet(address: str) -> bool:
    """Whether this is an address of the Internet, and no network's own, the machine's, a group's or a translator's."""
    found = plain(address)
    if isinstance(found, IPv4Address):
        return found.is_global and not found.is_multicast and not any(found in network for network in _CLOSED4)
    return found is not None and found in _UNICAST6 and not any(found in network for network in _CLOSED6)


def plain(address: str) -> IPv4Address | IPv6Address | None:
    """The address, or that of IPv4 within it; None for a name."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, IPv6Address) and (found.ipv4_mapped or found in _NAT64):
        return IPv4Address(int(found) & 0xFFFF_FFFF)
    return found


def _is_listed(host: str, patterns: Iterable[str]) -> bool:
    names = [pattern.lower().rstrip(".") for pattern in patterns]
    return any(host.endswith(name[1:]) if name.startswith("*.") else host == name for name in names)
