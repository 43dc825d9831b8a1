import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.spawned import PATIENCE_S, Daemon, daemon_on
from tests.runner.running import CONFIG, RUN, environment, finish, leftovers

# Says one request and prints its answer.
ASK = 'echo \'{"id":"1","name":"echo","input":%s}\' >&4; read -r answer <&5; echo "$answer"'
ANSWERED = b'{"id":"1","content":"7","is_error":false}\n'


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("run"), CONFIG) as daemon:
        yield daemon


@pytest.fixture
def config(tmp_path: Path) -> str:
    return str(written(tmp_path / "c.toml"))


def written(file: Path) -> Path:
    """The configuration; one with a token that others may read is a warning."""
    file.write_text(CONFIG)
    file.chmod(0o600)
    return file


def test_an_agent_calls_a_running_daemon(tmp_path: Path, daemon: Daemon) -> None:
    ended = finish(tmp_path, "--socket", str(daemon.path), "--", "sh", "-c", f"{ASK % 7}; exit 7")
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, ANSWERED, b"")


def test_an_agent_calls_a_private_daemon(tmp_path: Path, config: str) -> None:
    ended = finish(tmp_path, "--config", config, "--", "sh", "-c", ASK % 7)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, ANSWERED, b"")


def test_a_socket_in_the_environment_is_used(tmp_path: Path, daemon: Daemon) -> None:
    assert finish(tmp_path, "--", "sh", "-c", ASK % 7, TOOLDISPATCHD_SOCKET=str(daemon.path)).stdout == ANSWERED


def test_where_no_daemon_listens_a_private_one_takes_the_configuration_that_is_found(tmp_path: Path) -> None:
    written(tmp_path / "tooldispatchd.toml")
    ended = finish(tmp_path, "--verbose", "--", "sh", "-c", ASK % 7, XDG_RUNTIME_DIR=str(tmp_path))
    assert ended.stdout == ANSWERED
    assert ended.stderr.decode() == (
        f"tooldispatchd: no daemon at {tmp_path}/tooldispatchd/dispatch.sock\n"
        "tooldispatchd: starting a private daemon\n"
    )


def test_a_socket_that_was_named_is_not_replaced_by_a_private_daemon(tmp_path: Path) -> None:
    (tmp_path / "tooldispatchd.toml").write_text(CONFIG)
    none = str(tmp_path / "none")
    for words, environ in ((["--socket", none], {}), ([], {"TOOLDISPATCHD_SOCKET": none})):
        ended = finish(tmp_path, *words, "--", "true", **environ)
        said = f"tooldispatchd: cannot reach the daemon at {none}: No such file or directory\n"
        assert (ended.returncode, ended.stderr.decode()) == (3, said)


def test_a_private_daemon_that_cannot_start_says_why_with_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[limits]\ncall_ss = 1\n")
    ended = finish(tmp_path, "--config", "c.toml", "--", "true")
    assert ended.returncode == 2
    assert b'did you mean "call_s"?' in ended.stderr


def test_without_a_daemon_and_a_configuration_both_are_said(tmp_path: Path) -> None:
    ended = finish(tmp_path, "--", "true", XDG_RUNTIME_DIR=str(tmp_path), HOME=str(tmp_path))
    assert ended.returncode == 2
    assert b"cannot find a configuration" in ended.stderr
    assert f"none listens at {tmp_path}/tooldispatchd/dispatch.sock".encode() in ended.stderr


@pytest.mark.parametrize("words", [[], ["--"], ["--mux"], ["--answers", "all", "--", "true"], ["--nothing", "--"]])
def test_a_mistake_of_usage_has_exit_code_2(tmp_path: Path, words: list[str]) -> None:
    assert finish(tmp_path, *words).returncode == 2


def test_a_program_that_is_not_there_has_exit_code_127(tmp_path: Path, daemon: Daemon) -> None:
    ended = finish(tmp_path, "--socket", str(daemon.path), "--", "no-such-agent")
    said = b"tooldispatchd: cannot start 'no-such-agent': No such file or directory\n"
    assert (ended.returncode, ended.stderr) == (127, said)


