import json
import os
import pty
import resource
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.daemon.spawned import PATIENCE_S, Daemon, daemon_on, without_places
from tests.mcpface.clients import COMMAND, CONFIG, stdio_client
from tooldispatchd.cli import mcp
from tooldispatchd.mcpface import install


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("mcp"), CONFIG) as daemon:
        yield daemon


def run(*words: str, cwd: Path, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    environment = without_places() | environ
    return subprocess.run(
        [*COMMAND, *words],
        input=stdin,
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


# --- serving ---


def test_the_daemon_is_found_in_the_environment(daemon: Daemon, tmp_path: Path) -> None:
    with stdio_client(tmp_path, TOOLDISPATCHD_SOCKET=str(daemon.path)) as client:
        assert client.initialize()["result"]["serverInfo"]["name"] == "tooldispatchd"
        assert client.leave() == 0
        assert client.log.read_text() == ""


def test_a_profile_and_the_file_with_its_token_open_a_session(daemon: Daemon, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("open sesame\n")
    words = ("--socket", str(daemon.path), "--profile", "closed", "--token-file", str(token))
    with stdio_client(tmp_path, *words) as client:
        client.initialize()
        client.call(1, "echo", "in")
        assert client.hear()["result"]["content"] == [{"type": "text", "text": "in"}]


def test_a_wrong_token_is_the_answer_to_initialize(daemon: Daemon, tmp_path: Path) -> None:
    words = ("--socket", str(daemon.path), "--profile", "closed")
    with stdio_client(tmp_path, *words, TOOLDISPATCHD_TOKEN="open barley") as client:
        assert client.initialize()["error"]["data"]["error"] == "not_authenticated"


def test_a_token_file_that_is_not_there_is_a_mistake_of_usage(tmp_path: Path) -> None:
    ended = run("--token-file", "none", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "tooldispatchd: cannot read the token from none: No such file or directory\n"


def test_without_a_daemon_the_configuration_of_the_user_is_served(tmp_path: Path) -> None:
    (tmp_path / "tooldispatchd").mkdir()
    (tmp_path / "tooldispatchd" / "config.toml").write_text(CONFIG)
    places = {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    with stdio_client(tmp_path, cwd=tmp_path, **places) as client:
        assert "result" in client.initialize()
        assert client.leave() == 0


def test_a_configuration_of_the_project_that_an_editor_has_open_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "tooldispatchd.toml").write_text(CONFIG)
    with stdio_client(tmp_path, cwd=tmp_path, XDG_RUNTIME_DIR=str(tmp_path), HOME=str(tmp_path)) as client:
        assert client.initialize()["error"]["message"].startswith("no daemon listens at ")


def test_without_a_daemon_and_a_configuration_initialize_is_answered_with_what_to_do(tmp_path: Path) -> None:
    # A client that tries the newer revision first comes to `initialize` all the same.
    discover = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}}
    with stdio_client(tmp_path, cwd=tmp_path, XDG_RUNTIME_DIR=str(tmp_path), HOME=str(tmp_path)) as client:
        client.say(discover)
        assert client.hear()["error"]["code"] in {-32000, -32601, -32602}
        error = client.initialize()["error"]
        assert client.process.wait(PATIENCE_S) == 3
        assert client.hear() == {"end": True}
    assert error["message"] == (
        f"no daemon listens at {tmp_path}/tooldispatchd/dispatch.sock, and there is no configuration at "
        f"{tmp_path}/.config/tooldispatchd/config.toml or /etc/tooldispatchd/config.toml; "
        '"tooldispatchd serve" starts a daemon, --socket and --config name another one'
    )
    assert client.log.read_text() == f"tooldispatchd: {error['message']}\n"


def test_a_socket_that_was_named_and_is_not_there_is_the_answer_to_initialize(tmp_path: Path) -> None:
    with stdio_client(tmp_path, "--socket", "none", cwd=tmp_path) as client:
        error = client.initialize()["error"]
        assert client.process.wait(PATIENCE_S) == 3
    assert error["message"].startswith("cannot reach the daemon at none: No such file or directory; ")
    assert client.log.read_text() == f"tooldispatchd: {error['message']}\n"


def test_a_configuration_with_a_mistake_is_the_answer_to_initialize(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text("[tools.a]\nwrong = 1\n")
    with stdio_client(tmp_path, "--config", "wrong.toml", cwd=tmp_path) as client:
        error = client.initialize()["error"]
        assert client.process.wait(PATIENCE_S) == 3
    assert error["message"] == (
        'the daemon cannot start with wrong.toml (exit code 2): "tooldispatchd check --config wrong.toml" says why'
    )
    assert "wrong.toml:2" in client.log.read_text()


def test_a_client_that_leaves_before_it_begins_leaves_nothing_to_say(daemon: Daemon, tmp_path: Path) -> None:
    ended = run("--socket", str(daemon.path), cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_serving_imports_neither_the_event_loop_nor_what_only_private_daemons_and_files_need() -> None:
    probe = (
        "import sys, tooldispatchd.cli.mcp, tooldispatchd.mcpface.face, tooldispatchd.mcpface.relay;"
        "print(sys.modules.keys()"
        " & {'trio', 'pathlib', 'subprocess', 'json.tool', '_hashlib', 'tooldispatchd.mcpface.install'})"
    )
    words = [sys.executable, "-c", probe]
    assert subprocess.run(words, capture_output=True, text=True, check=True, timeout=20).stdout == "set()\n"


def test_from_start_to_the_end_it_needs_less_than_150_ms(daemon: Daemon, tmp_path: Path) -> None:
    def took_s() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with stdio_client(tmp_path, "--socket", str(daemon.path)) as client:
            client.initialize()
            client.leave()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # In processor time, as most clients wait for nothing else: on a busy machine everything waits, and costs the same.
    assert min(took_s() for _ in range(5)) < 0.15


def test_times_of_tasks_are_those_of_the_clock_on_the_wall(daemon: Daemon, tmp_path: Path) -> None:
    with stdio_client(tmp_path, "--socket", str(daemon.path)) as client:
        client.initialize()
        params = {"name": "echo", "arguments": {"input": 1}, "task": {}}
        client.say({"id": 1, "method": "tools/call", "params": params})
        created = datetime.fromisoformat(client.hear()["result"]["task"]["createdAt"])
    assert abs(datetime.now(UTC) - created) < timedelta(minutes=2)


# --- the entry ---


def test_the_command_knows_the_clients_that_entries_are_written_for() -> None:
    assert tuple(install.CLIENTS) == mcp.CLIENTS


def test_the_entry_passes_on_what_was_given_as_absolute_paths(tmp_path: Path) -> None:
    for name in ("my.toml", "token"):
        (tmp_path / name).touch()
    words = ("--config", "my.toml", "--profile", "coder", "--token-file", "token", "--yes", "--name", "mine")
    ended = run("--install", "cursor", *words, cwd=tmp_path, HOME=str(tmp_path))
    assert ended.returncode == 0
    entry = json.loads((tmp_path / ".cursor" / "mcp.json").read_text())["mcpServers"]["mine"]
    given = ["--config", f"{tmp_path}/my.toml", "--profile", "coder", "--token-file", f"{tmp_path}/token"]
    assert entry["args"][entry["args"].index("mcp") :] == ["mcp", *given]
    assert ended.stdout.endswith(
        f"wrote {tmp_path}/.cursor/mcp.json; restart the client, or have it read its servers anew\n"
    )


@pytest.mark.parametrize(("given", "written"), [("@tools", "@tools"), ("unix:a.sock", "{}/a.sock")])
def test_the_entry_names_the_socket(given: str, written: str, tmp_path: Path) -> None:
    assert run("--install", "vscode", "--project", "--socket", given, "--yes", cwd=tmp_path).returncode == 0
    entry = json.loads((tmp_path / ".vscode" / "mcp.json").read_text())["servers"]["tooldispatchd"]
    assert entry["args"][-2:] == ["--socket", written.format(tmp_path)]


def test_what_an_entry_starts_serves(daemon: Daemon, tmp_path: Path) -> None:
    run("--install", "claude-code", "--project", "--socket", str(daemon.path), "--yes", cwd=tmp_path)
    entry = json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"]["tooldispatchd"]
    ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    words = [entry["command"], *entry["args"]]
    ended = subprocess.run(words, input=ping, env={}, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert json.loads(ended.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_a_second_time_it_says_so_and_writes_nothing(tmp_path: Path) -> None:
    words = ("--install", "zed", "--project", "--yes")
    run(*words, cwd=tmp_path)
    file = tmp_path / ".zed" / "settings.json"
    before = file.stat()
    ended = run(*words, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, f"{file} has this entry already\n")
    assert file.stat().st_ino == before.st_ino


def test_an_entry_that_names_a_file_that_is_not_there_is_not_written(tmp_path: Path) -> None:
    ended = run("--install", "zed", "--project", "--yes", "--config", "my.toml", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (2, "tooldispatchd: there is no file my.toml\n")
    assert [*tmp_path.iterdir()] == []


def test_print_only_shows(tmp_path: Path) -> None:
    ended = run("--install", "zed", "--project", "--print", cwd=tmp_path)
    assert ended.returncode == 0
    assert '+  "context_servers": {\n' in ended.stdout
    assert [*tmp_path.iterdir()] == []


def test_nobody_who_can_be_asked_is_no_leave_to_write(tmp_path: Path) -> None:
    ended = run("--install", "zed", "--project", cwd=tmp_path, stdin="y\n")
    assert ended.returncode == 1
    assert ended.stderr.startswith("tooldispatchd: nobody can be asked: ")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(("said", "code", "is_written"), [("y\n", 0, True), ("n\n", 1, False), ("\n", 1, False)])
def test_on_a_terminal_it_asks(said: str, code: int, is_written: bool, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    words = [*COMMAND, "--install", "zed", "--project"]
    with subprocess.Popen(
        words, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path, env=without_places()
    ) as asked:
        os.write(ours, said.encode())
        told = asked.communicate(timeout=PATIENCE_S)[0]
    os.close(ours)
    os.close(theirs)
    assert f"write this to {tmp_path}/.zed/settings.json? [y/N]".encode() in told
    assert (asked.returncode, (tmp_path / ".zed").exists()) == (code, is_written)


def test_a_file_that_is_no_json_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text("{\n oops\n}")
    ended = run("--install", "claude-code", "--project", "--yes", cwd=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr == (
        f"tooldispatchd: cannot edit {tmp_path}/.mcp.json:2: this is no JSON; nothing was changed\n"
    )
