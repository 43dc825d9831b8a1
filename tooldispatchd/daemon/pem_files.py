"""Certificates and keys in PEM files: whether OpenSSL can use them, and why not.

It is imported only for a configuration that names some, since OpenSSL is loaded with it. No error bears a part of a
file.
"""

import ssl
from typing import Final

from tooldispatchd.catalog.specs import MIB
from tooldispatchd.daemon.secret_files import SecretError, read_secret_file

# A system's whole bundle of authorities has a quarter of that.
MAX_PEM_BYTES: Final = 1 * MIB

# RFC 7468, 5 and 10; OpenSSL also knows certificates with a trust of their own.
_CERTIFICATE: Final = "CERTIFICATE-----"
_PRIVATE_KEY: Final = "PRIVATE KEY-----"
# RFC 7468, 11, and the older form of RFC 1421, 4.6.1.1.
_ENCRYPTED: Final = ("BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED")


def check_authorities(file: str) -> None:
    """Raise `SecretError` where `file` holds no certificates to trust."""
    check_certificate(file)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except OSError as error:
        raise SecretError(_refusal(error)) from None


def check_certificate(file: str) -> None:
    """Raise `SecretError` where `file` holds no certificate at all."""
    if _CERTIFICATE not in _read(file, "certificate"):
        raise SecretError("there is no PEM certificate in this file")


def check_key(file: str, what: str) -> None:
    """Raise `SecretError` where `file`, that of a `what`, holds no private key that can be read without a person."""
    text = _read(file, what)
    if _PRIVATE_KEY not in text:
        allowed = 'a certificate and its key in one file, or "key" beside it' if what == "certificate" else None
        raise SecretError("there is no PEM private key in this file", allowed)
    if any(sign in text for sign in _ENCRYPTED):
        raise SecretError("the key is encrypted, and nobody is there to type its passphrase")


def check_pair(cert: str, key: str) -> None:
    """Raise `SecretError` where the key is not that of the certificate, or one of both is none."""
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert, key, password="")
    except OSError as error:
        raise SecretError(_refusal(error)) from None


def _read(file: str, what: str) -> str:
    text = read_secret_file(file, MAX_PEM_BYTES, what=what).text
    if len(text) > MAX_PEM_BYTES:
        raise SecretError(f"this file is over {MAX_PEM_BYTES // MIB} MiB")
    return text


def _refusal(error: OSError) -> str:
    """What OpenSSL, or the system, says of a file: a reason of theirs, never a part of it."""
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    if reason == "KEY_VALUES_MISMATCH":
        return "this is not the key of the certificate"
    return f"OpenSSL cannot use this file: {(reason or 'no reason is known').lower().replace('_', ' ')}"
