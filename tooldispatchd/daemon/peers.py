"""Who stands at the other end of a channel, and whom a place admits: the kernel's word, and the accounts of this host.

What a peer says of itself is not looked at. Its credentials are those of the moment when it connected (unix(7),
SO_PEERCRED), so that a socket that is passed on keeps the rights of who opened it.
"""

import os
import socket
import stat
import struct
from collections.abc import Callable
from typing import Final

from tooldispatchd.agent.entrance import Entrance, Visitor
from tooldispatchd.catalog.profiles import DEFAULT_PROFILE
from tooldispatchd.config.credentials import find_gid, find_uid
from tooldispatchd.config.listen_values import ANY, ListenAddress

ROOT_UID: Final = 0
# asm-generic/socket.h, Linux 4.13; Python has no name for it.
SO_PEERGROUPS: Final = 59
# Python gives getsockopt no larger buffer: 256 groups. Of who is in more, none is known.
MAX_OPTION_BYTES: Final = 1024

_UCRED: Final = struct.Struct("=iII")
_GID: Final = struct.Struct("=I")


def peer_of(connection: socket.socket) -> Visitor:
    """Who connected this Unix socket, or made this pair of them; raises `OSError`."""
    pid, uid, gid = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    # The number is 0 where the peer lives in a namespace of processes that we cannot see into.
    return Visitor(uid, gid, pid or None, _groups_of(connection))


def own_visitor() -> Visitor:
    """The daemon's own user, who stands for whoever gave it pipes, files or a terminal."""
    return Visitor(os.geteuid(), os.getegid(), None, tuple(os.getgroups()))


def visitor_of(fd: int) -> Visitor:
    """Who stands behind an inherited descriptor: the peer of a Unix socket, else the daemon's own user.

    Raises `OSError` for one that is not open.
    """
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return own_visitor()
    with socket.socket(fileno=os.dup(fd)) as inherited:
        return peer_of(inherited) if inherited.family == socket.AF_UNIX else own_visitor()


def entrance_of(place: ListenAddress, *, is_abstract: bool) -> Entrance:
    """What a place admits; raises `AccountError`.

    An abstract socket has no file whose mode could keep anyone out, so that it admits our own user and root alone
    unless the place says whom.
    """
    uids = _accounts(place.uids, find_uid)
    gids = _accounts(place.gids, find_gid)
    if ANY in (*place.uids, *place.gids):
        uids = gids = None
    elif uids is None and gids is None and is_abstract:
        uids = frozenset((os.geteuid(), ROOT_UID))
    return Entrance(profile=place.profile or DEFAULT_PROFILE, profiles=_profiles(place), uids=uids, gids=gids)


def _accounts(names: tuple[str, ...], find: Callable[[str], int]) -> frozenset[int] | None:
    return frozenset(find(name) for name in names if name != ANY) if names else None


def _profiles(place: ListenAddress) -> frozenset[str] | None:
    named = (*([place.profile] if place.profile else []), *place.profiles)
    return frozenset(named) if named else None


def _groups_of(connection: socket.socket) -> tuple[int, ...]:
    try:
        groups = connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, MAX_OPTION_BYTES)
    except OSError:
        # More than there is room for, or an older kernel: whom no group lets in may still come in by uid.
        return ()
    return tuple(gid for (gid,) in _GID.iter_unpack(groups))
