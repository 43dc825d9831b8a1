"""Accept those who read metrics, at most `MAX_SCRAPES` connections at once.

What answers them is a wing, imported with the first of them.
"""

import socket
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Final

import trio

from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.administration import CountedDaemon
from tooldispatchd.config.listen_values import ListenAddress
from tooldispatchd.daemon.webside import hosts_of

# A monitor, its twin, and somebody who looks. Each may hold some megabytes of text.
MAX_SCRAPES: Final = 8
WING: Final = "tooldispatchd.metrics.scrapes"


class ScrapeSide:
    """See the module. Connections are served in `nursery`; `latest` is as of a `ChannelHost`."""

    def __init__(self, daemon: CountedDaemon, latest: Callable[[], Runtime], nursery: trio.Nursery) -> None:
        self._daemon = daemon
        self._latest = latest
        self._nursery = nursery
        self._open = 0
        self._rendering = trio.Lock()

    def accept(self, place: ListenAddress, connection: socket.socket) -> None:
        """Answer who has connected there."""
        if self._open >= MAX_SCRAPES:
            connection.close()
            return
        self._open += 1
        # Who is on this machine may be a browser; a network reads it by whatever name it likes.
        self._nursery.start_soon(self._serve, connection, hosts_of(place) if place.is_loopback else None)

    async def _serve(self, connection: socket.socket, hosts: tuple[str, ...] | None) -> None:
        try:
            if WING not in sys.modules:
                # Some twenty milliseconds, in which the loop goes on.
                await trio.to_thread.run_sync(import_module, WING)
            from tooldispatchd.metrics.scrapes import serve_scrape  # noqa: PLC0415  # a wing

            await serve_scrape(connection, self._daemon, self._latest(), hosts=hosts, rendering=self._rendering)
        except Exception as error:  # noqa: BLE001  # guard: the channel's, as in the front
            self._latest().setup.log.incident("scrape failed", error)
        finally:
            self._open -= 1
