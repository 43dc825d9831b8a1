"""A file of SQLite in which cached answers survive the daemon: a wing, imported where `cache.store` names one.

    AnswerCache ──changed──▶ owed ──▶ AnswerFile, in a thread        all of it read when the daemon starts

Calls look into the cache alone, so that none waits for the file, and the file has what the cache has. What was not
written when the daemon is killed is missing, and nothing else is: each batch is one transaction of a write-ahead log
(sqlite.org/wal.html). Whoever clears the file from outside is heard within `LOOK_S`.

The file holds answers as they are, and so is its owner's alone (0600). One that is damaged is moved aside.
"""

import os
import sqlite3
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.agent.log import Log
from tooldispatchd.calls.answercache import AnswerCache, CachedAnswer
from tooldispatchd.calls.outcome import Answer
from tooldispatchd.privatefiles import open_private
from tooldispatchd.wire.messages import ContentKind, QuotedText

SQLITE: Final = "sqlite:"
# sqlite.org/pragma.html: whose database it is, and which tables are in it; raised too where answers look otherwise.
APPLICATION_ID: Final = 0x74646361
SCHEMA: Final = 1
# Where a damaged file is moved; an older one that lies there is lost.
DAMAGED: Final = ".damaged"
# How soon it is heard that another process has cleared the file.
LOOK_S: Final = 1.0
# What is written in one transaction, so that the end need not wait long for it.
BATCH: Final = 1024
# The exit may take 1.5 s in all.
FLUSH_S: Final = 1.0
_PRIMARY_CODE: Final = 0xFF
_CREATE: Final = (
    "CREATE TABLE answers (key BLOB PRIMARY KEY, tool TEXT NOT NULL, server TEXT NOT NULL,"
    " made_at REAL NOT NULL, until REAL NOT NULL, answer BLOB NOT NULL)"
)
_READ: Final = "SELECT key, tool, server, made_at, until, answer FROM answers ORDER BY made_at"


class AnswerFileError(Exception):
    """The file cannot be used; the text is a clause that says why."""


class DamagedFileError(AnswerFileError):
    """What is in the file is no database, or not a whole one."""


class KeptText(msgspec.Struct, frozen=True):
    """A `QuotedText`."""

    literal: bytes
    size: int


class KeptAnswer(msgspec.Struct, frozen=True):
    """A good answer as it stands in the file, in MessagePack."""

    content: str | KeptText
    kind: ContentKind
    blocks: bytes | KeptText | None
    largest_part: int
    value: str | None
    details: bytes | None


class KeptTool(msgspec.Struct, frozen=True):
    """What the file has of one tool: how many answers, their bytes, and when the newest was made, in Unix seconds."""

    tool: str
    server: str
    answers: int
    bytes: int
    newest_at: float
    until: float


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(KeptAnswer).decode

Row = tuple[bytes, str, str, float, float, bytes]


