import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.spawned import PATIENCE_S, Daemon, children_of, daemon_on, until, without_places, words_of
from tests.mcpface.clients import COMMAND, CONFIG, StdioClient, stdio_client
from tests.processes import is_running
from tooldispatchd.client.reach import PING

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("relay"), CONFIG) as daemon:
        yield daemon


@pytest.fixture
def client(daemon: Daemon, tmp_path: Path) -> Iterator[StdioClient]:
    with stdio_client(tmp_path, "--socket", str(daemon.path)) as client:
        client.initialize()
        yield client


def text_of(answer: dict[str, object]) -> str:
    (part,) = json.loads(json.dumps(answer))["result"]["content"]
    text: str = part["text"]
    return text


def private_daemon_of(client: StdioClient) -> int:
    """The pid of the private daemon of a client's server."""
    relay = client.process.pid
    until(lambda: any(b"serve" in words_of(pid) for pid in children_of(relay)))
    (daemon,) = children_of(relay)
    return daemon


# --- what is moved ---


def test_a_call_is_answered(client: StdioClient) -> None:
    client.call(1, "echo", {"a": 1})
    assert text_of(client.hear()) == '{"a":1}'


def test_many_requests_at_once_are_all_answered(client: StdioClient) -> None:
    for number in range(200):
        client.call(number, "echo", number)
    answers = [client.hear() for _ in range(200)]
    assert {answer["id"]: text_of(answer) for answer in answers} == {number: str(number) for number in range(200)}


def test_a_message_that_comes_byte_by_byte_is_one(client: StdioClient) -> None:
    params = {"name": "echo", "arguments": {"input": "é"}}
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, ensure_ascii=False)
    for byte in message.encode() + b"\r\n":
        os.write(client.stdin.fileno(), bytes([byte]))
    assert text_of(client.hear()) == "é"


def test_a_last_message_without_its_line_feed_is_answered(client: StdioClient) -> None:
    client.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
    client.stdin.close()
    assert client.hear() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert client.hear() == {"end": True}


def test_half_a_message_at_the_end_of_stdin_runs_nothing(client: StdioClient) -> None:
    client.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "stuck"')
    client.stdin.close()
    assert client.hear()["error"]["code"] == -32700
    assert client.process.wait(PATIENCE_S) == 0


def test_a_line_that_is_no_json_is_an_error_and_the_next_is_answered(client: StdioClient) -> None:
    client.stdin.write(b"\n  \nwhat?\n")
    client.call(2, "echo", 2)
    assert client.hear()["error"]["code"] == -32700
    assert text_of(client.hear()) == "2"


def test_a_large_value_goes_there_and_back(client: StdioClient) -> None:
    client.call(1, "echo", "x" * (7 * MIB))
    assert text_of(client.hear()) == "x" * (7 * MIB)


def test_a_message_over_the_bound_is_refused_and_the_next_is_answered(client: StdioClient) -> None:
    client.call(1, "echo", "x" * (9 * MIB))
    client.call(2, "echo", 2)
    assert client.hear()["error"]["code"] == -32600
    assert text_of(client.hear()) == "2"


def test_a_message_that_is_not_even_held_is_refused_and_the_next_is_answered(client: StdioClient) -> None:
    client.call(1, "echo", "x" * (65 * MIB))
    client.call(2, "echo", 2)
    refused = client.hear()["error"]
    assert refused == {"code": -32600, "message": f"the message is longer than {64 * MIB} bytes"}
    assert text_of(client.hear()) == "2"


def test_a_client_that_does_not_read_holds_back_what_it_writes_and_loses_nothing(client: StdioClient) -> None:
    os.set_blocking(client.stdin.fileno(), False)
    params = {"name": "echo", "arguments": {"input": "x" * 100_000}}
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode() + b"\n"
    sent = 0
    # Far more than all buffers on the way hold: at some time nothing more is taken.
    stopped_at = time.monotonic()
    while time.monotonic() < stopped_at + 1:
        try:
            piece = message[sent % len(message) :]
            sent += os.write(client.stdin.fileno(), piece)
            stopped_at = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
    assert sent < 64 * MIB
    os.set_blocking(client.stdin.fileno(), True)
    # So that the last is whole; and there are more answers than the pipes hold, so they are read first.
    whole = sent // len(message)
    assert [len(text_of(client.hear())) for _ in range(whole)] == [100_000] * whole


