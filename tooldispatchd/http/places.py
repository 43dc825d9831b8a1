"""Where a request goes: origins, targets, and where a server may lead besides its own origin; no I/O.

A server is trusted with its own origin (RFC 6454: scheme, host and port) and with nothing else: what it redirects to,
or names as its authorization server, must be that origin, stand in the configuration's `hosts`, or have been accepted
by the person at a login.
"""

import ipaddress
import re
from typing import Final, NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from tooldispatchd.http.errors import UntrustedOriginError, WireError
from tooldispatchd.http.reach import Reach

PORTS: Final = {"http": 80, "https": 443}
# What may stand in a request target as it is; all else is escaped. "%" is there because escapes are.
_PLAIN: Final = "!$%&'()*+,-./:;=?@_~"
_NAME: Final = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?")
# IPv6; what it is exactly, the resolver says. A zone (RFC 9844) is an interface's name.
_ADDRESS: Final = re.compile(r"(?=.*:)[0-9a-fA-F:.]{2,45}(%[0-9A-Za-z._~-]{1,32})?")
_WITH_BODY: Final = frozenset({307, 308})
SEE_OTHER: Final = 303
_TO_GET: Final = frozenset({301, 302, SEE_OTHER})


class Origin(NamedTuple):
    """Scheme, host and port, the host in lower case, ASCII and without brackets."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """The value of a `Host` header: without the port where it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if PORTS[self.scheme] == self.port else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


class HttpTarget(NamedTuple):
    """An origin, and the target that is asked for there: a path and, if there is one, a query."""

    origin: Origin
    target: str

    @property
    def url(self) -> str:
        """The whole again, in its absolute form."""
        return f"{self.origin}{self.target}"


def place(url: str) -> HttpTarget:
    """The place that an absolute http(s) URL names. Raises `WireError`, which shows nothing of a query."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("ascii" if url.isascii() else "idna").decode()
        port = parts.port
    except ValueError:  # UnicodeError is one
        raise WireError("cannot use its URL: it is not one") from None
    scheme = parts.scheme.lower()
    # An address, or a name as DNS has them (RFC 1035, 2.3.4: 63 and 253 characters).
    is_host = _ADDRESS.fullmatch(host) or (len(host) <= 253 and _NAME.fullmatch(host))
    if scheme not in PORTS or not is_host or port == 0:
        raise WireError(f"cannot use a URL of scheme {scheme[:20]!r} and host {host[:253]!r}: expected http or https")
    if parts.username is not None or parts.password is not None:
        raise WireError("cannot use a URL with a user name in it: credentials belong into `headers` or `token`")
    target = quote(parts.path or "/", safe=_PLAIN.replace("?", ""))
    if parts.query:
        target += "?" + quote(parts.query, safe=_PLAIN)
    return HttpTarget(Origin(scheme, host, port or PORTS[scheme]), target)


class Territory:
    """Where the server of a `Reach` may lead: its own origin, the listed hosts, and the origins that are trusted."""

    def __init__(self, reach: Reach) -> None:
        self.own = place(reach.url)
        self._hosts = frozenset(host.lower() for host in reach.hosts)
        self._private = reach.private
        self._trusted: set[str] = set()

    def trust(self, origin: str) -> None:
        """Let the server lead to `origin` too, whatever address that has."""
        self._trusted.add(origin)

    def admit(self, url: str) -> HttpTarget:
        """The place of `url`, to which the server led. Raises `WireError` where it may not."""
        found = place(url)
        if found.origin == self.own.origin:
            return found
        if self.own.origin.scheme == "https" and found.origin.scheme != "https":
            raise WireError(f"it leads from https to {found.origin}, where nothing is encrypted")
        origin = found.origin
        host = f"[{origin.host}]" if ":" in origin.host else origin.host
        # HOST is for its scheme's own port, HOST:PORT for any scheme.
        is_listed = origin.authority in self._hosts or f"{host}:{origin.port}" in self._hosts
        if not is_listed and str(origin) not in self._trusted:
            raise UntrustedOriginError(str(origin))
        return found

    def must_be_public(self, origin: Origin) -> bool:
        """Whether the name of an origin to which the server leads must resolve to public addresses."""
        if self._private or origin == self.own.origin or str(origin) in self._trusted:
            return False
        return not is_literal(origin.host)

    def redirected(self, method: str, at: HttpTarget, status: int, location: str | None) -> HttpTarget | None:
        """Where an answer sends the request on to; None where it is an answer. Raises `WireError` (RFC 9110, 15.4).

        Only 307 and 308 carry a body on; with 303 the answer lies elsewhere, to be got. With 301 and 302 some clients
        make a GET of a POST and others do not, so that neither is done.
        """
        if location is None or status not in _WITH_BODY | _TO_GET:
            return None
        try:
            target = self.admit(urljoin(at.url, location))
        except WireError as error:
            raise WireError(f"HTTP {status}: {error.why}", was_sent=True, extras={"http_status": status}) from None
        except ValueError:
            raise WireError(
                f"HTTP {status} to what is not a URL", was_sent=True, extras={"http_status": status}
            ) from None
        if status in _TO_GET and status != SEE_OTHER and method not in {"GET", "HEAD"}:
            raise WireError(
                f"HTTP {status} to {target.origin}: only 303, 307 and 308 are followed with a {method}",
                was_sent=True,
                extras={"http_status": status},
            )
        return target


def is_literal(host: str) -> bool:
    """Whether a host is an address, or localhost: no name service can lead it elsewhere."""
    if host == "localhost":
        return True
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