def test_a_program_that_is_not_there_is_told_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f'[mcp.s]\ncommand = "touch"\nargs = ["{tmp_path}/started"]\n')
    for config in ("c.toml", "none.toml"):
        ended = finish(tmp_path, "--config", config, "--", "no-such-agent")
        said = b"tooldispatchd: cannot start 'no-such-agent': No such file or directory\n"
        assert (ended.returncode, ended.stderr) == (127, said)
    assert not (tmp_path / "started").exists()


def test_a_program_is_looked_for_on_the_path(tmp_path: Path, daemon: Daemon) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "agent").write_text("#!/bin/sh\necho here\n")
    words = ["--socket", str(daemon.path), "--", "agent"]
    path = f"{tmp_path}/none:{tmp_path}/bin:{os.environ['PATH']}"
    ended = finish(tmp_path, *words, PATH=path)
    assert (ended.returncode, ended.stderr) == (126, b"tooldispatchd: cannot start 'agent': Permission denied\n")
    (tmp_path / "bin" / "agent").chmod(0o700)
    ended = finish(tmp_path, *words, PATH=path)
    assert (ended.returncode, ended.stdout) == (0, b"here\n")


def test_a_program_that_cannot_be_executed_has_exit_code_126(tmp_path: Path, daemon: Daemon) -> None:
    (tmp_path / "agent").write_text("#!/bin/sh\n")
    ended = finish(tmp_path, "--socket", str(daemon.path), "--", "./agent")
    assert (ended.returncode, ended.stderr) == (126, b"tooldispatchd: cannot start './agent': Permission denied\n")


def test_an_agent_that_a_signal_ends_has_128_and_its_number(tmp_path: Path, daemon: Daemon) -> None:
    assert finish(tmp_path, "--socket", str(daemon.path), "--", "sh", "-c", "kill -9 $$").returncode == 137


def test_an_agents_own_options_are_its_own(tmp_path: Path, daemon: Daemon) -> None:
    ended = finish(tmp_path, "--socket", str(daemon.path), "--", "echo", "--mux", "--", "--config", "x")
    assert ended.stdout == b"--mux -- --config x\n"


def test_an_unknown_profile_is_a_mistake_of_usage(tmp_path: Path) -> None:
    # Where a profile has a token, a daemon does not tell which there are.
    (tmp_path / "c.toml").write_text("[agents.default]\n")
    ended = finish(tmp_path, "--profile", "nobody", "--config", "c.toml", "--", "echo", "started")
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr == b"tooldispatchd: unknown_profile: no such profile: nobody\n"


def test_a_wrong_token_has_exit_code_3(tmp_path: Path, daemon: Daemon) -> None:
    words = ["--profile", "closed", "--socket", str(daemon.path), "--", "echo", "started"]
    for environ in ({}, {"TOOLDISPATCHD_TOKEN": "open rye"}):
        ended = finish(tmp_path, *words, **environ)
        assert (ended.returncode, ended.stdout) == (3, b"")
        assert ended.stderr.startswith(b"tooldispatchd: not_authenticated: ")


def test_a_token_of_the_environment_does_not_reach_the_agent(tmp_path: Path, daemon: Daemon) -> None:
    words = ["--profile", "closed", "--socket", str(daemon.path), "--", "env"]
    ended = finish(tmp_path, *words, TOOLDISPATCHD_TOKEN="open sesame", MINE="kept")
    assert ended.returncode == 0
    assert b"sesame" not in ended.stdout
    assert b"MINE=kept\n" in ended.stdout


def test_a_token_stands_in_a_file(tmp_path: Path, daemon: Daemon) -> None:
    (tmp_path / "token").write_text("open sesame\n")
    words = ["--profile", "closed", "--socket", str(daemon.path), "--token-file", "token", "--", "true"]
    assert finish(tmp_path, *words).returncode == 0


