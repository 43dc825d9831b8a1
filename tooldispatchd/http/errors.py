"""The exceptions of the HTTP wire, what OpenSSL's mean, and what a server means by a status.

Servers say by a TLS alert that they want a certificate, or that they speak TLS at all; many close before that is sent.
`question` asks it then, and only while nothing has ever been answered there: a server that worked has crashed.
"""

import ssl
from typing import Final

from tooldispatchd.http.reach import Reach


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


# A record of TLS that is an alert, of any version (RFC 8446, 5.1).
ALERT: Final = b"\x15\x03"
_NO_CERT: Final = "it wants a client certificate (`cert`)"
_NO_TLS: Final = "it does not speak TLS"
# What OpenSSL makes of bytes that are no record of TLS, by its version, and of the alerts that a caller can mend.
_MEANT: Final = {
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "PACKET_LENGTH_TOO_LONG": _NO_TLS,
    "RECORD_LAYER_FAILURE": _NO_TLS,
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": _NO_CERT,
}


def question(reach: Reach) -> str:
    """The question to put behind "it closed the connection": for a server that is reached so; "" for none."""
    scheme = reach.url.partition(":")[0].lower()
    if scheme in {"http", "ws"}:
        return f"; is it {scheme}s?"
    return "" if reach.cert is not None else "; does it want a client certificate (`cert`)?"


def meaning(error: ssl.SSLError) -> str:
    """What OpenSSL found wrong, in words; "" where it does not say."""
    reason = error.reason or ""
    return _MEANT.get(reason, reason.lower().replace("_", " "))


# Names that people look up; others are shown as the bare number.
_WORDS: Final = {
    401: "the server refused the credentials (HTTP 401)",
    403: "the server refused the credentials (HTTP 403)",
    404: "there is nothing at its URL (HTTP 404)",
    405: "its URL takes no such request (HTTP 405)",
    429: "it asks for fewer requests (HTTP 429)",
}
# The same where the configuration has none, so that none were refused.
_WORDS_WITHOUT: Final = {
    401: 'it wants credentials: a token, headers, or auth = "oauth" (HTTP 401)',
    403: "the server refused the request (HTTP 403)",
}


def status_words(status: int, reach: Reach | None = None) -> str:
    """An unwanted HTTP status as a phrase; with `reach`, by whether there were credentials to refuse."""
    if reach is not None and status in _WORDS_WITHOUT:
        # Under whatever name: keys of APIs have many. A client certificate is another layer's, which was content.
        has_headers = any(name.lower() != "user-agent" for name, _ in reach.headers)
        if reach.oauth is None and not has_headers:
            return _WORDS_WITHOUT[status]
    return _WORDS.get(status, f"it answered with HTTP {status}")
