"""Every tool of files against paths that lead out of the workspace, with Landlock and on a machine without."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.daemon.spawned import ROOT, Agent, Daemon, daemon_on, ready
from tests.toolbox.callers import inventory
from tests.toolbox.pdfs import pdf

CONFIG: Final = """
[toolbox.files]
guard = "off"
sandbox = "best-effort"
[toolbox.look]
sandbox = "best-effort"
[toolbox.shelf]
set = "files"
prefix = "shelf"
guard = "off"
sandbox = "best-effort"
read = ["workspace", "HOME/shelf"]
[agents.default]
toolboxes = ["files", "look", "shelf"]
workspace = "HOME/workspace"
"""
OUTSIDE: Final = "outside of what this tool may "
# Each of them leads to the directory `outside`, from the workspace.
WAYS: Final = {
    "relative": "../outside",
    "absolute": "HOME/outside",
    "link": "link",
    "link-to-link": "second",
    "link-above": "up/outside",
    "root": "/proc/self/rootHOME/outside",
    "cwd": "/proc/self/cwd/../outside",
    "within": "inner/../../outside",
}
_HUNK: Final = "@@ -1 +1 @@\n-canary\n+x\n"
# Of what is asked for, WAY is the directory outside.
CALLS: Final[list[tuple[str, dict[str, Any]]]] = [
    ("read", {"path": "WAY/text"}),
    ("read", {"path": "WAY/x.png"}),
    ("read", {"path": "WAY/x.pdf"}),
    ("read", {"path": "WAY/unname"}),
    ("read", {"path": "WAY"}),
    ("write", {"path": "WAY/text", "content": "x"}),
    ("write", {"path": "WAY/new", "content": "x"}),
    ("write", {"path": "WAY/new/er", "content": "x"}),
    ("edit", {"path": "WAY/text", "old": "canary", "new": "x"}),
    ("edit", {"path": "WAY/text", "old": "canaries", "new": "x"}),
    ("multi_edit", {"path": "WAY/text", "edits": [{"old": "canary", "new": "x"}]}),
    ("diff", {"diff": _HUNK, "path": "WAY/text"}),
    ("diff", {"diff": f"--- WAY/text\n+++ WAY/text\n{_HUNK}"}),
    ("diff", {"diff": "--- /dev/null\n+++ WAY/new\n@@ -0,0 +1 @@\n+x\n"}),
    ("json_read", {"path": "WAY/data.json"}),
    ("json_write", {"path": "WAY/data.json", "pointer": "/key", "value": "1"}),
    ("json_write", {"path": "WAY/new", "pointer": "", "value": "1"}),
    ("list", {"path": "WAY"}),
    ("list", {"path": "WAY/text"}),
    ("tree", {"path": "WAY"}),
    ("glob", {"path": "WAY", "pattern": "**"}),
    ("grep", {"path": "WAY", "pattern": "cana"}),
    ("grep", {"path": "WAY/text", "pattern": "cana"}),
    ("delete", {"path": "WAY/text"}),
    ("delete", {"path": "WAY/below", "recursive": True}),
    ("move", {"source": "WAY/text", "target": "taken"}),
    ("move", {"source": "WAY/below", "target": "taken"}),
    ("move", {"source": "inner/own", "target": "WAY/new"}),
    ("move", {"source": "inner/own", "target": "WAY/text", "overwrite": True}),
    ("copy", {"source": "WAY/text", "target": "taken"}),
    ("copy", {"source": "WAY/below", "target": "taken"}),
    ("copy", {"source": "inner/own", "target": "WAY/new"}),
    ("copy", {"source": "inner/own", "target": "WAY/text", "overwrite": True}),
]
RACED: Final[list[tuple[str, dict[str, Any]]]] = [
    ("read", {"path": "within/text"}),
    ("json_read", {"path": "within/data.json"}),
    ("edit", {"path": "within/text", "old": "canary", "new": "x"}),
    ("write", {"path": "within/text", "content": "NUMBER"}),
    ("json_write", {"path": "within/data.json", "pointer": "/key", "value": "NUMBER"}),
    ("copy", {"source": "within/text", "target": "taken-NUMBER"}),
    ("copy", {"source": "inner/own", "target": "within/new-NUMBER"}),
    ("copy", {"source": "within", "target": "taken-NUMBER"}),
    ("delete", {"path": "within/text"}),
    ("delete", {"path": "within/below", "recursive": True}),
    ("move", {"source": "within/text", "target": "moved-NUMBER"}),
    ("move", {"source": "inner/own", "target": "within/own-NUMBER"}),
    ("write", {"path": "within/made/in/it-NUMBER", "content": "x"}),
    ("list", {"path": "within"}),
    ("tree", {"path": "within"}),
    ("glob", {"path": ".", "pattern": "**/*named"}),
    ("grep", {"path": "within", "pattern": "can.ry"}),
    ("grep", {"path": ".", "pattern": "can.ry"}),
    ("grep", {"path": "within/text", "pattern": "can.ry"}),
]
# A link takes a directory's place and gives it back, over and over.
FLIP: Final = """
import os
os.symlink("../outside", "away")
print(flush=True)
while True:
    for old, new in (("within", "kept"), ("away", "within"), ("within", "away"), ("kept", "within")):
        os.rename(old, new)
