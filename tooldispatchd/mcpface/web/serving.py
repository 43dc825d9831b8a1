"""The listener of a web process: who may connect, TLS, and the end.

A connection that serves nobody makes room for a new one, the oldest first: so thousands that only connect, or send half
a head, keep nobody out. At the end the listener closes, and what runs is finished.
"""

import errno
import resource
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import trio

from tooldispatchd.mcpface.web.budget import ByteBudget
from tooldispatchd.mcpface.web.connection import HEAD_S, ClientConnection, ConnectionEndError
from tooldispatchd.mcpface.web.exchange import Site, TokenVerifier, refuse, serve_request
from tooldispatchd.mcpface.web.guard import RefusalError
from tooldispatchd.mcpface.web.logbook import LogBook
from tooldispatchd.mcpface.web.sessions import MAX_SESSIONS, WebSessions
from tooldispatchd.wire.webplaces import WebPlace

# Each is one descriptor and some 20 KiB; of one address half of them at most, for behind a proxy, and on this machine,
# many clients have the same.
MAX_CONNECTIONS: Final = 2048
# Where the service may have fewer descriptors, sessions have a third of what these leave, and connections the rest.
OWN_DESCRIPTORS: Final = 64
# Without descriptors, or with whatever else the kernel lacks, accepting at once would only spin.
ACCEPT_PAUSE_S: Final = 0.1


class Connections:
    """The open connections, and which of them makes room."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._scopes: dict[ClientConnection, trio.CancelScope] = {}
        self._dropped = trio.lowlevel.ParkingLot()
        self._addresses: Counter[str] = Counter()

    def enter(self, connection: ClientConnection, scope: trio.CancelScope) -> bool:
        """Count a connection; False where all others serve somebody."""
        if self._addresses[connection.address] >= self._most // 2:
            candidates = [each for each in self._scopes if each.address == connection.address]
        elif len(self._scopes) >= self._most:
            candidates = [*self._scopes]
        else:
            candidates = None
        if candidates is not None:
            waiting = [each for each in candidates if not each.is_serving]
            if not waiting:
                return False
            self.drop(min(waiting, key=lambda each: each.since))
        self._scopes[connection] = scope
        self._addresses[connection.address] += 1
        return True

    def drop(self, connection: ClientConnection) -> None:
        """End a connection now. Idempotent."""
        scope = self._scopes.pop(connection, None)
        if scope is not None:
            scope.cancel()
            self._dropped.unpark_all()
            self._addresses[connection.address] -= 1
            if not self._addresses[connection.address]:
                del self._addresses[connection.address]

    def finish(self) -> None:
        """End those that serve nobody any more, and each other with its answer, or its first one."""
        for connection in [*self._scopes]:
            connection.is_ending = True
            if connection.has_served and not connection.is_serving:
                self.drop(connection)

    async def served(self) -> None:
        """Return when each connection has had an answer, or is gone; they must be ending."""
        while not all(each.has_served for each in self._scopes):
            await self._dropped.park()


class Certificate:
    """The TLS context of a place, made anew when its files change: a renewed certificate is the next connection's."""

    def __init__(self, place: WebPlace, log: LogBook) -> None:
        self._files = _files_of(place)
        self._log = log
        self._stamps: list[tuple[int, int]] = []
        self._context = self._load()

    def context(self, place: WebPlace) -> ssl.SSLContext:
        """The context for a connection, of the files that the place has now. Never raises: an old one is better."""
        self._files = _files_of(place)
        try:
            if self._stamps != self._look():
                self._context = self._load()
        except OSError as error:
            self._log.tell("certificate not renewed", why=error.strerror or "it cannot be used")
        return self._context

    def _look(self) -> list[tuple[int, int]]:
        return [(file.stat().st_mtime_ns, file.stat().st_ino) for file in map(Path, filter(None, self._files))]

    def _load(self) -> ssl.SSLContext:
        self._stamps = self._look()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(*self._files, password="")
        return context


def _files_of(place: WebPlace) -> tuple[str, str | None]:
    assert place.cert is not None
    return place.cert, place.key


