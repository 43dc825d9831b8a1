"""The audit in a file of SQLite: written in batches, so that a killed daemon leaves it whole; the oldest go first.

Many rows go into one statement: the lock of the interpreter is given back while it runs, and asked for once in the
place of once a row, which would take a writer beside a busy loop 5 ms each.

Nothing of it is mapped: whoever may write beside the file could truncate what is, and end the daemon by that. So there
is no log for writing ahead (WAL), whose index is shared memory; each transaction opens the file anew, locked as a
whole, where SQLite keeps that index to itself if another has turned the file into one with such a log.
"""

import os
import random
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from tooldispatchd.audit.record import COLUMNS, AuditFilter, AuditStoreError, CallRecord, StoreNote
from tooldispatchd.privatefiles import open_private

# Rows in one statement: at this many the statement's own cost is nothing beside theirs, and binding them takes a
# millisecond.
ROWS: Final = 256
# Deleted in one transaction, so that none takes long.
PIECE: Final = 10_000
# A reader, or another daemon with the same file, is done by then.
BUSY_S: Final = 5.0
# What of the journal is kept.
MAX_JOURNAL_BYTES: Final = 1024 * 1024
VERSION: Final = 1
# Of a row in SQLite.
MAX_NUMBER: Final = 2**63 - 1
# Some megabytes: they are not among what is counted for `max_bytes`.
NOTES: Final = 10_000
# A copy of a file with such a log (WAL), as daemons wrote it before.
NO_TABLES: Final = (
    "it holds no records: a copy of a file that a daemon writes needs the -wal file beside it, or is made with .backup"
)
_ENDED: Final = "SELECT run FROM notes WHERE event IN ('closed', 'unclosed')"

_SCHEMA: Final = (
    f"CREATE TABLE IF NOT EXISTS calls (n INTEGER PRIMARY KEY, at REAL, {', '.join(COLUMNS[1:])})",
    "CREATE TABLE IF NOT EXISTS notes (n INTEGER PRIMARY KEY, event, at REAL, run, pid, count)",
    f"PRAGMA user_version = {VERSION}",
)


@contextmanager
def _told(what: str, path: str) -> Iterator[None]:
    """Raise what fails as an `AuditStoreError`."""
    try:
        yield
    except sqlite3.Error as error:
        why = NO_TABLES if str(error).startswith("no such table") else error
        raise AuditStoreError(f"cannot {what} {path}: {why}") from error
    except OSError as error:
        raise AuditStoreError(f"cannot {what} {path}: {error.strerror}") from error


