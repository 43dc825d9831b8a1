"""The proxy that the environment names for an origin, by the conventions that curl set.

`http_proxy`, `https_proxy` and `all_proxy` hold a URL, `no_proxy` the hosts that are reached without; each also in
capitals. What is on this machine never goes through a proxy: there it would be another machine.
"""

import base64
import ipaddress
from typing import NamedTuple
from urllib import request
from urllib.parse import unquote, urlsplit

from tooldispatchd.providers.mcp.http.errors import WireError
from tooldispatchd.providers.mcp.http.places import PORTS, Origin


class Proxy(NamedTuple):
    """An HTTP proxy; `authorization` is the value of the header that it wants, and secret."""

    origin: Origin
    authorization: str | None = None

    def __repr__(self) -> str:
        """Where it is; its password is nobody's business."""
        return f"Proxy({self.origin})"


def proxy_for(origin: Origin) -> Proxy | None:
    """The proxy through which `origin` is reached, if any. Raises `WireError`, which shows nothing of its password."""
    named = request.getproxies_environment()
    url = named.get(origin.scheme) or named.get("all")
    if not url or is_local(origin.host):
        return None
    # It stands beside the other in the documentation of neither, but `urllib` goes by both; typeshed lists one.
    if request.proxy_bypass_environment(f"{origin.host}:{origin.port}", named):  # type: ignore[attr-defined]
        return None
    return _read(url if "://" in url else f"http://{url}")


def is_local(host: str) -> bool:
    """Whether a host's name says that it is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _read(url: str) -> Proxy:
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError:
        raise WireError("cannot use the proxy that the environment names: it is not a URL") from None
    if scheme not in PORTS:
        raise WireError(f"cannot use a {scheme[:20]} proxy: only http:// and https:// ones are spoken to")
    if not host:
        raise WireError("cannot use the proxy that the environment names: there is no host in it")
    authorization = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    return Proxy(Origin(scheme, host, port or PORTS[scheme]), authorization)
