"""Tools of servers that are chosen by tags and by what the server says of them, through a real daemon."""

import json
from collections.abc import Iterator

import pytest

from tests.daemon.spawned import Daemon, daemon_on, server

CONFIG = "\n".join(
    [
        server("files", "hinted", 'tags = ["disk"]'),
        '[tools.erase]\nmcp = "files"\nname = "wipe"\ntags = ["own"]',
        '[tools.show]\nmcp = "files"\nname = "look"',
        '[agents.default]\ntools = ["erase", "show"]\nmcp = ["files"]\njobs = false',
        '[agents.reader]\ntools = ["erase", "show"]\nmcp = ["files"]\nallow = ["@read_only"]\njobs = false',
        '[agents.careful]\ntools = ["erase", "show"]\nmcp = ["files"]\njobs = false',
        'deny = ["@destructive", "files:add"]',
    ]
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("traits"), CONFIG) as daemon:
        yield daemon


@pytest.mark.parametrize(
    ("profile", "offered", "kept_away"),
    [
        ("default", ["erase", "show", "files:look", "files:wipe", "files:add"], []),
        ("reader", ["show", "files:look"], ["erase"]),
        ("careful", ["show", "files:look"], ["erase", "files:wipe", "files:add"]),
    ],
)
def test_what_a_server_says_of_its_tools_decides_who_has_them(
    daemon: Daemon, profile: str, offered: list[str], kept_away: list[str]
) -> None:
    with daemon.agent() as agent:
        assert [tool["name"] for tool in agent.hello(profile)["tools"]] == offered
        for name in kept_away:
            assert json.loads(agent.ask(name, {"text": ""})["content"])["error"] == "not_allowed"


def test_lists_show_the_tags_of_a_tool_and_of_its_server(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        tags = {tool["name"]: tool.get("tags") for tool in agent.hello("default")["tools"]}
    assert tags["erase"] == ["own", "disk"]
    assert tags["show"] == tags["files:add"] == ["disk"]
