"""The command as a process: its channel on stdin and stdout, and how it finds its configuration."""

import json
import os
import pty
import socket
import subprocess
import termios
from pathlib import Path
from typing import BinaryIO, Final

import pytest

from tests.daemon.forking import fork_daemon, run_forked
from tests.daemon.spawned import SERVE, Agent, server, without_places

CONFIG: Final = """
[tools.echo]
type = "string -> string"
inline = "id"
[tools.slow]
command = ["sh", "-c", "cat >/dev/null; sleep 0.2; echo 1"]
[tools.stuck]
command = ["sleep", "1000"]
"""
SERVERS: Final = """
[mcp.web]
url = "https://docs.example/mcp"
enabled = false
[mcp.socket]
url = "wss://docs.example/mcp"
enabled = false
[mcp.child]
command = "no-such-program"
[agents.plain]
[agents.default]
mcp = ["child"]
"""
ECHO: Final = b'{"__port":"tool_req","id":"1","name":"echo","input":"hi"}\n'
SLOW: Final = b'{"__port":"tool_req","id":"2","name":"slow","input":{}}\n'
STUCK: Final = b'{"__port":"tool_req","id":"3","name":"stuck","input":{}}\n'
ECHOED: Final = b'{"__port":"tool_resp","id":"1","content":"\\"hi\\"","is_error":false}\n'
SLEPT: Final = b'{"__port":"tool_resp","id":"2","content":"1","is_error":false}\n'
TIMEOUT_S: Final = 20.0


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A daemon on its stdin and stdout, for `fork_daemon`."""
    file = tmp_path / "config.toml"
    file.write_text(CONFIG)
    return ["serve", "--config", str(file), "--listen", "stdio"]


def heard(words: list[str], requests: BinaryIO) -> bytes:
    """What a daemon says on a pipe to the requests of a file."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as answers:
        daemon = fork_daemon(words, stdin=requests.fileno(), stdout=writing)
        os.close(writing)
        said = answers.read()
        assert daemon.wait(TIMEOUT_S) == 0
        return said


