"""The running daemon: its nurseries, its doors, its signals, and its end.

    background ── timer, front, signals
    home ─────── sessions (each with its own nursery), channels on streams

At the first SIGTERM, SIGINT or SIGHUP the doors close and new requests get `draining`; what runs has `grace_s`, then
what is left is ended, torn down within `TEARDOWN_S`, and the exit code is 0. A second signal kills every child and
exits 1. SIGUSR1 and SIGUSR2 are ignored.
"""

import gc
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Final

import trio

from tooldispatchd.agent.faults import DRAINING, too_many
from tooldispatchd.agent.programs.subagents import SubAgents
from tooldispatchd.agent.runtime import DaemonState, Runtime, Services
from tooldispatchd.agent.session.entrance import Entrance, Visitor
from tooldispatchd.agent.session.host import ChannelHost
from tooldispatchd.agent.setup import Setup
from tooldispatchd.agent.tools.accounts import accounts_of
from tooldispatchd.agent.tools.servers import preload_ways
from tooldispatchd.calls.census import Census
from tooldispatchd.calls.memory import Memory
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.specs import LimitsSpec
from tooldispatchd.children.descriptors import raise_limit, require_free
from tooldispatchd.children.family import open_family
from tooldispatchd.daemon.doors import DescriptorPair, Door, Doors, Handed, open_doors
from tooldispatchd.daemon.equipment import EquipmentError, open_equipment
from tooldispatchd.daemon.heap import Heap
from tooldispatchd.daemon.listen_values import ListenAddress
from tooldispatchd.daemon.listeners import ListenError
from tooldispatchd.daemon.logs import DaemonLog
from tooldispatchd.daemon.peers import peer_of
from tooldispatchd.daemon.systemd import Notifier, open_pulse
from tooldispatchd.daemon.turns import LongestTurn
from tooldispatchd.forked.signals import IGNORED
from tooldispatchd.front.channel import Channel, SocketWire
from tooldispatchd.front.front import Front, Listener
from tooldispatchd.front.pair import give_back, open_pair
from tooldispatchd.front.stream import StreamChannel
from tooldispatchd.front.timer import Deferred, Timer
from tooldispatchd.wire.channel import ChannelMachine
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.session import fault_line

# The ladder of a connection takes at most 4 s (close, TERM, KILL); the rest is for reaping and flushing.
TEARDOWN_S: Final = 4.5
# What the exit takes after it, at most: the grace and both are under the manager's patience.
EXIT_S: Final = 1.5
# Kept from connections, so that those who are in can have programs started: some twenty at once, with their pipes. Of a
# small table a quarter.
RESERVED_DESCRIPTORS: Final = 128
RESERVED_PART: Final = 4
# Nothing of what exists: who is not let in learns that alone.
NOT_ADMITTED: Final = Fault(Code.NOT_AUTHENTICATED, "you may not connect here")


