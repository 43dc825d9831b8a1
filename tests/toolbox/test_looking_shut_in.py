"""Tools that look around as agents call them: in a fork of a warm parent, shut in by Landlock, of little memory."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.spawned import PATIENCE_S, Agent, daemon_on

CONFIG = """
[toolbox.files]
memory = "512 MiB"
[toolbox.look]
memory = "512 MiB"
[agents.default]
toolboxes = ["files", "look"]
"""
OUTSIDE = "it lies outside of what this tool may use"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    workspace = tmp_path_factory.mktemp("looking") / "workspace"
    workspace.mkdir()
    (workspace.parent / "outside").mkdir()
    (workspace.parent / "outside" / "secret.txt").write_text("sesame\n")
    return workspace


@pytest.fixture(scope="module")
def agent(workspace: Path) -> Iterator[Agent]:
    with (
        daemon_on(workspace.parent, f"{CONFIG}workspace = {json.dumps(str(workspace))}\n") as daemon,
        daemon.agent() as agent,
    ):
        assert agent.hello("default")["__port"] == "ready"
        yield agent


def told(agent: Agent, tool: str, **fields: object) -> str:
    content: str = json.loads(agent.ask(tool, fields)["content"])
    return content


def refused(agent: Agent, tool: str, **fields: object) -> str:
    fault = json.loads(agent.ask(tool, fields)["content"])
    return f"{fault['error']}: {fault['detail']}"


def test_nothing_outside_is_seen_by_any_way_to_it(agent: Agent, workspace: Path) -> None:
    home = workspace / "ways"
    home.mkdir()
    (home / "link").symlink_to(workspace.parent / "outside")
    (home / "loop").symlink_to(".")
    for path in ("..", "ways/link", str(workspace.parent / "outside")):
        assert refused(agent, "list", path=path) == f"tool_failed: cannot list {path}: {OUTSIDE}"
        assert refused(agent, "tree", path=path) == f"tool_failed: cannot list {path}: {OUTSIDE}"
        assert refused(agent, "glob", path=path, pattern="**") == f"tool_failed: cannot list {path}: {OUTSIDE}"
        assert refused(agent, "grep", path=path, pattern="e") == f"tool_failed: cannot search {path}: {OUTSIDE}"
    assert told(agent, "tree", path="ways").split("\n")[2:] == ["  loop -> ."]
    assert told(agent, "glob", path="ways", pattern="**/*.txt").startswith("Nothing")
    assert told(agent, "grep", path="ways", pattern="sesame") == "No line in ways matches sesame."
    assert "sesame" not in told(agent, "introspect", level="all")


def test_what_is_ignored_is_the_same_for_all(agent: Agent, workspace: Path) -> None:
    home = workspace / "rules"
    (home / "src" / "kept").mkdir(parents=True)
    (home / ".gitignore").write_text("*.log\n/src/gone.txt\n!b.log\n")
    for name in ("x.log", "src/gone.txt", "src/a.txt", "src/kept/b.log"):
        (home / name).write_text("HIT\n")
    left = ["rules/src/a.txt", "rules/src/kept/b.log"]
    assert sorted(told(agent, "glob", path="rules/src", pattern="**/*.*").split("\n")) == left
    assert told(agent, "grep", path="rules/src", pattern="HIT").split("\n")[:-1:2] == left


def test_a_bad_pattern_is_an_invalid_input(agent: Agent) -> None:
    assert refused(agent, "grep", pattern="x(a\\1") == (
        "invalid_input: /pattern: backreferences are not supported, at character 4"
    )
    assert refused(agent, "glob", pattern="a/../b").startswith("invalid_input: /pattern: ")


def test_many_names_are_bounded_everywhere(agent: Agent, workspace: Path) -> None:
    many = workspace / "many"
    many.mkdir()
    for number in range(3_000):
        os.close(os.open(many / f"{number:06}", os.O_CREAT, 0o600))
    assert told(agent, "list", path="many").endswith("\n… 2,000 more names left out …")
    assert told(agent, "tree", path="many").endswith("\n  (2,500 more left out)")
    assert told(agent, "glob", path="many", pattern="**/*").endswith("\n… 2,800 older ones left out …")
    assert told(agent, "grep", path="many", pattern="x") == "No line in many matches x."
    subprocess.run(["rm", "-r", many], check=True)


def test_a_thousand_levels_are_searched(agent: Agent, workspace: Path) -> None:
    deep = workspace / "deep"
    at = os.open(workspace, os.O_RDONLY)
    for name in ("deep", *["d"] * 1_000):
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.write(file := os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=at), b"HIT\n")
    os.close(file)
    os.close(at)
    assert told(agent, "grep", pattern="HIT", path="deep").endswith("/d/x\n1:HIT\n1 matching lines in 1 files.")
    assert told(agent, "glob", pattern="**/x", path="deep").endswith("/d/x")
    # What clears up after tests goes down by recursion.
    subprocess.run(["rm", "-r", deep], check=True)


def test_a_line_longer_than_the_memory_of_a_search_is_searched(agent: Agent, workspace: Path) -> None:
    place = workspace / "long"
    place.mkdir()
    (place / "z.txt").write_text("HIT\n")
    with (place / "a.txt").open("wb") as file:
        for _ in range(300):
            file.write(b"x" * 1_000_000)
        file.write(b"HIT")
    found = told(agent, "grep", pattern="HIT", path="long").split("\n")
    assert found[0] == "long/a.txt"
    assert found[1].startswith("1:(long line, from byte 299,999,750) …xxx")
    assert found[2:] == ["long/z.txt", "1:HIT", "2 matching lines in 2 files."]
    assert "more memory than it may use" in told(agent, "grep", pattern="x", path="long")
    (place / "a.txt").unlink()


def test_what_changes_meanwhile_is_no_failure(agent: Agent, workspace: Path) -> None:
    place = workspace / "changing"
    place.mkdir()
    (going := workspace / "going").touch()
    changes = "mkdir -p a/b; echo HIT > a/b/c; mv a z 2> /dev/null; rm -rf z; ln -s /etc a; rm a"
    with subprocess.Popen(["sh", "-c", f"while [ -e ../going ]; do {changes}; done"], cwd=place) as changing:
        for _ in range(20):
            assert "passwd" not in told(agent, "tree", path="changing", depth=9)
            assert "passwd" not in told(agent, "glob", path="changing", pattern="**")
            told(agent, "grep", path="changing", pattern="HIT")
            told(agent, "list", path="changing")
        # Killed, it would leave a command that still changes what is removed.
        going.unlink()
        changing.wait(PATIENCE_S)
    subprocess.run(["rm", "-rf", place], check=True)


def test_the_environment_says_that_the_network_is_shut(agent: Agent, workspace: Path) -> None:
    facts = dict(line.split(": ", 1) for line in told(agent, "environment").split("\n"))
    assert facts["Network"] == "shut"
    assert facts["Workspace"] == facts["Working directory"] == str(workspace)
    assert "/tmp" not in facts["May be written"].split(", ")
