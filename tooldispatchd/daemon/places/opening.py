"""The places of a daemon that starts, opened in the order in which a restart leaves no gap.

begin ─▶ the places that are free, with what a service manager has kept of a daemon before ─▶ all else is made
finish ─▶ those of the daemon that is taken over, which is asked for them now ─▶ ready ─▶ it is told so
"""

from collections.abc import Iterable, Sequence

from tooldispatchd.agent.log import Log
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.config.listen_values import ListenAddress
from tooldispatchd.daemon.places.doors import OpenPlace, close_all, open_doors
from tooldispatchd.daemon.places.inheritance import Handed, Inheritance, SocketStore
from tooldispatchd.daemon.places.takeover import Predecessor, reach


class Opening:
    """See the module. `units` are the sockets of a unit, `take_over` is as of `DaemonStart`."""

    def __init__(
        self,
        places: Sequence[ListenAddress],
        catalog: Catalog,
        units: Handed,
        *,
        store: SocketStore,
        log: Log,
        take_over: str | None,
    ) -> None:
        self.opened: list[OpenPlace] = []
        self._places = places
        self._catalog = catalog
        self._units = units
        self._store = store
        self._log = log
        self._take_over = take_over
        self._predecessor: Predecessor | None = None
        self._late: list[ListenAddress] = []

    async def begin(self, left: Handed) -> None:
        """Open what can be opened now; `left` are sockets and locks of a daemon before. Raises `ListenError`."""
        if self._take_over is not None:
            self._predecessor = await reach(self._places, self._take_over)
            if self._predecessor is None:
                self._log.info("no daemon to take over")
            else:
                self._late = [place for place in self._places if self._predecessor.has(place)]
        self._open([place for place in self._places if place not in self._late], Inheritance(left))

    async def finish(self) -> None:
        """Open what the daemon that runs still has; it accepts nobody any more. Raises `ListenError`."""
        if self._predecessor is not None:
            self._open(self._late, await self._predecessor.take())

    def ready(self) -> None:
        """Have the daemon that was taken over end when it may."""
        if self._predecessor is not None:
            self._predecessor.close()

    def close(self) -> None:
        """Accept nobody any more. Idempotent."""
        self.ready()
        close_all(self.opened)

    def _open(self, places: Iterable[ListenAddress], inheritance: Inheritance) -> None:
        self.opened += open_doors(places, self._units, self._catalog, inheritance)
        # The files go with them: nobody listens there any more.
        if left := inheritance.close():
            self._log.warning("sockets not used", names=left, detail="no place to listen is theirs any more")
            self._store.forget(left)
