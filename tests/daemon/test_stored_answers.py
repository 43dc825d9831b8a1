"""Long answers on the disk of a daemon: whose they are, and that nothing of a killed daemon is left."""

import json
import stat
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.daemon.spawned import daemon_on, until
from tooldispatchd.daemon.equipment import spool_below

CONFIG = """
[tools.echo]
type = "string -> string"
inline = "id"
max_output = 1024
[tools.endless]
command = ["sh", "-c", "cat; sleep 60"]
input_mode = "text"
output_mode = "text"
max_output = 1024
"""


def nothing(_directory: Path) -> None: ...


def test_the_directory_is_made_for_the_first_answer_and_goes_with_the_daemon(tmp_path: Path) -> None:
    with ExitStack() as stack:
        make = spool_below({"XDG_STATE_HOME": str(tmp_path)}, stack, made=nothing)
        assert make is not None
        assert list(tmp_path.iterdir()) == []
        directory = make()
        assert directory.parent == tmp_path / "tooldispatchd" / "outputs"
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        (directory / "1").touch()
        # A daemon that starts meanwhile leaves this one what it has.
        spool_below({"XDG_STATE_HOME": str(tmp_path)}, stack, made=nothing)
        assert (directory / "1").exists()
    assert list((tmp_path / "tooldispatchd" / "outputs").iterdir()) == []


def test_where_nothing_names_a_place_there_is_none() -> None:
    with ExitStack() as stack:
        assert spool_below({}, stack, made=nothing) is None


@pytest.mark.usefixtures("nothing_left")
def test_of_a_killed_daemon_nothing_is_left_and_the_next_one_stores_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    outputs = tmp_path / "state" / "outputs"
    for name in ("first", "next"):
        (tmp_path / name).mkdir()
    with daemon_on(tmp_path / "first", CONFIG) as daemon, daemon.agent() as agent:
        answer = agent.ask("echo", "x" * 2000)
        assert json.loads(str(answer["content"]))["tool_output"]["bytes"] == 2000
        [file] = outputs.glob("daemon-*/1")
        assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("x" * 2000, 0o600)
        # One whose program still writes it, and some that checkers do.
        agent.say({"id": "2", "name": "endless", "input": "y" * 3000})
        until(lambda: [file.stat().st_size for file in outputs.glob("daemon-*/2")] == [3000])
        for number in range(3):
            agent.say({"id": f"large-{number}", "name": "echo", "input": "x" * 300_000})
        until(lambda: len(list(outputs.glob("daemon-*/*"))) > 2)
        daemon.process.kill()
        daemon.process.wait()
        until(lambda: not list(outputs.iterdir()))
    # What neither it nor its guardian could remove.
    left = outputs / "daemon-left"
    left.mkdir()
    (left / ".lock").touch()
    (left / "1").write_text("secret")
    with daemon_on(tmp_path / "next", CONFIG) as daemon, daemon.agent() as agent:
        assert not left.exists()
        assert "tool_output" in str(agent.ask("echo", "x" * 2000)["content"])
        agent.end_input()
        until(lambda: not list(outputs.glob("daemon-*/1")))