async def serve_place(place: WebPlace, log: LogBook, told: trio.abc.ReceiveStream) -> None:
    """Serve until `told` ends, and then what still runs.

    Each line that comes there has the same place, and whom it admits from then on.
    """
    third = max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - OWN_DESCRIPTORS, OWN_DESCRIPTORS) // 3
    budget, connections = ByteBudget(), Connections(min(MAX_CONNECTIONS, 2 * third))
    async with trio.open_nursery() as home:
        sessions = WebSessions(home, budget=budget, log=log, most_of_all_places=min(MAX_SESSIONS, third))
        site = Site(place, sessions, budget=budget, log=log, verifier=_verifier(place, log))
        async with trio.open_nursery() as listener:
            listener.start_soon(_listen, site, connections, home)
            async for renewed in _renewals(told):
                # It has its issuer's keys.
                is_same = renewed.issuer == site.place.issuer
                site.admit(renewed, site.verifier if is_same else _verifier(renewed, log))
            listener.cancel_scope.cancel()
        connections.finish()
        # Who has connected before may still open one.
        await connections.served()
        sessions.close()


async def _renewals(told: trio.abc.ReceiveStream) -> AsyncIterator[WebPlace]:
    # The daemon's own words, of whatever length.
    held = bytearray()
    while chunk := await told.receive_some():
        held += chunk
        *lines, held = held.split(b"\n")
        for line in lines:
            yield msgspec.json.decode(line, type=WebPlace)


def _verifier(place: WebPlace, log: LogBook) -> TokenVerifier | None:
    if place.issuer is None:
        return None
    from tooldispatchd.mcpface.web.issuer import IssuerTokens  # noqa: PLC0415  # an extra, which few have

    return IssuerTokens(place.issuer, log)


async def _listen(site: Site, connections: Connections, home: trio.Nursery) -> None:
    place = site.place
    certificate = None if place.cert is None else Certificate(place, site.log)
    with trio.socket.from_stdlib_socket(socket.socket(fileno=place.fd)) as listening:
        while True:
            try:
                accepted, address = await listening.accept()
            except OSError as error:
                # A client that broke off has been taken out of the queue; whatever else it is, is still so.
                if error.errno != errno.ECONNABORTED:
                    site.log.tell("connection not accepted", place=place.where, why=error.strerror or "unknown")
                    await trio.sleep(ACCEPT_PAUSE_S)
                continue
            tls = None if certificate is None else certificate.context(site.place)
            home.start_soon(_serve, site, connections, accepted, address, tls)


async def _serve(
    site: Site,
    connections: Connections,
    accepted: trio.socket.SocketType,
    peer: object,
    tls: ssl.SSLContext | None,
) -> None:
    """Serve one connection to its end; the guard of what one client can do wrong here."""
    stream: trio.abc.Stream = trio.SocketStream(accepted)
    if tls is not None:
        stream = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
    address, ends = "", None
    with suppress(OSError):
        if isinstance(peer, tuple):
            address, ends = peer[0], (peer[:2], accepted.getsockname()[:2])
    connection = ClientConnection(stream, address, ends)
    try:
        with trio.CancelScope() as scope:
            if connections.enter(connection, scope):
                await _talk(site, connection, stream)
            else:
                site.log.tell("too many connections", place=site.place.where, address=address)
    except ConnectionEndError:
        pass
    except Exception as error:  # noqa: BLE001  # guard: one client's connection
        site.log.incident("connection failed", error)
    finally:
        connections.drop(connection)
        site.sessions.leave(connection)
        with trio.CancelScope(shield=True):
            await connection.close()


async def _talk(site: Site, connection: ClientConnection, stream: trio.abc.Stream) -> None:
    if isinstance(stream, trio.SSLStream):
        try:
            with trio.fail_after(HEAD_S):
                await stream.do_handshake()
        except (trio.TooSlowError, trio.BrokenResourceError):
            raise ConnectionEndError from None
    while not (connection.is_ending and connection.has_served):
        try:
            head = await connection.next_head()
        except RefusalError as refusal:
            await refuse(site, connection, refusal, [])
            break
        if head is None:
            break
        await serve_request(site, connection, head)
        connection.has_served = True
    await connection.part()
