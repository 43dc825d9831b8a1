import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.spawned import Daemon, daemon_on, server, without_places
from tooldispatchd.cli.tools import FORMS

CONFIG = f"""
[tools.echo]
type = "string -> string"
inline = "id"
description = "Give it back.\\nIn full."
[tools.long]
type = "json -> json"
inline = "id"
description = "{"x" * 200}"
{server("steady", "echo")}
[agents.default]
tools = ["echo", "long"]
jobs = false
[agents.served]
tools = ["echo"]
mcp = ["steady"]
jobs = false
[agents.nothing]
jobs = false
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("tools"), CONFIG) as daemon:
        yield daemon


def tools(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tooldispatchd", "tools", *words]
    environ = without_places() | {"COLUMNS": "40"}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=20, check=False)


def test_a_table_has_a_line_for_each_tool_that_fits_the_terminal(daemon: Daemon) -> None:
    ended = tools("--socket", str(daemon.path))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"echo  Give it back.\nlong  {'x' * 33}…\n"


def test_the_tools_of_servers_are_listed_too(daemon: Daemon) -> None:
    ended = tools("--profile", "served", "--socket", str(daemon.path))
    assert ended.stdout.splitlines() == ["echo         Give it back.", "steady:echo  Say it again."]


def test_json_has_the_schemas(daemon: Daemon) -> None:
    listed = json.loads(tools("--json", "--profile", "served", "--socket", str(daemon.path)).stdout)
    assert [tool["name"] for tool in listed] == ["echo", "steady:echo"]
    assert all(tool["input_schema"]["type"] == "object" for tool in listed)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_schemas_is_printed_as_json(daemon: Daemon, form: str) -> None:
    ended = tools("--schemas", form, "--socket", str(daemon.path))
    assert ended.returncode == 0
    assert ['"echo"' in json.dumps(tool) for tool in json.loads(ended.stdout)] == [True, False]


def test_a_form_shows_the_name_as_that_provider_takes_it(daemon: Daemon) -> None:
    ended = tools("--schemas", "anthropic", "--profile", "served", "--socket", str(daemon.path))
    assert [tool["name"] for tool in json.loads(ended.stdout)] == ["echo", "steady__echo"]


def test_a_form_that_there_is_not_is_a_mistake_of_usage(daemon: Daemon) -> None:
    ended = tools("--schemas", "opneai", "--socket", str(daemon.path))
    assert ended.returncode == 2
    assert "openai_responses" in ended.stderr


def test_a_profile_without_tools_is_an_empty_table(daemon: Daemon) -> None:
    ended = tools("--profile", "nothing", "--socket", str(daemon.path))
    assert (ended.returncode, ended.stdout) == (0, "")


def test_a_private_daemon_lists_with_a_configuration(daemon: Daemon) -> None:
    ended = tools("--config", str(daemon.path.with_name("config.toml")))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("echo  Give it back.\n")


def test_an_unknown_profile_is_a_mistake_of_usage(daemon: Daemon) -> None:
    assert tools("--profile", "nobody", "--socket", str(daemon.path)).returncode == 2


def test_a_socket_that_is_not_there_has_exit_code_3(tmp_path: Path) -> None:
    assert tools("--socket", str(tmp_path / "none")).returncode == 3
