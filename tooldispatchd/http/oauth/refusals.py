"""Why there is no token; the texts show nothing secret."""

from tooldispatchd.http.errors import WireError


class AuthorizationError(WireError):
    """A request cannot be authorised, and nothing of it was begun; `why` follows the server's name.

    `extras` are those of a fault. `said` is the authorization server's error, where that is a registered one.
    """

    def __init__(self, why: str, *, extras: dict[str, object] | None = None, said: str | None = None) -> None:
        super().__init__(why, extras=extras)
        self.said = said

    def again(self) -> "AuthorizationError":
        """Copy it for another task that waited for the same flow: an exception is raised in one task only."""
        return AuthorizationError(self.why, extras=dict(self.extras))