class SqliteStore:
    """Writes; used by one thread at a time. Each method but `close` raises `AuditStoreError`.

    `removed` counts the records that went before their time, so that the others keep within `max_bytes`.
    """

    def __init__(self, path: str, *, keep_s: float, max_bytes: int) -> None:
        self.removed = 0
        self._path = path
        self._keep_s = keep_s
        self._max_bytes = max_bytes
        self._inserts: dict[int, str] = {}
        with _told("open", path):
            # What SQLite makes beside the file has the file's own mode.
            os.close(open_private(path))
            with self._transaction() as db:
                version: int = db.execute("PRAGMA user_version").fetchone()[0]
                if version not in {0, VERSION}:
                    raise sqlite3.DatabaseError(f"it was written by another version ({version}) of the daemon")
                for statement in _SCHEMA if version == 0 else ():
                    db.execute(statement)

    def write(self, records: Sequence[CallRecord], notes: Sequence[StoreNote]) -> None:
        """All of these, or none; the oldest go first where the store is too large."""
        rows = [(note.event, note.at, note.run, note.pid, note.count) for note in notes]
        with _told("write to", self._path):
            is_too_large = True
            while is_too_large:
                with self._transaction() as db:
                    # Between two pieces others may write and read.
                    is_too_large = self._shrink(db)
                    if not is_too_large:
                        for start in range(0, len(records), ROWS):
                            self._insert(db, records[start : start + ROWS])
                        db.executemany("INSERT INTO notes (event, at, run, pid, count) VALUES (?, ?, ?, ?, ?)", rows)

    def _shrink(self, db: sqlite3.Connection) -> bool:
        """Remove a piece of the oldest where the store is too large, but not the newest one; whether it was."""
        # Their pages are used again; the file does not shrink, and need not.
        pages, free, size = (
            db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        if (pages - free) * size <= self._max_bytes:
            return False
        # Both in one query would read all of the table.
        first, last = (db.execute(f"SELECT {end}(n) FROM calls").fetchone()[0] for end in ("min", "max"))  # noqa: S608
        if first == last:
            return False
        self.removed += _delete(db, "n <= ?", (first + min(PIECE, (last - first) // 8),))
        return True

    def _insert(self, db: sqlite3.Connection, records: Sequence[CallRecord]) -> None:
        values: list[object] = []
        for record in records:
            values += msgspec.structs.astuple(record)[:-1]
        insert = self._inserts.get(len(records))
        if insert is None:
            row = f"({', '.join('?' * len(COLUMNS))})"
            insert = f"INSERT INTO calls ({', '.join(COLUMNS)}) VALUES {', '.join([row] * len(records))}"  # noqa: S608
            self._inserts[len(records)] = insert
        db.execute(insert, values)

    def unclosed(self) -> list[tuple[str, int]]:
        """The runs, each with its process, that were opened and that nobody has said the end of."""
        with _told("read", self._path), self._transaction() as db:
            return db.execute(
                f"SELECT run, pid FROM notes WHERE event = 'opened' AND run NOT IN ({_ENDED})"  # noqa: S608  # constants
            ).fetchall()

    def tidy(self, now: float) -> None:
        """Remove what is too old; what says that a run goes on stays where it is."""
        with _told("tidy", self._path):
            # They come in the order in which calls end: an index of times would cost each record, and this little.
            # The newest stays, so that numbers go on, and whoever follows them misses none.
            oldest = f"SELECT n FROM calls WHERE n < (SELECT max(n) FROM calls) ORDER BY n LIMIT {PIECE}"  # noqa: S608
            removed = PIECE
            while removed == PIECE:
                with self._transaction() as db:
                    removed = _delete(db, f"at < ? AND n IN ({oldest})", (now - self._keep_s,))
            with self._transaction() as db:
                db.execute(
                    f"DELETE FROM notes WHERE (at < ? OR n <= (SELECT max(n) FROM notes) - {NOTES})"  # noqa: S608  # constants
                    f" AND (event <> 'opened' OR run IN ({_ENDED}))",
                    (now - self._keep_s,),
                )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Let the block do all of what it does, or nothing where it raises."""
        with closing(self._locked()) as db:
            # Kept beside the file, with its bytes, which saves making and removing it.
            db.execute("PRAGMA journal_mode = PERSIST")
            db.execute(f"PRAGMA journal_size_limit = {MAX_JOURNAL_BYTES}")
            # A crash of the machine may take the last transactions; that of the daemon takes none.
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("BEGIN")
            yield db
            db.execute("COMMIT")

    def _locked(self) -> sqlite3.Connection:
        """Open the file with all of its locks, which are kept until it is closed."""
        until = time.monotonic() + BUSY_S
        while True:
            db = sqlite3.connect(self._path, timeout=0, isolation_level=None)
            try:
                # Before anything is read (sqlite.org/wal.html, 8).
                for statement in ("PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE", "COMMIT"):
                    db.execute(statement)
            except sqlite3.Error as error:
                # It may have the lock for reading, which another writer waits for.
                db.close()
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(random.uniform(0.001, 0.02))  # noqa: S311  # it hides nothing
            else:
                return db

    def close(self) -> None:
        """Nothing is open between transactions."""


def _delete(db: sqlite3.Connection, condition: str, values: tuple[object, ...] = ()) -> int:
    return db.execute(f"DELETE FROM calls WHERE {condition}", values).rowcount  # noqa: S608  # constants


class SqliteReader:
    """Reads while daemons write. Each method raises `AuditStoreError`."""

    def __init__(self, path: str) -> None:
        self.has_missed = False
        self._path = path
        self._last = 0
        with _told("open", path):
            # A transaction that was cut off by a kill is taken back, which writes.
            self._db = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_S)
            self._db.execute("PRAGMA query_only = 1")

    def latest(self, wanted: AuditFilter, limit: int) -> list[CallRecord]:
        """The last so many that are wanted, the oldest first."""
        with _told("read", self._path):
            self._last = self._db.execute("SELECT coalesce(max(n), 0) FROM calls").fetchone()[0]
            return [*islice(self._records(wanted, self._last, is_backwards=True), limit or None)][::-1]

    def all(self, wanted: AuditFilter) -> Iterator[CallRecord]:
        """All that are wanted, the oldest first."""
        with _told("read", self._path):
            yield from self._records(wanted, MAX_NUMBER)

    def news(self, wanted: AuditFilter) -> list[CallRecord]:
        """Those that came since `latest`, or since the last time."""
        with _told("read", self._path):
            first, last = self._db.execute("SELECT coalesce(min(n), 0), coalesce(max(n), 0) FROM calls").fetchone()
            self.has_missed = first > self._last + 1
            found = list(self._records(wanted, last, after=self._last))
            self._last = last
        return found

    def notes(self, since: float) -> list[StoreNote]:
        """What happened to the audit itself since then."""
        with _told("read", self._path):
            rows = self._db.execute(
                "SELECT event, at, run, pid, count FROM notes WHERE at >= ? ORDER BY n", (since,)
            ).fetchall()
        return [StoreNote(event=row[0], at=row[1], run=row[2], pid=row[3], count=row[4]) for row in rows]

    def close(self) -> None:
        self._db.close()

    def _records(
        self, wanted: AuditFilter, last: int, *, after: int = 0, is_backwards: bool = False
    ) -> Iterator[CallRecord]:
        """Read in pieces: while one is read nobody can write, and the caller takes its time."""
        where, values = wanted.where()
        order = "DESC" if is_backwards else "ASC"
        rows: list[tuple[Any, ...]] = []
        while not rows or len(rows) == ROWS:
            rows = self._db.execute(
                f"SELECT {', '.join(COLUMNS)}, n FROM calls WHERE n > ? AND n <= ? AND {where}"  # noqa: S608  # constants
                f" ORDER BY n {order} LIMIT {ROWS}",
                (after, last, *values),
            ).fetchall()
            if not rows:
                return
            after, last = (after, rows[-1][-1] - 1) if is_backwards else (rows[-1][-1], last)
            for row in rows:
                record = CallRecord(*row)
                if wanted.admits(record):
                    yield record
