"""The exceptions of the HTTP wire."""


class WireError(Exception):
    """An exchange failed; `why` is a clause that can stand in a fault, and holds nothing secret.

    `was_sent` is whether the server may have seen the request, `is_too_large` whether its answer is over the bound.
    `extras` are fields for a fault: `http_status` where an answer had begun.
    """

    def __init__(
        self,
        why: str,
        *,
        was_sent: bool = False,
        is_too_large: bool = False,
        extras: dict[str, object] | None = None,
    ) -> None:
        super().__init__(why)
        self.why = why
        self.was_sent = was_sent
        self.is_too_large = is_too_large
        self.extras = extras or {}


class UnansweredError(WireError):
    """The TCP connection ended before one byte of an answer came; `is_explained` is whether TLS said why."""

    is_explained = False


class UntrustedOriginError(WireError):
    """The server leads to `origin`, where the configuration does not let it lead."""

    def __init__(self, origin: str) -> None:
        super().__init__(f"it leads to {origin}, which is not among its `hosts`")
        self.origin = origin


class PrivateAddressError(WireError):
    """A name has an address that the Internet does not route to."""
