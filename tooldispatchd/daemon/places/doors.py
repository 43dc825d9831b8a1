"""Open the places to listen: each becomes listening sockets with their entrances, or a pair of descriptors.

    places ─▶ check_descriptors ─▶ open_doors ─▶ OpenPlace: Door (a listening socket), DescriptorPair (an open channel),
                                                            WebDoor (a listening socket for HTTP, a Door behind it)

All of them are open before the first is served, so that a place that cannot be opened leaves nothing half done. A place
whose socket a daemon before this one has left goes on with it. When the configuration is read anew, a place that still
stands in it keeps its sockets.

A peer is known by the kernel's word alone (unix(7), SO_PEERCRED). Its credentials are those of the moment when it
connected, so that a socket that is passed on keeps the rights of the process that opened it.
"""

import fcntl
import os
import secrets
import socket
import stat
import struct
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from tooldispatchd.agent.session.administration import ROOT_UID
from tooldispatchd.agent.session.entrance import Entrance, Visitor
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.profiles import DEFAULT_PROFILE
from tooldispatchd.children.procstat import program_name
from tooldispatchd.config.credentials import AccountError, find_gid, find_uid
from tooldispatchd.config.http_places import admitted_profiles, open_profile
from tooldispatchd.config.listen_values import ANY, ListenAddress, ListenKind
from tooldispatchd.daemon.places.inheritance import UNNAMED, Handed, Inheritance, handed_of
from tooldispatchd.daemon.places.listeners import (
    MODE,
    ListenError,
    UnixSocket,
    adopt_unix,
    listen_abstract,
    listen_tcp,
    listen_unix,
    take_handed,
)
from tooldispatchd.front.front import Listener

Spot = tuple[ListenKind, str, int, tuple[int, int] | None, bool]

UNCHANGED: Final = -1
# asm-generic/socket.h, Linux 4.13; Python has no name for it.
SO_PEERGROUPS: Final = 59
# Python gives getsockopt no larger buffer: 256 groups. Of a peer with more groups none is known.
MAX_OPTION_BYTES: Final = 1024

_UCRED: Final = struct.Struct("=iII")
_GID: Final = struct.Struct("=I")


def peer_of(connection: socket.socket) -> Visitor:
    """The peer that connected this Unix socket, or made the pair of them; raises `OSError`."""
    pid, uid, gid = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    try:
        groups = connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, MAX_OPTION_BYTES)
    except OSError:
        # More groups than there is room for, or an older kernel: the peer may still be admitted by its uid.
        groups = b""
    # The number is 0 where the peer lives in a namespace of processes that we cannot see into.
    command = program_name(pid) if pid else None
    return Visitor(uid, gid, pid or None, tuple(group for (group,) in _GID.iter_unpack(groups)), command=command)


def accepted_from(connection: socket.socket) -> Visitor:
    """The peer of a connection that was accepted just now; raises `OSError`."""
    return msgspec.structs.replace(peer_of(connection), accepted_at=time.clock_gettime(time.CLOCK_BOOTTIME))


def own_visitor() -> Visitor:
    """The daemon's own user, which stands for the giver of pipes, files or a terminal."""
    return Visitor(os.geteuid(), os.getegid(), None, tuple(os.getgroups()))


def visitor_of(fd: int) -> Visitor:
    """The visitor behind an inherited descriptor: the peer of a Unix socket, else the daemon's own user.

    Raises `OSError` for one that is not open.
    """
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return own_visitor()
    with socket.socket(fileno=os.dup(fd)) as inherited:
        return peer_of(inherited) if inherited.family == socket.AF_UNIX else own_visitor()


def entrance_of(place: ListenAddress, *, is_abstract: bool) -> Entrance:
    """The users, groups and profiles that a place admits; raises `AccountError`.

    An abstract socket has no file whose mode could keep anyone out, so that it admits our own user and root alone
    unless the place names others.
    """
    uids = _accounts(place.uids, find_uid)
    gids = _accounts(place.gids, find_gid)
    if ANY in (*place.uids, *place.gids):
        uids = gids = None
    elif uids is None and gids is None and is_abstract:
        uids = frozenset((os.geteuid(), ROOT_UID))
    named = frozenset((*([place.profile] if place.profile else []), *place.profiles)) or None
    return Entrance(profile=place.profile or DEFAULT_PROFILE, profiles=named, uids=uids, gids=gids)


def _accounts(names: tuple[str, ...], find: Callable[[str], int]) -> frozenset[int] | None:
    return frozenset(find(name) for name in names if name != ANY) if names else None


class Door(msgspec.Struct, frozen=True):
    """A listening socket and its entrance; `where` is its place as it is written.

    One that `is_web` takes connections of the web process alone. Where metrics are read, `metrics` is the place.
    """

    where: str
    socket: socket.socket
    entrance: Entrance
    is_web: bool = False
    metrics: ListenAddress | None = None


class DescriptorPair(msgspec.Struct, frozen=True):
    """Two inherited descriptors, their entrance, and the visitor behind them."""

    where: str
    read_fd: int
    write_fd: int
    entrance: Entrance
    visitor: Visitor


