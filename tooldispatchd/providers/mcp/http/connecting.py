"""From an origin to a connection that speaks HTTP with it: address check, TCP, proxy, TLS; all within 10 s."""

import ssl

import h11
import trio

from tooldispatchd.providers.mcp.http.doubts import meaning
from tooldispatchd.providers.mcp.http.errors import WireError
from tooldispatchd.providers.mcp.http.http1 import Http1
from tooldispatchd.providers.mcp.http.network import CONNECT_S, Socket, connect, connect_public, public_addresses
from tooldispatchd.providers.mcp.http.places import Origin
from tooldispatchd.providers.mcp.http.proxies import Proxy
from tooldispatchd.providers.mcp.http.tls import Files, context


async def open_connection(origin: Origin, *, files: Files, proxy: Proxy | None, must_be_public: bool) -> Http1:
    """A connection to `origin`, through `proxy` if there is one. Raises `WireError`.

    A plain http origin behind a proxy is not tunnelled to: the connection is the proxy's, and takes whole URLs.
    """
    # First of all what cannot be used in any case: then there is nothing to close.
    tls = await context(files) if origin.scheme == "https" else None
    with trio.move_on_after(CONNECT_S):
        if proxy is not None:
            return await _through(proxy, origin, tls, must_be_public=must_be_public)
        reach = connect_public if must_be_public else connect
        socket = await reach(origin.host, origin.port)
        return await _begin(socket, socket, origin, tls)
    by = "" if proxy is None else f" through the proxy {proxy.origin}"
    raise WireError(f"cannot connect to {origin}{by} within {CONNECT_S:.0f} s")


async def _through(proxy: Proxy, origin: Origin, tls: ssl.SSLContext | None, *, must_be_public: bool) -> Http1:
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
        connection = await _begin(socket, socket, proxy.origin, to_proxy)
    except WireError as error:
        raise WireError(f"cannot use the proxy that the environment names: {error.why}") from error
    if tls is None:
        return connection
    await _tunnel(connection, Origin("http", host, origin.port), proxy)
    socket, stream = connection.take_stream()
    return await _begin(socket, stream, origin, tls)


async def _tunnel(connection: Http1, to: Origin, proxy: Proxy) -> None:
    target = f"[{to.host}]:{to.port}" if ":" in to.host else f"{to.host}:{to.port}"
    headers = [("Host", target)]
    if proxy.authorization is not None:
        headers.append(("Proxy-Authorization", proxy.authorization))
    try:
        response = await connection.ask(h11.Request(method="CONNECT", target=target, headers=headers), b"")
    except WireError as error:
        raise WireError(f"the proxy {proxy.origin} gave no tunnel: {error.why}") from error
    if not 200 <= response.status_code < 300:
        connection.close()
        raise WireError(f"the proxy {proxy.origin} refused a tunnel to {target} (HTTP {response.status_code})")


async def _begin(socket: Socket, stream: trio.abc.Stream, origin: Origin, tls: ssl.SSLContext | None) -> Http1:
    """HTTP on a stream to `origin`, inside TLS if there is a context for it."""
    if tls is None:
        return Http1(socket, stream)
    encrypted = trio.SSLStream(stream, tls, server_hostname=origin.host, https_compatible=True)
    try:
        await encrypted.do_handshake()
    except trio.BrokenResourceError as error:
        socket.close()
        raise WireError(f"cannot begin TLS with {origin}: {_failed(error)}") from error
    except BaseException:
        socket.close()
        raise
    return Http1(socket, encrypted)


def _failed(error: trio.BrokenResourceError) -> str:
    """What OpenSSL found wrong, which for a certificate is a sentence of its own."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError) and cause.reason:
        return meaning(cause)
    return "the connection was closed"