class Daemon:
    """What goes in and out of one daemon: its channels and the hosts behind them."""

    def __init__(self, runtime: Runtime, front: Front, log: DaemonLog, notifier: Notifier, *, descriptors: int) -> None:
        self._runtime = runtime
        self._front = front
        self._log = log
        self._notifier = notifier
        self._hosts: set[ChannelHost] = set()
        self._channels: set[Channel | StreamChannel] = set()
        self._listeners: list[Listener] = []
        self._pairs = 0
        self._descriptors = descriptors - min(RESERVED_DESCRIPTORS, descriptors // RESERVED_PART)
        self._connected = Census({os.geteuid(), 0})
        self._stopping = trio.Event()
        self._emptied = trio.Event()
        self._is_signalled = False
        self.is_forced = False

    # --- ways in ---

    def serve(self, doors: Doors) -> None:
        """Let agents in; raises `ListenError` for descriptors that no channel can be made of."""
        for door in doors.listening:
            self._listeners.append(self._front.listen(door.socket, partial(self._accept, door)))
        # Counted before any of them can end.
        self._pairs = len(doors.pairs)
        for pair in doors.pairs:
            self._open_pair(pair)

    def _accept(self, door: Door, connection: socket.socket) -> None:
        """Every connection is a channel of its own."""
        visitor = peer_of(connection)
        if not door.entrance.admits(visitor):
            self._log.warning("peer not admitted", place=door.where, uid=visitor.uid, gid=visitor.gid, pid=visitor.pid)
            self._turn_away(connection, NOT_ADMITTED)
        elif connection.fileno() >= self._descriptors:
            # The kernel gives the lowest number that is free: all below are taken.
            self._turn_away(connection, too_many("connections", len(self._channels)))
        elif (refusal := self._no_room(visitor)) is not None:
            self._turn_away(connection, refusal)
        else:
            now = trio.current_time()
            wait_s = self._runtime.state.refusals.wait_s(visitor.uid, now)
            if wait_s > 0:
                self._front.timer.add(now + wait_s, Deferred(partial(self._open_late, door, connection, visitor)))
            else:
                self._open(door, connection, visitor)
            # Also while it waits: who is slowed down could have any number of them otherwise.
            self._connected.enter(visitor.uid)

    def _open(self, door: Door, connection: socket.socket, visitor: Visitor) -> None:
        """Serve a connection. Raises `OSError`."""
        channel = Channel(self._front, SocketWire(connection), self._runtime.state.memory.share(visitor.uid))
        host = self._host(channel, door.entrance, visitor)
        channel.open(host, closed=partial(self._connection_closed, channel, visitor.uid))
        self._hosts.add(host)
        self._channels.add(channel)

    def _open_late(self, door: Door, connection: socket.socket, visitor: Visitor) -> None:
        """As `_open`, of a connection that had to wait."""
        try:
            if self._stopping.is_set():
                self._turn_away(connection, DRAINING)
            else:
                self._open(door, connection, visitor)
                return
        except OSError:
            connection.close()
        self._connected.leave(visitor.uid)

    def _no_room(self, visitor: Visitor) -> Fault | None:
        """Channels that no session was opened on count too: who only connects could keep everyone else out."""
        limits = self._runtime.setup.limits
        if self._connected.total + self._pairs >= limits.connections:
            return too_many("connections", limits.connections)
        if self._connected.is_full_for(visitor.uid, limits.sessions_per_uid):
            return too_many("sessions_per_uid", limits.sessions_per_uid)
        return None

    def _host(self, channel: Channel | StreamChannel, entrance: Entrance, visitor: Visitor) -> ChannelHost:
        return ChannelHost(self._runtime, channel, self._host_closed, entrance=entrance, visitor=visitor)

    def _turn_away(self, connection: socket.socket, fault: Fault) -> None:
        machine = ChannelMachine(self._runtime.setup.limits.max_line_bytes)
        machine.outgoing.append(fault_line(fault))
        # It may have left already, which is what it is told to do.
        with connection, suppress(OSError):
            connection.send(machine.take_whole(), socket.MSG_DONTWAIT)

    def _open_pair(self, pair: DescriptorPair) -> None:
        """One channel on inherited descriptors."""
        try:
            channel = open_pair(
                self._front, self._runtime.state.memory.share(pair.visitor.uid), pair.read_fd, pair.write_fd
            )
        except OSError as error:
            raise ListenError(pair.where, error.strerror or str(error)) from error
        # The channel has its own: as long as we held these too, who reads the answers would not see them end.
        give_back({pair.read_fd, pair.write_fd})
        host = self._host(channel, pair.entrance, pair.visitor)
        self._hosts.add(host)
        self._channels.add(channel)
        if isinstance(channel, StreamChannel):
            self._runtime.services.home.start_soon(self._serve_stream, channel, host)
        else:
            channel.open(host, closed=partial(self._pair_closed, channel))

    async def _serve_stream(self, channel: StreamChannel, host: ChannelHost) -> None:
        try:
            await channel.run(host)
        except Exception as error:  # noqa: BLE001  # guard: the channel's, as in the front
            host.gone(f"internal error, incident {self._log.incident('channel failed', error)}")
        self._pair_closed(channel)

    # --- ends ---

    def _host_closed(self, host: ChannelHost) -> None:
        self._hosts.discard(host)
        self._look_whether_empty()

    def _channel_closed(self, channel: Channel | StreamChannel) -> None:
        self._channels.discard(channel)
        self._look_whether_empty()

    def _connection_closed(self, channel: Channel, uid: int) -> None:
        self._connected.leave(uid)
        self._channel_closed(channel)

    def _pair_closed(self, channel: Channel | StreamChannel) -> None:
        """The end of the last way in is the daemon's; a socket that is listened on never ends."""
        self._channel_closed(channel)
        self._pairs -= 1
        if not self._pairs and not self._listeners:
            self.stop()

    def _look_whether_empty(self) -> None:
        if not self._hosts and not self._channels:
            self._emptied.set()

    def stop(self) -> None:
        """Begin to drain; once begun it goes on."""
        self._stopping.set()

    @property
    def status(self) -> str:
        """What it is at, in a few words."""
        words = f"{self._runtime.state.open_sessions.total} sessions, {len(self._channels)} channels"
        return f"draining: {words}" if self._stopping.is_set() else words

    async def heed_signals(self, signals: AsyncIterator[int], kill_children: Callable[[], None]) -> None:
        """The first of these signals drains; the second ends everything at once. Those of `IGNORED` do nothing."""
        async for number in signals:
            if number in IGNORED:
                self._log.info("signal ignored", signal=signal.Signals(number).name)
                continue
            if self._is_signalled:
                self._log.warning("daemon forced to end", signal=signal.Signals(number).name)
                self.is_forced = True
                kill_children()
                # Calls that wait end first: a place that a killed child gives back must start none of them.
                for host in list(self._hosts):
                    host.abandon()
                self._runtime.services.home.cancel_scope.cancel()
                return
            self._log.info("signal received", signal=signal.Signals(number).name)
            self._is_signalled = True
            self.stop()

    async def run(self, grace_s: float, doors_closed: Callable[[], None]) -> None:
        """Serve until stopped, then drain; `doors_closed` is called as soon as nobody can come in any more."""
        await self._stopping.wait()
        self._notifier.stopping(self.status, within_s=grace_s + TEARDOWN_S + EXIT_S)
        self._log.info("daemon draining", sessions=self._runtime.state.open_sessions.total, grace_s=grace_s)
        self._runtime.state.is_draining = True
        for listener in self._listeners:
            listener.close()
        doors_closed()
        self._emptied = trio.Event()
        await self._tell_hosts(ChannelHost.drain)
        self._look_whether_empty()
        with trio.move_on_after(grace_s):
            await self._emptied.wait()
        await self._tell_hosts(ChannelHost.abandon)
        # What a peer has not taken within the grace it never will.
        for channel in list(self._channels):
            channel.give_up()
        with trio.move_on_after(TEARDOWN_S):
            await self._emptied.wait()

    async def _tell_hosts(self, end: Callable[[ChannelHost], None]) -> None:
        """Each in a turn of its own: what one holds may be large, and takes its time to be freed."""
        waiting = [*self._hosts]
        while waiting:
            host = waiting.pop()
            if host in self._hosts:
                end(host)
            del host
            await trio.lowlevel.checkpoint()


def ending_signals() -> list[signal.Signals]:
    """Those that end the daemon; a terminal that is closed does so too, unless somebody (nohup) wants otherwise."""
    hung_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if hung_up else [])]