class AnswerFile:
    """The file at `path`, open; times are Unix seconds. Each method raises `AnswerFileError`."""

    def __init__(self, path: Path) -> None:
        with _told():
            # SQLite gives the files beside it the same mode.
            os.close(open_private(path))
            # One thread after the other uses it, and never two at once.
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                self._set_up()
            except BaseException:
                self._database.close()
                raise

    def _set_up(self) -> None:
        if (found := self._one("PRAGMA quick_check(1)")) != "ok":
            raise DamagedFileError(str(found))
        has_tables = self._one("SELECT count(*) FROM sqlite_master") != 0
        if has_tables and self._one("PRAGMA application_id") != APPLICATION_ID:
            raise AnswerFileError("it is another program's database")
        self._one("PRAGMA journal_mode = WAL")
        # A commit outlives the daemon, and not always the machine: what is lost then is asked for once more.
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._one("PRAGMA journal_size_limit = 4194304")
        if not has_tables or self._one("PRAGMA user_version") != SCHEMA:
            with _transaction(self._database):
                self._database.execute("DROP TABLE IF EXISTS answers")
                self._database.execute(_CREATE)
                self._database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._database.execute(f"PRAGMA user_version = {SCHEMA}")

    def _one(self, query: str) -> object:
        found: tuple[object, ...] = self._database.execute(query).fetchone()
        return found[0]

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._database.close()

    def read(self, now: float) -> list[Row]:
        """The rows whose time is not over, oldest first; all others leave the file."""
        with _told():
            # Those of the future were made before the clock was set back.
            self._database.execute("DELETE FROM answers WHERE until <= ? OR made_at > ?", (now, now))
            found = self._database.execute(_READ).fetchall()
        try:
            # SQLite keeps any kind of value in any column.
            rows = msgspec.convert(found, list[Row])
            for row in rows:
                unpacked(row[-1])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DamagedFileError("its answers cannot be read") from error
        return rows

    def write(self, changes: Mapping[bytes, Row | None], now: float) -> None:
        """Put rows, and take those away whose key has none, and those whose time is over; all or nothing."""
        with _told(), _transaction(self._database):
            self._database.executemany("DELETE FROM answers WHERE key = ?", [(key,) for key in changes])
            rows = [row for row in changes.values() if row is not None]
            self._database.executemany("INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)", rows)
            self._database.execute("DELETE FROM answers WHERE until <= ?", (now,))

    def version(self) -> int:
        """Changes with what other connections write."""
        with _told():
            return int(str(self._one("PRAGMA data_version")))

    def keys(self) -> set[bytes]:
        with _told():
            return {key for (key,) in self._database.execute("SELECT key FROM answers")}

    def tools(self, now: float) -> list[KeptTool]:
        """What there is of each tool, by name."""
        with _told():
            rows = self._database.execute(
                "SELECT tool, server, count(*), sum(length(answer)), max(made_at), max(until) FROM answers"
                " WHERE until > ? GROUP BY tool, server ORDER BY tool",
                (now,),
            )
            return [KeptTool(*row) for row in rows]

    def clear(self, tools: Iterable[str]) -> int:
        """Take all answers of these tools away; how many there were."""
        with _told(), _transaction(self._database):
            done = self._database.executemany("DELETE FROM answers WHERE tool = ?", [(tool,) for tool in tools])
        return done.rowcount


class OpenedFile(NamedTuple):
    """The file, the rows in it, and where a damaged one was moved that lay there."""

    file: AnswerFile
    rows: list[Row]
    aside: Path | None


def open_file(path: Path, now: float) -> OpenedFile:
    """Open the file and read it; it is new where there is none, or a damaged one. Raises `AnswerFileError`."""
    try:
        return OpenedFile(*_read_file(path, now), None)
    except DamagedFileError:
        aside = path.with_name(path.name + DAMAGED)
        with _told():
            path.replace(aside)
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        return OpenedFile(*_read_file(path, now), aside)


def _read_file(path: Path, now: float) -> tuple[AnswerFile, list[Row]]:
    file = AnswerFile(path)
    try:
        return file, file.read(now)
    except BaseException:
        file.close()
        raise


def path_of(store: str) -> Path | None:
    """The file that `cache.store` names; None for memory alone."""
    return Path(store.removeprefix(SQLITE)) if store.startswith(SQLITE) else None


@asynccontextmanager
async def keep_answers(path: Path, answers: AnswerCache, log: Log) -> AsyncIterator[None]:
    """Keep what the cache has in the file, after all that the file has was put into it.

    A file that cannot be used is a warning, and nothing is kept.
    """
    try:
        file, rows, aside = await trio.to_thread.run_sync(open_file, path, time.time())
    except AnswerFileError as error:
        log.warning("cached answers not kept", file=str(path), reason=str(error))
        yield
        return
    if aside is not None:
        log.warning("damaged cache moved aside", file=str(path), to=str(aside))
    keeper = _Keeper(file, answers, log)
    try:
        keeper.load(rows)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keeper.run)
            yield
            nursery.cancel_scope.cancel()
        with trio.move_on_after(FLUSH_S, shield=True):
            await keeper.flush()
    finally:
        file.close()


