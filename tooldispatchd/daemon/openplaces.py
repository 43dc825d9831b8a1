"""The places that a daemon listens on now, and how they become others while it runs.

A place that is in the old configuration and in the new one keeps its socket, and with it the connections that wait in
its queue; whom it admits is looked up anew. New places are open before anything changes, and a channel stays when the
place goes away that it came in by.
"""

import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.config.listen_values import ListenAddress, ListenKind
from tooldispatchd.daemon.doors import Door, Handed, OpenPlace, Spot, doors_of, open_doors, spot_of
from tooldispatchd.front.front import Front

# Their descriptors were given to the process, once.
GIVEN: Final = frozenset({ListenKind.SYSTEMD, ListenKind.FD, ListenKind.STDIO})
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
    """See the module. `accepted` is given each connection, with the door that it came in by."""

    def __init__(self, front: Front, handed: Handed, accepted: Callable[[Door, socket.socket], None]) -> None:
        self._front = front
        self._handed = handed
        self._accepted = accepted
        self._places: dict[Spot, OpenPlace] = {}

    def __bool__(self) -> bool:
        """Whether anybody may still come in."""
        return any(place.listeners for place in self._places.values())

    def serve(self, opened: Iterable[OpenPlace]) -> None:
        """Let agents in at these places."""
        for place in opened:
            self._places[spot_of(place.place)] = place
            for door in place.doors:
                place.listeners.append(self._front.listen(door.socket, partial(self._accepted, door)))

    def prepare(self, places: Sequence[ListenAddress], catalog: Catalog) -> PlaceChange:
        """What is to change for these places, of which the new ones are open. Raises `ListenError`."""
        wanted = {spot_of(place): place for place in places}
        kept: list[tuple[OpenPlace, ListenAddress, tuple[Door, ...]]] = []
        gone: list[OpenPlace] = []
        warnings: list[str] = []
        for spot, opened in self._places.items():
            place = wanted.pop(spot, None)
            if opened.web is not None:
                if place != opened.place:
                    warnings.append(f"{opened.place.text}: what has changed of it {AFTER_START}")
            elif place is not None:
                kept.append((opened, place, doors_of(opened, place, self._handed, catalog)))
                if (place.mode, place.owner) != (opened.place.mode, opened.place.owner):
                    warnings.append(f"{place.text}: its mode and its owner: what has changed of them {AFTER_START}")
            elif opened.place.kind in GIVEN:
                warnings.append(f"{opened.place.text} stays: that it is gone {AFTER_START}")
            else:
                gone.append(opened)
        late = [place for place in wanted.values() if place.kind in GIVEN or place.kind.is_http]
        warnings += [f"{place.text}: a new place of this kind {AFTER_START}" for place in late]
        new = [place for place in wanted.values() if place not in late]
        return PlaceChange(open_doors(new, self._handed, catalog), kept, gone, warnings)

    def take(self, change: PlaceChange) -> None:
        """Serve what was prepared."""
        for opened, place, doors in change.kept:
            # What its socket was made with stays.
            made = {"mode": opened.place.mode, "owner": opened.place.owner}
            opened.place, opened.doors = msgspec.structs.replace(place, **made), doors
            for listener, door in zip(opened.listeners, doors, strict=True):
                listener.accepted = partial(self._accepted, door)
        for each in change.gone:
            del self._places[spot_of(each.place)]
            each.close()
        self.serve(change.opened)

    def close(self) -> None:
        """Let nobody in any more."""
        for place in self._places.values():
            place.close()
        self._places.clear()
