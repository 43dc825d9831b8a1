"""Why there is no token; the texts show nothing secret."""

from tooldispatchd.http.errors import WireError

# Follows the name of a feature that signs or encrypts.
NEEDS_EXTRA = 'needs tooldispatchd[oauth]: pip install "tooldispatchd[oauth]"'


class AuthorizationError(WireError):
    """A request cannot be authorised; `why` follows the server's name, `extras` are those of a fault.

    With `was_sent` the server had refused the request itself. `said` is the authorization server's error, where that is
    a registered one.
    """

    def __init__(
        self,
        why: str,
        *,
        was_sent: bool = False,
        extras: dict[str, object] | None = None,
        said: str | None = None,
    ) -> None:
        super().__init__(why, was_sent=was_sent, extras=extras)
        self.said = said

    def again(self) -> "AuthorizationError":
        """Copy it for another task that waited for the same flow: an exception is raised in one task only."""
        return AuthorizationError(self.why, was_sent=self.was_sent, extras=dict(self.extras))
