"""One answer over HTTP, with a bound for everything: bytes, time, redirects.

Each request has a client of its own: no cookies, no credentials, no Referer, nothing that it leaves to the next one.
"""

import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Final
from urllib.request import getproxies_environment, proxy_bypass

# The first request imports these two otherwise, in each fork anew: 20 ms.
import anyio.streams.tls  # noqa: F401
import httpcore2  # noqa: F401
import httpx2
import msgspec
import trio

from tooldispatchd.forked.python.context import InvalidInputError, ToolContext, ToolFailedError
from tooldispatchd.toolbox.web.addresses import AllowedHosts, addresses_of, host_of, parsed_url, shown_url

# From `http` to `https`, to `www`, to a locale, to a login, and one more.
MAX_REDIRECTS: Final = 5
# Longer than three lost SYNs (1 + 2 + 4 s).
CONNECT_S: Final = 10.0
# Where nothing bounds the call.
MAX_S: Final = 60.0
# For turning a page into text and the answer into JSON.
MARGIN_S: Final = 3.0
USER_AGENT: Final = (
    f"tooldispatchd/{version('tooldispatchd')} (a language model's tool; fetches single pages on request)"
)
_REDIRECTS: Final = {301, 302, 303, 307, 308}
_ENCODINGS: Final = {"", "identity", "gzip", "x-gzip", "deflate"}


class Download(msgspec.Struct, frozen=True):
    """What came from a URL: the last one, after redirects; `body` is decompressed, and cut if not `is_whole`."""

    url: httpx2.URL
    status: int
    headers: httpx2.Headers
    body: bytes = b""
    is_whole: bool = True


async def download(text: str, allowed: AllowedHosts, *, max_bytes: int) -> Download:
    """Get a URL and follow its redirects, each judged as the first. Raises InvalidInputError, ToolFailedError."""
    url = parsed_url(text)
    for _ in range(MAX_REDIRECTS + 1):
        found = await _got(url, allowed, max_bytes)
        if found.status not in _REDIRECTS or "location" not in found.headers:
            return found
        url = _redirected(url, found.headers["location"])
    raise ToolFailedError(
        f"cannot fetch {text[:1000]}: it redirects more than {MAX_REDIRECTS} times, at last to {shown_url(url)}"
    )


@asynccontextmanager
async def within_time(ctx: ToolContext, doing: str) -> AsyncIterator[None]:
    """End what runs inside, with a sentence, early enough to answer before the call's deadline."""
    left_s = MAX_S if ctx.left_s is None else max(ctx.left_s - MARGIN_S, ctx.left_s / 2)
    with trio.move_on_after(left_s) as scope:  # noqa: ASYNC100  # what stands inside waits
        yield
    if scope.cancelled_caught:
        raise ToolFailedError(f"cannot {doing}: the answer was not complete within {left_s:.1f} s")


@asynccontextmanager
async def client_for(proxy: str | None) -> AsyncIterator[httpx2.AsyncClient]:
    """A client for one request; raises ToolFailedError for a proxy that is not of a kind we speak to."""
    try:
        client = httpx2.AsyncClient(
            headers={"User-Agent": USER_AGENT},
            proxy=proxy,
            # Else it would send passwords of a .netrc.
            trust_env=False,
            verify=httpx2.create_ssl_context(),
            # The whole has one deadline.
            timeout=httpx2.Timeout(None, connect=CONNECT_S),
        )
    except (ValueError, ImportError, httpx2.InvalidURL) as error:
        raise ToolFailedError("the proxy that the environment names is no http:// or https:// URL") from error
    except OSError as error:
        raise ToolFailedError(f"cannot read the certificates to trust: {error.strerror or error}") from error
    async with client:
        yield client


def proxy_for(url: httpx2.URL) -> str | None:
    """The proxy that the environment names for this URL; for this machine none, as there its name means another one."""
    if host_of(url) in {"localhost", "127.0.0.1", "::1"} or proxy_bypass(url.netloc.decode("ascii")):
        return None
    proxies = getproxies_environment()
    return proxies.get(url.scheme) or proxies.get("all")


async def bounded_body(response: httpx2.Response, max_bytes: int) -> tuple[bytes, bool]:
    """The body, decompressed, and whether it is whole; of a bomb no more than a piece over `max_bytes` is unpacked."""
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding not in _ENCODINGS:
        raise httpx2.DecodingError(coding)
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > max_bytes:
            return bytes(body[:max_bytes]), False
    return bytes(body), True


def reason(error: httpx2.RequestError) -> str:
    """Why a request failed; without the error's own text where that may repeat a header of ours."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate cannot be trusted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed: {cause.reason or 'the connection was cut'}"
        # The name service has numbers below zero, and trio sums up with none.
        if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
            return os.strerror(cause.errno).lower()
    match error:
        case httpx2.ConnectTimeout():
            return f"no connection within {CONNECT_S:.0f} s"
        case httpx2.ProxyError():
            return f"the proxy refused: {error}"
        case httpx2.DecodingError():
            return "its answer is compressed in a way that was not asked for, or not as it says"
        case httpx2.RemoteProtocolError():
            return f"its answer is no valid HTTP: {str(error)[:200]}"
        case httpx2.LocalProtocolError():
            return "the request cannot be written"
    return "the connection failed"


def _causes(error: BaseException | None) -> list[BaseException]:
    if error is None:
        return []
    inner = (
        [found for each in error.exceptions for found in _causes(each)] if isinstance(error, BaseExceptionGroup) else []
    )
    return [error, *inner, *_causes(error.__cause__ or error.__context__)]


def _redirected(url: httpx2.URL, location: str) -> httpx2.URL:
    try:
        target = parsed_url(str(url.join(location)))
    except (InvalidInputError, httpx2.InvalidURL) as error:
        raise ToolFailedError(
            f"cannot fetch {shown_url(url)}: it redirects to a place that is no page: {error}"
        ) from error
    if url.scheme == "https" and target.scheme == "http":
        raise ToolFailedError(
            f"cannot fetch {shown_url(url)}: it redirects from https to {shown_url(target)}; fetch that if you want to"
        )
    return target


async def _got(url: httpx2.URL, allowed: AllowedHosts, max_bytes: int) -> Download:
    # Of the name: an address that it has may need another proxy, or none.
    proxy = proxy_for(url)
    addresses = await addresses_of(url, allowed, is_proxied=proxy is not None)
    why = "it has no address"
    # A proxy resolves the name itself.
    for target in [url] if proxy else [url.copy_with(host=address) for address in addresses]:
        try:
            return await _answer(url, target, proxy, max_bytes)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            why = reason(error)
        except httpx2.RequestError as error:
            raise ToolFailedError(f"cannot fetch {shown_url(url)}: {reason(error)}") from error
    raise ToolFailedError(f"cannot fetch {shown_url(url)}: {why}")


async def _answer(url: httpx2.URL, target: httpx2.URL, proxy: str | None, max_bytes: int) -> Download:
    """Ask `target`, which has an address in the place of the host; Host, SNI and certificate are those of `url`."""
    sent = {"Host": url.netloc.decode("ascii")}
    async with (
        client_for(proxy) as client,
        client.stream("GET", target, headers=sent, extensions={"sni_hostname": host_of(url)}) as response,
    ):
        if response.status_code in _REDIRECTS:
            return Download(url, response.status_code, response.headers)
        body, is_whole = await bounded_body(response, max_bytes)
        return Download(url, response.status_code, response.headers, body, is_whole)
