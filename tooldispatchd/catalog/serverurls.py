"""URLs of MCP servers: which texts are one, the one way each is written, and what it says of the way there. Pure."""

import re
from typing import Final

# What browsers and proxies take; a longer one is no address.
MAX_URL_CHARS: Final = 2048
URL_ALLOWED: Final = "http(s):// or ws(s)://, a host and no user, then a port, a path and a query where there are any"

_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_SCHEMES: Final = tuple(f"{scheme}://" for scheme in _PORTS)
# RFC 3986, without a user and a password: a token has a key of its own.
_CHARS: Final = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*"
_QUERY_CHARS: Final = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*"
_URL: Final = re.compile(
    r"(?P<scheme>[A-Za-z]+)://(?P<host>[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    rf"(?P<path>/{_CHARS})?(?P<query>\?{_QUERY_CHARS})?(?:#{_QUERY_CHARS})?"
)
# RFC 6761, 6.3, and RFC 1122, 3.2.1.3; no name is looked up here.
_LOOPBACK: Final = re.compile(r"(.+\.)?localhost|127\.[0-9.]+|\[(0{0,4}:)+0{0,3}1\]")


def normal_url(text: str) -> str | None:
    """A URL of one of the four schemes in its one way of being written, or None where the text is none.

    Scheme and host in lower case, no default port, no fragment, and `/` for an empty path (RFC 3986, 6.2).
    """
    found = _URL.fullmatch(text) if len(text) <= MAX_URL_CHARS else None
    if found is None:
        return None
    scheme, host = found["scheme"].lower(), found["host"].lower()
    port = None if found["port"] is None else int(found["port"])
    if scheme not in _PORTS or (port is not None and not 0 < port < 1 << 16):
        return None
    shown = "" if port is None or port == _PORTS[scheme] else f":{port}"
    return f"{scheme}://{host}{shown}{found['path'] or '/'}{found['query'] or ''}"


def is_meant_as_url(text: str) -> bool:
    """Whether a text begins as a URL does, so that it is no name, whether or not it can be used."""
    return text.lower().startswith(_SCHEMES)


def host_of(url: str) -> str:
    """The host of a URL, in brackets where it is an IPv6 address; "" where it is no URL."""
    found = _URL.fullmatch(url)
    return "" if found is None else found["host"].lower()


def scheme_of(url: str) -> str:
    """`http`, `https`, `ws` or `wss` for a normal URL."""
    return url.partition(":")[0]


def is_readable_on_the_way(url: str) -> bool:
    """Whether what goes to a normal URL is neither encrypted nor stays on this machine."""
    return scheme_of(url) in {"http", "ws"} and _LOOPBACK.fullmatch(host_of(url)) is None


def without_query(url: str) -> str:
    """A URL as it may be shown: keys of an interface are handed out in queries."""
    return url.partition("#")[0].partition("?")[0]
