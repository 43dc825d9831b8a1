"""Every store keeps what it is given, in order, tidies, and is there again after whatever happened to its writer."""

import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.audit.test_record import recorded
from tests.daemon.spawned import ROOT
from tooldispatchd.audit.door import open_reader
from tooldispatchd.audit.postgresstore import PostgresStore
from tooldispatchd.audit.record import AuditFilter, AuditStoreError, CallRecord, StoreNote
from tooldispatchd.audit.recorder import AuditStore
from tooldispatchd.audit.sqlitestore import SqliteStore
from tooldispatchd.catalog.auditspec import file_store

SCHEMAS: Final = count()
ALL: Final = AuditFilter()
DAY_S: Final = 86_400.0
NOW: Final = 1_700_000_000.0


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of each kind, as a configuration names it; nothing is there yet."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'audit'}"
    schema: Callable[[str], str] = request.getfixturevalue("postgres").schema
    return schema(f"stores{next(SCHEMAS)}")


def opened(place: str, *, keep_s: float = 30 * DAY_S, max_bytes: int = 2**30) -> AuditStore:
    kind, path = file_store(place) or ("postgresql", place)
    store: Callable[..., AuditStore] = SqliteStore if kind == "sqlite" else PostgresStore
    return store(path, keep_s=keep_s, max_bytes=max_bytes)


def calls(count: int, *, first: int = 0, at: float = NOW) -> list[CallRecord]:
    return [recorded(id=str(number), at=at + number) for number in range(first, first + count)]


def ids(records: list[CallRecord]) -> list[str]:
    return [record.call for record in records]


def note(event: str, run: str = "run", pid: int = 1, count: int | None = None) -> StoreNote:
    return StoreNote(event=event, at=NOW, run=run, pid=pid, count=count)  # type: ignore[arg-type]


def test_what_is_written_is_read_in_its_order(place: str) -> None:
    store = opened(place)
    store.write(calls(300), [note("opened")])
    store.write(calls(300, first=300), [note("lost", count=3)])
    reader = open_reader(place)
    assert ids(list(reader.all(ALL))) == [str(number) for number in range(600)]
    assert ids(reader.latest(ALL, 3)) == ["597", "598", "599"]
    assert ids(reader.latest(AuditFilter(since=NOW + 598), 0)) == ["598", "599"]
    assert reader.latest(AuditFilter(tool="nothing*"), 3) == []
    assert ids(reader.latest(AuditFilter(profile="coder", session=7), 1)) == ["599"]
    assert reader.latest(AuditFilter(session=8), 3) == reader.latest(AuditFilter(profile="other"), 3) == []
    assert [(each.event, each.count) for each in reader.notes(NOW)] == [("opened", None), ("lost", 3)]
    store.write(calls(2, first=600), [])
    assert ids(reader.news(ALL)) == ["600", "601"]
    assert reader.news(ALL) == []
    reader.close()
    store.close()


def test_a_record_comes_back_as_it_was(place: str) -> None:
    store = opened(place)
    given = recorded(content='a "b"\n\0ü', cache="hit", approval="asked", tool="t\x1b[31m")
    store.write([given], [])
    reader = open_reader(place)
    (read,) = reader.latest(ALL, 0)
    # The one has numbers, and the other no NUL.
    if place.startswith("postgresql:"):
        given = msgspec.structs.replace(given, output='a "b"\n\u2400ü')
    assert read == msgspec.structs.replace(given, n=read.n)
    reader.close()
    store.close()


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    store = opened(f"sqlite:{tmp_path / 'audit'}")
    store.write(calls(1), [])
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    store.close()


def test_runs_without_an_end_are_known(place: str) -> None:
    store = opened(place)
    store.write([], [note("opened", "a"), note("closed", "a"), note("opened", "b", 42), note("opened", "c")])
    store.write([], [note("unclosed", "c")])
    assert store.unclosed() == [("b", 42)]
    store.close()


def test_two_daemons_may_write_to_one(place: str) -> None:
    one, other = opened(place), opened(place)
    one.write(calls(1), [])
    other.write(calls(1, first=1), [])
    one.write(calls(1, first=2), [])
    reader = open_reader(place)
    assert ids(list(reader.all(ALL))) == ["0", "1", "2"]
    for each in (one, other, reader):
        each.close()


def test_daemons_that_write_to_one_file_at_once_wait_for_each_other(tmp_path: Path) -> None:
    path = f"sqlite:{tmp_path / 'audit'}"
    opened(path).close()
    program = f"""
from tests.audit.test_stores import calls, opened
store = opened({path!r})
for _ in range(40):
    store.write(calls(3), [])
"""
    writers = [subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) for _ in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    reader = open_reader(path)
    assert len(list(reader.all(ALL))) == 360
    reader.close()


def test_old_records_go(place: str) -> None:
    store = opened(place, keep_s=8 * DAY_S)
    store.write(calls(3), [note("opened")])
    store.tidy(NOW + 2 * DAY_S)
    store.write(calls(2, first=3, at=NOW + 9 * DAY_S), [])
    store.tidy(NOW + 9 * DAY_S)
    store.tidy(NOW + 11 * DAY_S)
    reader = open_reader(place)
    assert ids(list(reader.all(ALL))) == ["3", "4"]
    reader.close()
    store.close()


