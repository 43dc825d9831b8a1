"""The PEM files that servers at URLs are reached with, looked at while a configuration is loaded.

Otherwise the first agent would find out that OpenSSL cannot use one. The files are read again for each connection, so
nothing of them is kept, and no error holds a part of one. Imported only for a configuration that names some: OpenSSL is
loaded with it.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, cast

from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.speckinds import MIB
from tooldispatchd.config.credentials import REACHED, SecretError, read_secret_file
from tooldispatchd.config.key_patterns import Table, places

PEM_KEYS: Final = ("ca", "cert", "key")
# A system's whole bundle of authorities has a quarter of that.
MAX_PEM_BYTES: Final = 1 * MIB

# RFC 7468, 5 and 10; OpenSSL also knows certificates with a trust of their own.
_CERTIFICATE: Final = "CERTIFICATE-----"
_PRIVATE_KEY: Final = "PRIVATE KEY-----"
# RFC 7468, 11, and the older form of RFC 1421, 4.6.1.1.
_ENCRYPTED: Final = ("BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED")


def check_pem_files(table: Table) -> Iterator[Problem]:
    """A problem for each file of a server or an API in `table` that cannot be used.

    Its paths must be absolute already.
    """
    for place in (each for pattern in REACHED for each in places(table, pattern)):
        server = cast("Table", place.value)
        # That a server with a command has such a file is told of when the catalog is built.
        if isinstance(server, dict) and ("url" in server or "base_url" in server) and "command" not in server:
            yield from check_files(place.path, {key: str(server[key]) for key in PEM_KEYS if key in server})


def check_files(path: Path, files: dict[str, str]) -> list[Problem]:
    """The problems of one server's files, or of a place's, each at the key that names the file."""
    wrong: list[Problem] = []
    if "ca" in files:
        with _telling(wrong, (*path, "ca")):
            _check_certificate(files["ca"])
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(files["ca"])
    if "cert" not in files:
        return wrong
    ours: list[Problem] = []
    holder, what = ("key", "key") if "key" in files else ("cert", "certificate")
    with _telling(ours, (*path, "cert")):
        _check_certificate(files["cert"])
    if not ours or holder == "key":
        with _telling(ours, (*path, holder)):
            text = _read(files[holder], what)
            if _PRIVATE_KEY not in text:
                allowed = 'a certificate and its key in one file, or "key" beside it' if holder == "cert" else None
                raise SecretError("there is no PEM private key in this file", allowed)
            if any(sign in text for sign in _ENCRYPTED):
                raise SecretError("the key is encrypted, and nobody is there to type its passphrase")
    if not ours:
        with _telling(ours, (*path, holder)):
            # Without a password OpenSSL would ask for one at the terminal.
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(files["cert"], files[holder], password="")
    return wrong + ours


@contextmanager
def _telling(problems: list[Problem], path: Path) -> Iterator[None]:
    """Add a problem at `path` for a file that cannot be used."""
    try:
        yield
    except SecretError as error:
        problems.append(Problem(path, error.why, allowed=error.allowed))
    except OSError as error:
        # A reason of OpenSSL's or of the system's, never a part of the file.
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        why = f"OpenSSL cannot use this file: {(reason or 'no reason is known').lower().replace('_', ' ')}"
        if reason == "KEY_VALUES_MISMATCH":
            why = "this is not the key of the certificate"
        problems.append(Problem(path, why))


def _check_certificate(file: str) -> None:
    """Raise `SecretError` where `file` holds no certificate at all."""
    if _CERTIFICATE not in _read(file, "certificate"):
        raise SecretError("there is no PEM certificate in this file")


def _read(file: str, what: str) -> str:
    text, _ = read_secret_file(file, MAX_PEM_BYTES, what=what)
    if len(text) > MAX_PEM_BYTES:
        raise SecretError(f"this file is over {MAX_PEM_BYTES // MIB} MiB")
    return text
