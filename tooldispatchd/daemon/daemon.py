"""The running daemon: its nurseries, its doors, its signals, and its end.

    services ── timer, front, signals
    home ────── sessions (each with its own nursery), channels on streams

At the first SIGTERM or SIGINT the doors close and new requests get `draining`; what runs has `grace_s`, then what is
left is ended, torn down within `TEARDOWN_S`, and the exit code is 0. A second signal kills every child and exits 1.
"""

import os
import resource
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final

import trio

from tooldispatchd.agent.host import Host
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.children.family import open_family
from tooldispatchd.daemon.listeners import ListenError, listen_unix
from tooldispatchd.daemon.logs import DaemonLog
from tooldispatchd.front.channel import Channel, SocketWire
from tooldispatchd.front.front import Front, Listener
from tooldispatchd.front.stdio import open_pair
from tooldispatchd.front.stream import StreamChannel
from tooldispatchd.front.timer import Timer
from tooldispatchd.wire.channel import ChannelMachine
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.session import fault_line

# The ladder of a connection takes at most 4 s (close, TERM, KILL); the rest is for reaping and flushing.
TEARDOWN_S: Final = 4.5
STDIN: Final = 0
STDOUT: Final = 1


class Daemon:
    """What goes in and out of one daemon: its channels and the hosts behind them."""

    def __init__(self, runtime: Runtime, front: Front, log: DaemonLog) -> None:
        self._runtime = runtime
        self._front = front
        self._log = log
        self._hosts: set[Host] = set()
        self._channels: set[Channel | StreamChannel] = set()
        self._doors: list[Listener] = []
        self._stopping = trio.Event()
        self._emptied = trio.Event()
        self._is_signalled = False
        self.is_forced = False

    # --- doors ---

    def listen(self, listening: socket.socket) -> None:
        """Every connection is a channel of its own."""
        self._doors.append(self._front.listen(listening, self._accept))

    def _accept(self, connection: socket.socket) -> None:
        if len(self._channels) >= self._runtime.limits.connections:
            self._turn_away(connection)
            return
        channel = Channel(self._front, SocketWire(connection))
        host = Host(self._runtime, channel, self._host_closed)
        channel.open(host, closed=partial(self._channel_closed, channel))
        self._hosts.add(host)
        self._channels.add(channel)

    def _turn_away(self, connection: socket.socket) -> None:
        limit = self._runtime.limits.connections
        machine = ChannelMachine(self._runtime.limits.max_line_bytes)
        fault = Fault(Code.TOO_MANY, "too many connections", {"what": "connections", "limit": limit})
        machine.outgoing.append(fault_line(fault))
        # It may have left already, which is what it is told to do.
        with connection, suppress(OSError):
            connection.send(machine.take(), socket.MSG_DONTWAIT)

    def open_stdio(self) -> None:
        """One channel on the inherited stdin and stdout; its end is the daemon's."""
        try:
            channel = open_pair(self._front, STDIN, STDOUT)
        except OSError as error:
            raise ListenError("stdio", error.strerror or str(error)) from error
        host = Host(self._runtime, channel, self._host_closed)
        self._hosts.add(host)
        self._channels.add(channel)
        if isinstance(channel, StreamChannel):
            self._runtime.home.start_soon(self._serve_stream, channel, host)
        else:
            channel.open(host, closed=partial(self._stdio_closed, channel))

    async def _serve_stream(self, channel: StreamChannel, host: Host) -> None:
        try:
            await channel.run(host)
        except Exception as error:  # noqa: BLE001  # guard: the channel's, as in the front
            host.gone(f"internal error, incident {self._log.incident('channel failed', error)}")
        self._stdio_closed(channel)

    # --- ends ---

    def _host_closed(self, host: Host) -> None:
        self._hosts.discard(host)
        self._look_whether_empty()

    def _channel_closed(self, channel: Channel | StreamChannel) -> None:
        self._channels.discard(channel)
        self._look_whether_empty()

    def _stdio_closed(self, channel: Channel | StreamChannel) -> None:
        self._channel_closed(channel)
        self.stop()

    def _look_whether_empty(self) -> None:
        if not self._hosts and not self._channels:
            self._emptied.set()

    def stop(self) -> None:
        """Begin to drain; once begun it goes on."""
        self._stopping.set()

    async def heed_signals(self, kill_children: Callable[[], None]) -> None:
        """The first SIGTERM or SIGINT drains; the second ends everything at once."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                if self._is_signalled:
                    self._log.warning("daemon forced to end", signal=signal.Signals(number).name)
                    self.is_forced = True
                    kill_children()
                    self._runtime.home.cancel_scope.cancel()
                    return
                self._log.info("signal received", signal=signal.Signals(number).name)
                self._is_signalled = True
                self.stop()

    async def run(self, grace_s: float, doors_closed: Callable[[], None]) -> None:
        """Serve until stopped, then drain; `doors_closed` is called as soon as nobody can come in any more."""
        await self._stopping.wait()
        self._log.info("daemon draining", sessions=len(self._hosts), grace_s=grace_s)
        self._runtime.is_draining = True
        for door in self._doors:
            door.close()
        doors_closed()
        self._emptied = trio.Event()
        for host in list(self._hosts):
            host.drain()
        self._look_whether_empty()
        with trio.move_on_after(grace_s):
            await self._emptied.wait()
        for host in list(self._hosts):
            host.abandon()
        # What a peer has not taken within the grace it never will.
        for channel in list(self._channels):
            channel.give_up()
        with trio.move_on_after(TEARDOWN_S):
            await self._emptied.wait()


def raise_descriptor_limit() -> None:
    """Take all the descriptors that the service may have: each agent is one, each child four."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def serve(catalog: Catalog, places: Sequence[str], *, log: DaemonLog, logs_calls: bool) -> int:
    """Run the daemon on `places` (`unix:PATH` or `stdio`) until it is stopped; the exit code.

    Raises `ListenError` for a place that cannot be listened on.
    """
    raise_descriptor_limit()
    limits = catalog.config.limits
    with ExitStack() as sockets:
        bound = []
        for place in places:
            if place != "stdio":
                bound.append(listen_unix(Path(place.removeprefix("unix:"))))
                sockets.callback(bound[-1].release)
        async with open_family() as family, trio.open_nursery() as services:
            timer = Timer(log)
            front = Front(
                timer,
                log,
                out_buffer_bytes=limits.out_buffer_bytes,
                stalled_s=limits.stalled_s,
                buffered_bytes=limits.buffered_bytes,
            )
            services.start_soon(timer.run)
            services.start_soon(front.run)
            async with trio.open_nursery() as home:
                runtime = Runtime(
                    catalog,
                    timer=timer,
                    family=family,
                    home=home,
                    log=log,
                    logs_calls=logs_calls,
                    cores=os.cpu_count() or 1,
                )
                daemon = Daemon(runtime, front, log)
                services.start_soon(daemon.heed_signals, family.kill_all)
                for each in bound:
                    daemon.listen(each.socket)
                if "stdio" in places:
                    daemon.open_stdio()
                log.info("daemon ready", listening=list(places), pid=os.getpid())
                await daemon.run(catalog.config.daemon.grace_s, sockets.close)
                home.cancel_scope.cancel()
            services.cancel_scope.cancel()
    log.info("daemon stopped", forced=daemon.is_forced)
    return 1 if daemon.is_forced else 0
