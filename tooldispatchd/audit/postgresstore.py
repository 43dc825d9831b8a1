"""The audit in a database of PostgreSQL: a batch is one COPY in one transaction, so that no daemon leaves half of one.

Daemons on many machines may write to one database. Their batches take turns, by a lock that ends with each: so numbers
become visible in their order, and whoever follows them misses none. A connection that has failed is given up; the next
try opens another one, and asks first whether the former came through, where that is in doubt.
"""

import logging
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from typing import Final, TypeVar

import msgspec
import psycopg
from psycopg import errors
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from tooldispatchd.audit.record import COLUMNS, AuditFilter, AuditStoreError, CallRecord, StoreNote
from tooldispatchd.catalog.masker import Masker

# Of each address that the server's name has.
CONNECT_S: Final = 5
# Some hundred times what a batch takes; and what a reader may have a server look for.
WRITE_S: Final = 10
READ_S: Final = 60
# Deleted in one transaction, so that none takes long.
PIECE: Final = 10_000
# Measured, from the first to the last, where the size of all is estimated; and what each takes beside its columns, in
# the table and its index.
SAMPLE: Final = 500
ROW_BYTES: Final = 48
# The size is looked at as often as so large a part of all was written, with so much for a record without payloads.
PARTS: Final = 8
RECORD_BYTES: Final = 512
# Rows that a reader asks for at once.
ROWS: Final = 1_000
LEAST_VERSION: Final = 130_000
_MARK: Final = "tooldispatchd audit, version 1"
# A text of PostgreSQL has no NUL; this is its picture in Unicode.
# Beyond them the oldest go: they are not among what is counted for `max_bytes`.
NOTES: Final = 10_000
_NUL: Final = "\N{SYMBOL FOR NULL}"

_NUMBERS: Final = frozenset({"at", "waited_ms", "ran_ms", "total_ms", "cost"})
_WHOLE: Final = frozenset({"uid", "session", "root", "bytes_in", "bytes_out", "tokens"})
_TYPED: Final = ", ".join(
    f"{name} {'double precision' if name in _NUMBERS else 'bigint' if name in _WHOLE else 'text'}" for name in COLUMNS
)
_CALLS: Final = "tooldispatchd_calls"
_NOTES: Final = "tooldispatchd_notes"
_SCHEMA: Final = f"""
CREATE TABLE {_CALLS} (n bigint PRIMARY KEY, {_TYPED});
CREATE TABLE {_NOTES} (
    n bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    event text, at double precision, run text, host text, pid bigint, count bigint
);
COMMENT ON TABLE {_CALLS} IS '{_MARK}';
"""
# Its name among the locks of the database: "tool" in ASCII.
_TURN: Final = "SELECT pg_advisory_xact_lock(1953460076)"
_ENDED: Final = f"SELECT run FROM {_NOTES} WHERE event IN ('closed', 'unclosed')"  # noqa: S608  # constants
_COPY: Final = f"COPY {_CALLS} (n, {', '.join(COLUMNS)}) FROM STDIN"
_NOTE: Final = f"INSERT INTO {_NOTES} (event, at, run, host, pid, count) VALUES (%s, %s, %s, %s, %s, %s)"  # noqa: S608
# It warns of what fails on a connection that has failed already, which is raised anyway.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
_T = TypeVar("_T")


class _Connection(psycopg.Connection[TupleRow]):
    """One on which each wait has a bound; that of the server holds only where the server, and the network, live."""

    answer_s: float = WRITE_S

    def wait(self, gen: PQGen[_T], interval: float = 0.1, timeout: float | None = None) -> _T:
        bound = self.answer_s if timeout is None else min(timeout, self.answer_s)
        return super().wait(gen, interval=interval, timeout=bound)


