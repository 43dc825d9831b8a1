"""Why there is no token; the texts name no token, code or secret, and nothing that another server wrote."""

from tooldispatchd.providers.mcp.http.errors import WireError

EXTRA_MISSING = 'oauth needs tooldispatchd[oauth]: pip install "tooldispatchd[oauth]"'


class AuthorizationError(WireError):
    """A request cannot be authorised; `why` follows the server's name, `extras` are those of a fault.

    `needs_login` is whether only a person can change that. With `was_sent` the server had refused the request itself.
    """

    def __init__(
        self,
        why: str,
        *,
        was_sent: bool = False,
        needs_login: bool = False,
        extras: dict[str, object] | None = None,
    ) -> None:
        super().__init__(why, was_sent=was_sent, extras=extras)
        self.needs_login = needs_login

    def again(self) -> "AuthorizationError":
        """The same for somebody else who waited for it: an exception that is raised belongs to one task."""
        extras = dict(self.extras)
        return AuthorizationError(self.why, was_sent=self.was_sent, needs_login=self.needs_login, extras=extras)


def login_needed(name: str, *, status: int | None = None) -> AuthorizationError:
    """Only a person can get a token for the server `name`; `status` is what it answered, if it was asked."""
    return AuthorizationError(
        f"it needs a login: run tooldispatchd login {name}",
        # A 401 is for lack of a token, so that nothing was begun; a 403 is about what this request wants.
        was_sent=status == 403,
        needs_login=True,
        extras={} if status is None else {"http_status": status},
    )
