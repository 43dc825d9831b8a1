"""Functions whose code changes while the daemon runs: which calls run which of it, and what is told of it."""

import os
import pty
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.forking import fork_daemon
from tests.daemon.reload.reloadable import ECHO, WHO, Reloadable
from tests.daemon.spawned import SERVE, Daemon, until

ADD: Final = """
import time
from pathlib import Path
from helping import MORE

def add(a: int, wait_for: str = "") -> int:
    while wait_for and not Path(wait_for).exists():
        time.sleep(0.01)
    return a + MORE

"""
HOOKED: Final = '[hooks.look]\nbefore = "looking:look"\nresident = true\n'
CODE: Final = f"""{WHO}
[tools.add]
python = "adding:add"
[tools.kept]
python = "adding:add"
resident = true
read_only = true
cache = "5m"
"""


@pytest.fixture
def author(daemon: Reloadable) -> Iterator[Path]:
    """The directory of functions that somebody changes."""
    directory = daemon.path.parent
    (directory / "adding.py").write_text(ADD)
    (directory / "helping.py").write_text("MORE = 1\n")
    daemon.reload(CODE)
    yield directory
    daemon.reload(ECHO)


def test_code_that_has_changed_is_run_by_new_calls_and_the_old_one_by_those_under_way(
    daemon: Reloadable, author: Path
) -> None:
    assert daemon.hang_up()["changed"] == []
    with daemon.agent() as old, daemon.agent() as waiting:
        assert [old.ask(name, {"a": 1})["content"] for name in ("add", "kept")] == ["2", "2"]
        waiting.call("1", "add", {"a": 1, "wait_for": str(author / "go")})
        (author / "helping.py").write_text("MORE = 5\n")
        assert daemon.hang_up()["changed"] == ["tools.add: code", "tools.kept: code"]
        with daemon.agent() as new:
            # What was kept is an answer of the old code.
            assert [new.ask(name, {"a": 1})["content"] for name in ("add", "kept")] == ["6", "6"]
        assert [old.ask(name, {"a": 1})["content"] for name in ("add", "kept")] == ["2", "2"]
        told = subprocess.run(
            [*SERVE[:-1], "reload", "--apply", "--socket", str(daemon.path)], capture_output=True, check=True
        )
        assert told.stdout == b"nothing has changed\n"
        assert [old.ask(name, {"a": 1})["content"] for name in ("add", "kept")] == ["6", "6"]
        (author / "go").touch()
        assert waiting.hear()["content"] == "2"
    (author / "go").unlink()


def test_a_signature_that_has_changed_is_that_of_the_code_that_runs(daemon: Reloadable, author: Path) -> None:
    (author / "adding.py").write_text(ADD.replace("a: int,", "a: int, b: int = 2,").replace("+ MORE", "+ MORE * b"))
    told = daemon.hang_up()["changed"]
    assert "tools.add: what it takes" in told
    assert "tools.add: code" in told
    with daemon.agent() as agent:
        assert agent.ask("add", {"a": 1, "b": 3})["content"] == "4"


def test_code_that_cannot_be_imported_leaves_the_old_one_running(daemon: Reloadable, author: Path) -> None:
    with daemon.agent() as agent:
        assert agent.ask("add", {"a": 1})["content"] == "2"
    (author / "helping.py").write_text("MORE = = 1\n")
    told = daemon.hang_up()
    assert told["event"] == "configuration not reloaded"
    assert {problem["key"]: problem["why"] for problem in told["problems"]} == dict.fromkeys(
        ("tools.add.python", "tools.kept.python"),
        "cannot import adding: SyntaxError: invalid syntax (helping.py, line 1)",
    )
    with daemon.agent() as agent:
        assert agent.ask("add", {"a": 1})["content"] == "2"
    (author / "helping.py").write_text("MORE = 1\n")


def test_the_code_of_a_hook_is_reloaded(daemon: Reloadable, author: Path) -> None:
    look = "def look(call: dict) -> dict:\n    return {'input': {'a': 10}}\n"
    (author / "looking.py").write_text(look)
    daemon.reload(CODE + HOOKED)
    with daemon.agent() as agent:
        assert agent.ask("add", {"a": 1})["content"] == "11"
    (author / "looking.py").write_text(look.replace("10", "20"))
    assert daemon.hang_up()["changed"] == ["hooks.look.before: code"]
    with daemon.agent() as agent:
        assert agent.ask("add", {"a": 1})["content"] == "21"


def test_code_that_is_watched_is_run_soon_after_it_was_saved(daemon: Reloadable, author: Path) -> None:
    watched = f'{CODE}[daemon]\nwatch = true\nlisten = ["unix:{daemon.path}"]\n'
    (author / "config.toml").write_text(watched)
    daemon.hang_up()

    def answers(content: str) -> bool:
        with daemon.agent() as agent:
            return bool(agent.ask("add", {"a": 1})["content"] == content)

    assert answers("2")
    (author / "helping.py").write_text("MORE = 2\n")
    until(lambda: answers("3"))
    (author / "helping.py").rename(author / "helping.py~")
    (author / "helping.py").write_text("MORE = 3\n")
    until(lambda: answers("4"))
    (author / "helping.py").write_text("MORE = \n")
    until(lambda: "(helping.py, line 1)" in daemon.log.read_text())
    (author / "helping.new").write_text("import soon\nMORE = soon.MORE\n")
    (author / "helping.new").rename(author / "helping.py")
    until(lambda: "No module named 'soon'" in daemon.log.read_text())
    assert answers("4")
    (author / "soon.py").write_text("MORE = 5\n")
    until(lambda: answers("6"))


def test_an_author_reads_on_the_terminal_what_each_save_came_to_and_has_it_in_open_sessions(tmp_path: Path) -> None:
    # The first word of the process that imports it.
    mark = "import sys, pathlib\npathlib.Path(__file__).with_name(sys.argv[1]).touch()\n"
    (tmp_path / "adding.py").write_text(f"{mark}def add(a: int) -> int:\n    return a\n")
    path = tmp_path / "dispatch.sock"
    (tmp_path / "config.toml").write_text(f'[tools.add]\npython = "adding:add"\n[daemon]\nlisten = ["unix:{path}"]\n')
    ours, theirs = pty.openpty()
    shown = bytearray()

    def shows(text: bytes) -> bool:
        if select.select([ours], [], [], 0.005)[0]:
            shown.extend(os.read(ours, 65536))
        return text in shown

    words = ["serve", "--watch", "--config", str(tmp_path / "config.toml")]
    with fork_daemon(words, theirs) as process:
        os.close(theirs)
        try:
            until(lambda: shows(b"daemon ready"))
            with Daemon(process, path, tmp_path / "log").agent() as agent:
                # Nobody has called it yet, and it is there.
                until((tmp_path / "warm").exists)
                (tmp_path / "adding.py").write_text("def add(:\n")
                until(lambda: shows(b"(adding.py, line 1)"))
                assert agent.ask("add", {"a": 1})["content"] == "1"
                (tmp_path / "adding.py").write_text("def add(a: int) -> int:\n    return a + 1\n")
                until(lambda: shows(b"tools.add: code"))
                assert agent.ask("add", {"a": 1})["content"] == "2"
                (tmp_path / "adding.py").write_text("def add(a: int) -> int:\n    return a + \n")
                wrong = b"cannot import adding: SyntaxError: invalid syntax (adding.py, line 2)"
                until(lambda: shows(b"config.toml:2: tools.add.python: " + wrong))
                assert agent.ask("add", {"a": 1})["content"] == "2"
        finally:
            process.kill()
            os.close(ours)
    assert shown.count(b"reloaded") == 3
