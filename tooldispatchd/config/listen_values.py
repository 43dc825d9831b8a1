"""What `daemon.listen` and `--listen` may say: a way in, where it is, and behind a `?` what it admits.

    unix:PATH?mode=0660&owner=USER:GROUP    unix:@NAME?uid=any    fd:READ,WRITE    stdio    systemd?profiles=A,B
    http://ADDRESS:PORT/PATH?profile=A    https://ADDRESS:PORT/PATH?cert=FILE&key=FILE    http+unix:PATH?mode=0660
    http://ADDRESS:PORT/metrics           http+unix:PATH?path=/metrics

As in a URL, `%3F` is a question mark that belongs to the path and `%25` a percent sign. Whether a user or a descriptor
exists is asked when the place is opened: a configuration may be checked on another machine.
"""

import ipaddress
import os
import re
from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.problems import Problem

ALLOWED: Final = (
    '"unix:PATH", "unix:@NAME", "stdio", "fd:READ,WRITE", "systemd", "http://ADDRESS:PORT/PATH", "https://…" or '
    '"http+unix:PATH", each with options behind a "?"'
)
# Where MCP's own examples have it.
HTTP_PATH: Final = "/mcp"
# And where Prometheus looks: nobody has MCP there.
METRICS_PATH: Final = "/metrics"
MAX_PORT: Final = 65_535
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
_HTTP: Final = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]*\]|[^:/@\[\]]*)(?::([0-9]{1,5}))?(/[A-Za-z0-9._~/-]*)?")
_URL_PATH: Final = re.compile(r"/[A-Za-z0-9._~/-]*")
_HOST: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")


class ListenKind(StrEnum):
    """The ways in."""

    UNIX = "unix"
    ABSTRACT = "abstract"
    STDIO = "stdio"
    FD = "fd"
    SYSTEMD = "systemd"
    HTTP = "http"
    HTTPS = "https"
    HTTP_UNIX = "http+unix"

    @property
    def is_http(self) -> bool:
        """Whether it speaks HTTP: with MCP clients, or with who reads metrics."""
        return self in (ListenKind.HTTP, ListenKind.HTTPS, ListenKind.HTTP_UNIX)


_WHO: Final = ("profile", "profiles")
_PEERS: Final = ("uid", "gid")
_FILE: Final = ("mode", "owner")
_PEM: Final = ("cert", "key")
_WEB: Final = ("hosts", "origins", "auth")
_LISTS: Final = ("profiles", "uid", "gid", "hosts", "origins")
_OPTIONS: Final[dict[ListenKind, tuple[str, ...]]] = {
    ListenKind.UNIX: (*_WHO, *_FILE, *_PEERS),
    ListenKind.ABSTRACT: (*_WHO, *_PEERS),
    ListenKind.STDIO: _WHO,
    ListenKind.FD: _WHO,
    ListenKind.SYSTEMD: (*_WHO, *_PEERS),
    ListenKind.HTTP: (*_WHO, *_WEB),
    ListenKind.HTTPS: (*_WHO, *_PEM, *_WEB),
    ListenKind.HTTP_UNIX: ("path", *_WHO, *_FILE, *_WEB),
}
# At a place for metrics no profile is opened.
_METRICS: Final = ("path", "hosts", *_FILE)


class SocketOwner(msgspec.Struct, frozen=True):
    """Whom a socket is given to; names or numbers, as they are written."""

    user: str
    group: str | None = None


class ListenAddress(msgspec.Struct, frozen=True):
    """One place to listen; `text` is how it is written.

    `name` is the path of a socket or the name of an abstract one, or the IP address of one for HTTP, whose `path` is
    that of its URL; `fds` are the descriptors to read and to write. `uids` and `gids` are names, numbers, or `any`
    alone. `hosts` are further values of a `Host` header, `origins` web pages' that may call, both in lower case; `auth`
    is a table of `http_auth`.
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
    port: int = 0
    path: str = ""
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    cert: str | None = None
    key: str | None = None
    auth: str | None = None

    @property
    def named_profiles(self) -> tuple[str, ...]:
        """The profiles that it names; none where it admits all."""
        return tuple(dict.fromkeys((*([self.profile] if self.profile else []), *self.profiles)))

    @property
    def is_metrics(self) -> bool:
        """Whether it is where metrics are read, and no MCP client comes in."""
        return self.kind.is_http and self.path == METRICS_PATH

    @property
    def is_mcp(self) -> bool:
        """Whether MCP clients come in there."""
        return self.kind.is_http and self.path != METRICS_PATH

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it; so for all but HTTP over a network."""
        return self.kind not in (ListenKind.HTTP, ListenKind.HTTPS) or ipaddress.ip_address(self.name).is_loopback


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
        is_bare = not mark and place.kind is not ListenKind.HTTPS
        return place if is_bare else _with_options(place, _split_options(query, place.kind) if mark else {})
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
            unknown = next((profile for profile in place.named_profiles if profile not in profiles), None)
            if unknown is not None:
                close = nearest(unknown, profiles)
                problems.append(Problem((index,), "unknown profile", value=text, nearest=close))
        else:
            problems.append(msgspec.structs.replace(place, path=(index,)))
    problems += _taken_twice(places)
    if places and not problems and all(place.is_metrics for place in places):
        problems.append(Problem((), "no agent can come in: there are places for metrics alone", value=places[0].text))
    return places, problems


