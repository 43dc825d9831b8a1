"""The processes that serve MCP clients over HTTP, as the daemon sees them: started, watched, told to stop.

    memory file with the place ──▶ descriptor 3 ┐
    its listening socket ────────▶ 4            ├─ web process ──▶ the place's private abstract socket
    stdin: whom it admits from now on; its end  ┘
           is "stop accepting"

Each place has a process of its own, so that places come and go without the channels of others. The daemon imports
nothing of them. No client's bytes reach the dispatch loop but as lines of sessions, under a user of their own that is
nobody; and the private sockets take connections of these processes alone.
"""

import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec
import trio

from tooldispatchd.agent.log import Log
from tooldispatchd.agent.setup import Setup
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.children.family import Family
from tooldispatchd.children.spawn import Child, SpawnError
from tooldispatchd.config.http_places import admitted_profiles, open_profile
from tooldispatchd.config.listen_values import ListenAddress, ListenKind
from tooldispatchd.daemon.places.doors import WebDoor
from tooldispatchd.wire.lines import LineCutter, LongLine
from tooldispatchd.wire.webplaces import TokenIssuer, WebPlace

MODULE: Final = "tooldispatchd.mcpface.web"
# Not in its argument vector, which anybody can read: it would name the places and the profiles.
SPEC_FD: Final = 3
LISTEN_FD: Final = 4
# One that dies at once is tried again ever more seldom; one that lived this long has earned a quick return.
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
SETTLED_S: Final = 60.0
# As an MCP server has; within the daemon's own teardown.
STOP_S: Final = 1.0
READ_BYTES: Final = 64 * 1024
# A line of its log has a handful of short fields; one of a traceback is no longer.
MAX_LOGGED_BYTES: Final = 4 * 1024
# An answer has its content as text, and once more as parts; in JSON each may be twice as long as it is. Room for the
# longest one is reserved, and more is not to be had.
MAX_ANSWER_BYTES: Final = 1024 * 1024 * 1024
# In a row, so that one that complains without end does not hold the loop.
LINES_IN_A_TURN: Final = 64
# Load balancers ask every few seconds.
READINESS_S: Final = 0.5
# How an issuer of tokens is reached: the authorities that Python's ssl trusts, and proxies.
PROXIES: Final = ("https_proxy", "all_proxy", "no_proxy")
PASSED: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", *PROXIES, *(name.upper() for name in PROXIES))


class WebSide:
    """The web processes of a daemon; `nursery` is where they are kept running."""

    def __init__(self, setup: Setup, family: Family, nursery: trio.Nursery) -> None:
        self._setup = setup
        self._family = family
        self._nursery = nursery
        # By the name of the private socket, which no other place ever has; those that stop too.
        self._processes: dict[str, WebProcess] = {}
        self._is_stopping = False
        # Called when none runs any more.
        self.ended: Callable[[], None] | None = None
        # The servers of warm profiles that have not come up yet: until then no place is ready.
        self.cold: Callable[[], Sequence[str]] = list
        self._renewals = 0

    @property
    def is_serving(self) -> bool:
        """Whether one runs."""
        return any(process.is_serving for process in self._processes.values())

    def is_child(self, pid: int | None) -> bool:
        """Whether this is a process that serves now."""
        return any(process.is_child(pid) for process in self._processes.values())

    def renew(self, doors: Sequence[WebDoor], catalog: Catalog) -> None:
        """From now on these are the places, and admit whom they say; the process of one that is gone stops."""
        self._renewals += 1
        is_ready = not self.cold()
        places = {door.name: web_place(door, catalog, len(doors), is_ready=is_ready) for door in doors}
        for name, process in self._processes.items():
            if name not in places:
                process.stop()
        for door in () if self._is_stopping else doors:
            name, place = door.name, places[door.name]
            if name in self._processes:
                self._processes[name].renew(place)
            else:
                self._processes[name] = WebProcess(place, door.listening, self._family, self._setup.log)
                self._nursery.start_soon(self._keep, self._processes[name], name)
        if doors and not is_ready:
            self._nursery.start_soon(self._tell_when_ready, doors, catalog, self._renewals)

    async def _tell_when_ready(self, doors: Sequence[WebDoor], catalog: Catalog, renewal: int) -> None:
        while self.cold():  # noqa: ASYNC110  # no event tells it
            await trio.sleep(READINESS_S)
        if renewal == self._renewals:
            self.renew(doors, catalog)

    async def _keep(self, process: "WebProcess", name: str) -> None:
        await process.run()
        del self._processes[name]
        if self._is_stopping and not self._processes and self.ended is not None:
            self.ended()

    def stop(self) -> None:
        """Have all of them stop, as `WebProcess.stop` has it. Idempotent."""
        self._is_stopping = True
        for process in self._processes.values():
            process.stop()

    async def close(self) -> None:
        """End them; bounded, cannot be cancelled. None may be kept running any more."""
        async with trio.open_nursery() as nursery:
            for process in self._processes.values():
                nursery.start_soon(process.close)