class _Keeper:
    """Writes to the file what the cache says has changed."""

    def __init__(self, file: AnswerFile, answers: AnswerCache, log: Log) -> None:
        self._file = file
        self._answers = answers
        self._log = log
        # By key: an answer may come and leave before it was written. No more than the cache and the file have.
        self._owed: dict[bytes, CachedAnswer | None] = {}
        self._news = trio.Event()
        # Of the file, once that was looked at; the first look compares all.
        self._version = -1
        self._is_over = False

    def load(self, rows: Iterable[Row]) -> None:
        """Put what the file had into the cache."""
        since = trio.current_time() - time.time()
        self._answers.changed = self._left
        for key, tool, server, made_at, until, text in rows:
            cached = CachedAnswer(unpacked(text), tool, server, made_at + since, until + since)
            if not self._answers.put(key, cached, trio.current_time()):
                self._owed[key] = None
        self._answers.changed = self._changed

    def _left(self, key: bytes, cached: CachedAnswer | None) -> None:
        """While the file is read: what is put there comes from it."""
        if cached is None:
            self._owed[key] = None

    def _changed(self, key: bytes, cached: CachedAnswer | None) -> None:
        self._owed[key] = cached
        self._news.set()

    async def run(self) -> None:
        """Write what has changed, and hear of what another process has cleared, until cancelled."""
        while not self._is_over:
            with trio.move_on_after(LOOK_S):
                await self._news.wait()
            self._news = trio.Event()
            if self._owed or len(self._answers):
                await self._write()

    async def flush(self) -> None:
        """Write all that is left."""
        while self._owed and not self._is_over:
            await self._write()

    async def _write(self) -> None:
        batch = dict(islice(self._owed.items(), BATCH))
        try:
            kept = await trio.to_thread.run_sync(self._written, batch, time.time() - trio.current_time())
        except AnswerFileError as error:
            self._give_up(error)
            return
        for key, cached in batch.items():
            # It may have changed meanwhile.
            if self._owed[key] is cached:
                del self._owed[key]
        if self._owed:
            self._news.set()
        if kept is not None:
            self._answers.drop([key for key in self._answers if key not in kept and key not in self._owed])

    def _written(self, batch: Mapping[bytes, CachedAnswer | None], since: float) -> set[bytes] | None:
        """In a thread: write the batch; the keys of the file where another process has changed it."""
        rows = {key: None if cached is None else _row(key, cached, since) for key, cached in batch.items()}
        if rows:
            self._file.write(rows, time.time())
        version = self._file.version()
        if version == self._version:
            return None
        self._version = version
        return self._file.keys()

    def _give_up(self, error: AnswerFileError) -> None:
        """The disk is full, or damaged: go on in memory."""
        self._is_over = True
        self._owed.clear()
        self._answers.changed = _ignore
        self._log.warning("cached answers no longer kept", reason=str(error))


def _ignore(_key: bytes, _cached: CachedAnswer | None) -> None: ...


def _row(key: bytes, cached: CachedAnswer, since: float) -> Row:
    return key, cached.tool, cached.server, cached.made_at + since, cached.until + since, packed(cached.answer)


def packed(answer: Answer) -> bytes:
    """A good answer as it stands in the file."""
    content, blocks = answer.content, answer.blocks
    return _encode(
        KeptAnswer(
            content if isinstance(content, str) else KeptText(bytes(content.literal), content.size),
            answer.kind,
            KeptText(bytes(blocks.literal), blocks.size)
            if isinstance(blocks, QuotedText)
            else (None if blocks is None else bytes(blocks)),
            answer.largest_part,
            answer.value,
            None if answer.details is None else bytes(answer.details),
        )
    )


def unpacked(text: bytes) -> Answer:
    """The answer that `packed` gave. Raises `msgspec.ValidationError` or `DecodeError`."""
    kept = _decode(text)
    content, blocks = kept.content, kept.blocks
    return Answer(
        QuotedText(content.literal, content.size) if isinstance(content, KeptText) else content,
        kind=kept.kind,
        blocks=QuotedText(blocks.literal, blocks.size)
        if isinstance(blocks, KeptText)
        else (None if blocks is None else Raw(blocks)),
        largest_part=kept.largest_part,
        value=kept.value,
        details=None if kept.details is None else Raw(kept.details),
    )


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        # One that fails may leave the transaction open: sqlite.org/lang_transaction.html, 2.
        database.execute("COMMIT")
    except BaseException:
        # Unlike the statement this does nothing where SQLite has given the transaction up itself.
        database.rollback()
        raise


@contextmanager
def _told() -> Iterator[None]:
    """Raise what SQLite and the system say as `AnswerFileError`."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
        kind = DamagedFileError if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB} else AnswerFileError
        raise kind(str(error)) from error
    except OSError as error:
        raise AnswerFileError(error.strerror or str(error)) from error
