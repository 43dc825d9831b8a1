"""The audit of a real daemon: it is whole at every end, also where the daemon was killed while it wrote."""

import signal
import sqlite3
from pathlib import Path

import pytest

from tests.daemon.spawned import daemon_on, until
from tooldispatchd.audit.door import AuditFilter, open_reader
from tooldispatchd.audit.record import CallRecord

ALL = AuditFilter()
CONFIG = """
[audit]
store = "{store}"
[tools.echo]
type = "json -> json"
inline = "id"
[tools.priced]
command = ["sh", "-c", '''cat; echo '{{"__port":"tool_details","cost":0.25,"tokens":9}}' >&3''']
type = "json -> json"
"""


def recorded(store: str) -> list[CallRecord]:
    reader = open_reader(store)
    try:
        return list(reader.all(ALL))
    finally:
        reader.close()


def count(store: Path) -> int:
    """How many records there are by now, roughly: of lines, or of rows."""
    if store.suffix == ".jsonl":
        return store.read_bytes().count(b"\n") if store.exists() else 0
    with sqlite3.connect(store) as database:
        return int(database.execute("SELECT coalesce(max(n), 0) FROM calls").fetchone()[0])


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_a_daemon_killed_while_it_writes_leaves_a_store_that_is_whole(kind: str, tmp_path: Path) -> None:
    store = f"{kind}:{tmp_path / f'audit.{kind}'}"
    config = CONFIG.format(store=store)
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    with daemon_on(first, config) as daemon, daemon.agent() as agent:
        answered = 0
        # So many come that it writes nearly all of the time; it is killed in the midst of some batch.
        while count(tmp_path / f"audit.{kind}") < 3_000:
            calls = [
                {"__port": "tool_req", "id": str(answered + number), "name": "echo", "input": {"n": number}}
                for number in range(200)
            ]
            agent.say(*calls)
            for _ in calls:
                agent.hear()
            answered += len(calls)
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
    before = recorded(store)
    assert 3_000 <= len(before) <= answered
    assert [record.call for record in before] == [str(number) for number in range(len(before))]
    if kind == "sqlite":
        with sqlite3.connect(tmp_path / "audit.sqlite") as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with daemon_on(second, config) as daemon, daemon.agent() as agent:
        agent.ask("echo", 1)
        until(lambda: daemon.logged("audit store not closed") == 1)
    after = recorded(store)
    assert after[:-1] == before
    assert after[-1].run != before[-1].run
    reader = open_reader(store)
    assert [(note.event, note.run) for note in reader.notes(0) if note.event == "unclosed"] == [
        ("unclosed", before[0].run)
    ]
    reader.close()


def test_what_ended_before_the_daemon_is_recorded_with_what_its_tool_told(tmp_path: Path) -> None:
    with daemon_on(tmp_path, CONFIG.format(store="sqlite:audit.db")) as daemon:
        with daemon.agent() as agent:
            for number in range(50):
                agent.ask("echo", number)
            assert agent.ask("priced", [1])["content"] == "[1]"
        daemon.process.terminate()
        assert daemon.process.wait() == 0
        assert daemon.logged("audit records lost") == 0
    records = recorded(f"sqlite:{tmp_path / 'audit.db'}")
    assert len(records) == 51
    assert (records[-1].tool, records[-1].cost, records[-1].tokens) == ("priced", 0.25, 9)


def test_a_store_that_cannot_be_opened_stops_the_start(tmp_path: Path) -> None:
    told = r"cannot record calls: cannot open .*missing/audit\.db"
    with (
        pytest.raises(AssertionError, match=told),
        daemon_on(tmp_path, CONFIG.format(store="sqlite:missing/audit.db")),
    ):
        pass