# --- how it ends ---


def test_at_the_end_of_stdin_what_runs_is_answered(client: StdioClient) -> None:
    client.call(1, "later", "done")
    client.stdin.close()
    assert text_of(client.hear()) == "done"
    assert client.hear() == {"end": True}
    assert client.process.wait(PATIENCE_S) == 0
    assert client.log.read_text() == ""


def test_all_that_is_said_before_the_session_is_open_is_answered_after_the_end_of_stdin(
    daemon: Daemon, tmp_path: Path
) -> None:
    with stdio_client(tmp_path, "--socket", str(daemon.path), "--profile", "served") as client:
        client.say({"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}}})
        client.say({"method": "notifications/initialized"})
        client.say({"id": 1, "method": "tools/list"})
        client.stdin.close()
        assert [client.hear()["id"], client.hear()["id"], client.hear()] == [0, 1, {"end": True}]
        assert client.process.wait(PATIENCE_S) == 0


def test_a_subscription_keeps_nobody_from_leaving(client: StdioClient) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    wish = {"notifications": {"toolsListChanged": True}, "_meta": meta}
    client.say({"id": 1, "method": "subscriptions/listen", "params": wish})
    client.call(2, "later", "done")
    assert client.leave() == 0


def test_a_client_that_reads_no_more_has_its_calls_cancelled(client: StdioClient, daemon: Daemon) -> None:
    client.call(1, "stuck")
    until(lambda: daemon.running("86397") != set())
    client.stdout.close()
    assert client.process.wait(PATIENCE_S) == 128 + signal.SIGPIPE
    until(lambda: daemon.running("86397") == set())


def test_sigterm_cancels_what_runs(client: StdioClient, daemon: Daemon) -> None:
    client.call(1, "stuck")
    until(lambda: daemon.running("86397") != set())
    client.process.terminate()
    assert client.process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    until(lambda: daemon.running("86397") == set())


def test_a_killed_relay_leaves_nothing(client: StdioClient, daemon: Daemon) -> None:
    client.call(1, "stuck")
    until(lambda: daemon.running("86397") != set())
    client.process.kill()
    until(lambda: daemon.running("86397") == set())


def test_a_killed_client_leaves_nothing(daemon: Daemon) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "stuck", "arguments": {}}}
    program = (
        "import subprocess, sys, time\n"
        "server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "server.stdin.write(sys.argv[1].encode() + b'\\n')\n"
        "server.stdin.flush()\n"
        "print(server.pid, flush=True)\n"
        "time.sleep(1000)\n"
    )
    words = [sys.executable, "-c", program, json.dumps(call), *COMMAND, "--socket", str(daemon.path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=without_places(), text=True) as killed:
        assert killed.stdout is not None
        relay = int(killed.stdout.readline())
        until(lambda: daemon.running("86397") != set())
        killed.kill()
    until(lambda: not is_running(relay))
    until(lambda: daemon.running("86397") == set())


# --- the daemon's end ---


def test_if_the_daemon_dies_every_request_is_answered_and_the_log_says_so(tmp_path: Path) -> None:
    with daemon_on(tmp_path, CONFIG) as daemon, stdio_client(tmp_path, "--socket", str(daemon.path)) as client:
        client.initialize()
        client.call(1, "stuck")
        client.call("two", "stuck")
        until(lambda: len(daemon.running("86397")) == 2)
        daemon.process.kill()
        why = f"the daemon at {daemon.path} has ended the channel"
        answers = [client.hear(), client.hear()]
        assert {answer["id"] for answer in answers} == {1, "two"}
        assert all(answer["result"]["isError"] for answer in answers)
        assert all(answer["result"]["content"][0]["text"] == f"draining: {why}" for answer in answers)
        assert client.hear() == {"end": True}
        assert client.process.wait(PATIENCE_S) == 3
        assert client.log.read_text() == f"tooldispatchd: {why}\n"


def test_a_daemon_that_drains_ends_its_clients(tmp_path: Path) -> None:
    with daemon_on(tmp_path, CONFIG) as daemon, stdio_client(tmp_path, "--socket", str(daemon.path)) as client:
        client.initialize()
        daemon.process.terminate()
        assert client.hear() == {"end": True}
        assert client.process.wait(PATIENCE_S) == 3


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """Where a daemon that this test plays listens."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "daemon.sock"))
        listener.listen()
        listener.settimeout(PATIENCE_S)
        yield listener


def test_a_call_of_a_client_that_has_left_ends_with_a_daemon_that_hangs(daemon: Daemon, tmp_path: Path) -> None:
    with stdio_client(tmp_path, "--socket", str(daemon.path), "--timeout", "0.5") as client:
        client.initialize()
        client.call(1, "stuck")
        until(lambda: daemon.running("86397") != set())
        os.kill(daemon.process.pid, signal.SIGSTOP)
        try:
            assert client.leave() == 3
        finally:
            os.kill(daemon.process.pid, signal.SIGCONT)
        assert client.log.read_text() == "tooldispatchd: the daemon did not answer within 0.5 s\n"
        assert client.hear()["result"]["content"][0]["text"] == "draining: the daemon did not answer within 0.5 s"
    until(lambda: daemon.running("86397") == set())


def test_a_client_that_has_left_waits_for_a_daemon_that_answers_pings(listener: socket.socket, tmp_path: Path) -> None:
    with stdio_client(tmp_path, "--socket", listener.getsockname(), "--timeout", "3") as client:
        daemon, _ = listener.accept()
        with daemon, daemon.makefile("rb") as lines:
            client.say({"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}})
            client.stdin.close()
            pings = (line for line in lines if line == PING)
            next(pings)
            daemon.sendall(b'{"__port":"pong"}\n')
            # It had been given up, had the answer not counted.
            next(pings)


def test_a_daemon_to_which_all_is_said_may_take_longer_than_the_timeout_to_stop(
    listener: socket.socket, tmp_path: Path
) -> None:
    with stdio_client(tmp_path, "--socket", listener.getsockname(), "--timeout", "0.1") as client:
        daemon, _ = listener.accept()
        with daemon, daemon.makefile("rb") as lines:
            client.stdin.close()
            lines.read()
            with pytest.raises(subprocess.TimeoutExpired):
                client.process.wait(0.5)
        assert client.process.wait(PATIENCE_S) == 0


# --- a private daemon ---


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[StdioClient]:
    """A client with a private daemon, which runs a call that has no end."""
    config = tmp_path / "config.toml"
    config.write_text(CONFIG)
    with stdio_client(tmp_path, "--config", str(config), "--profile", "served") as client:
        client.initialize()
        client.call(1, "stuck")
        yield client


def family_of(pid: int) -> set[int]:
    """The process and all below it."""
    return {pid}.union(*(family_of(child) for child in children_of(pid)))


def family_with_a_call(client: StdioClient) -> set[int]:
    daemon = private_daemon_of(client)
    until(lambda: any(b"86397" in words_of(pid) for pid in family_of(daemon)))
    return family_of(daemon)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_private_daemon_and_all_below_it_end_with_the_relay(alone: StdioClient, number: signal.Signals) -> None:
    family = family_with_a_call(alone)
    alone.process.send_signal(number)
    until(lambda: not any(is_running(pid) for pid in family))


def test_a_private_daemon_and_all_below_it_end_with_the_client(alone: StdioClient) -> None:
    family = family_with_a_call(alone)
    alone.stdin.close()
    alone.stdout.close()
    until(lambda: not any(is_running(pid) for pid in family))
    assert alone.process.wait(PATIENCE_S) == 128 + signal.SIGPIPE


def test_if_a_private_daemon_dies_what_is_open_is_answered(alone: StdioClient) -> None:
    family = family_with_a_call(alone)
    os.kill(private_daemon_of(alone), signal.SIGKILL)
    assert alone.hear()["result"]["isError"]
    assert alone.process.wait(PATIENCE_S) == 3
    assert alone.log.read_text().endswith("tooldispatchd: the private daemon ended with code -9\n")
    until(lambda: not any(is_running(pid) for pid in family))
