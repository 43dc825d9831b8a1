import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.spawned import Daemon, daemon_on, server, without_places

CONFIG = f"""
[tools.echo]
type = "json -> json"
inline = "id"
[tools.fails]
command = ["sh", "-c", "exit 3"]
{server("steady", "echo")}
{server("broken", "dies_at_start")}
[agents.default]
tools = ["echo", "fails"]
[agents.served]
mcp = ["steady", "broken"]
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("call"), CONFIG) as daemon:
        yield daemon


def call(*words: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tooldispatchd", "call", *words]
    environment = without_places() | environ
    return subprocess.run(
        command, input=stdin, env=environment, capture_output=True, text=True, timeout=20, check=False
    )


def test_the_content_is_printed_and_the_exit_code_is_0(daemon: Daemon) -> None:
    ended = call("echo", '{"a": [1, "é"]}', "--socket", str(daemon.path))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, '{"a":[1,"é"]}\n', "")


def test_the_socket_is_found_in_the_environment(daemon: Daemon) -> None:
    assert call("echo", "1", TOOLDISPATCHD_SOCKET=str(daemon.path)).stdout == "1\n"


def test_the_input_comes_from_stdin(daemon: Daemon) -> None:
    ended = call("echo", "-", "--socket", str(daemon.path), stdin='{\n  "a": 1\n}\n')
    assert (ended.returncode, ended.stdout) == (0, '{"a":1}\n')


def test_an_error_is_printed_and_the_exit_code_is_1(daemon: Daemon) -> None:
    ended = call("fails", "1", "--socket", str(daemon.path))
    assert ended.returncode == 1
    assert ended.stdout.startswith('{"error":"tool_failed"')


def test_an_unknown_tool_is_an_error(daemon: Daemon) -> None:
    ended = call("ecco", "1", "--socket", str(daemon.path))
    assert ended.returncode == 1
    assert ended.stdout.startswith('{"error":"unknown_tool"')
    assert '"did_you_mean":"echo"' in ended.stdout


def test_an_input_that_is_no_json_is_a_mistake_of_usage(daemon: Daemon) -> None:
    ended = call("echo", "{", "--socket", str(daemon.path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("tooldispatchd: the input is not JSON: ")


def test_an_unknown_profile_is_a_mistake_of_usage(daemon: Daemon) -> None:
    ended = call("echo", "1", "--profile", "nobody", "--socket", str(daemon.path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "tooldispatchd: unknown_profile: no such profile\n"


def test_a_socket_that_is_not_there_has_exit_code_3(tmp_path: Path) -> None:
    ended = call("echo", "1", "--socket", str(tmp_path / "none"))
    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr == f"tooldispatchd: cannot reach the daemon at {tmp_path}/none: No such file or directory\n"


def test_the_tools_of_a_server_are_called_and_what_did_not_come_up_is_a_warning(daemon: Daemon) -> None:
    ended = call("steady:echo", '{"text": "hi"}', "--profile", "served", "--socket", str(daemon.path))
    assert (ended.returncode, ended.stdout) == (0, "hi\n")
    assert ended.stderr.startswith("tooldispatchd: warning: server broken is not available")


def test_a_private_daemon_answers_with_a_configuration(daemon: Daemon) -> None:
    ended = call("echo", "1", "--config", str(daemon.path.with_name("config.toml")))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1\n", "")


def test_a_private_daemon_that_cannot_start_says_why_with_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[limits]\ncall_ss = 1\n")
    ended = call("echo", "1", "--config", str(tmp_path / "c.toml"))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert 'did you mean "call_s"?' in ended.stderr