"""


def fill(home: Path) -> Path:
    """Make the workspace with its links, and files that lie outside of it."""
    outside, workspace, shelf = home / "outside", home / "workspace", home / "shelf"
    for directory in (outside / "below", workspace / "inner", shelf):
        directory.mkdir(parents=True)
    (outside / "text").write_text("canary\n")
    (outside / "unnamed").write_text("canary\n")
    (outside / "below/unnamed").write_text("canary\n")
    (outside / "data.json").write_text('{"key": "canary"}')
    (outside / "x.png").write_bytes(b"\x89PNG\r\n\x1a\ncanary")
    (outside / "x.pdf").write_bytes(pdf("canary"))
    (workspace / "inner/own").write_text("own\n")
    (workspace / "link").symlink_to("../outside")
    (workspace / "second").symlink_to("link")
    (workspace / "up").symlink_to("..")
    (shelf / "book").write_text("a book\n")
    return home


@pytest.fixture(scope="module", params=["landlock", "without"])
def daemon(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    home = fill(tmp_path_factory.mktemp(request.param).resolve())
    config = CONFIG.replace("HOME", str(home))
    if request.param == "landlock":
        with daemon_on(home, config) as daemon:
            yield daemon
        return
    file, path, log = home / "config.toml", home / "dispatch.sock", home / "log"
    file.write_text(config)
    words = [sys.executable, "-m", "tests.toolbox.without_landlock", "serve", "--config", str(file)]
    with (
        log.open("ab") as stderr,
        subprocess.Popen([*words, "--listen", f"unix:{path}"], cwd=ROOT, stderr=stderr) as process,
        ready(Daemon(process, path, log)) as daemon,
    ):
        assert "is not enforced on this machine" in log.read_text()
        yield daemon


@pytest.fixture(scope="module")
def agent(daemon: Daemon) -> Iterator[Agent]:
    with daemon.agent() as agent:
        assert agent.hello("default")["__port"] == "ready"
        yield agent


@pytest.fixture
def home(daemon: Daemon) -> Path:
    return daemon.path.parent


def with_word(given: dict[str, Any], word: str, value: str) -> dict[str, Any]:
    """The arguments with `value` in the place of `word`."""
    return {key: each.replace(word, value) if isinstance(each, str) else each for key, each in given.items()}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_no_tool_leads_out_of_the_workspace(agent: Agent, home: Path, way: str) -> None:
    before = inventory(home / "outside")
    for tool, given in CALLS:
        value = with_word(given, "WAY", way.replace("HOME", str(home)))
        told = str(agent.ask(tool, value)["content"])
        assert "tool_failed" in told, (tool, value, told)
        assert OUTSIDE in told, (tool, value, told)
        assert "unnamed" not in told, (tool, value, told)
        assert "canary" not in told, (tool, value, told)
        # One sentence: JSON would write a line's end so.
        assert "\\n" not in told, (tool, value, told)
    assert inventory(home / "outside") == before
    assert not (home / "workspace/taken").exists()


def test_no_walk_follows_a_link_out_of_the_workspace(agent: Agent) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("tree", {"depth": 20, "ignored": True}),
        ("glob", {"pattern": "**/*"}),
        ("glob", {"pattern": "link/**"}),
        ("glob", {"pattern": "up/outside/*"}),
        ("glob", {"pattern": "../outside/*"}),
        ("grep", {"pattern": "cana", "ignored": True}),
        ("grep", {"pattern": "cana", "include": "link/**"}),
        ("introspect", {"level": "all"}),
        ("list", {}),
    ]
    for tool, given in calls:
        told = str(agent.ask(tool, given)["content"])
        for hidden in ("canary", "unnamed", "x.pdf"):
            assert hidden not in told, (tool, given, told)


def test_a_place_of_read_is_read_and_not_changed(agent: Agent, home: Path) -> None:
    book = str(home / "shelf/book")
    assert "a book" in agent.ask("shelf_read", {"path": book})["content"]
    assert "a book" in agent.ask("shelf_grep", {"path": str(home / "shelf"), "pattern": "book"})["content"]
    assert OUTSIDE in agent.ask("read", {"path": book})["content"]
    changes: list[tuple[str, dict[str, Any]]] = [
        ("write", {"path": book, "content": "x"}),
        ("edit", {"path": book, "old": "a", "new": "x"}),
        ("delete", {"path": book}),
        ("move", {"source": book, "target": "taken"}),
        ("copy", {"source": "inner/own", "target": f"{home}/shelf/new"}),
    ]
    for tool, value in changes:
        assert OUTSIDE in agent.ask(f"shelf_{tool}", value)["content"], tool
    assert inventory(home / "shelf") == {book: b"a book\n"}
    assert "Copied" in agent.ask("shelf_copy", {"source": book, "target": "borrowed"})["content"]
    assert (home / "workspace/borrowed").read_text() == "a book\n"


def test_a_link_in_the_place_of_a_directory_leads_nowhere(agent: Agent, home: Path) -> None:
    within = home / "workspace/within"
    within.mkdir()
    for name in ("text", "data.json"):
        (within / name).write_text("{}")
    before = inventory(home / "outside")
    flip = [sys.executable, "-c", FLIP]
    with subprocess.Popen(flip, stdout=subprocess.PIPE, cwd=home / "workspace") as flipping:
        try:
            assert flipping.stdout is not None
            flipping.stdout.readline()
            for number, (tool, given) in enumerate(itertools.islice(itertools.cycle(RACED), 30 * len(RACED))):
                told = str(agent.ask(tool, with_word(given, "NUMBER", str(number)))["content"])
                assert "canary" not in told, (tool, told)
                assert "unnamed" not in told, (tool, told)
        finally:
            flipping.kill()
    assert inventory(home / "outside") == before
