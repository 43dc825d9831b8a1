"""A store on a server: what fails is told in time and without its password, and nothing is written twice."""

import os
import signal
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from tests.audit.test_record import ended, recorded
from tests.audit.test_recorder import SOON_S, Warnings
from tests.audit.test_stores import ALL, calls, ids, note
from tests.servers.postgres import PASSWORD, PostgresServer
from tooldispatchd.audit.postgresstore import PostgresReader, PostgresStore
from tooldispatchd.audit.record import AuditStoreError
from tooldispatchd.audit.recorder import open_recorder
from tooldispatchd.catalog.masker import NO_SECRETS

# Waits for a server that is not there to answer.
ANSWER_S: Final = 0.5
SCHEMAS: Final = count()
# A commit that waits for a lock, also when it is told not to: its client has long given up.
SLOW_COMMIT: Final = """
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        PERFORM pg_advisory_xact_lock(7);
    EXCEPTION WHEN query_canceled THEN
        PERFORM pg_advisory_xact_lock(7);
    END;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON tooldispatchd_notes
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold();
"""


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.schema(f"postgresstore{next(SCHEMAS)}")


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = opened(url)
    yield store
    store.close()


def opened(url: str) -> PostgresStore:
    return PostgresStore(url, keep_s=1e9, max_bytes=2**30, answer_s=ANSWER_S)


def stored(url: str) -> list[str]:
    reader = PostgresReader(url)
    try:
        return ids(list(reader.all(ALL)))
    finally:
        reader.close()


def sessions(postgres: PostgresServer) -> list[int]:
    """The processes of the server for daemons that write."""
    with postgres.connect() as database:
        rows = database.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'tooldispatchd'")
        return [row[0] for row in rows]


def test_what_comes_while_the_server_is_away_is_written_when_it_is_back(
    url: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    log = Warnings()
    store = PostgresStore(url, keep_s=1e9, max_bytes=2**30)
    with open_recorder(store, log, run="run", masker=NO_SECRETS, payloads=False) as recorder:
        recorder.put(ended(id="before"))
        while stored(url) != ["before"]:
            time.sleep(0.01)
        postgres.stop()
        try:
            for number in range(3):
                recorder.put(ended(id=str(number)))
            while not log.said:
                time.sleep(0.01)
        finally:
            postgres.start()
        until = time.monotonic() + SOON_S
        while len(stored(url)) < 4 and time.monotonic() < until:
            time.sleep(0.02)
    assert stored(url) == ["before", "0", "1", "2"]
    assert log.said == [("audit store failed", None)]
    assert list(tmp_path.iterdir()) == []


def test_what_was_committed_though_nobody_was_told_is_not_written_twice(
    url: str, store: PostgresStore, postgres: PostgresServer
) -> None:
    with postgres.connect() as database:
        schema = url.rpartition("%3D")[2]
        database.execute(f"SET search_path = {schema};{SLOW_COMMIT} SELECT pg_advisory_lock(7)".encode())
        records, notes = calls(3), [note("opened")]
        with pytest.raises(AuditStoreError, match="timeout"):
            store.write(records, notes)
        # The server is still at it.
        with pytest.raises(AuditStoreError, match="still at the former try"):
            store.write(records, notes)
        database.execute("SELECT pg_advisory_unlock(7)")
        while database.execute("SELECT count(*) FROM tooldispatchd_notes").fetchone() == (0,):
            time.sleep(0.01)
    store.write(records, notes)
    store.write(calls(1, first=3), [])
    assert stored(url) == ["0", "1", "2", "3"]


def test_what_was_not_committed_is_written_again(url: str, store: PostgresStore, postgres: PostgresServer) -> None:
    records = calls(2)
    with postgres.connect() as database, database.transaction():
        database.execute(f"LOCK TABLE {url.rpartition('%3D')[2]}.tooldispatchd_calls".encode())
        began = time.monotonic()
        with pytest.raises(AuditStoreError, match="cannot write to"):
            store.write(records, [])
        assert time.monotonic() < began + 5 * ANSWER_S
    store.write(records, [])
    assert stored(url) == ["0", "1"]


def test_a_server_that_stands_still_is_not_waited_for(store: PostgresStore, postgres: PostgresServer) -> None:
    (session,) = sessions(postgres)
    os.kill(session, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(AuditStoreError, match="timeout"):
            store.write(calls(1), [])
        assert time.monotonic() < began + 5 * ANSWER_S
    finally:
        os.kill(session, signal.SIGCONT)
    store.write(calls(1), [])


def test_runs_of_other_machines_are_not_judged(url: str, store: PostgresStore, postgres: PostgresServer) -> None:
    store.write([], [note("opened", "here", 42), note("opened", "there", 43)])
    with postgres.connect() as database:
        schema = url.rpartition("%3D")[2]
        database.execute(f"UPDATE {schema}.tooldispatchd_notes SET host = 'other' WHERE run = 'there'".encode())
    assert store.unclosed() == [("here", 42)]


@pytest.mark.parametrize(
    ("was", "becomes", "why"),
    [
        ("p%40ss", "p%40sS", "password authentication failed"),
        ("@/postgres", "@/nothing", 'database "nothing" does not exist'),
        ("p%40ss", "p%zzss", "libpq cannot read its URL"),
        ("?host=", "?sslmode=never&host=", 'invalid sslmode value: "never"'),
        ("?host=", "?connect_timeout=2&host=127.0.0.1&port=9&x", "cannot open"),
        ("?host=%2Ftmp", "?host=%2Fmissing", "No such file or directory"),
    ],
)
def test_what_cannot_be_opened_is_told_without_the_password(url: str, was: str, becomes: str, why: str) -> None:
    assert was in url
    with pytest.raises(AuditStoreError) as caught:
        opened(url.replace(was, becomes))
    assert why in str(caught.value)
    assert "-of-the-audit" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_another_version_wrote_is_left_alone(url: str, store: PostgresStore, postgres: PostgresServer) -> None:
    with postgres.connect() as database:
        schema = url.rpartition("%3D")[2]
        database.execute(f"COMMENT ON TABLE {schema}.tooldispatchd_calls IS 'something else'".encode())
    with pytest.raises(AuditStoreError, match="written by another version"):
        opened(url)


def test_a_database_that_has_not_every_character_is_refused(url: str, postgres: PostgresServer) -> None:
    with postgres.connect() as database:
        database.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(AuditStoreError, match="the database is in LATIN1"):
        opened(url.replace("@/postgres", "@/latin").partition("&options")[0])


def test_a_secret_in_what_the_server_says_is_masked(url: str, store: PostgresStore, postgres: PostgresServer) -> None:
    with postgres.connect() as database:
        schema = url.rpartition("%3D")[2]
        database.execute(
            f"SET search_path = {schema}; CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN RAISE 'it is {PASSWORD}'; END $$; CREATE TRIGGER tell BEFORE INSERT ON tooldispatchd_calls"
            " FOR EACH ROW EXECUTE FUNCTION tell()".encode()
        )
    with pytest.raises(AuditStoreError, match=r"it is …$"):
        store.write([recorded()], [])
