"""Why there is no token; the texts show nothing secret, and of what a server wrote only scopes and origins."""

from tooldispatchd.http.oauth.refusals import AuthorizationError


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

    `missing` are the scopes that it wants besides those that were granted. The request may be made again after the
    login, so it is never `was_sent`: the server turned it away before it began anything.
    """
    extras: dict[str, object] = {} if status is None else {"http_status": status}
    why = "it needs a login"
    if missing:
        extras["missing_scopes"] = list(missing)
        why = f"{why} for {'more scopes' if len(missing) > 1 else 'another scope'} ({' '.join(missing)})"
    return AuthorizationError(f"{why}: run tooldispatchd login {name}", extras=extras)
