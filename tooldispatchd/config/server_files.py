"""The PEM files that servers at URLs are reached with, looked at while a configuration is loaded.

What can never be used would else be found out by the first agent. The files are read again for each connection, so
nothing of them is kept.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, cast

from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.config.key_patterns import Table, places
from tooldispatchd.config.secret_files import SecretError
from tooldispatchd.config.server_credentials import SERVERS

_KEYS: Final = ("ca", "cert", "key")


def check_server_files(table: Table, *, wrong: frozenset[Path]) -> Iterator[Problem]:
    """A problem for each file of a server in `table` that cannot be used; its paths must be absolute already.

    What stands at a place in `wrong` has been refused already, and is not looked at.
    """
    for pattern in SERVERS:
        for place in places(table, pattern):
            if isinstance(place.value, dict) and not _is_wrong((*place.path, "url"), wrong):
                yield from _check(place.path, _files(place.path, cast("Table", place.value), wrong))


def _files(path: Path, server: Table, wrong: frozenset[Path]) -> dict[str, str]:
    """What each key names; nothing of a server that has no URL, which is told of when the catalog is built."""
    if "command" in server or not isinstance(server.get("url"), str):
        return {}
    stated = {key: server.get(key) for key in _KEYS if not _is_wrong((*path, key), wrong)}
    return {key: value for key, value in stated.items() if isinstance(value, str)}


def _is_wrong(path: Path, wrong: frozenset[Path]) -> bool:
    return any(path[: len(place)] == place for place in wrong)


def _check(path: Path, files: dict[str, str]) -> Iterator[Problem]:
    """The problems of one server's files, each at the key that names the file."""
    if not files:
        return
    from tooldispatchd.config import pem_files  # noqa: PLC0415  # OpenSSL is loaded with it

    if "ca" in files:
        yield from _told((*path, "ca"), partial(pem_files.check_authorities, files["ca"]))
    if "cert" not in files:
        return
    wrong = list(_told((*path, "cert"), partial(pem_files.check_certificate, files["cert"])))
    if "key" in files:
        holder, what = "key", "key"
    else:
        holder, what = "cert", "certificate"
    if not wrong or holder == "key":
        wrong += _told((*path, holder), partial(pem_files.check_key, files[holder], what))
    if not wrong:
        wrong += _told((*path, holder), partial(pem_files.check_pair, files["cert"], files[holder]))
    yield from wrong


def _told(path: Path, check: Callable[[], None]) -> Iterator[Problem]:
    try:
        check()
    except SecretError as error:
        yield Problem(path, error.why, allowed=error.allowed)