def test_a_store_that_is_too_large_loses_its_oldest_records(place: str, tmp_path: Path) -> None:
    store = opened(place, max_bytes=200_000)
    reader = open_reader(place)
    for batch in range(20):
        store.write(calls(100, first=100 * batch), [])
        # Whoever follows it misses none, though all of the file that was read first is gone.
        assert ids(reader.news(ALL)) == [str(number) for number in range(100 * batch, 100 * batch + 100)]
        assert not reader.has_missed
        # But for the journal of SQLite, which has a bound of its own.
        kept = (path for path in tmp_path.glob("audit*") if not path.name.endswith("-journal"))
        assert sum(path.stat().st_size for path in kept) < 250_000
    left = ids(list(reader.all(ALL)))
    assert 200 < len(left) < 1800
    assert left == [str(number) for number in range(2000 - len(left), 2000)]
    assert store.removed == 2000 - len(left)
    # Unless all goes that it has not read.
    for batch in range(20):
        store.write(calls(100, first=100 * batch), [])
    assert 200 < len(reader.news(ALL)) < 1800
    assert reader.has_missed
    assert (reader.news(ALL), reader.has_missed) == ([], False)
    reader.close()
    store.close()


def test_a_store_that_may_be_much_smaller_than_it_was_shrinks_in_pieces(tmp_path: Path) -> None:
    store = opened(f"sqlite:{tmp_path / 'audit'}")
    store.write(calls(1000), [])
    store.close()
    store = opened(f"sqlite:{tmp_path / 'audit'}", max_bytes=50_000)
    before = transactions(tmp_path / "audit")
    store.write(calls(1, first=1000), [])
    # Between two of them others may write.
    assert transactions(tmp_path / "audit") > before + 5
    reader = open_reader(f"sqlite:{tmp_path / 'audit'}")
    left = ids(list(reader.all(ALL)))
    assert left == [str(number) for number in range(store.removed, 1001)]
    assert 1 < len(left) < 300
    reader.close()
    store.close()


def transactions(file: Path) -> int:
    """How many have changed a file of SQLite (sqlite.org/fileformat2.html, 1.3.8)."""
    return int.from_bytes(file.read_bytes()[24:28])


def test_the_newest_record_stays_however_small_the_store_may_be(place: str) -> None:
    store = opened(place, max_bytes=1, keep_s=1.0)
    for batch in range(3):
        store.write(calls(100, first=100 * batch), [note("opened")] if not batch else [])
    reader = open_reader(place)
    left = ids(list(reader.all(ALL)))
    assert left == [str(number) for number in range(300 - len(left), 300)]
    assert 1 <= len(left) < 300
    assert store.unclosed() == [("run", 1)]
    reader.close()
    store.close()


def test_what_says_that_a_run_goes_on_is_no_older_than_all_else(place: str) -> None:
    store = opened(place, keep_s=8 * DAY_S)
    store.write(calls(1), [note("opened", "b"), note("closed", "b"), note("opened"), note("lost", count=1)])
    store.tidy(NOW + 9 * DAY_S)
    assert store.unclosed() == [("run", 1)]
    store.close()


def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    with pytest.raises(AuditStoreError, match=r"cannot open .*No such"):
        opened(f"sqlite:{tmp_path / 'missing' / 'audit'}")
    with pytest.raises(AuditStoreError, match="cannot open"):
        open_reader(f"sqlite:{tmp_path / 'missing'}")


def test_a_file_that_is_something_else_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "audit").write_bytes(b"something else, and long enough to be told apart from an empty file" * 20)
    with pytest.raises(AuditStoreError, match="not a database"):
        opened(f"sqlite:{tmp_path / 'audit'}")


def test_a_copy_without_its_log_says_what_it_lacks(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "older")) as older:
        older.execute("PRAGMA journal_mode = WAL")
        older.execute("CREATE TABLE calls (n INTEGER PRIMARY KEY)")
        (tmp_path / "copy").write_bytes((tmp_path / "older").read_bytes())
    reader = open_reader(f"sqlite:{tmp_path / 'copy'}")
    with pytest.raises(AuditStoreError, match="a copy of a file that a daemon writes needs the -wal file"):
        reader.latest(ALL, 3)
    reader.close()


def test_no_file_is_mapped_though_another_gives_it_a_log_in_shared_memory(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    store = opened(f"sqlite:{path}")
    store.write(calls(1), [])
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    program = f"""
import sys
from pathlib import Path
from tests.audit.test_stores import calls, opened
stores = [opened("sqlite:{path}")]
stores[0].write(calls(1, first=1), [])
import sqlite3
other = sqlite3.connect("{path}")
other.execute("PRAGMA journal_mode = WAL")
other.close()
stores[0].write(calls(1, first=2), [])
stores[0].unclosed()
print(str(Path("{path}")) in Path("/proc/self/maps").read_text())
"""
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    assert said.stdout == b"False\n"
    reader = open_reader(f"sqlite:{path}")
    assert ids(list(reader.all(ALL))) == ["0", "1", "2"]
    reader.close()
    store.close()


def test_a_reader_that_takes_its_time_holds_up_nobody(tmp_path: Path) -> None:
    store = opened(f"sqlite:{tmp_path / 'audit'}")
    store.write(calls(1000), [])
    reader = open_reader(f"sqlite:{tmp_path / 'audit'}")
    read = reader.all(ALL)
    first = next(read)
    store.write(calls(1, first=1000), [])
    assert ids([first, *read]) == [str(number) for number in range(1001)]
    reader.close()
    store.close()
