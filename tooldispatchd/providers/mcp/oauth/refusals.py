"""Why there is no token; the texts show nothing secret, and of what a server wrote only scopes and origins."""

from tooldispatchd.http.oauth.refusals import AuthorizationError
from tooldispatchd.providers.mcp.oauth.documents import missing_scopes


class UntrustedError(AuthorizationError):
    """A flow leads to `origin`, which the configuration does not allow.

    `is_private` is whether that would need `private = true` too.
    """

    def __init__(self, origin: str, *, is_private: bool) -> None:
        self.origin = origin
        self.is_private = is_private
        more = " and private = true" if is_private else ""
        super().__init__(
            f"cannot get a token: its authorization server is {origin}, which is not among its `hosts`; "
            f'to trust it, add hosts = ["{self.host}"]{more} to its table'
        )

    @property
    def host(self) -> str:
        """The entry to add to `hosts`."""
        return self.origin.partition("://")[2]


def login_needed(name: str, *, status: int | None = None, missing: tuple[str, ...] = ()) -> AuthorizationError:
    """Only a person can get a token for the server `name`; `status` is the server's answer, if it was asked.

    `missing` are the scopes that it wants besides those that were granted.
    """
    extras: dict[str, object] = {} if status is None else {"http_status": status}
    why = "it needs a login"
    if missing:
        extras["missing_scopes"] = list(missing)
        why = f"{why} for {'more scopes' if len(missing) > 1 else 'another scope'} ({' '.join(missing)})"
    return AuthorizationError(f"{why}: run tooldispatchd login {name}", extras=extras)


def scopes_refused(wanted: str | None, *, granted: str | None) -> AuthorizationError:
    """The server turned a request away for the scopes `wanted`, and no other token can be had without a person.

    The missing scopes are those not `granted`, or all where the token has each of them and is refused nevertheless.
    """
    extras: dict[str, object] = {"http_status": 403}
    missing = missing_scopes(granted, wanted)
    named = missing or missing_scopes(None, wanted)
    if named:
        extras["missing_scopes"] = list(named)
    scopes = f"the scope{'s' if len(named) > 1 else ''} {' '.join(named)}" if named else "a scope"
    but = ", although it was granted" if named and not missing else ""
    return AuthorizationError(f"the server refused its token for want of {scopes}{but} (HTTP 403)", extras=extras)