class WebDoor(msgspec.Struct, frozen=True):
    """A place for MCP clients: the socket that they connect to, and the private one through which they come in.

    That is abstract and has the `name`: nothing is left of it however the daemon ends.
    """

    place: ListenAddress
    listening: socket.socket
    name: str
    door: Door


class OpenPlace:
    """A place that is listened on until `bound` is closed.

    `listeners` are those of its doors in the front, once it is served. One that `is_stored` is also held by the service
    manager, for the next daemon.
    """

    def __init__(self, place: ListenAddress) -> None:
        self.place = place
        self.bound = ExitStack()
        self.doors: tuple[Door, ...] = ()
        self.pair: DescriptorPair | None = None
        self.web: WebDoor | None = None
        self.listeners: list[Listener] = []
        self.is_stored = False
        self._listening: socket.socket | None = None
        self._unix: UnixSocket | None = None

    def own(self, listening: socket.socket, unix: UnixSocket | None = None) -> socket.socket:
        """Have this socket, which is neither a unit's nor given to the process."""
        self._listening, self._unix = listening, unix
        if unix is not None:
            self.bound.callback(unix.release)
        self.bound.callback(listening.close)
        return listening

    @property
    def handed(self) -> Handed:
        """What another daemon must be given to go on listening here; nothing where the place is not our own."""
        if self._listening is None:
            return ()
        return handed_of(self.place, self._listening, () if self._unix is None else (self._unix.lock_fd,))

    def hand_over(self) -> None:
        """Accept nobody any more, and leave the place as it is to the daemon that has its descriptors.

        The web process, which stops accepting too, comes in as before with what it serves.
        """
        if self._listening is None:
            return
        if self._unix is not None:
            self._unix.leave()
        if self.web is None:
            self._stop_listening()
        self._listening.close()

    def close(self) -> None:
        """Accept nobody any more. Idempotent."""
        if self.is_stored and self._unix is not None:
            self._unix.leave()
        self._stop_listening()
        self.bound.close()

    def _stop_listening(self) -> None:
        for listener in self.listeners:
            listener.close()


def check_descriptors(places: Sequence[ListenAddress], handed: Handed) -> None:
    """Raise `ListenError` where a place's descriptors are not there or not what it says.

    Call it before anything is opened, which would get the number of a descriptor that is closed.
    """
    taken = {fd for fd, _ in handed}
    for place in places:
        if place.kind is ListenKind.SYSTEMD and not handed:
            raise ListenError(
                place.text, "no socket is handed over (LISTEN_PID and LISTEN_FDS do not name this process)"
            )
        uses = ((os.O_WRONLY, "reading"), (os.O_RDONLY, "writing"))
        for fd, (refused, purpose) in zip(place.fds or (), uses, strict=False):
            try:
                mode = os.fstat(fd).st_mode
                access = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
            except OSError as error:
                raise ListenError(place.text, f"descriptor {fd} is not open") from error
            if fd in taken:
                raise ListenError(place.text, f"descriptor {fd} is a socket that systemd hands over")
            if access == refused:
                raise ListenError(place.text, f"descriptor {fd} is not open for {purpose}")
            if stat.S_ISSOCK(mode):
                with socket.socket(fileno=os.dup(fd)) as inherited:
                    if inherited.type != socket.SOCK_STREAM:
                        raise ListenError(place.text, f"descriptor {fd} is no stream")
                    if inherited.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                        why = f'descriptor {fd} is a listening socket, which "systemd" is for'
                        raise ListenError(place.text, why)


def open_doors(
    places: Iterable[ListenAddress], handed: Handed, catalog: Catalog, inheritance: Inheritance | None = None
) -> list[OpenPlace]:
    """Open every place, each of which is to be closed. Raises `ListenError`; then none is open.

    `handed` are the sockets of a unit, `inheritance` those of a daemon before this one.
    """
    opened: list[OpenPlace] = []
    inheritance = inheritance or Inheritance()
    try:
        for place in places:
            opened.append(OpenPlace(place))
            _open(opened[-1], handed, catalog, inheritance)
    except AccountError as error:
        close_all(opened)
        raise ListenError(opened[-1].place.text, str(error)) from error
    except BaseException:
        close_all(opened)
        raise
    return opened


def close_all(opened: Iterable[OpenPlace]) -> None:
    """Accept nobody any more at these places."""
    for each in opened:
        each.close()


def doors_of(opened: OpenPlace, place: ListenAddress, handed: Handed, catalog: Catalog) -> tuple[Door, ...]:
    """The doors of an open place as they are to be from now on, with the entrances of `place`, which is at its spot.

    Users and groups are looked up again. Raises `ListenError`.
    """
    if place.is_metrics:
        return tuple(_metrics_door(place, door.socket) for door in opened.doors)
    try:
        if place.kind is ListenKind.SYSTEMD:
            named = zip(opened.doors, (name for _, name in handed), strict=True)
            return tuple(_named_door(place, door.socket, name, catalog.profiles) for door, name in named)
        if place.kind.is_http:
            entrance = _web_entrance(place, catalog)
        else:
            entrance = entrance_of(place, is_abstract=place.kind is ListenKind.ABSTRACT)
    except AccountError as error:
        raise ListenError(place.text, str(error)) from error
    return tuple(Door(place.text, door.socket, entrance, is_web=door.is_web) for door in opened.doors)


