"""What `daemon.listen` and `--listen` may say: a way in, where it is, and behind a `?` what it admits.

    unix:PATH?mode=0660&owner=USER:GROUP    unix:@NAME?uid=any    fd:READ,WRITE    stdio    systemd?profiles=A,B

As in a URL, `%3F` is a question mark that belongs to the path and `%25` a percent sign. Whether a user or a descriptor
exists is asked when the place is opened: a configuration may be checked on another machine.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.problems import Problem

ALLOWED: Final = '"unix:PATH", "unix:@NAME", "stdio", "fd:READ,WRITE" or "systemd", each with options behind a "?"'
# sockaddr_un has 108 bytes (unix(7)): one is the NUL at the end, four the suffix of the name that is bound first.
MAX_SOCKET_PATH_BYTES: Final = 103
# An abstract name has a NUL before it and none behind.
MAX_ABSTRACT_BYTES: Final = 107
MAX_MODE: Final = 0o777
# (uid_t)-1 means "unchanged" to chown(2), so no user has it.
MAX_ACCOUNT: Final = 2**32 - 2
ANY: Final = "any"
STANDARD_ERROR: Final = 2

_NO_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_FDS: Final = re.compile(r"([0-9]{1,9}),([0-9]{1,9})")
_MODE: Final = re.compile(r"[0-7]{1,4}")


class ListenKind(StrEnum):
    """The ways in."""

    UNIX = "unix"
    ABSTRACT = "abstract"
    STDIO = "stdio"
    FD = "fd"
    SYSTEMD = "systemd"


_WHO: Final = ("profile", "profiles")
_PEERS: Final = ("uid", "gid")
_FILE: Final = ("mode", "owner")
_OPTIONS: Final[dict[ListenKind, tuple[str, ...]]] = {
    ListenKind.UNIX: (*_WHO, *_FILE, *_PEERS),
    ListenKind.ABSTRACT: (*_WHO, *_PEERS),
    ListenKind.STDIO: _WHO,
    ListenKind.FD: _WHO,
    ListenKind.SYSTEMD: (*_WHO, *_PEERS),
}


class SocketOwner(msgspec.Struct, frozen=True):
    """Whom a socket is given to; names or numbers, as they are written."""

    user: str
    group: str | None = None


class ListenAddress(msgspec.Struct, frozen=True):
    """One place to listen; `text` is how it is written.

    `name` is the path of a socket or the name of an abstract one, `fds` the descriptors to read and to write.
    `uids` and `gids` are names, numbers, or `any` alone.
    """

    text: str
    kind: ListenKind
    name: str = ""
    fds: tuple[int, int] | None = None
    profile: str | None = None
    profiles: tuple[str, ...] = ()
    mode: int | None = None
    owner: SocketOwner | None = None
    uids: tuple[str, ...] = ()
    gids: tuple[str, ...] = ()


class _PlaceError(Exception):
    """What is wrong with a place."""

    def __init__(self, why: str, allowed: str | None = None, nearest_: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.allowed = allowed
        self.nearest = nearest_


def parse_place(text: str) -> ListenAddress | Problem:
    """The place that `text` means, or what is wrong with it; the problem's path is empty."""
    where, mark, query = text.partition("?")
    try:
        place = _parse_where(text, where)
        return _with_options(place, _split_options(query, place.kind)) if mark else place
    except _PlaceError as error:
        return Problem((), error.why, value=text, allowed=error.allowed, nearest=error.nearest)


def parse_places(texts: Iterable[str], profiles: Collection[str]) -> tuple[list[ListenAddress], list[Problem]]:
    """The places that `texts` mean, and what is wrong with them, each alone (its path is its index) and together."""
    places: list[ListenAddress] = []
    problems: list[Problem] = []
    for index, text in enumerate(texts):
        place = parse_place(text)
        if isinstance(place, ListenAddress):
            places.append(place)
            named = (*([place.profile] if place.profile else []), *place.profiles)
            unknown = next((profile for profile in named if profile not in profiles), None)
            if unknown is not None:
                close = nearest(unknown, profiles)
                problems.append(Problem((index,), "unknown profile", value=text, nearest=close))
        else:
            problems.append(msgspec.structs.replace(place, path=(index,)))
    return places, [*problems, *_taken_twice(places)]


def _taken_twice(places: Iterable[ListenAddress]) -> Iterator[Problem]:
    """A problem for the first place that takes what an earlier one has."""
    fds: set[int] = set()
    kinds: set[ListenKind] = set()
    for place in places:
        if place.kind is ListenKind.SYSTEMD and place.kind in kinds:
            yield Problem((), "what systemd hands over belongs to one place", value=place.text)
            return
        if place.fds is not None and not fds.isdisjoint(place.fds):
            yield Problem((), "another place has this descriptor", value=place.text)
            return
        kinds.add(place.kind)
        fds.update(place.fds or ())


def in_a_line(problem: Problem) -> str:
    """A problem of a place, for the command line."""
    allowed = f"allowed: {problem.allowed}" if problem.allowed else None
    meant = f'did you mean "{problem.nearest}"?' if problem.nearest else None
    return f"{problem.value}: {'; '.join(filter(None, (problem.why, allowed, meant)))}"


