"""The audit of a real daemon: it is whole at every end, also where the daemon was killed while it wrote."""

import signal
import sqlite3
from pathlib import Path

import pytest

from tests.daemon.spawned import Agent, daemon_on, until
from tooldispatchd.audit.door import AuditFilter, AuditReader, open_reader
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


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of each kind."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres").schema("audited"))
    return f"{request.param}:{tmp_path / 'audit'}"


def fill(store: str, agent: Agent, least: int) -> int:
    """Have the agent call until so many calls are recorded; how many it has called."""
    answered = 0
    reader: AuditReader | None = None
    while reader is None or len(reader.latest(ALL, least)) < least:
        calls = [
            {"__port": "tool_req", "id": str(answered + number), "name": "echo", "input": {"n": number}}
            for number in range(200)
        ]
        agent.say(*calls)
        for _ in calls:
            agent.hear()
        answered += len(calls)
        reader = reader or open_reader(store)
    reader.close()
    return answered


def test_a_daemon_killed_while_it_writes_leaves_a_store_that_is_whole(store: str, tmp_path: Path) -> None:
    config = CONFIG.format(store=store)
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    with daemon_on(first, config) as daemon, daemon.agent() as agent:
        # So many come that it writes nearly all of the time; it is killed in the midst of some batch.
        answered = fill(store, agent, 3_000)
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
    before = recorded(store)
    assert 3_000 <= len(before) <= answered
    assert [record.call for record in before] == [str(number) for number in range(len(before))]
    if store.startswith("sqlite:"):
        with sqlite3.connect(tmp_path / "audit") as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with daemon_on(second, config) as daemon, daemon.agent() as agent:
        agent.ask("echo", 1)
        until(lambda: daemon.logged("audit store not closed") == 1)
        until(lambda: len(recorded(store)) == len(before) + 1)
    after = recorded(store)
    assert after[:-1] == before
    assert after[-1].run != before[-1].run
    reader = open_reader(store)
    (note,) = [note for note in reader.notes(0) if note.event == "unclosed"]
    reader.close()
    assert note.run == before[0].run


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
