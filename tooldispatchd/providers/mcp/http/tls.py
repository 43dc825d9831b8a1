"""TLS contexts, one for all that use the same files: to load the system's roots takes tens of ms and about 1 MiB."""

import ssl
from pathlib import Path
from typing import Final, NamedTuple

import trio

from tooldispatchd.providers.mcp.http.errors import WireError
from tooldispatchd.providers.mcp.server import Reach

# A configuration has a handful; beyond that the oldest is made anew when it is needed.
MAX_CONTEXTS: Final = 32
# Threads of their own: those that all share may be with names that nobody answers for.
_LOADS: Final = trio.CapacityLimiter(2)


class Files(NamedTuple):
    """The PEM files that a context is made of; None is the system's roots, and no client certificate."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


# A file that was replaced is another file: a renewed certificate is used by the next connection.
_Stamp = tuple[int, int, int] | None
_contexts: dict[tuple[Files, tuple[_Stamp, ...]], ssl.SSLContext] = {}


def files_of(reach: Reach) -> Files:
    """The files that a server is reached with."""
    return Files(reach.ca, reach.cert, reach.key)


async def context(files: Files) -> ssl.SSLContext:
    """The context for these files. Raises `WireError`, which names the file that is wrong."""
    key = files, tuple(_stamp(path) for path in files)
    found = _contexts.pop(key, None)
    if found is None:
        found = await trio.to_thread.run_sync(_load, files, abandon_on_cancel=True, limiter=_LOADS)
    # The newest stands last.
    _contexts[key] = found
    while len(_contexts) > MAX_CONTEXTS:
        del _contexts[next(iter(_contexts))]
    return found


def _stamp(path: str | None) -> _Stamp:
    if path is None:
        return None
    try:
        status = Path(path).stat()
    except OSError as error:
        raise WireError(f"cannot read {path}: {error.strerror}") from error
    return status.st_ino, status.st_mtime_ns, status.st_size


def _load(files: Files) -> ssl.SSLContext:
    found = ssl.create_default_context() if files.ca is None else _trusting(files.ca)
    found.set_alpn_protocols(["http/1.1"])
    if files.cert is not None:
        _show(found, files.cert, files.key or files.cert)
    return found


def _trusting(ca: str) -> ssl.SSLContext:
    _expect(ca, b"CERTIFICATE-----", "certificate")
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise WireError(f"cannot use {ca} as `ca`: {_said(error)}") from error


def _show(found: ssl.SSLContext, cert: str, key: str) -> None:
    _expect(cert, b"CERTIFICATE-----", "certificate")
    _expect(key, b"PRIVATE KEY-----", "private key")
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        found.load_cert_chain(cert, key, password="")
    except OSError as error:
        if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            raise WireError(f"cannot use {cert} as `cert`: {key} is not its key") from error
        why = f"cannot use {cert} as `cert` with the key of {key}: {_said(error)} (an encrypted key is not read)"
        raise WireError(why) from error


def _expect(path: str, label: bytes, what: str) -> None:
    """OpenSSL does not say which of two files it means; a look at both does."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise WireError(f"cannot read {path}: {error.strerror}") from error
    if label not in content:
        raise WireError(f"cannot use {path}: there is no PEM {what} in it")


def _said(error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return (reason or str(error)).lower().replace("_", " ")
