import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.declaring import NAMED
from tests.daemon.forking import run_forked
from tests.daemon.spawned import Daemon, daemon_on, server, without_places
from tooldispatchd.cli.tools import FORMS

ATTACKING = Path(__file__).parent.parent / "servers" / "attacking.py"
CONFIG = f"""
[tools.echo]
type = "string -> string"
inline = "id"
description = "Give it back.\\nIn full."
[tools.long]
type = "json -> json"
inline = "id"
description = "{"x" * 200}"
[tools.whole]
type = "{{text: string}} -> {{length: number}}"
map = '{{"length": 1.0}}'
title = "All of it"
description = "Give a length."
doc = "Twice.\\nIn full."
{server("steady", "echo")}
[mcp.odd]
command = "{sys.executable}"
args = ["-I", "-S", "{NAMED}", "odd", "\\u001b[31mred", "two\\nlines", "{"x" * 150}"]
[agents.odd]
mcp = ["odd"]
jobs = false
[agents.default]
tools = ["echo", "long"]
jobs = false
[agents.served]
tools = ["echo"]
mcp = ["steady"]
jobs = false
[agents.whole]
tools = ["whole"]
[agents.nothing]
jobs = false
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("tools"), CONFIG) as daemon:
        yield daemon


def tools(*words: str) -> subprocess.CompletedProcess[str]:
    return run_forked("tools", *words, env=without_places() | {"COLUMNS": "40"})


def test_a_table_has_a_line_for_each_tool_that_fits_the_terminal(daemon: Daemon) -> None:
    ended = tools("--socket", str(daemon.path))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"echo  Give it back.\nlong  {'x' * 33}…\n"


def test_the_tools_of_servers_are_listed_too(daemon: Daemon) -> None:
    ended = tools("--profile", "served", "--socket", str(daemon.path))
    assert ended.stdout.splitlines() == ["echo         Give it back.", "steady:echo  Say it again."]


def test_names_of_servers_do_not_speak_to_the_terminal_nor_widen_the_table(daemon: Daemon) -> None:
    lines = tools("--profile", "odd", "--socket", str(daemon.path)).stdout.splitlines()
    assert [line.partition("Say")[0] for line in lines] == ["odd: [31mred   ", "odd:two lines  ", f"odd:{'x' * 150}  "]


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


def test_the_daemons_own_user_is_told_of_a_typing_mistake_in_a_profile(tmp_path: Path) -> None:
    config = '[agents.default]\n[agents.operator]\ntoken = "open sesame"\n'
    with daemon_on(tmp_path, config) as daemon:
        ended = tools("--profile", "opertor", "--socket", str(daemon.path))
        closed = tools("--profile", "operator", "--socket", str(daemon.path))
    assert ended.stderr == "tooldispatchd: unknown_profile: no such profile: opertor; did you mean operator?\n"
    assert (ended.returncode, closed.returncode) == (2, 3)


# --- one tool ---


def test_one_tool_is_shown_whole(daemon: Daemon) -> None:
    ended = tools("whole", "--profile", "whole", "--socket", str(daemon.path))
    assert (ended.returncode, ended.stderr) == (0, "")
    head, _, schemas = ended.stdout.partition("\ninput\n")
    assert head == "whole (All of it): a declared tool\n\n    Give a length.\n\n    Twice.\n    In full.\n"
    inside, _, outside = schemas.partition("\noutput\n")
    assert json.loads(inside)["properties"] == {"text": {"type": "string"}}
    outside, _, calls = outside.partition("\ncalled by\n")
    assert json.loads(outside)["properties"] == {"length": {"type": "number"}}
    of_daemon = f"--socket {daemon.path} --profile whole"
    assert calls.startswith(f"    tooldispatchd call whole text=TEXT {of_daemon}\n")
    assert f"""    echo '{{"text": "TEXT"}}' | tooldispatchd call whole - {of_daemon}\n""" in calls
    assert "\ntool whole : {text: string} -> {length: number} (" in calls


def test_what_comes_out_and_the_command_line_are_told_of_every_kind_of_tool(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("""[tools.count]
command = ["wc", "-w"]
type = "string -> int"
[tools.any]
command = ["cat"]
""")
    shown = tools("count", "--config", str(file)).stdout
    assert f"    tooldispatchd call count TEXT --config {file}\n" in shown
    assert f"    tooldispatchd call count - --config {file} < FILE\n" in shown
    assert "\noutput\nas the tool gives it: no object with a schema is declared\n" in shown
    assert "\ntool count : string -> int (" in shown
    assert "\noutput\n" in tools("any", "--config", str(file)).stdout


def test_one_tool_of_a_server_is_shown_with_its_origin(daemon: Daemon) -> None:
    ended = tools("steady:echo", "--profile", "served", "--socket", str(daemon.path))
    assert ended.stdout.startswith("steady:echo: a tool of the server steady\n\n    Say it again.\n\ninput\n")


def test_one_tool_of_a_file_is_shown_with_its_place_its_limit_and_what_bounds_it(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"""[tools.count]
command = ["wc", "-c"]
type = "string -> int"
call_s = 7
memory = "64 MiB"
{server("steady", "echo")}
call_s = 9
""")
    shown = tools("count", "--config", str(file)).stdout
    assert f"tool count : string -> int ({file}:1)" in shown
    assert "limit: 7 s" in shown
    assert "memory" in shown
    shown = tools("steady:echo", "--config", str(file)).stdout
    assert "server steady" in shown
    assert "9 s" in shown


def test_one_tool_is_printed_as_json(daemon: Daemon) -> None:
    ended = tools("echo", "--json", "--socket", str(daemon.path))
    assert json.loads(ended.stdout)["name"] == "echo"
    ended = tools("echo", "--schemas", "openai", "--socket", str(daemon.path))
    assert json.loads(ended.stdout)["function"]["name"] == "echo"


def test_a_tool_that_there_is_not_is_told_with_the_name_that_is_near(daemon: Daemon) -> None:
    ended = tools("ecko", "--socket", str(daemon.path))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "tooldispatchd: there is no tool ecko, did you mean echo?\n"


# --- colours and ends ---


def test_colours_are_for_terminals_or_who_asks(daemon: Daemon) -> None:
    plain = tools("--socket", str(daemon.path)).stdout
    coloured = tools("--color", "always", "--socket", str(daemon.path)).stdout
    assert "\033" not in plain
    assert "\033[1mecho\033[0m" in coloured


@pytest.mark.parametrize(
    ("environ", "words", "is_coloured"),
    [({}, [], True), ({"NO_COLOR": "1"}, [], False), ({"TERM": "dumb"}, [], False), ({}, ["--color", "never"], False)],
)
def test_a_terminal_is_coloured_unless_told_otherwise(
    daemon: Daemon, environ: dict[str, str], words: list[str], is_coloured: bool
) -> None:
    master, slave = os.openpty()
    command = [sys.executable, "-m", "tooldispatchd", "tools", *words, "--socket", str(daemon.path)]
    env = {name: value for name, value in without_places().items() if name != "NO_COLOR"} | {"TERM": "xterm"} | environ
    try:
        subprocess.run(command, env=env, stdout=slave, timeout=20, check=True)
        assert (b"\033[1m" in os.read(master, 65_536)) is is_coloured
    finally:
        os.close(master)
        os.close(slave)


def test_a_socket_that_is_not_there_has_exit_code_3(tmp_path: Path) -> None:
    assert tools("--socket", str(tmp_path / "none")).returncode == 3


def test_what_another_clients_file_restricts_is_neither_offered_nor_started_and_the_rest_is_a_warning(
    tmp_path: Path,
) -> None:
    program = {"command": sys.executable, "args": ["-I", "-S", str(ATTACKING)]}
    servers = {
        "github": {
            **program,
            "toolsAllowed": ["read", "write", "connect"],
            "toolsDenied": ["write"],
            "colour": "red",
            "icon": "cat",
        },
        "off": {"command": "/bin/sh", "args": ["-c", f"touch {tmp_path}/started"], "enabled": False},
    }
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    config = tmp_path / "t.toml"
    config.write_text('mcp_json = [".mcp.json"]\n[agents.default]\njobs = false\nmcp = ["github", "off"]\n')
    ended = tools("--config", str(config))
    assert (ended.returncode, ended.stdout) == (0, "github:read     read\ngithub:connect  connect\n")
    assert not (tmp_path / "started").exists()
    assert f'{config}: warning: {tmp_path}/.mcp.json:1: server "github" has keys that mean nothing here' in ended.stderr
    assert '"colour", "icon"' in ended.stderr


def test_a_configuration_that_cannot_be_used_is_told_once(tmp_path: Path) -> None:
    config = tmp_path / "t.toml"
    config.write_text("[mcp.a]\n")
    ended = tools("--config", str(config))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("this one has neither") == 1


def test_a_terminal_shows_which_servers_are_waited_for_and_wipes_it(tmp_path: Path) -> None:
    file, up = tmp_path / "config.toml", tmp_path / "up"
    file.write_text(f"""[mcp.slow]
command = "sh"
args = ["-c", "until test -e {up}; do sleep 0.05; done; exit 1"]
restart = "never"
""")
    master, slave = os.openpty()
    command = [sys.executable, "-m", "tooldispatchd", "tools", "--config", str(file), "--color", "never"]
    with subprocess.Popen(command, env=without_places(), stdout=subprocess.DEVNULL, stderr=slave) as running:
        os.close(slave)
        with os.fdopen(master, "rb", buffering=0) as terminal:
            shown = b""
            while b"waiting for slow (" not in shown:
                shown += terminal.read(4096)
            up.touch()
            while b"\n" not in shown:
                shown += terminal.read(4096)
        running.wait(20)
    assert re.search(rb"waiting for slow \(\d+ s\)\r\x1b\[Ktooldispatchd: warning: server slow", shown)