class WebProcess:
    """The process that serves one place, from `run` to `close`."""

    def __init__(self, place: WebPlace, listening: socket.socket, family: Family, log: Log) -> None:
        self._place = place
        self._listening = listening
        self._family = family
        self._log = log
        self._child: Child | None = None
        self._stopping = trio.Event()
        self._renewed = trio.Event()

    @property
    def is_serving(self) -> bool:
        """Whether it runs."""
        return self._child is not None

    def is_child(self, pid: int | None) -> bool:
        """Whether this is the one that serves now."""
        return self._child is not None and pid == self._child.pid

    async def run(self) -> None:
        """Keep it running until it is told to stop."""
        pause_s = FIRST_PAUSE_S
        while not self._stopping.is_set():
            began = trio.current_time()
            try:
                self._child = self._spawn()
            except (SpawnError, OSError) as error:
                self._log.warning("web process not started", why=str(error))
            else:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._tell_renewals, self._child)
                    await self._watch(self._child)
                    nursery.cancel_scope.cancel()
            if self._stopping.is_set():
                break
            if trio.current_time() - began > SETTLED_S:
                pause_s = FIRST_PAUSE_S
            with trio.move_on_after(pause_s):
                await self._stopping.wait()
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def renew(self, place: WebPlace) -> None:
        """From now on admit whom the place says now."""
        if place != self._place:
            self._place = place
            self._renewed.set()

    def stop(self) -> None:
        """Have it accept nobody any more, finish the requests that it serves, and end. Idempotent.

        Idle sessions of MCP end at once: nobody could come back to them.
        """
        self._stopping.set()
        if self._child is not None and self._child.stdin >= 0:
            trio.lowlevel.notify_closing(self._child.stdin)
            self._child.close_stdin()

    async def close(self) -> None:
        """End it; bounded, cannot be cancelled. `run` must have been cancelled."""
        self.stop()
        if self._child is not None:
            await self._child.stop(polite_s=STOP_S, term_s=STOP_S)
            self._child = None

    async def _tell_renewals(self, child: Child) -> None:
        """Tell it whom its place admits, each time that has changed."""
        while True:
            await self._renewed.wait()
            self._renewed = trio.Event()
            line = memoryview(msgspec.json.encode(self._place) + b"\n")
            # It may be told to stop meanwhile.
            while line and child.stdin >= 0:
                try:
                    await trio.lowlevel.wait_writable(child.stdin)
                    line = line[os.write(child.stdin, line) :]
                except BlockingIOError:
                    continue
                except (OSError, trio.ClosedResourceError):
                    return

    def _spawn(self) -> Child:
        self._renewed = trio.Event()
        env = {name: os.environ[name] for name in PASSED if name in os.environ}
        with os.fdopen(os.memfd_create("web-place"), "wb") as file:
            file.write(msgspec.json.encode(self._place))
            # It is read from its start; this also writes what is buffered.
            file.seek(0)
            extra = {SPEC_FD: file.fileno(), LISTEN_FD: self._listening.fileno()}
            return self._family.spawn_module(MODULE, env=env, extra=extra, is_joined=True)

    async def _watch(self, child: Child) -> None:
        """Until it has ended; what it says goes to the log."""
        cutter = LineCutter(MAX_LOGGED_BYTES)
        while chunk := await _read(child.stdout):
            for number, line in enumerate(cutter.cut(chunk)):
                if number % LINES_IN_A_TURN == 0:
                    await trio.lowlevel.checkpoint()
                self._tell(line.head if isinstance(line, LongLine) else bytes(line))
        await child.exited()
        ended = child.reap()
        self._child = None
        if not self._stopping.is_set():
            self._log.warning("web process ended", code=ended.code, signal=ended.signal)

    def _tell(self, line: bytes) -> None:
        """Log a line of its own: an event with its fields, or what Python has to say where it fails."""
        try:
            told = msgspec.json.decode(line, type=_Told)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._log.warning("web process said", text=line.decode(errors="replace"))
        else:
            self._log.warning(told.event, **told.fields)


