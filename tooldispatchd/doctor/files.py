"""Examine the files of a configuration, and the places where the daemon keeps what outlives it."""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from copy import copy
from functools import partial
from pathlib import Path
from typing import Final

from tooldispatchd.audit.door import AuditStoreError, open_reader
from tooldispatchd.catalog.auditspec import file_store
from tooldispatchd.catalog.speckinds import MIB
from tooldispatchd.catalog.statedirectory import find_state_directory
from tooldispatchd.config.configuration import Loaded
from tooldispatchd.doctor.diagnosis import Diagnosis, Examiner, fine, warning, wrong

# Long answers of one agent may take as much.
LEAST_FREE: Final = 256 * MIB


def file_examiners(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Examiner]:
    """A check for each file of the configuration, for what was warned of in it, and for each place to write to."""
    for found in map(warning, loaded.catalog.warnings) if loaded.catalog.warnings else (fine("fine"),):
        yield Examiner("configuration", str(loaded.files[0]), partial(copy, found))
    for path in loaded.files:
        yield Examiner("file", str(path), partial(examine_file, path))
    store = loaded.catalog.config.audit.store
    kept = file_store(store) if store else None
    if kept is not None:
        yield Examiner("store", "audit.store", partial(examine_directory, Path(kept[1]).parent))
    elif store:
        yield Examiner("store", "audit.store", partial(examine_database, store))
    state = find_state_directory(environ)
    if state is not None:
        yield Examiner("store", "state", partial(examine_directory, Path(state), is_made=True))


def examine_file(path: Path) -> Diagnosis:
    """Look who may change a file of the configuration: whoever can has programs run as the daemon's user."""
    try:
        status, above = path.stat(), path.absolute().parent.stat()
    except OSError as error:
        return wrong(f"cannot look at it: {error.strerror}")
    mode = stat.S_IMODE(status.st_mode)
    if mode & stat.S_IWOTH:
        return wrong(f"anyone may change it (mode {mode:04o})", f"chmod o-w {path}")
    if above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
        said = "anyone may put another file in its place: its directory may be written by all"
        return wrong(said, f"chmod o-w {path.absolute().parent}")
    if status.st_uid not in {0, os.geteuid()}:
        said = f"user {status.st_uid}, who is neither root nor the daemon's, may change it"
        return warning(said, f"chown root {path}, or run the daemon as that user")
    return fine(f"mode {mode:04o}, of user {status.st_uid}")


def examine_database(store: str) -> Diagnosis:
    """Try whether the audit's database lets the daemon in."""
    try:
        open_reader(store).close()
    except AuditStoreError as error:
        return wrong(str(error), "correct [audit] store, or what it needs")
    return fine("the database lets the daemon in")


def examine_directory(directory: Path, *, is_made: bool = False) -> Diagnosis:
    """Try whether a directory can be written to, or made where the daemon makes it, and see what room is left."""
    there = directory
    while not there.exists() and there != there.parent:
        there = there.parent
    if there != directory and not is_made:
        return wrong(f"there is no directory {directory}", f"mkdir -p {directory}")
    if not os.access(there, os.W_OK | os.X_OK):
        # Tokens and long answers alone need the directory for state, which the daemon makes.
        tell = warning if is_made else wrong
        said = f"user {os.geteuid()} may not write to {directory}"
        return tell(said, "run the daemon as its user, or change the directory's owner")
    free = shutil.disk_usage(there).free
    said = f"{directory}, {free // MIB:,} MiB free"
    return warning(said, "make room there", free_bytes=free) if free < LEAST_FREE else fine(said, free_bytes=free)
