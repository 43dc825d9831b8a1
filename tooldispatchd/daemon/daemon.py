"""The running daemon: its doors, its signals, and its end.

At the first SIGTERM or SIGINT agents are let in no more and new requests get `draining`; what runs has `grace_s`, then
what is left is ended, torn down within `TEARDOWN_S`, and the exit code is 0. Administrators may look on until then. A
second signal kills every child and exits 1.
A daemon that another one takes over has its channels for `grace_s` as if nothing had happened, then it drains.
SIGHUP reads the configuration anew (`reloading`), unless it is that of the daemon's own terminal, which is gone: that
ends it like SIGTERM. SIGQUIT, SIGXCPU and SIGPWR are as SIGTERM; of others that would end a process, those of `IGNORED`
are only logged.
"""

import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from time import thread_time
from typing import Final

import msgspec
import trio

from tooldispatchd.agent.faults import DRAINING, too_many
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.administration import Offer, ReadConfiguration, Reload
from tooldispatchd.agent.session.entrance import Entrance, Visitor
from tooldispatchd.agent.session.host import ChannelHost
from tooldispatchd.calls.census import Census
from tooldispatchd.daemon.logs import DaemonLog, LogOutput
from tooldispatchd.daemon.places.doors import DescriptorPair, Door, OpenPlace, accepted_from
from tooldispatchd.daemon.places.inheritance import Handed
from tooldispatchd.daemon.places.listeners import ListenError
from tooldispatchd.daemon.places.openplaces import OpenPlaces
from tooldispatchd.daemon.places.takeover import MAX_DESCRIPTORS
from tooldispatchd.daemon.scraping import ScrapeSide
from tooldispatchd.daemon.systemd import Notifier
from tooldispatchd.daemon.webside import WebSide
from tooldispatchd.forked.signals import IGNORED, signal_name
from tooldispatchd.front.channel import Channel, SocketWire
from tooldispatchd.front.front import Front
from tooldispatchd.front.pair import give_back, open_pair
from tooldispatchd.front.stream import StreamChannel
from tooldispatchd.front.timer import Deferred
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.session import fault_line

# The ladder of a connection takes at most 4 s (close, TERM, KILL); the rest is for reaping and flushing.
TEARDOWN_S: Final = 4.5
# What the exit takes after it, at most: the grace and both are under the manager's patience.
EXIT_S: Final = 1.5
# Kept from connections, so that programs can still be started for agents that are connected: some twenty at once, with
# their pipes. A small table keeps a quarter.
RESERVED_DESCRIPTORS: Final = 128
RESERVED_PART: Final = 4
# It tells nothing of what exists: a peer that is not admitted learns that alone.
NOT_ADMITTED: Final = Fault(Code.NOT_AUTHENTICATED, "you may not connect here")
NOTHING_TO_GIVE: Final = Fault(Code.NOT_ALLOWED, "this daemon has no place of its own that could be handed over")
TOO_MUCH_TO_GIVE: Final = Fault(Code.NOT_ALLOWED, "this daemon has more places than can be handed over at once")
# An MCP client over HTTP, of whom the kernel knows nothing: no user of this machine has the number -1.
NOBODY: Final = Visitor(-1, -1)
# A name has the module and the function.
MAX_NAME_CHARS: Final = 120


class LongestTurn(trio.abc.Instrument):
    """The longest time that one task has kept all others waiting, and which task; costs a microsecond per step.

    Processor time is counted, not the clock's: what other processes take on a busy machine is not the loop's doing.
    """

    def __init__(self) -> None:
        self.count = 0
        self.took_s = 0.0
        self.name = ""
        self._began = thread_time()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002  # trio's own signature
        self._began = thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took_s = thread_time() - self._began
        self.count += 1
        if took_s > self.took_s:
            self.took_s = took_s
            self.name = task.name[:MAX_NAME_CHARS]

    def fields(self) -> dict[str, object]:
        """For a line of the log."""
        return {"longest_turn_ms": round(self.took_s * 1000, 1), "longest_turn": self.name}


