"""What `daemon.listen` and `--listen` may say: a way in, where it is, and behind a `?` what it admits.

    unix:PATH?mode=0660&owner=USER:GROUP    unix:@NAME?uid=any    fd:READ,WRITE    stdio    systemd?profiles=A,B

As in a URL, `%3F` is a question mark that belongs to the path and `%25` a percent sign. Whether a user or a descriptor
exists is asked when the place is opened: a configuration may be checked on another machine.
"""

import os
import re
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.problems import Path, Problem

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


def parse_place(text: str) -> ListenAddress | Problem:
    """The place that `text` means, or what is wrong with it; the problem's path is empty."""
    where, mark, query = text.partition("?")
    place = _parse_where(text, where)
    if isinstance(place, Problem) or not mark:
        return place
    options = _split_options(text, query)
    if isinstance(options, Problem):
        return options
    known = _OPTIONS[place.kind]
    for key in options:
        if key not in known:
            return _unknown_option(text, key, known)
    return _with_options(place, options)


def parse_places(texts: Iterable[str], profiles: Collection[str]) -> tuple[list[ListenAddress], list[Problem]]:
    """The places that `texts` mean, and what is wrong with them, each alone and all together."""
    places: list[ListenAddress] = []
    problems: list[Problem] = []
    for text in texts:
        place = parse_place(text)
        if isinstance(place, ListenAddress):
            places.append(place)
            problems += filter(None, (check_profiles(text, profiles),))
        else:
            problems.append(place)
    problems += filter(None, (check_shared(places),))
    return places, problems


def check_listen(value: str, path: Path = ()) -> Problem | None:
    """The problem of one place to listen, if it has one; `path` is where it stands in the configuration."""
    place = parse_place(value)
    return msgspec.structs.replace(place, path=path) if isinstance(place, Problem) else None


def check_profiles(value: str, known: Collection[str], path: Path = ()) -> Problem | None:
    """The problem of a place, well formed as such, that names a profile which is not among the `known` ones."""
    place = parse_place(value)
    if isinstance(place, Problem):
        return None
    for profile in (*([place.profile] if place.profile else []), *place.profiles):
        if profile not in known:
            return Problem(path, "unknown profile", value=value, nearest=nearest(profile, known))
    return None


def check_shared(places: Iterable[ListenAddress]) -> Problem | None:
    """The problem of a place that takes what an earlier one has: its descriptors, or what systemd hands over."""
    fds: set[int] = set()
    kinds: set[ListenKind] = set()
    for place in places:
        if place.kind is ListenKind.SYSTEMD and place.kind in kinds:
            return Problem((), "what systemd hands over belongs to one place", value=place.text)
        if place.fds is not None and not fds.isdisjoint(place.fds):
            return Problem((), "another place has this descriptor", value=place.text)
        kinds.add(place.kind)
        fds.update(place.fds or ())
    return None


def in_a_line(problem: Problem) -> str:
    """A problem of a place, for the command line."""
    allowed = f"allowed: {problem.allowed}" if problem.allowed else None
    meant = f'did you mean "{problem.nearest}"?' if problem.nearest else None
    return f"{problem.value}: {'; '.join(filter(None, (problem.why, allowed, meant)))}"


def quote_path(path: str) -> str:
    """`path` as it is written behind `unix:`."""
    return path.replace("%", "%25").replace("?", "%3F")


def _parse_where(text: str, where: str) -> ListenAddress | Problem:
    kind, colon, rest = where.partition(":")
    if where == "stdio":
        return ListenAddress(text, ListenKind.STDIO, fds=(0, 1))
    if where == "systemd":
        return ListenAddress(text, ListenKind.SYSTEMD)
    if kind == "fd" and colon:
        return _parse_fds(text, rest)
    if kind == "unix" and rest:
        return _parse_socket(text, rest)
    return Problem((), "no such way to listen", value=text, allowed=ALLOWED, nearest=_meant(text, where))


def _meant(text: str, where: str) -> str | None:
    if where.startswith(("/", "./", "@")):
        return f"unix:{text}"
    return nearest(where, ("stdio", "systemd"))


def _parse_fds(text: str, numbers: str) -> ListenAddress | Problem:
    found = _FDS.fullmatch(numbers)
    if found is None:
        return Problem((), "no pair of descriptors", value=text, allowed='"fd:READ,WRITE", two numbers')
    read_fd, write_fd = int(found[1]), int(found[2])
    if STANDARD_ERROR in {read_fd, write_fd}:
        return Problem((), "descriptor 2 is for the log", value=text)
    return ListenAddress(text, ListenKind.FD, fds=(read_fd, write_fd))