def _check_descriptors() -> None:
    try:
        require_free()
    except OSError as error:
        raise EquipmentError(f"cannot serve: {error.strerror}") from error


def _start_front(services: trio.Nursery, limits: LimitsSpec, log: DaemonLog) -> Front:
    timer = Timer(log)
    front = Front(timer, log, out_buffer_bytes=limits.out_buffer_bytes, stalled_s=limits.stalled_s)
    services.start_soon(timer.run)
    services.start_soon(front.run)
    return front


async def serve(  # what the command found out, put together in one place
    catalog: Catalog,
    places: Sequence[ListenAddress],
    handed: Handed,
    *,
    notifier: Notifier,
    watchdog_s: float | None,
    log: DaemonLog,
    logs_calls: bool,
    agent_specs: Mapping[str, str],
) -> int:
    """Run the daemon on `places` until it is stopped, or the last of them is gone; the exit code.

    `handed` are the descriptors that a service manager gave, `agent_specs` the files of `open_agent_specs`. Raises
    `ListenError` for a place that cannot be listened on, `EquipmentError` where its programs cannot be run as they
    should be.
    """
    descriptors = raise_limit()
    setup = Setup(catalog, log, logs_calls=logs_calls, uid=os.geteuid(), agent_specs=agent_specs)
    # `bound` is closed when the daemon begins to drain; agents that still run then need what they are told in.
    with ExitStack() as bound, trio.open_signal_receiver(*ending_signals(), *IGNORED) as signals:
        # From here on a signal drains: who hears that the daemon is ready may stop it in the same breath.
        doors = open_doors(places, handed, catalog.profiles, bound=bound)
        _check_descriptors()
        async with (
            open_family() as family,
            open_equipment(setup, family, os.environ) as equipment,
            trio.open_nursery() as background,
        ):
            background.start_soon(family.keep_guarded, partial(log.warning, "guardian replaced"))
            background.start_soon(family.end_orphans)
            front = _start_front(background, catalog.config.limits, log)
            heap = Heap()
            background.start_soon(heap.run)
            background.start_soon(heap.free)
            async with trio.open_nursery() as home:
                services = Services(
                    setup,
                    timer=front.timer,
                    home=home,
                    family=family,
                    bounds=equipment.bounds,
                    lender=SubAgents(front, equipment.tool_lists),
                    python=equipment.python,
                    accounts=accounts_of(catalog, os.environ, log),
                )
                memory = Memory(catalog.config.limits.buffered_bytes, ebbed=heap.ebbed, let_go=heap.let_go)
                state = DaemonState(setup, cores=os.cpu_count() or 1, uid=os.geteuid(), memory=memory)
                runtime = Runtime(setup, services, state)
                daemon = Daemon(runtime, front, log, notifier, descriptors=descriptors)
                background.start_soon(daemon.heed_signals, signals, family.kill_all)
                daemon.serve(doors)
                preload_ways(catalog)
                # What is there now stays: the collector need not look at it again and again while everybody waits.
                gc.collect()
                gc.freeze()
                with open_pulse(front, notifier, watchdog_s=watchdog_s, status=lambda: daemon.status):
                    log.info("daemon ready", listening=[place.text for place in places], pid=os.getpid())
                    notifier.ready(daemon.status)
                    turns = LongestTurn()
                    trio.lowlevel.add_instrument(turns)
                    await daemon.run(catalog.config.daemon.grace_s, bound.close)
                    trio.lowlevel.remove_instrument(turns)
                home.cancel_scope.cancel()
            await services.checkers.close()
            background.cancel_scope.cancel()
    log.info("daemon stopped", forced=daemon.is_forced, **turns.fields())
    return 1 if daemon.is_forced else 0
