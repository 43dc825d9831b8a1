"""What is to be masked of requests and their APIs: what stands under the name of a secret, as it goes out."""

from collections.abc import Iterator

from tooldispatchd.catalog.pointers import unescape_fragment
from tooldispatchd.catalog.rest.declared import ApiCredentials
from tooldispatchd.catalog.rest.placeholders import parse_parts
from tooldispatchd.catalog.rest.requests import target_of
from tooldispatchd.catalog.rest.styles import encode_cookie
from tooldispatchd.catalog.restspecs import RestSpec
from tooldispatchd.catalog.servers import may_be_secret


def secrets_of_api(credentials: ApiCredentials) -> Iterator[str]:
    """Those of every request to an API."""
    for name, value in (*credentials.headers, *credentials.query):
        if may_be_secret(name):
            yield _behind_scheme(value)
    for _, value in credentials.cookies:
        yield from (value, encode_cookie(value))


def secrets_of_request(spec: RestSpec) -> Iterator[str]:
    """Those that its own texts hold, around the placeholders in them."""
    named = [*spec.headers.items(), *spec.query.items()]
    for entry in target_of(spec).partition("?")[2].split("&"):
        name, _, value = entry.partition("=")
        named += [(name, value), (name, unescape_fragment(value))]
    named += [(name, form) for name, text in spec.cookies.items() for form in (text, encode_cookie(text))]
    for name, text in named:
        if may_be_secret(name):
            yield from (part.strip() for part in parse_parts(_behind_scheme(text)) if isinstance(part, str))


def _behind_scheme(value: str) -> str:
    """What is secret of a header such as "Bearer …"."""
    scheme, _, rest = value.partition(" ")
    return rest or scheme