class Daemon:
    """What goes in and out of one daemon: its channels and the hosts behind them."""

    def __init__(
        self,
        runtime: Runtime,
        front: Front,
        log: DaemonLog,
        notifier: Notifier,
        *,
        web: WebSide,
        latest: Callable[[], Runtime],
        handed: Handed,
        descriptors: int,
    ) -> None:
        self._services = runtime.services
        self._state = runtime.state
        self.latest: Final = latest
        self._front = front
        self._log = log
        self._notifier = notifier
        self._web = web
        web.ended = self._check_emptied
        self.places: Final = OpenPlaces(front, handed, notifier, self._accept, self._renew)
        self._scrapes = ScrapeSide(self, latest, runtime.services.home)
        self._hosts: set[ChannelHost] = set()
        # Those without an agent in a daemon that drains: it does not wait for them.
        self._watchers: set[ChannelHost] = set()
        self._channels: set[Channel | StreamChannel] = set()
        self._pairs = 0
        self._descriptors = descriptors - min(RESERVED_DESCRIPTORS, descriptors // RESERVED_PART)
        self.started_at, self.began = time.time(), time.monotonic()
        self.drains_until: float | None = None
        self.reload: Reload | None = None
        self.configuration: Callable[[], ReadConfiguration] | None = None
        self.turns = LongestTurn()
        self._connected = Census({os.geteuid(), 0})
        self._stopping = trio.Event()
        # Another daemon has its places, or it is to stop.
        self._leaving = trio.Event()
        self._emptied = trio.Event()
        self._is_signalled = False
        self.turned_away = 0
        # A daemon that never had one cannot lose it.
        self._has_terminal = has_terminal()
        self.is_forced = False

    # --- ways in ---

    def serve(self, opened: Sequence[OpenPlace]) -> None:
        """Let agents in; raises `ListenError` for descriptors that no channel can be made of."""
        self.places.serve(opened)
        self._web.renew(self.places.web, self.latest().setup.catalog)
        pairs = [place.pair for place in opened if place.pair is not None]
        # Counted before any of them can end.
        self._pairs = len(pairs)
        for pair in pairs:
            self._serve_pair(pair)

    def _serve_pair(self, pair: DescriptorPair) -> None:
        share = self._state.memory.share(pair.visitor.uid)
        try:
            channel = open_pair(self._front, share, pair.read_fd, pair.write_fd)
        except OSError as error:
            raise ListenError(pair.where, error.strerror or str(error)) from error
        # The channel has duplicates. While these stayed open too, the reader of the answers would never see their end.
        give_back({pair.read_fd, pair.write_fd})
        host = self._host(channel, pair.entrance, pair.visitor)
        self._hosts.add(host)
        self._channels.add(channel)
        if isinstance(channel, StreamChannel):
            self._services.home.start_soon(self._serve_stream, channel, host)
        else:
            channel.open(host, closed=partial(self._pair_closed, channel))

    def _accept(self, door: Door, connection: socket.socket) -> None:
        if door.metrics is not None:
            self._scrapes.accept(door.metrics, connection)
            return
        visitor = accepted_from(connection)
        # One of a web process is nobody's.
        is_admitted = self._web.is_child(visitor.pid) if door.is_web else door.entrance.admits(visitor)
        if is_admitted:
            self._admit(door, connection, NOBODY if door.is_web else visitor)
        else:
            self._refuse(door, connection, visitor)

    def _refuse(self, door: Door, connection: socket.socket, visitor: Visitor) -> None:
        self._log.warning("peer not admitted", place=door.where, uid=visitor.uid, gid=visitor.gid, pid=visitor.pid)
        self._turn_away(connection, NOT_ADMITTED)

    def _admit(self, door: Door, connection: socket.socket, visitor: Visitor) -> None:
        limits = self.latest().setup.limits
        if connection.fileno() >= self._descriptors:
            # The kernel gives the lowest number that is free: all below are taken.
            self._services.sharing.shed()
            self._turn_away(connection, too_many("connections", len(self._channels)))
        # Channels without a session count too: else a peer that only connects could keep everyone else out.
        elif self._connected.total + self._pairs >= limits.connections:
            self._turn_away(connection, too_many("connections", limits.connections))
        elif self._connected.is_full_for(visitor.uid, limits.sessions_per_uid):
            self._turn_away(connection, too_many("sessions_per_uid", limits.sessions_per_uid))
        else:
            now = trio.current_time()
            wait_s = self._state.guesses.wait_s(visitor.program, now)
            if wait_s > 0:
                self._front.timer.add(now + wait_s, Deferred(partial(self._open_late, door, connection, visitor)))
            else:
                self._open(door, connection, visitor)
            # Counted while it waits, too: else a user who is slowed down could open any number of connections.
            self._connected.enter(visitor.uid)

    def _open(self, door: Door, connection: socket.socket, visitor: Visitor) -> None:
        """Serve a connection. Raises `OSError`."""
        channel = Channel(self._front, SocketWire(connection), self._state.memory.share(visitor.uid))
        host = self._host(channel, door.entrance, visitor)
        channel.open(host, closed=partial(self._connection_closed, channel, visitor.uid))
        (self._watchers if self._state.is_draining else self._hosts).add(host)
        self._channels.add(channel)

    def _open_late(self, door: Door, connection: socket.socket, visitor: Visitor) -> None:
        """Serve a connection that had to wait."""
        try:
            if self._stopping.is_set():
                self._turn_away(connection, DRAINING)
            else:
                self._open(door, connection, visitor)
                return
        except OSError:
            connection.close()
        self._connected.leave(visitor.uid)

    def _renew(self, before: Entrance, entrance: Entrance) -> None:
        """Have sessions that open on channels that are there come in as the place says now."""
        for host in self._hosts:
            host.renew(before, entrance)

    def _host(self, channel: Channel | StreamChannel, entrance: Entrance, visitor: Visitor) -> ChannelHost:
        return ChannelHost(self.latest, channel, self._host_closed, entrance=entrance, visitor=visitor)

    def _turn_away(self, connection: socket.socket, fault: Fault) -> None:
        self.turned_away += 1
        # The peer may have gone already, as it is told to.
        with connection, suppress(OSError):
            connection.send(msgspec.json.encode(fault_line(fault, line=0)) + b"\n", socket.MSG_DONTWAIT)

    async def _serve_stream(self, channel: StreamChannel, host: ChannelHost) -> None:
        try:
            await channel.run(host)
        except Exception as error:  # noqa: BLE001  # guard: the channel's, as in the front
            self._front.end_defective(error, host.gone)
        self._pair_closed(channel)

    # --- ends ---

    def _host_closed(self, host: ChannelHost) -> None:
        self._hosts.discard(host)
        (self._watchers.add if host.is_staying else self._watchers.discard)(host)
        self._check_emptied()

    def _channel_closed(self, channel: Channel | StreamChannel) -> None:
        self._channels.discard(channel)
        self._check_emptied()

    def _connection_closed(self, channel: Channel, uid: int) -> None:
        self._connected.leave(uid)
        self._channel_closed(channel)

    def _pair_closed(self, channel: Channel | StreamChannel) -> None:
        """Stop with the last way in. A listening socket never ends."""
        self._channel_closed(channel)
        self._pairs -= 1
        if not self._pairs and not self.places:
            self.stop()

    def _check_emptied(self) -> None:
        if not self._hosts and len(self._channels) == len(self._watchers):
            self._emptied.set()
            # Taken over, it waits for web processes, which may come in with whom it has accepted.
            if self._leaving.is_set() and not self._web.is_serving:
                self.stop()

    def stop(self) -> None:
        """Begin to drain. Idempotent."""
        self._stopping.set()
        self._leaving.set()
        self._services.sharing.close()

    def offer(self) -> Offer | Fault:
        """The descriptors of its own places, for a daemon that takes them over."""
        if self.is_stopping:
            return DRAINING
        handed = self.places.handed
        if not handed:
            return NOTHING_TO_GIVE
        return TOO_MUCH_TO_GIVE if len(handed) > MAX_DESCRIPTORS else Offer(handed, self._hand_over)

    def _hand_over(self) -> None:
        """Leave the places to the daemon that has their descriptors now, and serve who came before."""
        self.places.hand_over()
        self._web.stop()
        self.reload = None
        self._services.sharing.close()
        self._log.info("places handed over", channels=len(self._channels))
        self._leaving.set()

    # --- what administrators see (`RunningDaemon`) ---

    @property
    def channels(self) -> int:
        """How many there are."""
        return len(self._channels)

    @property
    def is_stopping(self) -> bool:
        """Whether it lets nobody in any more: it drains, or another daemon has its places."""
        return self._leaving.is_set()

    @property
    def lost_lines(self) -> int:
        """How many lines of the log could not be written."""
        return self._log.lost

    @property
    def turns_taken(self) -> int:
        """How many steps all tasks have made."""
        return self.turns.count

    @property
    def longest_turn(self) -> tuple[float, str]:
        """The longest time for which one task has held the loop, in seconds, and its name."""
        return self.turns.took_s, self.turns.name

    @property
    def log_output(self) -> LogOutput:
        """Where the log goes."""
        return self._log.output

    @property
    def listening(self) -> tuple[str, ...]:
        """The places where agents come in, as they are written."""
        return self.places.texts

    @property
    def status(self) -> str:
        """The state in a few words, for the service manager."""
        words = f"{self._state.open_sessions.total} sessions, {len(self._channels)} channels"
        return f"draining: {words}" if self.is_stopping else words

    async def receive_signals(
        self, signals: AsyncIterator[int], *, reload: Callable[[], None], kill_children: Callable[[], None]
    ) -> None:
        """Drain at the first signal, end everything at the second. Signals of `IGNORED` are only logged.

        SIGHUP asks for a reload, unless it says that the daemon's terminal is gone. That comes more than once, from the
        kernel and from the shell, so it never ends what is draining.
        """
        async for number in signals:
            name = signal_name(number)
            is_reload = number == signal.SIGHUP and not (self._has_terminal and not has_terminal())
            if number in IGNORED or (number == signal.SIGHUP and self.is_stopping):
                self._log.info("signal ignored", signal=name)
                continue
            if self._is_signalled:
                self._log.warning("daemon forced to end", signal=name)
                self.is_forced = True
                kill_children()
                # Waiting calls end first: else the place that a killed child frees would start one of them.
                for host in list(self._hosts):
                    host.abort()
                self._services.home.cancel_scope.cancel()
                return
            self._log.info("signal received", signal=name)
            if is_reload:
                reload()
            else:
                self._is_signalled = True
                self.stop()

    async def run(self) -> None:
        """Serve until stopped, then drain, with the grace that the configuration says by then."""
        await self._leaving.wait()
        grace_s = self.latest().setup.catalog.config.daemon.grace_s
        # Of a daemon that was taken over: who was accepted in the last instant is still to say its first line.
        with trio.move_on_after(grace_s):
            await self._stopping.wait()
        self.stop()
        self._notifier.stopping(self.status, within_s=grace_s + TEARDOWN_S + EXIT_S)
        self._log.info("daemon draining", sessions=self._state.open_sessions.total, grace_s=grace_s)
        self._state.is_draining = True
        self.drains_until = time.monotonic() + grace_s
        self.places.drain()
        self._web.stop()
        self._emptied = trio.Event()
        await self._tell_hosts(ChannelHost.drain)
        self._check_emptied()
        with trio.move_on_after(grace_s):
            await self._emptied.wait()
        self.places.close()
        self._hosts |= self._watchers
        self._watchers.clear()
        self._emptied = trio.Event()
        await self._tell_hosts(ChannelHost.abort)
        self._check_emptied()
        # A peer that has not read its answers within the grace never will.
        for channel in list(self._channels):
            channel.give_up()
        with trio.move_on_after(TEARDOWN_S):
            await self._emptied.wait()

    async def move_sessions(self) -> None:
        """Have every session go on under the latest generation, each in a turn of its own; one that cannot, ends."""
        for host in list(self._hosts):
            for session in host.sessions:
                try:
                    session.move(self.latest)
                except Exception as error:  # noqa: BLE001  # guard: a defect in one session ends only that session
                    incident = self._log.incident("session not moved", error)
                    why = f"a defect of the daemon, incident {incident}"
                    session.abort(Fault(Code.INTERNAL_ERROR, why, {"incident": incident}))
                await trio.lowlevel.checkpoint()

    async def _tell_hosts(self, end: Callable[[ChannelHost], None]) -> None:
        """Call `end` for each host in a turn of its own: freeing what one holds may take its time."""
        waiting = [*self._hosts]
        while waiting:
            host = waiting.pop()
            if host in self._hosts:
                end(host)
            del host
            await trio.lowlevel.checkpoint()


def has_terminal() -> bool:
    """Whether the process has a terminal that its signals come from: one that hung up is gone (tty(4))."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
