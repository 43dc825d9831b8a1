"""The places that a daemon listens on now, and how they become others while it runs.

A place that is in the old configuration and in the new one keeps its socket, and with it the connections that wait in
its queue; whom it admits is looked up anew. New places are open before anything changes, and a channel stays when the
place goes away that it came in by. A service manager that keeps sockets has those of the daemon's own places.
"""

import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from tooldispatchd.agent.session.entrance import Entrance
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.config.listen_values import ListenAddress, ListenKind
from tooldispatchd.daemon.places.doors import Door, OpenPlace, Spot, WebDoor, doors_of, open_doors, spot_of
from tooldispatchd.daemon.places.inheritance import Handed, SocketStore, names_of
from tooldispatchd.front.front import Front, Listener

# Their descriptors were given to the process, once.
GIVEN: Final = frozenset({ListenKind.SYSTEMD, ListenKind.FD, ListenKind.STDIO})
# At these the daemon knows which user connects.
OWN_SOCKETS: Final = frozenset({ListenKind.UNIX, ListenKind.ABSTRACT})
# Of a socket, once and for all.
MADE_WITH: Final = ("mode", "owner")
AFTER_START: Final = "takes effect when the daemon is started again"


class PlaceChange(msgspec.Struct, frozen=True):
    """What is to be done for places of a new configuration; those of `opened` are open already.

    `kept` have the place as it is now and its doors.
    """

    opened: list[OpenPlace]
    kept: list[tuple[OpenPlace, ListenAddress, tuple[Door, ...]]]
    gone: list[OpenPlace]
    warnings: list[str]

    @property
    def changed(self) -> list[str]:
        """A line for each place that comes or goes."""
        come = [f"listening on {each.place.text}" for each in self.opened]
        return [*come, *(f"not listening on {each.place.text} any more" for each in self.gone)]

    def drop(self) -> None:
        """It is not to be after all."""
        for each in self.opened:
            each.close()


class OpenPlaces:
    """See the module. `accepted` is given each connection, with the door that it came in by.

    `renewed` is told what a door admitted, and what it does from now on.
    """

    def __init__(
        self,
        front: Front,
        handed: Handed,
        store: SocketStore,
        accepted: Callable[[Door, socket.socket], None],
        renewed: Callable[[Entrance, Entrance], None],
    ) -> None:
        self._front = front
        self._handed = handed
        self._store = store
        self._accepted = accepted
        self._renewed = renewed
        # Left to another daemon, or closed: no reading of the configuration opens any again.
        self.is_over = False
        self._places: dict[Spot, OpenPlace] = {}

    def __bool__(self) -> bool:
        """Whether any agent may still come in."""
        return any(place.listeners and not place.place.is_metrics for place in self._places.values())

    def serve(self, opened: Iterable[OpenPlace]) -> None:
        """Let agents in at these places."""
        for place in opened:
            place.is_stored = self._store.store(place.handed)
            self._places[spot_of(place.place)] = place
            for door in place.doors:
                place.listeners.append(Listener(self._front, door.socket, partial(self._accepted, door)))

    def prepare(self, places: Sequence[ListenAddress], catalog: Catalog) -> PlaceChange:
        """What is to change for these places, of which the new ones are open. Raises `ListenError`."""
        if self.is_over:
            return PlaceChange([], [], [], [])
        wanted = {spot_of(place): place for place in places}
        kept: list[tuple[OpenPlace, ListenAddress, tuple[Door, ...]]] = []
        gone: list[OpenPlace] = []
        warnings: list[str] = []
        for spot, opened in self._places.items():
            place = wanted.pop(spot, None)
            if place is not None:
                made = {name: getattr(opened.place, name) for name in MADE_WITH}
                different = [name for name, value in made.items() if getattr(place, name) != value]
                warnings += [f"{place.text}: what has changed of its {name} {AFTER_START}" for name in different]
                place = msgspec.structs.replace(place, **made)
                kept.append((opened, place, doors_of(opened, place, self._handed, catalog)))
            elif opened.place.kind in GIVEN:
                warnings.append(f"{opened.place.text} stays: that it is gone {AFTER_START}")
            else:
                gone.append(opened)
        late = [place for place in wanted.values() if place.kind in GIVEN]
        warnings += [f"{place.text}: a new place of this kind {AFTER_START}" for place in late]
        new = [place for place in wanted.values() if place not in late]
        return PlaceChange(open_doors(new, self._handed, catalog), kept, gone, warnings)

    @property
    def texts(self) -> tuple[str, ...]:
        """The places, as they are written; a socket of a unit with its name."""
        return tuple(door.where for place in self._places.values() for door in place.doors)

    @property
    def web(self) -> list[WebDoor]:
        """The doors of places for HTTP, in the order in which they were opened."""
        return [place.web for place in self._places.values() if place.web is not None]

    def take(self, change: PlaceChange) -> None:
        """Serve what was prepared."""
        for opened, place, doors in change.kept:
            for before, door in zip(opened.doors, doors, strict=True):
                self._renewed(before.entrance, door.entrance)
            opened.place, opened.doors = place, doors
            if opened.web is not None:
                opened.web = msgspec.structs.replace(opened.web, place=place, door=doors[0])
            for listener, door in zip(opened.listeners, doors, strict=True):
                listener.accepted = partial(self._accepted, door)
        for each in change.gone:
            del self._places[spot_of(each.place)]
            if each.is_stored:
                self._store.forget(names_of(each.place))
                each.is_stored = False
            each.close()
        self.serve(change.opened)

    @property
    def handed(self) -> list[tuple[int, str]]:
        """What another daemon must be given to go on listening at the own places."""
        return [each for place in self._places.values() for each in place.handed]

    def hand_over(self) -> None:
        """Let nobody in any more at the own places, and leave them to the daemon that has their descriptors."""
        self.is_over = True
        for place in self._places.values():
            place.hand_over()

    def drain(self) -> None:
        """Let in only those who may look on: where metrics are read, and at the daemon's own Unix sockets.

        Whoever connects to a socket that a service manager keeps is to wait there for the next daemon.
        """
        self.is_over = True
        for spot, place in [*self._places.items()]:
            if not place.place.is_metrics and (place.is_stored or place.place.kind not in OWN_SOCKETS):
                place.close()
                del self._places[spot]

    def close(self) -> None:
        """Let nobody in any more, at whatever place."""
        self.is_over = True
        for place in self._places.values():
            place.close()
        self._places.clear()
