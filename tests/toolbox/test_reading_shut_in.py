"""`read` as agents call it: in a fork of a warm parent, shut in by Landlock."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.spawned import Agent, daemon_on

CONFIG = """
[toolbox.files]
tools = ["read"]
memory = "128 MiB"
[agents.default]
toolboxes = ["files"]
workspace = "{workspace}"
"""
OUTSIDE = "it lies outside of what this tool may use"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the workspace, and a file beside it."""
    directory = tmp_path_factory.mktemp("reading")
    (directory / "workspace").mkdir()
    (directory / "outside.txt").write_text("secret\n")
    return directory


@pytest.fixture(scope="module")
def workspace(directory: Path) -> Path:
    return directory / "workspace"


@pytest.fixture(scope="module")
def agent(directory: Path) -> Iterator[Agent]:
    with daemon_on(directory, CONFIG.format(workspace=directory / "workspace")) as daemon, daemon.agent() as agent:
        assert agent.hello("default")["__port"] == "ready"
        yield agent


def told(agent: Agent, path: str, **window: int) -> str:
    content: str = agent.ask("read", {"path": path, **window})["content"]
    return content


def refused(agent: Agent, path: str, **window: int) -> Any:
    return json.loads(told(agent, path, **window))


def test_a_file_of_the_workspace_is_read(agent: Agent, workspace: Path) -> None:
    (workspace / "x.txt").write_text("one\ntwo\n")
    for path in ("x.txt", str(workspace / "x.txt")):
        assert told(agent, path) == "[lines 1-2 of 2]\n1\tone\n2\ttwo"


def test_a_file_outside_is_refused_by_every_way_to_it(agent: Agent, directory: Path, workspace: Path) -> None:
    outside = directory / "outside.txt"
    (workspace / "link").symlink_to(outside)
    (workspace / "up").symlink_to("..")
    ways = [
        "../outside.txt",
        str(outside),
        "link",
        "up/outside.txt",
        f"/proc/self/root{outside}",
        "/proc/self/cwd/link",
    ]
    for path in ways:
        assert refused(agent, path)["detail"] == f"cannot read {path}: {OUTSIDE}"


def test_a_directory_outside_is_refused_too(agent: Agent) -> None:
    assert refused(agent, "..")["detail"] == f"cannot read ..: {OUTSIDE}"


def test_a_fifo_holds_up_nothing(agent: Agent, workspace: Path) -> None:
    os.mkfifo(workspace / "fifo")
    assert refused(agent, "fifo")["detail"] == "cannot read fifo: it is a FIFO"


def test_a_null_character_in_a_path_is_refused_before_the_call(agent: Agent) -> None:
    assert refused(agent, "a\0b")["error"] == "invalid_input"


def test_an_image_reaches_the_agent(agent: Agent, workspace: Path) -> None:
    (workspace / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert agent.ask("read", {"path": "x.png"}, content="blocks")["blocks"] == [
        {"type": "text", "text": "[x.png: image/png, 8 bytes]"},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
    ]


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ({"limit": 1}, "[lines 1-1 of at least 50,001; go on with offset=2]\n1\tx"),
        ({"offset": 50_000, "limit": 1}, "[lines 50,000-50,000 of at least 50,001; go on with offset=50001]\n50000\tx"),
        # A line longer than what is counted.
        ({"offset": 50_001}, "[lines 50,001-50,001 of at least 50,001; go on with offset=50002]\n50001\t\0\0"),
    ],
)
def test_a_file_larger_than_the_memory_of_the_call_is_read(
    agent: Agent, workspace: Path, window: dict[str, int], said: str
) -> None:
    with (workspace / "large").open("wb") as file:
        file.write(b"x\n" * 50_000)
        file.truncate(300 * 1024**2)
    assert told(agent, "large", **window).startswith(said)


def test_the_end_of_a_file_is_found_wherever_it_is(agent: Agent, workspace: Path) -> None:
    with (workspace / "large").open("wb") as file:
        file.write(b"x\n" * 50_000)
        file.truncate(300 * 1024**2)
    assert refused(agent, "large", offset=50_002)["detail"] == "/offset: large has 50,001 lines"


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../../../../../../../etc/passwd", "/proc/self/root/etc/passwd", "to-passwd"]
)
def test_what_the_sandbox_shows_every_program_is_refused(agent: Agent, workspace: Path, path: str) -> None:
    if path == "to-passwd":
        (workspace / path).symlink_to("/etc/passwd")
    assert OUTSIDE in told(agent, path)
