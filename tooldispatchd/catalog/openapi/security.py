"""Which credentials an operation needs, and whether the table of its API has them."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from tooldispatchd.catalog.openapi.apidocument import Object, list_of, object_of, text_of


class Supplied(msgspec.Struct, frozen=True):
    """What every request to an API carries already: names of headers (in lower case), query entries and cookies.

    A token, OAuth or a user with a password stand in the header `authorization`; they, an `api_key` and a certificate
    count each for itself, too.
    """

    headers: frozenset[str] = frozenset()
    query: frozenset[str] = frozenset()
    cookies: frozenset[str] = frozenset()
    has_token: bool = False
    has_key: bool = False
    has_user: bool = False
    has_certificate: bool = False

    def has(self, where: object, name: str) -> bool:
        """Whether a parameter is there already."""
        held: Mapping[object, frozenset[str]] = {"header": self.headers, "query": self.query, "cookie": self.cookies}
        return (name.lower() if where == "header" else name) in held.get(where, frozenset())


class MissingCredentials(NamedTuple):
    """What is missing, in words, and the keys that say it."""

    what: str
    keys: str

    def __str__(self) -> str:
        return f"{self.what}: {self.keys}"


def lacking(requirements: object, schemes: Mapping[str, object], supplied: Supplied) -> MissingCredentials | None:
    """What an operation needs and the API's table lacks; None where it can be called.

    Any one of the sets of `requirements` is enough, an empty one too; of those that are not met the shortest is told.
    """
    wanted = [object_of(each) for each in list_of(requirements)]
    if not wanted:
        return None
    fewest = min((_missing(requirement, schemes, supplied) for requirement in wanted), key=len)
    if not fewest:
        return None
    return MissingCredentials(", ".join(each.what for each in fewest), "; ".join(each.keys for each in fewest))


def _missing(requirement: Iterable[str], schemes: Mapping[str, object], supplied: Supplied) -> list[MissingCredentials]:
    missing: list[MissingCredentials] = []
    has_key = supplied.has_key
    for name in requirement:
        # Of a scheme that is described nowhere nobody knows what it wants.
        found = _lack(object_of(schemes.get(name)), supplied, has_key=has_key)
        if found is not None and found not in missing:
            missing.append(found)
            has_key = has_key or found.keys.startswith("api_key")
    return missing


def _lack(scheme: Object, supplied: Supplied, *, has_key: bool) -> MissingCredentials | None:
    """What is missing for a scheme, None where that is nothing; `has_key` where there is an `api_key` already."""
    kind, is_basic = text_of(scheme.get("type")), text_of(scheme.get("scheme")).lower() == "basic"
    name, where = text_of(scheme.get("name")), text_of(scheme.get("in"))
    # It stands in `headers`, where it is of no known kind.
    is_authorized = "authorization" in supplied.headers and not (supplied.has_token or supplied.has_user)
    if kind == "apiKey" and name.lower() != "authorization":
        return None if supplied.has(where, name) else _lack_of_key(name, where, has_key=has_key)
    if kind == "mutualTLS":
        return None if supplied.has_certificate else MissingCredentials("a certificate", 'cert = "…"')
    if kind == "http" and is_basic:
        user = MissingCredentials("a user and a password", 'basic = { user = "…", password_env = "…" }')
        return None if supplied.has_user or is_authorized else user
    if kind in {"http", "oauth2", "openIdConnect"}:
        return None if supplied.has_token or is_authorized else _BEARER
    return None if kind != "apiKey" or supplied.has(where, name) else _BEARER


_BEARER: Final = MissingCredentials("a bearer token", 'token_env = "…"')


def _lack_of_key(name: str, where: str, *, has_key: bool) -> MissingCredentials:
    table = {"header": "headers", "query": "query"}.get(where)
    if has_key and table is not None:
        return MissingCredentials(f"the key {name}", f'{table} = {{ {name} = "${{…}}" }}')
    return MissingCredentials(f"the key {name}", f'api_key = {{ {where} = "{name}", value_env = "…" }}')