class _Link:
    """One connection at a time, opened when it is needed. What fails on it is raised as an `AuditStoreError`."""

    def __init__(self, url: str, *, answer_s: float, prepare: Callable[[_Connection], None] | None = None) -> None:
        self._answer_s = answer_s
        self._prepare = prepare
        self._connection: _Connection | None = None
        try:
            given = conninfo_to_dict(url)
            self._words = make_conninfo(url, **{"connect_timeout": CONNECT_S, **given})
        except psycopg.Error:
            # Its words hold the part of the URL that is wrong.
            raise AuditStoreError("cannot open the store: libpq cannot read its URL") from None
        self._name = f"postgresql://{given.get('host') or ''}/{given.get('dbname') or ''}"
        self._masker = Masker(str(given[key]) for key in ("password", "sslpassword") if given.get(key))

    @contextmanager
    def opened(self, what: str) -> Iterator[_Connection]:
        """The connection, to do something with it."""
        try:
            if self._connection is None:
                self._connection = self._connect()
            yield self._connection
        except psycopg.Error as error:
            self.close()
            # What follows may quote a row.
            why = str(error).strip().partition("\n")[0]
            raise AuditStoreError(f"cannot {what} {self._name}: {self._masker.mask(why)}") from error

    def _connect(self) -> _Connection:
        connection = _Connection.connect(
            self._words,
            autocommit=True,
            # It would bind what is prepared to one connection, which a pooler between may change.
            prepare_threshold=None,
            fallback_application_name="tooldispatchd",
        )
        try:
            connection.answer_s = self._answer_s
            milliseconds = round(self._answer_s * 1000)
            connection.execute(f"SET statement_timeout = {milliseconds}")
            # A machine that sleeps in the midst of a batch must not hold up all others.
            connection.execute(f"SET idle_in_transaction_session_timeout = {milliseconds}")
            if self._prepare is not None:
                self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class PostgresStore:
    """Writes; used by one thread at a time. Each method but `close` raises `AuditStoreError`.

    `removed` counts the records that went before their time, so that the others keep within `max_bytes`.
    """

    def __init__(self, url: str, *, keep_s: float, max_bytes: int, answer_s: float = WRITE_S) -> None:
        self.removed = 0
        # Since the store was last looked at.
        self._written_bytes = max_bytes
        self._keep_s = keep_s
        self._max_bytes = max_bytes
        self._host = os.uname().nodename
        # The transaction that may have been committed, and what was in it.
        self._doubted: tuple[str, Sequence[CallRecord], Sequence[StoreNote]] | None = None
        self._link = _Link(url, answer_s=answer_s, prepare=_prepare)
        with self._link.opened("open"):
            pass

    def write(self, records: Sequence[CallRecord], notes: Sequence[StoreNote]) -> None:
        """All of these, or none. After an error the same ones may be given again, and are not written twice."""
        with self._link.opened("write to") as db:
            if self._is_written(db, records, notes):
                return
            # Before, so that what fails here has written nothing.
            self._shrink(db)
            db.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            # Each statement sees all that was committed before it: the second the last number of another turn.
            db.execute(_TURN)
            transaction, last = _one(db, f"SELECT pg_current_xact_id()::text, max(n) FROM {_CALLS}")  # noqa: S608
            if records:
                with db.cursor() as cursor, cursor.copy(_COPY) as rows:
                    for number, record in enumerate(records, (last or 0) + 1):
                        rows.write_row((number, *_row(record)))
            for note in notes:
                db.execute(_NOTE, (note.event, note.at, note.run, self._host, note.pid, note.count))
            self._doubted = str(transaction), records, notes
            db.execute("COMMIT")
            self._doubted = None
            self._written_bytes += sum(
                RECORD_BYTES + len(record.input or "") + len(record.output or "") for record in records
            )

    def _is_written(self, db: _Connection, records: Sequence[CallRecord], notes: Sequence[StoreNote]) -> bool:
        """Whether these are what was committed though its answer was lost."""
        if self._doubted is None:
            return False
        transaction, *written = self._doubted
        if written[0] is not records or written[1] is not notes:
            self._doubted = None
            return False
        try:
            status = _one(db, "SELECT pg_xact_status(%s::xid8)", transaction)[0]
        except errors.InvalidParameterValue:
            # Another server is there now, which was behind, and has never had that transaction.
            status = None
        if status == "in progress":
            raise errors.LockNotAvailable("the server is still at the former try")
        self._doubted = None
        return bool(status == "committed")

    def unclosed(self) -> list[tuple[str, int]]:
        """The runs of this machine, each with its process, that were opened and that nobody has said the end of."""
        with self._link.opened("read") as db:
            rows = db.execute(
                f"SELECT run, pid FROM {_NOTES} WHERE event = 'opened' AND host = %s AND run NOT IN ({_ENDED})",  # noqa: S608
                (self._host,),
            )
            return [(row[0], row[1]) for row in rows]

    def _shrink(self, db: _Connection) -> None:
        """Remove the oldest where all are too large, by an estimate; it is looked at once in a part of the size."""
        if self._written_bytes < self._max_bytes // PARTS:
            return
        while (over := self._over(db)) is not None:
            self.removed += _delete(db, "n <= %s", over)
        self._written_bytes = 0

    def tidy(self, now: float) -> None:
        """Remove what is too old; what says that a run goes on stays where it is."""
        with self._link.opened("tidy") as db:
            # They come in the order in which calls end: an index of times would cost each record, and this little.
            # The newest stays, so that numbers go on, and whoever follows them misses none.
            oldest = f"SELECT n FROM {_CALLS} WHERE n < (SELECT max(n) FROM {_CALLS}) ORDER BY n LIMIT {PIECE}"  # noqa: S608
            while _delete(db, f"at < %s AND n IN ({oldest})", now - self._keep_s) == PIECE:
                pass
            db.execute(
                f"DELETE FROM {_NOTES} WHERE (at < %s OR n <= (SELECT max(n) FROM {_NOTES}) - {NOTES})"  # noqa: S608
                f" AND (event <> 'opened' OR run IN ({_ENDED}))",
                (now - self._keep_s,),
            )

    def _over(self, db: _Connection) -> int | None:
        """The number up to which records go, in one transaction; None where there is room for all."""
        # What was deleted takes room until the server has tidied up, so that the size of the table says nothing. And
        # hardly any number is missing between the first and the last.
        first, last = _one(db, f"SELECT min(n), max(n) FROM {_CALLS}")  # noqa: S608  # constants
        # The newest one stays.
        if first == last:
            return None
        row_bytes = _one(
            db,
            f"SELECT avg(pg_column_size(sample)) FROM {_CALLS} sample"  # noqa: S608  # constants
            " WHERE n IN (SELECT generate_series(%s::bigint, %s::bigint, %s::bigint))",
            first,
            last,
            -(-(last - first) // SAMPLE),
        )[0]
        if (last - first + 1) * (float(row_bytes or 0) + ROW_BYTES) <= self._max_bytes:
            return None
        return int(first + min(PIECE, (last - first) // 8))

    def close(self) -> None:
        self._link.close()


def _prepare(db: _Connection) -> None:
    """Make the tables where they are not there, so that a user who may not make any can write to those that are."""
    if db.info.server_version < LEAST_VERSION:
        raise errors.FeatureNotSupported("PostgreSQL 13 or newer is needed")
    if (encoding := db.info.parameter_status("server_encoding")) != "UTF8":
        raise errors.FeatureNotSupported(f"the database is in {encoding}, and records are in UTF8")
    # Without a turn, which a batch of this daemon that is in doubt may have.
    if not _is_made(db):
        with db.transaction():
            db.execute(_TURN)
            if not _is_made(db):
                db.execute(_SCHEMA)


def _is_made(db: _Connection) -> bool:
    mark, table = _one(db, f"SELECT obj_description(to_regclass('{_CALLS}')), to_regclass('{_CALLS}')::text")
    if table is not None and mark != _MARK:
        raise errors.FeatureNotSupported("it was written by another version of the daemon")
    return table is not None


def _one(db: _Connection, query: str, *values: object) -> TupleRow:
    row = db.execute(query, values).fetchone()
    assert row is not None
    return row


def _delete(db: _Connection, condition: str, value: object) -> int:
    return db.execute(f"DELETE FROM {_CALLS} WHERE {condition}", (value,)).rowcount  # noqa: S608  # constants


def _row(record: CallRecord) -> tuple[object, ...]:
    row = msgspec.structs.astuple(record)[:-1]
    # Names of agents and answers of tools may have any character.
    if any(value.__class__ is str and "\0" in value for value in row):
        return tuple(value.replace("\0", _NUL) if isinstance(value, str) else value for value in row)
    return row


class PostgresReader:
    """Reads while daemons write. Each method but `close` raises `AuditStoreError`."""

    def __init__(self, url: str) -> None:
        self.has_missed = False
        self._last = 0
        self._link = _Link(url, answer_s=READ_S)
        with self._link.opened("open"):
            pass

    def latest(self, wanted: AuditFilter, limit: int) -> list[CallRecord]:
        """The last so many that are wanted, the oldest first."""
        self._last = self._newest()
        with closing(self._records(wanted, f"n <= {self._last}", "DESC")) as records:
            return [*islice(records, limit or None)][::-1]

    def all(self, wanted: AuditFilter) -> Iterator[CallRecord]:
        """All that are wanted, the oldest first."""
        yield from self._records(wanted, "true", "ASC")

    def news(self, wanted: AuditFilter) -> list[CallRecord]:
        """Those that came since `latest`, or since the last time."""
        with self._link.opened("read") as db:
            first, last = _one(db, f"SELECT coalesce(min(n), 0), coalesce(max(n), 0) FROM {_CALLS}")  # noqa: S608
        self.has_missed = first > self._last + 1
        found = list(self._records(wanted, f"n > {self._last} AND n <= {last}", "ASC"))
        self._last = last
        return found

    def notes(self, since: float) -> list[StoreNote]:
        """What happened to the audit itself since then."""
        with self._link.opened("read") as db:
            rows = db.execute(
                f"SELECT event, at, run, pid, count FROM {_NOTES} WHERE at >= %s ORDER BY n",  # noqa: S608  # constants
                (since,),
            )
            return [StoreNote(event=row[0], at=row[1], run=row[2], pid=row[3], count=row[4]) for row in rows]

    def close(self) -> None:
        self._link.close()

    def _newest(self) -> int:
        with self._link.opened("read") as db:
            return int(_one(db, f"SELECT coalesce(max(n), 0) FROM {_CALLS}")[0])  # noqa: S608  # constants

    def _records(self, wanted: AuditFilter, condition: str, order: str) -> Generator[CallRecord]:
        where, values = wanted.where()
        where = where.replace("?", "%s")
        columns = ", ".join(COLUMNS)
        # On the server, so that no more than some rows are here.
        with self._link.opened("read") as db, db.transaction(), db.cursor("records") as rows:
            rows.itersize = ROWS
            rows.execute(
                f"SELECT {columns}, n FROM {_CALLS} WHERE {condition} AND {where} ORDER BY n {order}",  # noqa: S608
                values,
            )
            for row in rows:
                record = CallRecord(*row)
                if wanted.admits(record):
                    yield record
