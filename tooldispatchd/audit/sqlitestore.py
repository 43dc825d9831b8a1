"""The audit in a file of SQLite: written in batches, so that a killed daemon leaves it whole; the oldest go first.

Many rows go into one statement: the lock of the interpreter is given back while it runs, and asked for once in the
place of once a row, which would take a writer beside a busy loop 5 ms each.
"""

import os
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

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
# What the log beside the file (WAL) keeps on disk once it has been written to the file.
MAX_LOG_BYTES: Final = 16 * 1024 * 1024
VERSION: Final = 1
# Some megabytes: they are not among what is counted for `max_bytes`.
NOTES: Final = 10_000
# While a daemon writes, what came last stands in the log beside the file: at first all of it.
NO_TABLES: Final = (
    "it holds no records: a copy of a file that a daemon writes needs the -wal file beside it, or is made with .backup"
)
_ENDED: Final = "SELECT run FROM notes WHERE event IN ('closed', 'unclosed')"

_SCHEMA: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS calls (n INTEGER PRIMARY KEY, at REAL, {", ".join(COLUMNS[1:])});
CREATE TABLE IF NOT EXISTS notes (n INTEGER PRIMARY KEY, event, at REAL, run, pid, count);
PRAGMA user_version = {VERSION};
COMMIT;
"""


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
            self._db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            self._prepare()

    def _prepare(self) -> None:
        db = self._db
        db.execute("PRAGMA journal_mode = WAL")
        # A crash of the machine may take the last transactions; that of the daemon takes none.
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA journal_size_limit = {MAX_LOG_BYTES}")
        version: int = db.execute("PRAGMA user_version").fetchone()[0]
        if version not in {0, VERSION}:
            raise sqlite3.DatabaseError(f"it was written by another version ({version}) of the daemon")
        if version == 0:
            db.executescript(_SCHEMA)

    def write(self, records: Sequence[CallRecord], notes: Sequence[StoreNote]) -> None:
        """All of these, or none; the oldest go first where the store is too large."""
        with _told("write to", self._path):
            self._shrink()
            with self._transaction():
                for start in range(0, len(records), ROWS):
                    self._insert(records[start : start + ROWS])
                rows = [(note.event, note.at, note.run, note.pid, note.count) for note in notes]
                self._db.executemany("INSERT INTO notes (event, at, run, pid, count) VALUES (?, ?, ?, ?, ?)", rows)

    def _shrink(self) -> None:
        """Remove the oldest while the store is too large, but not the newest one; each piece is a transaction."""
        # Their pages are used again; the file does not shrink, and need not.
        while self._size > self._max_bytes:
            first, last = self._db.execute("SELECT min(n), max(n) FROM calls").fetchone()
            if first == last:
                break
            self.removed += self._delete("n <= ?", (first + min(PIECE, (last - first) // 8),))

    def _insert(self, records: Sequence[CallRecord]) -> None:
        values: list[object] = []
        for record in records:
            values += msgspec.structs.astuple(record)[:-1]
        insert = self._inserts.get(len(records))
        if insert is None:
            row = f"({', '.join('?' * len(COLUMNS))})"
            insert = f"INSERT INTO calls ({', '.join(COLUMNS)}) VALUES {', '.join([row] * len(records))}"  # noqa: S608
            self._inserts[len(records)] = insert
        self._db.execute(insert, values)

    def unclosed(self) -> list[tuple[str, int]]:
        """The runs, each with its process, that were opened and that nobody has said the end of."""
        with _told("read", self._path):
            return self._db.execute(
                f"SELECT run, pid FROM notes WHERE event = 'opened' AND run NOT IN ({_ENDED})"  # noqa: S608  # constants
            ).fetchall()

    def tidy(self, now: float) -> None:
        """Remove what is too old; what says that a run goes on stays where it is."""
        with _told("tidy", self._path):
            # They come in the order in which calls end: an index of times would cost each record, and this little.
            # The newest stays, so that numbers go on, and whoever follows them misses none.
            oldest = f"SELECT n FROM calls WHERE n < (SELECT max(n) FROM calls) ORDER BY n LIMIT {PIECE}"  # noqa: S608
            while self._delete(f"at < ? AND n IN ({oldest})", (now - self._keep_s,)) == PIECE:
                pass
            self._db.execute(
                f"DELETE FROM notes WHERE (at < ? OR n <= (SELECT max(n) FROM notes) - {NOTES})"  # noqa: S608  # constants
                f" AND (event <> 'opened' OR run IN ({_ENDED}))",
                (now - self._keep_s,),
            )

    @property
    def _size(self) -> int:
        pages, free, size = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def _delete(self, condition: str, values: tuple[object, ...] = ()) -> int:
        return self._db.execute(f"DELETE FROM calls WHERE {condition}", values).rowcount  # noqa: S608  # constants

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            # One that fails may leave the transaction open: sqlite.org/lang_transaction.html, 2.
            self._db.execute("COMMIT")
        except BaseException:
            self._db.rollback()
            raise

    def close(self) -> None:
        self._db.close()


class SqliteReader:
    """Reads while daemons write. Each method raises `AuditStoreError`."""

    def __init__(self, path: str) -> None:
        self.has_missed = False
        self._path = path
        self._last = 0
        with _told("open", path):
            self._db = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S)

    def latest(self, wanted: AuditFilter, limit: int) -> list[CallRecord]:
        """The last so many that are wanted, the oldest first."""
        with _told("read", self._path):
            self._last = self._db.execute("SELECT coalesce(max(n), 0) FROM calls").fetchone()[0]
            with closing(self._records(wanted, f"n <= {self._last}", "DESC")) as records:
                return [*islice(records, limit or None)][::-1]

    def all(self, wanted: AuditFilter) -> Iterator[CallRecord]:
        """All that are wanted, the oldest first."""
        with _told("read", self._path):
            yield from self._records(wanted, "1 = 1", "ASC")

    def news(self, wanted: AuditFilter) -> list[CallRecord]:
        """Those that came since `latest`, or since the last time."""
        with _told("read", self._path):
            first, last = self._db.execute("SELECT coalesce(min(n), 0), coalesce(max(n), 0) FROM calls").fetchone()
            self.has_missed = first > self._last + 1
            found = list(self._records(wanted, f"n > {self._last} AND n <= {last}", "ASC"))
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

    def _records(self, wanted: AuditFilter, condition: str, order: str) -> Generator[CallRecord]:
        where, values = wanted.where()
        columns = ", ".join(COLUMNS)
        rows = self._db.execute(
            f"SELECT {columns}, n FROM calls WHERE {condition} AND {where} ORDER BY n {order}",  # noqa: S608  # constants
            values,
        )
        with closing(rows):
            for row in rows:
                record = CallRecord(*row)
                if wanted.admits(record):
                    yield record
