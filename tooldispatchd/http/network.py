"""From an origin to a stream that leads there: proxy, address check, TCP and TLS; all within 10 s.

    proxy_for ─▶ addresses, which may have to be public ─▶ TCP ─▶ the proxy's tunnel ─▶ TLS

Names are resolved once: the addresses that were checked are those that are connected to, so a second answer of the name
server cannot lead elsewhere. The proxy is the one that the environment names, by the conventions that curl set:
`http_proxy`, `https_proxy` and `all_proxy` hold a URL, `no_proxy` the hosts that are reached without; each also in
capitals. This machine is never reached through a proxy: there its name would mean another machine.
"""

import base64
import ipaddress
import os
import socket
import ssl
from pathlib import Path
from typing import Final, NamedTuple
from urllib import request
from urllib.parse import unquote, urlsplit

import h11
import trio

from tooldispatchd.http.errors import PrivateAddressError, WireError, meaning
from tooldispatchd.http.http1 import Http1, Socket
from tooldispatchd.http.places import PORTS, Origin
from tooldispatchd.http.reach import Reach

# From the name to the end of the TLS handshake; longer than three lost SYNs (1 + 2 + 4 s).
CONNECT_S: Final = 10.0
# Of a name's addresses, as many are tried: a name with hundreds is a mistake or an attack.
_MAX_ADDRESSES: Final = 8
# What leads to whatever IPv4 address follows it (RFC 6052), and the same within one network (RFC 8215), which Python
# takes for public.
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")


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
        # Without trio's own sentence around it; the first attempt's words, as the others' are mostly the same.
        cause = error.__cause__
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        found = cause if isinstance(cause, OSError) else error
        why = found.strerror or str(found)
        # The name service has numbers below zero, with texts of its own.
        if found.errno is not None and found.errno >= 0:
            why = os.strerror(found.errno)
        raise WireError(f"cannot connect to {host} port {port}: {why}") from error
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


class Proxy(NamedTuple):
    """An HTTP proxy; `authorization` is the value of the header that it wants, and secret."""

    origin: Origin
    authorization: str | None = None

    def __repr__(self) -> str:
        """The origin alone, as the password is secret."""
        return f"Proxy({self.origin})"


def proxy_for(origin: Origin) -> Proxy | None:
    """The proxy through which `origin` is reached, if any. Raises `WireError`, which shows nothing of its password."""
    named = request.getproxies_environment()
    url = named.get(origin.scheme) or named.get("all")
    if not url or is_local(origin.host):
        return None
    # It stands beside the other in the documentation of neither, but `urllib` goes by both; typeshed lists one.
    if request.proxy_bypass_environment(f"{origin.host}:{origin.port}", named):  # type: ignore[attr-defined]
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError:
        raise WireError("cannot use the proxy that the environment names: it is not a URL") from None
    if scheme not in PORTS:
        raise WireError(f"cannot use a {scheme[:20]} proxy: only http:// and https:// ones are spoken to")
    if not host:
        raise WireError("cannot use the proxy that the environment names: there is no host in it")
    authorization = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    return Proxy(Origin(scheme, host, port or PORTS[scheme]), authorization)


def is_local(host: str) -> bool:
    """Whether a host's name says that it is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


# A configuration has a handful; beyond that the oldest is made anew when it is needed.
MAX_CONTEXTS: Final = 32
# Threads of their own: the shared ones may all be waiting for name servers that do not answer.
_LOADS: Final = trio.CapacityLimiter(2)


class Files(NamedTuple):
    """The PEM files that a context is made of; None is the system's roots, and no client certificate."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


# A file that was replaced is another file: a renewed certificate is used by the next connection.
_Stamp = tuple[int, int, int] | None
_contexts: dict[tuple[Files, tuple[_Stamp, ...]], ssl.SSLContext] = {}


def files_of(reach: Reach) -> Files:
    return Files(reach.ca, reach.cert, reach.key)


async def context(files: Files) -> ssl.SSLContext:
    """The context for these files. Raises `WireError`, which names the file that is wrong."""
    stamps: list[_Stamp] = []
    for path in files:
        try:
            status = None if path is None else Path(path).stat()
        except OSError as error:
            raise WireError(f"cannot read {path}: {error.strerror}") from error
        stamps.append(None if status is None else (status.st_ino, status.st_mtime_ns, status.st_size))
    key = files, tuple(stamps)
    found = _contexts.pop(key, None)
    if found is None:
        found = await trio.to_thread.run_sync(_load, files, abandon_on_cancel=True, limiter=_LOADS)
    # The newest stands last.
    _contexts[key] = found
    while len(_contexts) > MAX_CONTEXTS:
        del _contexts[next(iter(_contexts))]
    return found


