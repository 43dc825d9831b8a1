"""What places for MCP clients mean with a catalog: which profiles each admits, and what is wrong or risky with that.

An HTTP client has no user, so a profile that is bound to users is never opened there; what a network reaches opens
nothing without a token.
"""

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path as FilePath
from typing import Final
from urllib.parse import urlsplit

import msgspec

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.profiles import DEFAULT_PROFILE
from tooldispatchd.config.listen_values import ListenAddress, ListenKind, parse_places
from tooldispatchd.installation import needs

# By their names here, as tokens may go there without TLS.
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def admitted_profiles(place: ListenAddress, catalog: Catalog) -> tuple[str, ...]:
    """The profiles that may be opened at a place for HTTP."""
    every = tuple(name for name, profile in catalog.openable.items() if not profile.is_bound)
    return place.named_profiles or every


def open_profile(place: ListenAddress, catalog: Catalog) -> str | None:
    """The profile that a request opens which shows no profile's token; None where there is none.

    Where the place has an authorization server, such a request must show a token of that.
    """
    admitted = admitted_profiles(place, catalog)
    meant = place.profile or (admitted[0] if len(admitted) == 1 else DEFAULT_PROFILE)
    return meant if meant in admitted and meant not in catalog.tokens else None


def http_problems(places: Iterable[ListenAddress], catalog: Catalog) -> Iterator[Problem]:
    """What is wrong with each place for HTTP; the problems' paths are empty."""
    for place in places:
        if place.is_mcp:
            yield from (msgspec.structs.replace(each, path=(), value=place.text) for each in _problems(place, catalog))


def http_warnings(places: Iterable[ListenAddress]) -> Iterator[str]:
    """A sentence for each place where tokens and contents can be read on their way."""
    for place in places:
        if place.is_metrics and not place.is_loopback:
            yield f"{place.text.partition('?')[0]}: whoever reaches it reads the names of tools and servers"
        elif place.kind is ListenKind.HTTP and not place.is_loopback:
            where = place.text.partition("?")[0]
            yield f"{where}: without TLS whoever sees the network reads tokens and all that is said; https:// has it"


def explain_places(catalog: Catalog) -> Iterator[str]:
    """The places of a configuration in lines for a person, as `catalog.explanation` has them: who may come in there."""
    for place in parse_places(catalog.config.daemon.listen, catalog.openable)[0]:
        yield f"place {place.text.partition('?')[0]}"
        if place.is_metrics:
            yield "    metrics"
        elif place.kind.is_http:
            yield f"    profiles: {', '.join(admitted_profiles(place, catalog))}"
            shown = f"with a token of {place.auth}" if place.auth else "without a token"
            yield f"    {shown}: {open_profile(place, catalog) or 'none'}"
        else:
            yield f"    profiles: {', '.join(place.named_profiles) or 'all'}"
        told = {"users": place.uids, "groups": place.gids, "hosts": place.hosts, "origins": place.origins}
        yield from (f"    {key}: {', '.join(names)}" for key, names in told.items() if names)


def _problems(place: ListenAddress, catalog: Catalog) -> Iterator[Problem]:
    admitted = admitted_profiles(place, catalog)
    bound = next((name for name in admitted if name in catalog.profiles and catalog.profiles[name].is_bound), None)
    if bound is not None:
        yield Problem((), f'profile "{bound}" is for certain users, and HTTP knows no users')
    elif not admitted:
        yield Problem((), "there is no profile to open: each is for certain users, and HTTP knows no users")
    elif place.auth is not None:
        yield from _auth_problems(place, place.auth, catalog)
    elif open_profile(place, catalog) is None and not any(name in catalog.tokens for name in admitted):
        yield Problem((), "no client can say which of these profiles it means", allowed='"profile=NAME"')
    if not place.is_loopback:
        open_to_all = (name for name in admitted if name not in catalog.tokens)
        naked = next((name for name in open_to_all if place.auth is None or name != place.profile), None)
        if naked is not None:
            why = f'a network reaches this place, and profile "{naked}" has no token'
            yield Problem((), why, allowed='a token for each profile, "auth=NAME", or an address like 127.0.0.1')
    if place.cert is not None:
        from tooldispatchd.config.pem_files import check_files  # noqa: PLC0415  # OpenSSL is loaded with it

        files = {"cert": place.cert} | ({"key": place.key} if place.key else {})
        for each in check_files((), {key: str(FilePath(file).absolute()) for key, file in files.items()}):
            yield msgspec.structs.replace(each, why=f"{each.path[0]}: {each.why}")


def _auth_problems(place: ListenAddress, name: str, catalog: Catalog) -> Iterator[Problem]:
    servers = catalog.config.http_auth
    if find_spec("jwt") is None or find_spec("cryptography") is None:
        yield Problem((), f"auth {needs('oauth')}")
    if name not in servers:
        yield Problem((), "unknown authorization server: no table of http_auth", nearest=nearest(name, servers))
        return
    if place.profile is None:
        yield Problem((), "with auth a place says which profile its tokens open", allowed='"profile=NAME"')
    elif place.profile in catalog.tokens:
        yield Problem((), f'profile "{place.profile}" has a token, so that no other opens it')
    for url in (servers[name].issuer, servers[name].jwks):
        if url is not None and url.startswith("http:") and urlsplit(url).hostname not in _LOOPBACK:
            yield Problem((), "its authorization server has https, unless it is on this machine")