def test_a_token_file_that_cannot_be_read_is_a_mistake_of_usage(tmp_path: Path) -> None:
    ended = finish(tmp_path, "--token-file", "none", "--", "true")
    said = b"tooldispatchd: cannot read the token from none: No such file or directory\n"
    assert (ended.returncode, ended.stderr) == (2, said)


def test_the_tools_stand_in_a_private_file(tmp_path: Path, daemon: Daemon) -> None:
    show = 'stat -c %a "$TOOLDISPATCHD_TOOLS" "$(dirname "$TOOLDISPATCHD_TOOLS")"; cat "$TOOLDISPATCHD_TOOLS"'
    ended = finish(tmp_path, "--socket", str(daemon.path), "--", "sh", "-c", show)
    modes, tools = ended.stdout.split(b"\n", 2)[:2], json.loads(ended.stdout.split(b"\n", 2)[2])
    assert modes == [b"600", b"700"]
    assert {tuple(tool) for tool in tools} == {("name", "description", "input_schema")}
    assert {tool["name"] for tool in tools} >= {"echo", "forever"}


def test_the_tools_file_is_in_the_runtime_directory_where_there_is_one(tmp_path: Path, daemon: Daemon) -> None:
    (tmp_path / "runtime").mkdir()
    words = ["--socket", str(daemon.path), "--", "sh", "-c", 'echo "$TOOLDISPATCHD_TOOLS"']
    ended = finish(tmp_path, *words, XDG_RUNTIME_DIR=str(tmp_path / "runtime"))
    assert ended.stdout.startswith(f"{tmp_path}/runtime/tooldispatchd-run-".encode())
    assert leftovers(tmp_path / "runtime") == []


def test_a_runtime_directory_that_is_not_there_is_done_without(tmp_path: Path, daemon: Daemon) -> None:
    words = ["--socket", str(daemon.path), "--", "sh", "-c", 'echo "$TOOLDISPATCHD_TOOLS"']
    ended = finish(tmp_path, *words, XDG_RUNTIME_DIR=str(tmp_path / "none"))
    assert ended.stdout.startswith(f"{tmp_path}/tooldispatchd-run-".encode())


@pytest.mark.parametrize(("options", "place"), [([], b"4,5\n"), (["--mux"], b"stdio\n")])
def test_an_agent_is_told_where_its_channel_is(
    tmp_path: Path, daemon: Daemon, options: list[str], place: bytes
) -> None:
    words = [*options, "--socket", str(daemon.path), "--", "sh", "-c", 'echo "$TOOLDISPATCHD_CHANNEL"']
    assert finish(tmp_path, *words).stdout == place


def test_what_the_agent_asks_for_of_its_session_is_said_for_it(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        words = ["--updates", "--meta", "--answers", "approve", "--answers", "sampling", "--profile", "p"]
        words += ["--max-output", "4096"]
        run = [*RUN, *words, "--socket", "s", "--", "true"]
        with subprocess.Popen(run, cwd=tmp_path, env=environment(tmp_path), stderr=subprocess.PIPE) as process:
            probe, _ = listening.accept()
            assert probe.makefile("rb").readline() == b'{"__port":"ping"}\n'
            probe.close()
            channel, _ = listening.accept()
            channel.settimeout(PATIENCE_S)
            hello = json.loads(channel.makefile("rb").readline())
            channel.sendall(b"no protocol\n")
            assert process.wait(PATIENCE_S) == 3
            channel.close()
    asked = {"profile": "p", "updates": True, "meta": True, "answers": ["approve", "sampling"], "max_output": 4096}
    assert {name: hello[name] for name in asked} == asked


def test_a_bound_that_no_daemon_would_take_is_a_mistake(tmp_path: Path) -> None:
    ended = finish(tmp_path, "--max-output", "1023", "--", "true")
    assert (ended.returncode, b"argument --max-output" in ended.stderr) == (2, True)


def test_it_is_quick_because_it_imports_no_event_loop() -> None:
    probe = "import sys, tooldispatchd.cli.run, tooldispatchd.runner.run; print({'trio', 'asyncio'} & set(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", probe], capture_output=True, timeout=PATIENCE_S, check=False)
    assert ended.stdout == b"set()\n"