def _parse_socket(text: str, written: str) -> ListenAddress | Problem:
    is_abstract = written.startswith("@")
    name = _decoded(written.removeprefix("@"))
    if name is None:
        return Problem((), 'a "%" begins no escape', value=text, allowed='"%25" for a percent sign, "%3F" for a "?"')
    if not name or "\0" in name:
        return Problem((), "a socket's name has a character at least, and no NUL", value=text)
    size = len(os.fsencode(name))
    if is_abstract and size > MAX_ABSTRACT_BYTES:
        return Problem((), f"an abstract socket's name has at most {MAX_ABSTRACT_BYTES} bytes", value=text)
    if not is_abstract and size > MAX_SOCKET_PATH_BYTES:
        return Problem((), f"a socket's path has at most {MAX_SOCKET_PATH_BYTES} bytes", value=text)
    return ListenAddress(text, ListenKind.ABSTRACT if is_abstract else ListenKind.UNIX, name)


def _decoded(written: str) -> str | None:
    """`written` with its escapes replaced; None where one of them is none."""
    if _NO_ESCAPE.search(written):
        return None
    return os.fsdecode(unquote_to_bytes(os.fsencode(written)))


def _split_options(text: str, query: str) -> dict[str, str] | Problem:
    options: dict[str, str] = {}
    for option in query.split("&"):
        key, is_given, written = option.partition("=")
        value = _decoded(written)
        if not key or not is_given or not value:
            return Problem((), 'an option is "NAME=VALUE", and "&" stands between two', value=text)
        if key in options:
            return Problem((), "an option is given twice", value=text)
        options[key] = value
    return options


def _unknown_option(text: str, key: str, known: tuple[str, ...]) -> Problem:
    allowed = ", ".join(f'"{option}"' for option in known)
    # The option itself is not quoted: it may have come from the environment.
    if key in _FILE:
        return Problem((), "mode and owner are for a socket that has a path", value=text, allowed=allowed)
    if key in _PEERS:
        return Problem((), "uid and gid are for a socket that others connect to", value=text, allowed=allowed)
    return Problem((), "unknown option of a place", value=text, allowed=allowed, nearest=nearest(key, known))


def _with_options(place: ListenAddress, options: dict[str, str]) -> ListenAddress | Problem:
    mode, owner = options.get("mode"), options.get("owner")
    lists: dict[str, tuple[str, ...]] = {
        key: tuple(options[key].split(",")) for key in ("profiles", "uid", "gid") if key in options
    }
    why, allowed = _value_problem(mode, owner, lists)
    if why is not None:
        return Problem((), why, value=place.text, allowed=allowed)
    user, _, group = (owner or "").partition(":")
    return msgspec.structs.replace(
        place,
        profile=options.get("profile"),
        profiles=lists.get("profiles", ()),
        mode=None if mode is None else int(mode, 8),
        owner=SocketOwner(user, group or None) if user else None,
        uids=lists.get("uid", ()),
        gids=lists.get("gid", ()),
    )


def _value_problem(
    mode: str | None, owner: str | None, lists: dict[str, tuple[str, ...]]
) -> tuple[str | None, str | None]:
    """Why a value cannot be, and what can; both None where nothing is wrong."""
    if mode is not None and not (_MODE.fullmatch(mode) and int(mode, 8) <= MAX_MODE):
        return "mode is no octal number of at most 0777", '"mode=0660"'
    if owner is not None and not _is_owner(owner):
        return "owner is no user, nor a user and a group", '"owner=USER" or "owner=USER:GROUP", names or numbers'
    for key, members in lists.items():
        if not all(members):
            return f"{key} has an empty name in its list", None
        if key != "profiles" and not _are_accounts(members):
            return f"{key} is no list of names or numbers", f'"{key}=NAME,NUMBER" or "{key}=any"'
    return None, None


def _is_owner(owner: str) -> bool:
    user, colon, group = owner.partition(":")
    return bool(user) and bool(group) == bool(colon) and ":" not in group and _are_accounts((user, group))


def _are_accounts(members: tuple[str, ...]) -> bool:
    if ANY in members:
        return members == (ANY,)
    return not any(member.isdecimal() and not _is_account_number(member) for member in members)


def _is_account_number(text: str) -> bool:
    # The length first: Python refuses to convert thousands of digits.
    return text.isascii() and len(text) <= len(str(MAX_ACCOUNT)) and int(text) <= MAX_ACCOUNT
