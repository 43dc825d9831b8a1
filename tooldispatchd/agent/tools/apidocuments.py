"""Fetch a document of OpenAPI for a person who asks for it; the daemon itself never does.

Nothing of HTTP is imported where nobody asks.
"""

from typing import Final

import trio

from tooldispatchd.catalog.rest.declared import ApiCredentials
from tooldispatchd.catalog.restspecs import RestApiSpec
from tooldispatchd.http.reach import reach_by

# Some megabytes over a slow line.
FETCH_S: Final = 120.0
MAX_REDIRECTS: Final = 5
_ACCEPT: Final = (("Accept", "application/json, application/yaml;q=0.9, */*;q=0.8"),)


class FetchError(Exception):
    """A document cannot be fetched; the text says why, without a query or a credential."""


async def fetch_document(url: str, api: RestApiSpec, credentials: ApiCredentials, max_bytes: int) -> bytes:
    """What a URL gives, reached as the table of an API says; its headers go along where it has the API's origin.

    Raises `FetchError`.
    """
    from tooldispatchd.http.errors import WireError  # noqa: PLC0415  # as the module says
    from tooldispatchd.http.places import place  # noqa: PLC0415  # as the module says
    from tooldispatchd.http.wire import HttpWire  # noqa: PLC0415  # as the module says

    try:
        is_own = bool(api.base_url) and place(api.base_url).origin == place(url).origin
        reach = reach_by(api, url, credentials.headers if is_own else ())
        with trio.fail_after(FETCH_S):
            async with (
                HttpWire(reach, max_bytes=max_bytes, max_redirects=MAX_REDIRECTS) as wire,
                wire.exchange("GET", _ACCEPT) as reply,
            ):
                if reply.status != 200:
                    raise FetchError(f"it was answered with the status {reply.status}")
                return await reply.read(max_bytes)
    except WireError as error:
        raise FetchError(str(error)) from None
    except trio.TooSlowError:
        raise FetchError(f"it took longer than {FETCH_S:g} s") from None
