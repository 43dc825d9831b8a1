"""Examine the files of a configuration, and the places where the daemon keeps what outlives it."""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import trio

from tooldispatchd.audit.door import AuditStoreError, open_reader
from tooldispatchd.catalog.auditspec import file_store
from tooldispatchd.catalog.speckinds import MIB
from tooldispatchd.catalog.statedirectory import find_state_directory
from tooldispatchd.config.configuration import Loaded
from tooldispatchd.doctor.diagnosis import Diagnosis, Health
from tooldispatchd.doctor.examiner import Examiner, aside

# Long answers of one agent may take as much.
LEAST_FREE: Final = 256 * MIB
STORE: Final = "audit.store"


def file_examiners(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Examiner]:
    """A check for each file of the configuration, for what was warned of in it, and for each place to write to."""
    yield Examiner("configuration", str(loaded.files[0]), partial(_examine_warnings, loaded))
    for path in loaded.files:
        yield Examiner("file", str(path), aside(partial(examine_file, path)))
    store = loaded.catalog.config.audit.store
    kept = file_store(store) if store else None
    if kept is not None:
        yield Examiner("store", STORE, aside(partial(examine_directory, STORE, Path(kept[1]).parent)))
    elif store:
        yield Examiner("store", STORE, aside(partial(examine_database, store)))
    state = find_state_directory(environ)
    if state is not None:
        yield Examiner("store", "state", aside(partial(examine_directory, "state", Path(state))))


async def _examine_warnings(loaded: Loaded) -> Sequence[Diagnosis]:
    """The warnings of `check`."""
    await trio.lowlevel.checkpoint()
    name = str(loaded.files[0])
    warnings = loaded.catalog.warnings
    if not warnings:
        return [Diagnosis(part="configuration", name=name, said="fine")]
    return [Diagnosis(part="configuration", name=name, health=Health.WARNING, said=each) for each in warnings]


def examine_file(path: Path) -> Diagnosis:
    """Look who may change a file of the configuration: whoever can has programs run as the daemon's user."""
    try:
        status, above = path.stat(), path.absolute().parent.stat()
    except OSError as error:
        return Diagnosis(part="file", name=str(path), health=Health.WRONG, said=f"cannot look at it: {error.strerror}")
    mode = stat.S_IMODE(status.st_mode)
    said, advice = f"mode {mode:04o}, of user {status.st_uid}", None
    health = Health.FINE
    if mode & stat.S_IWOTH:
        health, said, advice = Health.WRONG, f"anyone may change it (mode {mode:04o})", f"chmod o-w {path}"
    elif above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
        health, advice = Health.WRONG, f"chmod o-w {path.absolute().parent}"
        said = "anyone may put another file in its place: its directory may be written by all"
    elif status.st_uid not in {0, os.geteuid()}:
        health, advice = Health.WARNING, f"chown root {path}, or run the daemon as that user"
        said = f"user {status.st_uid}, who is neither root nor the daemon's, may change it"
    return Diagnosis(part="file", name=str(path), health=health, said=said, advice=advice)


def examine_database(store: str) -> Diagnosis:
    """Try whether the audit's database lets the daemon in."""
    try:
        open_reader(store).close()
    except AuditStoreError as error:
        advice = "correct [audit] store, or what it needs"
        return Diagnosis(part="store", name="audit.store", health=Health.WRONG, said=str(error), advice=advice)
    return Diagnosis(part="store", name="audit.store", said="the database lets the daemon in")


def examine_directory(key: str, directory: Path) -> Diagnosis:
    """Try whether a directory can be written to, or made where the daemon makes it, and see what room is left."""
    there = directory
    while not there.exists() and there != there.parent:
        there = there.parent
    if there != directory and key != "state":
        said, advice = f"there is no directory {directory}", f"mkdir -p {directory}"
        return Diagnosis(part="store", name=key, health=Health.WRONG, said=said, advice=advice)
    if not os.access(there, os.W_OK | os.X_OK):
        # Tokens and long answers alone need the directory for state.
        health = Health.WARNING if key == "state" else Health.WRONG
        said = f"user {os.geteuid()} may not write to {directory}"
        advice = "run the daemon as its user, or change the directory's owner"
        return Diagnosis(part="store", name=key, health=health, said=said, advice=advice)
    free = shutil.disk_usage(there).free
    is_full = free < LEAST_FREE
    return Diagnosis(
        part="store",
        name=key,
        health=Health.WARNING if is_full else Health.FINE,
        said=f"{directory}, {free // MIB:,} MiB free",
        advice="make room there" if is_full else None,
        facts={"free_bytes": free},
    )