def _taken_twice(places: Iterable[ListenAddress]) -> Iterator[Problem]:
    """A problem for the first place that takes what an earlier one has."""
    fds: set[int] = set()
    addresses: set[tuple[str, int]] = set()
    kinds: set[ListenKind] = set()
    for place in places:
        if place.kind is ListenKind.SYSTEMD and place.kind in kinds:
            yield Problem((), "what systemd hands over belongs to one place", value=place.text)
            return
        if place.fds is not None and not fds.isdisjoint(place.fds):
            yield Problem((), "another place has this descriptor", value=place.text)
            return
        if place.port and (place.name, place.port) in addresses:
            yield Problem((), "another place has this address and port", value=place.text)
            return
        addresses.add((place.name, place.port))
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
    if kind in {"http", "https"} and colon:
        return _parse_http(text, where)
    if kind in {"unix", "http+unix"} and rest:
        return _parse_unix(text, rest, is_http=kind != "unix")
    is_path = where.startswith(("/", "./", "@"))
    raise _PlaceError(
        "no such way to listen", ALLOWED, f"unix:{text}" if is_path else nearest(where, ("stdio", "systemd"))
    )


def _parse_unix(text: str, rest: str, *, is_http: bool) -> ListenAddress:
    is_abstract = rest.startswith("@")
    if is_abstract and is_http:
        raise _PlaceError("an abstract socket has no mode that could keep anyone out", '"http+unix:PATH"')
    name = _decoded(rest.removeprefix("@"))
    if name is None:
        raise _PlaceError('a "%" begins no escape', '"%25" for a percent sign, "%3F" for a "?"')
    if not name or "\0" in name:
        raise _PlaceError("a socket's name has a character at least, and no NUL")
    if is_abstract and len(os.fsencode(name)) > MAX_ABSTRACT_BYTES:
        raise _PlaceError(f"an abstract socket's name has at most {MAX_ABSTRACT_BYTES} bytes")
    if not is_abstract and len(os.fsencode(name)) > MAX_SOCKET_PATH_BYTES:
        raise _PlaceError(f"a socket's path has at most {MAX_SOCKET_PATH_BYTES} bytes")
    if is_http:
        return ListenAddress(text, ListenKind.HTTP_UNIX, name, path=HTTP_PATH)
    return ListenAddress(text, ListenKind.ABSTRACT if is_abstract else ListenKind.UNIX, name)


def _parse_http(text: str, where: str) -> ListenAddress:
    found = _HTTP.fullmatch(where)
    if found is None:
        raise _PlaceError("no URL to listen on", '"http://ADDRESS:PORT/PATH", the path of letters, digits, "-._~/"')
    scheme, host, port, path = found.groups()
    try:
        name = "127.0.0.1" if host == "localhost" else str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        allowed = '"127.0.0.1", "[::1]", "0.0.0.0" or another address of this machine, or "localhost"'
        raise _PlaceError("a place for HTTP has an address, and no name", allowed) from None
    if port is None or not 0 < int(port) <= MAX_PORT:
        raise _PlaceError("a place for HTTP has a port", f"{scheme}://{host}:8321{path or HTTP_PATH}")
    return ListenAddress(text, ListenKind(scheme), name, port=int(port), path=path or HTTP_PATH)


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
            why = "HTTP knows no users" if kind.is_http else "uid and gid are for a socket that others connect to"
            raise _PlaceError(why, allowed)
        if key in _PEM:
            raise _PlaceError("cert and key are for https", allowed)
        if key in _WEB:
            raise _PlaceError(f"{key} is for HTTP", allowed)
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
    lists = {key: tuple(options[key].split(",")) for key in _LISTS if key in options}
    for key, members in lists.items():
        if not all(members):
            raise _PlaceError(f"{key} has an empty name in its list")
        if key in _PEERS and not _are_accounts(members):
            raise _PlaceError(f"{key} is no list of names or numbers", f'"{key}=NAME,NUMBER" or "{key}=any"')
    if not all(map(_HOST.fullmatch, lists.get("hosts", ()))):
        raise _PlaceError("hosts is no list of hosts", '"hosts=tools.example,tools.example:8443"')
    if not all(_ORIGIN.fullmatch(origin.lower()) for origin in lists.get("origins", ())):
        raise _PlaceError("origins is no list of origins, which have no path", '"origins=https://app.example"')
    if place.kind is ListenKind.HTTPS and "cert" not in options:
        raise _PlaceError("https has a certificate", '"cert=FILE", and "key=FILE" where it does not hold the key')
    path = options.get("path", place.path)
    if "path" in options and _URL_PATH.fullmatch(path) is None:
        raise _PlaceError('path is no path of letters, digits, "-._~/"', f'"path={METRICS_PATH}"')
    is_metrics = place.kind.is_http and path == METRICS_PATH
    if is_metrics and (place.kind is ListenKind.HTTPS or not options.keys() <= set(_METRICS)):
        allowed = ", ".join(f'"{option}"' for option in _METRICS if option in _OPTIONS[place.kind])
        raise _PlaceError(f"{METRICS_PATH} is where metrics are read, without a profile, a token or TLS", allowed)
    return msgspec.structs.replace(
        place,
        profile=options.get("profile"),
        profiles=lists.get("profiles", ()),
        mode=None if mode is None else int(mode, 8),
        owner=SocketOwner(user, group or None) if user else None,
        uids=lists.get("uid", ()),
        gids=lists.get("gid", ()),
        path=path,
        hosts=tuple(host.lower() for host in lists.get("hosts", ())),
        origins=tuple(origin.lower() for origin in lists.get("origins", ())),
        cert=options.get("cert"),
        key=options.get("key"),
        auth=options.get("auth"),
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