def _load(files: Files) -> ssl.SSLContext:
    if files.ca is not None:
        _expect(files.ca, b"CERTIFICATE-----", "certificate")
    try:
        found = ssl.create_default_context(cafile=files.ca)
    except OSError as error:
        raise WireError(f"cannot use {files.ca} as `ca`: {_said(error)}") from error
    found.set_alpn_protocols(["http/1.1"])
    if files.cert is None:
        return found
    cert, key = files.cert, files.key or files.cert
    _expect(cert, b"CERTIFICATE-----", "certificate")
    _expect(key, b"PRIVATE KEY-----", "private key")
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        found.load_cert_chain(cert, key, password="")
    except OSError as error:
        if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            raise WireError(f"cannot use {cert} as `cert`: {key} is not its key") from error
        why = f"cannot use {cert} as `cert` with the key of {key}: {_said(error)} (an encrypted key is not read)"
        raise WireError(why) from error
    return found


def _expect(path: str, label: bytes, what: str) -> None:
    """OpenSSL does not say which of two files it means; a look at both does."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise WireError(f"cannot read {path}: {error.strerror}") from error
    if label not in content:
        raise WireError(f"cannot use {path}: there is no PEM {what} in it")


def _said(error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return (reason or str(error)).lower().replace("_", " ")


async def open_connection(
    origin: Origin, *, files: Files, proxy: Proxy | None, must_be_public: bool
) -> tuple[Socket, trio.abc.Stream]:
    """A socket, and the stream over it that leads to `origin`, through `proxy` if there is one. Raises `WireError`.

    A plain http origin behind a proxy is not tunnelled to: the connection is the proxy's, and takes whole URLs.
    """
    # First of all what cannot be used in any case: then there is nothing to close.
    tls = await context(files) if origin.scheme == "https" else None
    with trio.move_on_after(CONNECT_S):
        if proxy is not None:
            return await _through(proxy, origin, tls, must_be_public=must_be_public)
        socket = await (connect_public if must_be_public else connect)(origin.host, origin.port)
        return socket, await _secured(socket, socket, origin, tls)
    by = "" if proxy is None else f" through the proxy {proxy.origin}"
    raise WireError(f"cannot connect to {origin}{by} within {CONNECT_S:.0f} s")


async def _through(
    proxy: Proxy, origin: Origin, tls: ssl.SSLContext | None, *, must_be_public: bool
) -> tuple[Socket, trio.abc.Stream]:
    """To a proxy and, for https, through a tunnel in it (RFC 9110, 9.3.6)."""
    if must_be_public and tls is None:
        raise WireError(f"cannot know which address a proxy would find for {origin}; `private = true` trusts it")
    host = origin.host
    if must_be_public:
        # The proxy is told the address that was looked at: it might be given another one for the name.
        host = (await public_addresses(origin.host, origin.port))[0]
    to_proxy = await context(Files()) if proxy.origin.scheme == "https" else None
    try:
        socket = await connect(proxy.origin.host, proxy.origin.port)
        stream = await _secured(socket, socket, proxy.origin, to_proxy)
    except WireError as error:
        raise WireError(f"cannot use the proxy that the environment names: {error.why}") from error
    if tls is None:
        return socket, stream
    target = f"[{host}]:{origin.port}" if ":" in host else f"{host}:{origin.port}"
    headers = [("Host", target)]
    if proxy.authorization is not None:
        headers.append(("Proxy-Authorization", proxy.authorization))
    try:
        asked = h11.Request(method="CONNECT", target=target, headers=headers)
        response = await Http1(socket, stream).ask(asked, b"")
    except WireError as error:
        raise WireError(f"the proxy {proxy.origin} gave no tunnel: {error.why}") from error
    if not 200 <= response.status_code < 300:
        socket.close()
        raise WireError(f"the proxy {proxy.origin} refused a tunnel to {target} (HTTP {response.status_code})")
    return socket, await _secured(socket, stream, origin, tls)


async def _secured(
    socket: Socket, stream: trio.abc.Stream, origin: Origin, tls: ssl.SSLContext | None
) -> trio.abc.Stream:
    """The stream to `origin`, inside TLS if there is a context for it."""
    if tls is None:
        return stream
    encrypted = trio.SSLStream(stream, tls, server_hostname=origin.host, https_compatible=True)
    try:
        await encrypted.do_handshake()
    except trio.BrokenResourceError as error:
        socket.close()
        cause = error.__cause__
        why = "the connection was closed"
        if isinstance(cause, ssl.SSLCertVerificationError):
            # It is a sentence of its own.
            why = f"its certificate is refused: {cause.verify_message}"
        elif isinstance(cause, ssl.SSLError) and cause.reason:
            why = meaning(cause)
        raise WireError(f"cannot begin TLS with {origin}: {why}") from error
    except BaseException:
        socket.close()
        raise
    return encrypted
