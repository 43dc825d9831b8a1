"""The writing tools behind a real daemon, shut in by Landlock."""

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.spawned import Agent, Daemon, daemon_on
from tests.daemon.test_workspaces import LANDLOCK, greet

pytestmark = LANDLOCK

CONFIG = """
[toolbox.files]
[agents.default]
toolboxes = ["files"]
workspace = "@HOME@/workspace"
"""


def names(place: Path = Path()) -> list[str]:
    return sorted(path.name for path in place.iterdir())


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    home = tmp_path_factory.mktemp("writing").resolve()
    with daemon_on(home, CONFIG.replace("@HOME@", str(home))) as daemon:
        yield daemon


@pytest.fixture
def home(daemon: Daemon) -> Path:
    """The workspace, which is empty, and another directory beside it."""
    home = daemon.path.parent
    for name in ("workspace", "outside"):
        shutil.rmtree(home / name, ignore_errors=True)
        (home / name).mkdir()
    (home / "outside/secret").write_text('{"kept": 1}')
    return home


@pytest.fixture
def agent(daemon: Daemon, home: Path) -> Iterator[Agent]:
    with daemon.agent() as agent:
        greet(agent, "default")
        yield agent


def told(channel: Agent, name: str, **given: object) -> str:
    """The text of an answer, or the sentence of a fault."""
    return str(channel.ask(name, given)["content"])


def test_every_tool_works_in_the_workspace(agent: Agent, home: Path) -> None:
    workspace = home / "workspace"
    assert "a new file" in told(agent, "write", path="a/x.json", content='{"n": 1}\n')
    assert "replaced at line 1" in told(agent, "edit", path="a/x.json", old="1", new="2")
    assert "edit 1: replaced" in told(agent, "multi_edit", path="a/x.json", edits=[{"old": "2", "new": "3"}])
    assert "1 hunk applied" in told(agent, "diff", path="a/x.json", diff='@@ -1 +1 @@\n-{"n": 3}\n+{"n": 4}\n')
    assert "Changed /m" in told(agent, "json_write", path="a/x.json", pointer="/m", value="[null]")
    assert (workspace / "a/x.json").read_text() == '{"n": 4, "m": [null]}\n'
    assert told(agent, "json_read", path="a/x.json", pointer="/m") == '"[null]"'
    assert "Copied a to b" in told(agent, "copy", source="a", target="b")
    assert "Moved b/x.json to x.json" in told(agent, "move", source="b/x.json", target="x.json")
    assert "Deleted a" in told(agent, "delete", path="a", recursive=True)
    assert names(workspace) == ["b", "x.json"]


def test_nothing_outside_is_changed_by_any_path(agent: Agent, home: Path) -> None:
    workspace, secret = home / "workspace", home / "outside/secret"
    (workspace / "link").symlink_to(secret)
    (workspace / "directory").symlink_to(home / "outside")
    (workspace / "mine").write_text("mine")
    calls: list[tuple[str, dict[str, object]]] = [
        ("write", {"path": str(home / "outside/new"), "content": "x"}),
        ("write", {"path": "../outside/new", "content": "x"}),
        ("write", {"path": "directory/new", "content": "x"}),
        ("edit", {"path": "link", "old": "kept", "new": "lost"}),
        ("json_read", {"path": "link", "pointer": ""}),
        ("json_write", {"path": "link", "pointer": "/kept", "value": "2"}),
        ("delete", {"path": "directory/secret"}),
        ("move", {"source": "directory/secret", "target": "stolen"}),
        ("move", {"source": "mine", "target": "directory/mine"}),
        ("copy", {"source": "directory/secret", "target": "stolen"}),
        ("copy", {"source": "mine", "target": "directory/mine"}),
    ]
    for name, given in calls:
        answer = agent.ask(name, given)
        assert answer["is_error"], (name, given)
        assert "outside of what this tool may" in answer["content"] or "not read" in answer["content"], answer
    assert (names(home / "outside"), secret.read_text()) == (["secret"], '{"kept": 1}')
    assert names(workspace) == ["directory", "link", "mine"]


def swap_forever(workspace: Path) -> None:
    """Have `place` be a directory and a link outside in turn, as far as the tools do not come between."""
    place, aside, link = (workspace / name for name in ("place", "aside", "link"))
    while True:
        for old, new in ((place, aside), (link, place), (place, link), (aside, place)):
            with contextlib.suppress(OSError):
                old.rename(new)


def test_a_directory_that_becomes_a_link_meanwhile_leads_nowhere(agent: Agent, home: Path) -> None:
    workspace = home / "workspace"
    (workspace / "place").mkdir()
    (workspace / "link").symlink_to(home / "outside")
    swapping = os.fork()
    if swapping == 0:
        swap_forever(workspace)
    answers = [agent.ask("write", {"path": f"place/{number}", "content": "x"}) for number in range(60)]
    os.kill(swapping, signal.SIGKILL)
    os.waitpid(swapping, 0)
    assert names(home / "outside") == ["secret"]
    # Some met the link, or a moment without the directory, and all were told so in a sentence.
    assert [answer for answer in answers if answer["is_error"] and "cannot write" not in answer["content"]] == []


def test_another_name_of_a_file_outside_keeps_its_content(agent: Agent, home: Path) -> None:
    os.link(home / "outside/secret", home / "workspace/same")
    assert told(agent, "json_read", path="same", pointer="/kept") == '"1"'
    assert "hard links" in told(agent, "write", path="same", content="x")
    assert (home / "outside/secret").read_text() == '{"kept": 1}'


def test_what_another_session_changed_is_read_again_first(agent: Agent, daemon: Daemon, home: Path) -> None:
    (home / "workspace/x.json").write_text('{"a": 1}')
    with daemon.agent() as other:
        greet(other, "default")
        told(agent, "json_read", path="x.json", pointer="/a")
        told(other, "json_read", path="x.json", pointer="/a")
        assert "Changed /a" in told(other, "json_write", path="x.json", pointer="/a", value="22")
    assert "was modified since it was read" in told(agent, "json_write", path="x.json", pointer="/a", value="3")
    told(agent, "json_read", path="x.json", pointer="/a")
    assert "Changed /a" in told(agent, "json_write", path="x.json", pointer="/a", value="3")
