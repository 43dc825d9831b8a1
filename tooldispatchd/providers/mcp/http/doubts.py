"""What may be wrong where a server ended the very first exchange without a word.

Servers say by a TLS alert that they want a certificate, or that they speak TLS at all; many close before that is sent.
So these are questions, and only asked while nothing has ever been answered there: a server that worked has crashed.
"""

import ssl
from typing import Final

from tooldispatchd.providers.mcp.server import Reach

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
