"""A place for MCP clients over HTTP, and whom it admits: the daemon describes it so to the process that serves it.

It is JSON in a file without a name, which the process inherits: nothing of it stands among arguments or variables. Of
a token it has the SHA-256 alone.
"""

import msgspec


class TokenIssuer(msgspec.Struct, frozen=True):
    """An authorization server whose tokens open a place; `jwks` is the URL of its keys, where that is said."""

    issuer: str
    audience: str
    scopes: tuple[str, ...]
    jwks: str | None = None


class WebPlace(msgspec.Struct, frozen=True):
    """A place for MCP clients; `where` is how it is written.

    `fd` is the number of its listening socket, `door` the name of the abstract socket that leads into the daemon.
    `hosts` are what a `Host` header may say, None where anything may stand there; `origins` web pages' that may call.
    `tokens` are the SHA-256 of each admitted profile's token in hexadecimal digits; `open_profile` is the one that a
    request without a token opens, or one with a token of `issuer`, None where there is none. `max_line_bytes` is the
    longest line that the daemon takes, `max_answer_bytes` the longest that it gives. Clients are one user in the
    daemon, whose room so many places share as `places_sharing` says, this one among them. `is_ready` is false while
    servers of warm profiles are starting.
    """

    where: str
    fd: int
    door: str
    scheme: str
    path: str
    hosts: tuple[str, ...] | None
    origins: tuple[str, ...]
    tokens: dict[str, str]
    open_profile: str | None
    max_line_bytes: int
    max_answer_bytes: int
    places_sharing: int = 1
    is_ready: bool = True
    cert: str | None = None
    key: str | None = None
    issuer: TokenIssuer | None = None
