"""Why there is no token; the texts name no token, code or secret, and nothing that another server wrote but scopes."""

from tooldispatchd.providers.mcp.http.errors import WireError

EXTRA_MISSING = 'oauth needs tooldispatchd[oauth]: pip install "tooldispatchd[oauth]"'


class AuthorizationError(WireError):
    """A request cannot be authorised; `why` follows the server's name, `extras` are those of a fault.

    `needs_login` is whether only a person can change that. With `was_sent` the server had refused the request itself.
    `said` is what the authorization server called it, where that is one of the registered errors.
    """

    def __init__(
        self,
        why: str,
        *,
        was_sent: bool = False,
        needs_login: bool = False,
        extras: dict[str, object] | None = None,
        said: str | None = None,
    ) -> None:
        super().__init__(why, was_sent=was_sent, extras=extras)
        self.needs_login = needs_login
        self.said = said

    def again(self) -> "AuthorizationError":
        """The same for somebody else who waited for it: an exception that is raised belongs to one task."""
        extras = dict(self.extras)
        return AuthorizationError(self.why, was_sent=self.was_sent, needs_login=self.needs_login, extras=extras)


class UntrustedError(AuthorizationError):
    """The way to a token leads to `origin`, to which the configuration does not let it lead.

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
        """What to list in `hosts`."""
        return self.origin.partition("://")[2]


def login_needed(name: str, *, status: int | None = None, missing: tuple[str, ...] = ()) -> AuthorizationError:
    """Only a person can get a token for the server `name`; `status` is what it answered, if it was asked.

    `missing` are the scopes that it wants besides those that were granted. Whatever it answered, the request was turned
    away before anything was begun, so that it may be made again after the login.
    """
    extras: dict[str, object] = {} if status is None else {"http_status": status}
    why = "it needs a login"
    if missing:
        extras["missing_scopes"] = list(missing)
        why = f"{why} for {'more scopes' if len(missing) > 1 else 'another scope'} ({' '.join(missing)})"
    return AuthorizationError(f"{why}: run tooldispatchd login {name}", needs_login=True, extras=extras)