@asynccontextmanager
async def open_web_side(setup: Setup, family: Family) -> AsyncIterator[WebSide]:
    """The web processes, for which places `renew` says; they are gone after the block."""
    side = None
    try:
        async with trio.open_nursery() as nursery:
            side = WebSide(setup, family, nursery)
            yield side
            nursery.cancel_scope.cancel()
    finally:
        if side is not None:
            await side.close()  # noqa: ASYNC102  # it shields and bounds itself


class _Told(msgspec.Struct):
    event: str
    fields: dict[str, str | int]


def web_place(door: WebDoor, catalog: Catalog, places_sharing: int, *, is_ready: bool) -> WebPlace:
    """Describe a place, one of so many, to its web process."""
    place, limits = door.place, catalog.config.limits
    auth = None if place.auth is None else catalog.config.http_auth[place.auth]
    digests = {name: catalog.tokens[name].hex() for name in admitted_profiles(place, catalog) if name in catalog.tokens}
    return WebPlace(
        where=place.text.partition("?")[0],
        fd=LISTEN_FD,
        door=door.name,
        scheme="https" if place.kind is ListenKind.HTTPS else "http",
        path=place.path,
        hosts=hosts_of(place),
        origins=place.origins,
        tokens=digests,
        open_profile=open_profile(place, catalog),
        max_line_bytes=limits.max_line_bytes,
        max_answer_bytes=min(4 * limits.max_content_bytes, MAX_ANSWER_BYTES),
        places_sharing=places_sharing,
        is_ready=is_ready,
        cert=place.cert,
        key=place.key,
        issuer=None if auth is None else TokenIssuer(auth.issuer, auth.audience, auth.scopes, auth.jwks),
    )


def hosts_of(place: ListenAddress) -> tuple[str, ...] | None:
    """What a `Host` header may say there; None where that says nothing, as on a Unix socket without `hosts`.

    A web page whose name was made to lead to this machine shows that name, and is refused (DNS rebinding).
    """
    if place.kind is ListenKind.HTTP_UNIX:
        return place.hosts or None
    own = f"[{place.name}]" if ":" in place.name else place.name
    names = dict.fromkeys(("localhost", "127.0.0.1", "[::1]", own))
    standard = 443 if place.kind is ListenKind.HTTPS else 80
    hosts = [f"{name}:{place.port}" for name in names] + ([*names] if place.port == standard else [])
    for host in place.hosts:
        # Without a port it is that of the place, or the standard one of a proxy before it.
        has_port = host.rpartition(":")[2].isdecimal() and not host.endswith("]")
        hosts += [host] if has_port else [host, f"{host}:{place.port}"]
    return tuple(dict.fromkeys(hosts))


async def _read(fd: int) -> bytes:
    while True:
        try:
            return os.read(fd, READ_BYTES)
        except BlockingIOError:
            await trio.lowlevel.wait_readable(fd)