def spot_of(place: ListenAddress) -> Spot:
    """By what two places of a configuration are the same one: what an open socket cannot change."""
    return place.kind, place.name, place.port, place.fds, place.is_metrics


def _open(opened: OpenPlace, handed: Handed, catalog: Catalog, inheritance: Inheritance) -> None:
    """Open one place; raises `ListenError` or `AccountError`."""
    place, bound = opened.place, opened.bound
    if place.is_metrics:
        opened.doors = (_metrics_door(place, _listen(opened, inheritance)),)
        return
    if place.kind.is_http:
        opened.web = _open_web(opened, catalog, inheritance)
        opened.doors = (opened.web.door,)
        return
    entrance = entrance_of(place, is_abstract=place.kind is ListenKind.ABSTRACT)
    if place.fds is not None:
        opened.pair = DescriptorPair(place.text, *place.fds, entrance, visitor_of(place.fds[0]))
    elif place.kind is ListenKind.SYSTEMD:
        opened.doors = tuple(_take(place, fd, name, catalog.profiles, bound) for fd, name in handed)
    else:
        opened.doors = (Door(place.text, _listen(opened, inheritance), entrance),)


def _listen(opened: OpenPlace, inheritance: Inheritance) -> socket.socket:
    """The listening socket of a place: that of the daemon before this one, or a new one. Raises `ListenError`."""
    place = opened.place
    if place.kind in {ListenKind.UNIX, ListenKind.HTTP_UNIX}:
        unix = _adopt_unix(place, inheritance) or _listen_unix(place)
        return opened.own(unix.socket, unix)
    if (inherited := inheritance.take(place)) is not None:
        return opened.own(inherited[0])
    is_abstract = place.kind is ListenKind.ABSTRACT
    return opened.own(listen_abstract(place.name) if is_abstract else listen_tcp(place.name, place.port))


def _adopt_unix(place: ListenAddress, inheritance: Inheritance) -> UnixSocket | None:
    inherited = inheritance.take(place)
    if inherited is None:
        return None
    listening, lock_fd = inherited
    with ExitStack() as unless_taken:
        unless_taken.callback(listening.close)
        if lock_fd is not None:
            unless_taken.callback(os.close, lock_fd)
        try:
            unix = adopt_unix(Path(place.name), listening, lock_fd)
        except OSError as error:
            raise ListenError(place.text, error.strerror or str(error)) from error
        if unix is not None:
            unless_taken.pop_all()
        return unix


def _listen_unix(place: ListenAddress) -> UnixSocket:
    mode = MODE if place.mode is None else place.mode
    owner = None
    if place.owner is not None:
        group = place.owner.group
        owner = find_uid(place.owner.user), UNCHANGED if group is None else find_gid(group)
    return listen_unix(Path(place.name), mode=mode, owner=owner)


def _metrics_door(place: ListenAddress, listening: socket.socket) -> Door:
    # It opens no session.
    return Door(place.text, listening, Entrance(profile=DEFAULT_PROFILE, profiles=frozenset()), metrics=place)


def _open_web(opened: OpenPlace, catalog: Catalog, inheritance: Inheritance) -> WebDoor:
    place = opened.place
    listening = _listen(opened, inheritance)
    # Each daemon has its own: its web process knows no other.
    name = f"tooldispatchd-web-{secrets.token_hex(16)}"
    private = listen_abstract(name)
    opened.bound.callback(private.close)
    return WebDoor(place, listening, name, Door(place.text, private, _web_entrance(place, catalog), is_web=True))


def _web_entrance(place: ListenAddress, catalog: Catalog) -> Entrance:
    profile, admitted = open_profile(place, catalog), frozenset(admitted_profiles(place, catalog))
    return Entrance(profile=profile or DEFAULT_PROFILE, profiles=admitted)


def _take(place: ListenAddress, fd: int, name: str, profiles: Collection[str], bound: ExitStack) -> Door:
    handed = take_handed(fd, name)
    bound.callback(handed.close)
    return _named_door(place, handed, name, profiles)


def _named_door(place: ListenAddress, handed: socket.socket, name: str, profiles: Collection[str]) -> Door:
    # The standard library gives an abstract name as bytes, a path as text.
    entrance = entrance_of(place, is_abstract=isinstance(handed.getsockname(), bytes))
    where = f"{place.text} ({name})"
    if name in profiles:
        if entrance.profiles is not None and name not in entrance.profiles:
            raise ListenError(where, "the place does not admit the profile that the socket is named for")
        return Door(where, handed, msgspec.structs.replace(entrance, profile=name, profiles=frozenset((name,))))
    # The name of its unit, where none was chosen. A chosen one is a profile that was misspelt or taken away.
    if name == UNNAMED or name.endswith(".socket"):
        return Door(where, handed, entrance)
    raise ListenError(where, f'the socket is named "{name}", and there is no such profile')