def quote_path(path: str) -> str:
    """`path` as it is written behind `unix:`."""
    return path.replace("%", "%25").replace("?", "%3F")


def _parse_where(text: str, where: str) -> ListenAddress:
    kind, colon, rest = where.partition(":")
    if where == "stdio":
        return ListenAddress(text, ListenKind.STDIO, fds=(0, 1))
    if where == "systemd":
        return ListenAddress(text, ListenKind.SYSTEMD)
    if kind == "fd" and colon:
        found = _FDS.fullmatch(rest)
        if found is None:
            raise _PlaceError("no pair of descriptors", '"fd:READ,WRITE", two numbers')
        fds = int(found[1]), int(found[2])
        if STANDARD_ERROR in fds:
            raise _PlaceError("descriptor 2 is for the log")
        return ListenAddress(text, ListenKind.FD, fds=fds)
    if kind == "unix" and rest:
        is_abstract = rest.startswith("@")
        name = _decoded(rest.removeprefix("@"))
        if name is None:
            raise _PlaceError('a "%" begins no escape', '"%25" for a percent sign, "%3F" for a "?"')
        if not name or "\0" in name:
            raise _PlaceError("a socket's name has a character at least, and no NUL")
        if is_abstract and len(os.fsencode(name)) > MAX_ABSTRACT_BYTES:
            raise _PlaceError(f"an abstract socket's name has at most {MAX_ABSTRACT_BYTES} bytes")
        if not is_abstract and len(os.fsencode(name)) > MAX_SOCKET_PATH_BYTES:
            raise _PlaceError(f"a socket's path has at most {MAX_SOCKET_PATH_BYTES} bytes")
        return ListenAddress(text, ListenKind.ABSTRACT if is_abstract else ListenKind.UNIX, name)
    is_path = where.startswith(("/", "./", "@"))
    raise _PlaceError(
        "no such way to listen", ALLOWED, f"unix:{text}" if is_path else nearest(where, ("stdio", "systemd"))
    )


def _decoded(written: str) -> str | None:
    """`written` with its escapes replaced; None where one of them is none."""
    if _NO_ESCAPE.search(written):
        return None
    return os.fsdecode(unquote_to_bytes(os.fsencode(written)))


def _split_options(query: str, kind: ListenKind) -> dict[str, str]:
    options: dict[str, str] = {}
    for option in query.split("&"):
        key, is_given, written = option.partition("=")
        value = _decoded(written)
        if not key or not is_given or not value:
            raise _PlaceError('an option is "NAME=VALUE", and "&" stands between two')
        if key in options:
            raise _PlaceError("an option is given twice")
        options[key] = value
    known = _OPTIONS[kind]
    allowed = ", ".join(f'"{option}"' for option in known)
    for key in options:
        if key in known:
            continue
        # The option itself is not quoted: it may have come from the environment.
        if key in _FILE:
            raise _PlaceError("mode and owner are for a socket that has a path", allowed)
        if key in _PEERS:
            raise _PlaceError("uid and gid are for a socket that others connect to", allowed)
        raise _PlaceError("unknown option of a place", allowed, nearest(key, known))
    return options


def _with_options(place: ListenAddress, options: dict[str, str]) -> ListenAddress:
    mode, owner = options.get("mode"), options.get("owner")
    if mode is not None and not (_MODE.fullmatch(mode) and int(mode, 8) <= MAX_MODE):
        raise _PlaceError("mode is no octal number of at most 0777", '"mode=0660"')
    user, colon, group = (owner or "").partition(":")
    is_whole = bool(user) and bool(group) == bool(colon) and ":" not in group
    if owner is not None and not (is_whole and _are_accounts((user, group))):
        allowed = '"owner=USER" or "owner=USER:GROUP", names or numbers'
        raise _PlaceError("owner is no user, nor a user and a group", allowed)
    lists = {key: tuple(options[key].split(",")) for key in ("profiles", "uid", "gid") if key in options}
    for key, members in lists.items():
        if not all(members):
            raise _PlaceError(f"{key} has an empty name in its list")
        if key != "profiles" and not _are_accounts(members):
            raise _PlaceError(f"{key} is no list of names or numbers", f'"{key}=NAME,NUMBER" or "{key}=any"')
    return msgspec.structs.replace(
        place,
        profile=options.get("profile"),
        profiles=lists.get("profiles", ()),
        mode=None if mode is None else int(mode, 8),
        owner=SocketOwner(user, group or None) if user else None,
        uids=lists.get("uid", ()),
        gids=lists.get("gid", ()),
    )


def _are_accounts(members: tuple[str, ...]) -> bool:
    if ANY in members:
        return members == (ANY,)
    # The length first: Python refuses to convert thousands of digits.
    return all(
        not member.isdecimal()
        or (member.isascii() and len(member) <= len(str(MAX_ACCOUNT)) and int(member) <= MAX_ACCOUNT)
        for member in members
    )
