#!/usr/bin/env bash
# SQLite (the one of the Python that runs this; seen with Python 3.11.7 and SQLite 3.40.1), a rollback journal: under
# `locking_mode = EXCLUSIVE` a connection keeps its SHARED lock once it has read. Two connections that have both read and then write
# at once each wait for the other's lock, both for the whole `timeout`, and both fail: a longer timeout helps neither. Under NORMAL
# both write. A connection that fails so has to be closed before another can go on.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 - "$dir" >"$dir/seen" <<'PY'
import sqlite3
import sys
import threading
import time

TIMEOUT_S = 1.0


def write(connection: sqlite3.Connection, told: list[str]) -> None:
    began = time.monotonic()
    try:
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        told.append(f"{error}, whole timeout: {time.monotonic() - began > 0.9 * TIMEOUT_S}")
    else:
        told.append("written")


def both(mode: str, path: str) -> list[str]:
    first = sqlite3.connect(path)
    first.execute("PRAGMA journal_mode = DELETE")
    first.execute("CREATE TABLE t (n)")
    first.close()
    told: list[str] = []
    connections = [sqlite3.connect(path, TIMEOUT_S, isolation_level=None, check_same_thread=False) for _ in range(2)]
    for connection in connections:
        connection.execute(f"PRAGMA locking_mode = {mode}")
        connection.execute("SELECT count(*) FROM t").fetchall()
    threads = [threading.Thread(target=write, args=(connection, told)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    connections[0].close()
    write(connections[1], told)
    return told


for mode in ("NORMAL", "EXCLUSIVE"):
    print(mode, *both(mode, f"{sys.argv[1]}/{mode}.db"), sep="\n  ")
PY
echo "SQLite $(python3 -c 'import sqlite3; print(sqlite3.sqlite_version)')"
diff - "$dir/seen" <<'OUT'
NORMAL
  written
  written
  written
EXCLUSIVE
  database is locked, whole timeout: True
  database is locked, whole timeout: True
  written
OUT
echo "as found: both wait the whole timeout and both fail, until one is closed"