def asked(words: list[str], requests: bytes, answers: BinaryIO | None = None) -> int:
    """The exit code of a daemon that is asked on a pipe and answers to a file, or nowhere."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as asking:
        asking.write(requests)
    out = None if answers is None else answers.fileno()
    with os.fdopen(reading, "rb") as stdin:
        return fork_daemon(words, stdin=stdin.fileno(), stdout=out).wait(TIMEOUT_S)


# --- stdio ---


def test_on_pipes_what_was_asked_is_answered_and_the_end_of_input_is_the_daemons(words: list[str]) -> None:
    ended = run_forked(*words, stdin=ECHO + SLOW)
    assert (ended.returncode, ended.stdout.encode()) == (0, ECHOED + SLEPT)


def test_a_daemon_that_is_asked_nothing_says_nothing(words: list[str]) -> None:
    ended = run_forked(*words)
    assert (ended.returncode, ended.stdout) == (0, "")


def test_a_pipe_that_nobody_reads_any_more_cancels_what_runs(words: list[str]) -> None:
    whole = [*SERVE[:-1], *words]
    with subprocess.Popen(whole, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        daemon.stdin.write(STUCK + ECHO)
        daemon.stdin.flush()
        assert daemon.stdout.readline() == ECHOED
        daemon.stdout.close()
        assert daemon.wait(TIMEOUT_S) == 0


def test_on_a_socket_pair_the_channel_goes_both_ways(words: list[str]) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        daemon = fork_daemon(words, stdin=theirs.fileno(), stdout=theirs.fileno())
    with daemon:
        agent = Agent(ours)
        assert agent.ask("echo", "hi")["content"] == '"hi"'
        agent.call("2", "slow", {})
        agent.end_input()
        assert agent.hear()["content"] == "1"
        assert agent.hear() == {"end": True}
        agent.close()
        assert daemon.wait(TIMEOUT_S) == 0


def test_two_sockets_are_stdin_and_stdout(words: list[str], nothing_left: None) -> None:
    requests, stdin = socket.socketpair()
    answers, stdout = socket.socketpair()
    with fork_daemon(words, stdin=stdin.fileno(), stdout=stdout.fileno()) as daemon:
        stdin.close()
        stdout.close()
        with requests, answers:
            requests.sendall(ECHO)
            answers.settimeout(TIMEOUT_S)
            assert answers.recv(65_536) == ECHOED
            requests.sendall(ECHO)
            requests.close()
            assert answers.recv(65_536) == ECHOED
            assert answers.recv(65_536) == b""
        assert daemon.wait(TIMEOUT_S) == 0


def test_a_socket_that_nobody_reads_any_more_ends_the_daemon(words: list[str], nothing_left: None) -> None:
    requests, stdin = socket.socketpair()
    answers, stdout = socket.socketpair()
    with requests, fork_daemon(words, stdin=stdin.fileno(), stdout=stdout.fileno()) as daemon:
        stdin.close()
        stdout.close()
        requests.sendall(ECHO)
        answers.settimeout(TIMEOUT_S)
        assert answers.recv(65_536) == ECHOED
        answers.close()
        assert daemon.wait(TIMEOUT_S) == 0


@pytest.mark.parametrize("end", ["end of file", "hangup"])
def test_a_terminal_is_stdin_and_stdout(words: list[str], end: str, nothing_left: None) -> None:
    ours, theirs = pty.openpty()
    attributes = termios.tcgetattr(theirs)
    attributes[1] &= ~termios.OPOST
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    with fork_daemon(words, stdin=theirs, stdout=theirs) as daemon:
        os.close(theirs)
        os.write(ours, ECHO)
        assert os.read(ours, 65_536) == ECHOED
        if end == "end of file":
            os.write(ours, b"\x04")
            assert daemon.wait(TIMEOUT_S) == 0
            os.close(ours)
        else:
            os.close(ours)
            assert daemon.wait(TIMEOUT_S) == 0


def test_requests_come_from_a_regular_file(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "requests").write_bytes(ECHO + SLOW)
    with (tmp_path / "requests").open("rb") as requests:
        assert heard(words, requests) == ECHOED + SLEPT


def test_a_file_is_read_from_where_it_stands(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "requests").write_bytes(b"something else\n" + ECHO)
    with (tmp_path / "requests").open("rb", buffering=0) as requests:
        requests.seek(len(b"something else\n"))
        assert heard(words, requests) == ECHOED


def test_answers_go_to_a_regular_file(words: list[str], tmp_path: Path) -> None:
    with (tmp_path / "answers").open("wb") as answers:
        assert asked(words, ECHO + SLOW, answers) == 0
    assert (tmp_path / "answers").read_bytes() == ECHOED + SLEPT


def test_answers_go_to_the_end_of_a_file_that_is_appended_to(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "answers").write_bytes(b"before\n")
    with (tmp_path / "answers").open("ab") as answers:
        assert asked(words, ECHO, answers) == 0
    assert (tmp_path / "answers").read_bytes() == b"before\n" + ECHOED


def test_from_a_file_to_a_file(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "requests").write_bytes(ECHO + SLOW)
    with (tmp_path / "requests").open("rb") as requests, (tmp_path / "answers").open("wb") as answers:
        code = fork_daemon(words, stdin=requests.fileno(), stdout=answers.fileno()).wait(TIMEOUT_S)
    assert (code, (tmp_path / "answers").read_bytes()) == (0, ECHOED + SLEPT)


def test_nothing_in_and_nowhere_out(words: list[str]) -> None:
    assert fork_daemon(words).wait(TIMEOUT_S) == 0


def test_answers_that_go_nowhere_end_with_the_input(words: list[str]) -> None:
    assert asked(words, ECHO + SLOW) == 0


def test_the_pipes_of_others_stay_as_they_were(words: list[str]) -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as answers, open(writing, "wb") as shared:  # noqa: PTH123  # descriptors have no path
        assert asked(words, ECHO, shared) == 0
        assert os.get_blocking(shared.fileno())
        assert answers.readline() == ECHOED


def test_a_closed_stdin_is_a_place_that_cannot_be_listened_on(words: list[str]) -> None:
    closing = ["sh", "-c", 'exec "$@" <&-', "sh", *SERVE[:-1], *words]
    ended = subprocess.run(closing, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert ended.returncode == 3
    assert "cannot listen on stdio" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_logs_are_json_and_never_on_stdout(words: list[str]) -> None:
    ended = run_forked(*words, stdin=ECHO)
    events = [json.loads(line)["event"] for line in ended.stderr.splitlines()]
    assert sorted(events) == sorted(
        ["daemon ready", "session opened", "session closed", "daemon draining", "daemon stopped"]
    )


def test_each_server_that_fails_is_a_warning_with_its_reason(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    dead = '[mcp.dead]\nurl = "http://127.0.0.1:9/"\n'
    missing = '[mcp.missing]\ncommand = "no-such-program"\n'
    servers = [server("exits", "dies_at_start"), server("hangs", "silent", "handshake_s = 0.5"), dead, missing]
    file.write_text("\n".join(servers))
    words = [*SERVE, "--config", str(file), "--listen", "stdio", "--log-level", "warning"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"__port":"hello"}\n')
        process.stdin.flush()
        assert b'"ready"' in process.stdout.readline()
        _, log = process.communicate(timeout=TIMEOUT_S)
    lines = [json.loads(line) for line in log.splitlines()]
    ends = {line["server"]: line for line in lines if line["event"] == "connection ended"}
    assert ends.keys() == {"exits", "hangs", "dead", "missing"}
    assert (ends["exits"]["exit_code"], ends["exits"]["stderr_tail"]) == (3, "no such module: frobnicate\n")
    assert ends["hangs"]["reason"] == "it did not answer server/discover within 0.5 s"
    assert "stderr_tail" not in ends["dead"]


def test_a_secret_of_an_input_is_in_no_log(words: list[str]) -> None:
    line = b'{"__port":"tool_req","id":"1","name":"echo","input":"s3cret"}\n'
    ended = run_forked(*words, "--log-level", "debug", stdin=line)
    assert "call answered" in ended.stderr
    assert "s3cret" not in ended.stderr


# --- configuration ---


def test_what_only_servers_over_the_network_need_is_not_imported_without_any(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(SERVERS)
    ended = subprocess.run(
        [*SERVE, "--config", str(file), "--listen", "stdio"],
        input=b'{"__port":"hello","profile":"plain"}\n',
        env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"},
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert json.loads(ended.stdout.splitlines()[0])["__port"] == "ready"
    log = ended.stderr.decode()
    imported = {line.rpartition("|")[2].strip() for line in log.splitlines() if line.startswith("import time:")}
    # The SDK, HTTP clients, and what speaks HTTP/1.1 and WebSocket; of ours, the links over the network.
    heavy = {"mcp", "pydantic", "anyio", "httpx2", "httpcore2", "cryptography", "h11", "wsproto"}
    ways = {f"tooldispatchd.providers.mcp.{name}" for name in ("http", "websocket", "oauth")}
    assert "tooldispatchd.providers.mcp.connection" in imported
    assert imported & (heavy | ways | {"cel_expr_python", "lark"}) == set()


def test_without_a_configuration_it_says_where_it_looked_and_offers_init(tmp_path: Path) -> None:
    environ = without_places() | {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    ended = run_forked("serve", cwd=tmp_path, env=environ)
    assert ended.returncode == 2
    looked = ["tooldispatchd.toml", f"{tmp_path}/xdg/tooldispatchd/config.toml", "/etc/tooldispatchd/config.toml"]
    assert [line.strip() for line in ended.stderr.splitlines() if line.startswith("    ")] == looked
    assert '"tooldispatchd init" writes an example' in ended.stderr


def test_the_configuration_of_the_working_directory_is_found_first(tmp_path: Path) -> None:
    place = tmp_path / "xdg" / "tooldispatchd"
    place.mkdir(parents=True)
    (place / "config.toml").write_text("broken")
    (tmp_path / "tooldispatchd.toml").write_text(CONFIG)
    environ = without_places() | {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    ended = run_forked("serve", "--listen", "stdio", cwd=tmp_path, env=environ, stdin=ECHO)
    assert (ended.returncode, ended.stdout) == (0, ECHOED.decode())


def test_the_users_own_configuration_is_found_next(tmp_path: Path) -> None:
    place = tmp_path / "xdg" / "tooldispatchd"
    place.mkdir(parents=True)
    (place / "config.toml").write_text(CONFIG)
    environ = without_places() | {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    ended = run_forked("serve", "--listen", "stdio", cwd=tmp_path, env=environ, stdin=ECHO)
    assert (ended.returncode, ended.stdout) == (0, ECHOED.decode())


def test_the_places_of_the_file_are_listened_on_where_none_is_given(tmp_path: Path) -> None:
    (tmp_path / "tooldispatchd.toml").write_text('[daemon]\nlisten = ["stdio"]\n' + CONFIG)
    words = ["--config", "tooldispatchd.toml"]
    ended = run_forked("serve", *words, cwd=tmp_path, env=without_places(), stdin=ECHO)
    assert (ended.returncode, ended.stdout) == (0, ECHOED.decode())


@pytest.mark.parametrize("place", ["tcp:1", "unix:", "fd:4", "stdio?profile=none", "unix:x?mod=0600"])
def test_a_place_that_cannot_be_is_a_mistake_of_usage(tmp_path: Path, place: str) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    ended = run_forked("serve", "--config", str(tmp_path / "config.toml"), "--listen", place)
    assert ended.returncode == 2
    assert f"--listen {place}: " in ended.stderr
