"""`tooldispatchd cache`, and a daemon whose answers survive it."""

import json
from pathlib import Path

import pytest

from tests.daemon.spawned import daemon_on, until
from tooldispatchd.__main__ import main

CONFIG = """
[cache]
store = "sqlite:cache.db"

[tools.now]
command = ["date", "+%s%N"]
output_mode = "text"
cache = "1h"
read_only = true

[tools.other]
command = ["date", "+%s%N"]
output_mode = "text"
cache = "1h"
read_only = true
"""


class Command:
    """The command, in this process."""

    def __init__(self, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.config = config
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Its exit code, its output, and what it says beside it."""
        code = main(["cache", "--config", str(self.config), *words])
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def kept(self) -> dict[str, int]:
        """How many answers the file has, by tool."""
        return {each["tool"]: each["answers"] for each in json.loads(self("--json")[1])}


@pytest.fixture
def cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path / "config.toml", capsys)


def test_answers_outlive_a_daemon_that_is_killed_and_leave_when_they_are_cleared(
    tmp_path: Path, cache: Command
) -> None:
    with daemon_on(tmp_path, CONFIG) as daemon, daemon.agent() as agent:
        first = {name: agent.ask(name, 1)["content"] for name in ("now", "other")}
        assert first["now"] == agent.ask("now", 1)["content"]
        until(lambda: cache.kept() == {"now": 1, "other": 1})
        daemon.process.kill()
        daemon.process.wait()
    (again := tmp_path / "again").mkdir()
    with daemon_on(again, CONFIG.replace("cache.db", f"{tmp_path}/cache.db")) as daemon, daemon.agent() as agent:
        assert {name: agent.ask(name, 1)["content"] for name in ("now", "other")} == first
        code, told, _ = cache("n*", "--clear")
        assert (code, told[:15]) == (0, "now  1 answers,")
        until(lambda: agent.ask("now", 1)["content"] != first["now"])
        assert agent.ask("other", 1)["content"] == first["other"]


def test_where_there_is_no_file_it_says_why(tmp_path: Path, cache: Command) -> None:
    cache.config.write_text(CONFIG)
    assert cache("--json") == (0, "[]\n", "")
    (tmp_path / "cache.db").write_text("no database")
    assert cache() == (1, "", f"tooldispatchd: cannot use {tmp_path}/cache.db: file is not a database\n")
    cache.config.write_text('[tools.echo]\ninline = "id"\n')
    assert cache()[0] == 2
