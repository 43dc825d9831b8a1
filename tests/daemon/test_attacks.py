"""What peers do to a daemon by fault or on purpose: it lives, it serves the others, and it keeps its bounds."""

import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from fcntl import F_SETPIPE_SZ, fcntl
from pathlib import Path
from typing import Final

import pytest

from benchmarks.peers.prober import clock_of
from tests.daemon.forking import Forked, fork_daemon
from tests.daemon.spawned import MISBEHAVING, PATIENCE_S, SERVE, Agent, Daemon, Message, daemon_on, server, until

ECHO: Final = """
[tools.echo]
type = "string -> string"
inline = "id"
"""
PING: Final[Message] = {"__port": "ping"}
BYE: Final[Message] = {"__port": "bye"}
TOOLS: Final[Message] = {"__port": "tools"}
MIB: Final = 1024 * 1024


def touch_tool(directory: Path) -> str:
    """A command tool that leaves `directory`/done behind."""
    return f"""
[tools.touch]
command = ["sh", "-c", "cat >/dev/null; touch {directory}/done; echo 1"]
"""


def held_config(directory: Path) -> str:
    """A server that opens when `directory`/told is there, and then answers no call."""
    script = f"until [ -e {directory}/told ]; do sleep 0.01; done; exec {SERVE[0]} -I -S {MISBEHAVING} silent_calls"
    return f"""{ECHO}
[mcp.held]
command = "sh"
args = ["-c", {json.dumps(script)}]
call_s = 0.5
[agents.default]
tools = ["echo"]
[agents.held]
mcp = ["held"]
"""


def hanging_config() -> str:
    return f"""{ECHO}
{server("hanging", "silent_calls", "call_s = 0.5")}
[agents.default]
tools = ["echo"]
[agents.hanging]
mcp = ["hanging"]
"""


def request(call_id: str, name: str, value: object) -> Message:
    return {"__port": "tool_req", "id": call_id, "name": name, "input": value}


def lines(*messages: Message) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def hear_until(agent: Agent, port: str) -> None:
    """Read lines up to the first one of `port`: what was said before it has been looked at."""
    heard = agent.hear()
    while heard["__port"] != port:
        heard = agent.hear()


def hear_all(agent: Agent) -> list[Message]:
    """Every line up to the end of the channel."""
    heard = []
    while (line := agent.hear()) != {"end": True}:
        heard.append(line)
    return heard


def serves(daemon: Daemon) -> bool:
    """Whether a new agent gets its echo, and the daemon has met no defect of its own."""
    with daemon.agent() as agent:
        is_echoed = agent.ask("echo", "hi")["content"] == '"hi"'
    return is_echoed and daemon.process.poll() is None and "incident" not in daemon.log.read_text()


def fill(agent: Agent, flood: bytes) -> None:
    """Send of `flood` what the kernel takes now."""
    # Not the flag: with a timeout of its own, the socket would wait for room.
    agent.channel.settimeout(0)
    with suppress(BlockingIOError):
        agent.channel.send(flood)
    agent.channel.settimeout(PATIENCE_S)


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def stop(daemon: subprocess.Popen[bytes] | Forked) -> None:
    """Send SIGSTOP and wait until it has come: what happens then is found together."""
    daemon.send_signal(signal.SIGSTOP)
    until(lambda: ") T " in Path(f"/proc/{daemon.pid}/stat").read_text())


# --- connections ---


def test_a_connection_turned_away_that_has_left_already_harms_nobody(tmp_path: Path) -> None:
    config = f"{ECHO}[limits]\nconnections = 1\n"
    with daemon_on(tmp_path, config) as daemon, daemon.agent() as first:
        assert first.ask("echo", "first")["content"] == '"first"'
        stop(daemon.process)
        for _ in range(20):
            with daemon.agent():
                pass
        daemon.process.send_signal(signal.SIGCONT)
        with daemon.agent() as turned_away:
            assert turned_away.hear()["error"] == "too_many"
        assert first.ask("echo", "still")["content"] == '"still"'
        first.close()
        until(lambda: daemon.logged("session closed") == 1)
        assert serves(daemon)


def test_a_signal_among_connections_to_accept_and_busy_channels_ends_with_exit_code_0(tmp_path: Path) -> None:
    config = f"{ECHO}[daemon]\ngrace_s = 0.5\n"
    busy = lines(request("1", "echo", "hi")) * 1000
    with daemon_on(tmp_path, config) as daemon, ExitStack() as agents:
        channels = [agents.enter_context(daemon.agent()) for _ in range(40)]
        for channel in channels:
            channel.ask("echo", "open")
        stop(daemon.process)
        for channel in channels:
            fill(channel, busy)
        for _ in range(50):
            agents.enter_context(daemon.agent())
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.send_signal(signal.SIGCONT)
        assert daemon.process.wait(PATIENCE_S) == 0
        assert "incident" not in daemon.log.read_text()


# --- the log ---


@contextmanager
def logging_to(directory: Path, stderr: int) -> Iterator[Daemon]:
    """A daemon with that descriptor as its stderr, when it listens."""
    file, path = directory / "config.toml", directory / "dispatch.sock"
    file.write_text(ECHO)
    with fork_daemon(["serve", "--config", str(file), "--listen", f"unix:{path}"], stderr) as process:
        try:
            until(lambda: process.poll() is not None or path.exists())
            yield Daemon(process, path, directory / "log")
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_S)
            finally:
                process.kill()


@pytest.mark.parametrize("reader", ["dead", "idle"])
def test_a_log_that_nobody_reads_stops_no_session(tmp_path: Path, reader: str) -> None:
    reading, writing = os.pipe()
    # One page: the lines of far fewer than a hundred sessions fill it.
    fcntl(writing, F_SETPIPE_SZ, 4096)
    with ExitStack() as pipe:
        pipe.callback(os.close, writing)
        if reader == "dead":
            os.close(reading)
        else:
            pipe.callback(os.close, reading)
        daemon = pipe.enter_context(logging_to(tmp_path, writing))
        for number in range(100):
            with daemon.agent() as agent:
                assert agent.ask("echo", str(number))["content"] == f'"{number}"'
        daemon.process.terminate()
        assert daemon.process.wait(PATIENCE_S) == 0


# --- peers that stop reading ---


def test_calls_held_for_a_server_that_opens_outlive_a_peer_that_stops_reading(tmp_path: Path) -> None:
    with daemon_on(tmp_path, held_config(tmp_path)) as daemon, daemon.agent() as agent:
        calls = [request(str(number), "held:echo", {}) for number in range(400)]
        calls[200]["input"] = "no object"
        agent.say({"__port": "hello", "profile": "held"}, *calls, PING)
        hear_until(agent, "pong")
        agent.channel.shutdown(socket.SHUT_RD)
        (tmp_path / "told").touch()
        until(lambda: daemon.logged("session closed") == 1)
        assert serves(daemon)


def test_calls_that_expire_together_for_a_peer_that_stopped_reading_harm_nobody(tmp_path: Path) -> None:
    with daemon_on(tmp_path, hanging_config()) as daemon, daemon.agent() as agent:
        assert agent.hello("hanging")["__port"] == "ready"
        agent.say(*(request(str(number), "hanging:echo", {}) for number in range(300)), PING)
        hear_until(agent, "pong")
        agent.channel.shutdown(socket.SHUT_RD)
        assert serves(daemon)
        until(lambda: daemon.logged("session closed") == 2)
        assert serves(daemon)


def test_bad_lines_of_many_that_never_read_do_not_keep_another_waiting(tmp_path: Path) -> None:
    flood = b"1\n" * (64 * 1024 // 2)
    with daemon_on(tmp_path, ECHO) as daemon, ExitStack() as agents:
        other = agents.enter_context(daemon.agent())
        other.ask("echo", "open")
        for _ in range(50):
            agents.enter_context(daemon.agent()).channel.sendall(flood)
        # In the daemon's own time: all those lines take it some seconds, and a busy machine makes them more.
        clock = clock_of(other.channel)
        began = time.clock_gettime(clock)
        other.say(PING)
        assert other.hear()["__port"] == "pong"
        assert time.clock_gettime(clock) - began < 0.5
        assert serves(daemon)


def test_unread_answers_are_bounded_over_all_channels_and_others_are_served(tmp_path: Path) -> None:
    config = f"{ECHO}[limits]\nbuffered_bytes = {MIB}\n"
    flood = lines(TOOLS) * 4096
    with daemon_on(tmp_path, config) as daemon, ExitStack() as agents:
        good = agents.enter_context(daemon.agent())
        good.ask("echo", "open")
        before = resident_bytes(daemon.process.pid)
        flooding = [agents.enter_context(daemon.agent()) for _ in range(50)]
        for number in range(50):
            for agent in flooding:
                fill(agent, flood)
            assert good.ask("echo", str(number))["content"] == f'"{number}"'
        assert resident_bytes(daemon.process.pid) - before < 100 * MIB
        assert serves(daemon)


def test_a_peer_that_never_reads_does_not_delay_the_end_beyond_the_grace(tmp_path: Path) -> None:
    config = f"{ECHO}[daemon]\ngrace_s = 0.5\n"
    with daemon_on(tmp_path, config) as daemon, daemon.agent() as agent:
        # More than the kernel holds for a socket: the rest lies in the daemon.
        agent.call("1", "echo", "x" * 2 * MIB)
        readable, _, _ = select.select([agent.channel], [], [], PATIENCE_S)
        assert readable
        began = time.monotonic()
        daemon.process.terminate()
        assert daemon.process.wait(PATIENCE_S) == 0
        assert time.monotonic() - began < 0.5 + 6


# --- the order of lines ---


def test_each_request_after_bye_is_answered(tmp_path: Path) -> None:
    with daemon_on(tmp_path, ECHO + touch_tool(tmp_path)) as daemon, daemon.agent() as agent:
        agent.say(request("1", "echo", "hi"), BYE, request("2", "echo", "late"), request("3", "touch", {}))
        heard = hear_all(agent)
        answers = {line["id"]: line["content"] for line in heard if line["__port"] == "tool_resp"}
        assert list(answers) == ["1", "2", "3"]
        assert ['"error":"draining"' in content for content in answers.values()] == [False, True, True]
        assert heard.count(BYE) == 1
        assert not (tmp_path / "done").exists()


def test_a_partial_line_after_bye_is_not_run(tmp_path: Path) -> None:
    with daemon_on(tmp_path, ECHO + touch_tool(tmp_path)) as daemon, daemon.agent() as agent:
        said = lines(request("1", "echo", "hi"), BYE, request("2", "touch", {}))
        agent.channel.sendall(said.removesuffix(b"\n"))
        assert [line.get("content") for line in hear_all(agent)] == ['"hi"', None]
        until(lambda: daemon.logged("session closed") == 1)
        assert not (tmp_path / "done").exists()


def test_a_partial_line_after_bye_is_not_run_where_the_input_ends_while_a_call_runs(tmp_path: Path) -> None:
    waiting = f"cat >/dev/null; until [ -e {tmp_path}/told ]; do sleep 0.01; done; echo 1"
    config = f'{ECHO}{touch_tool(tmp_path)}[tools.until_told]\ncommand = ["sh", "-c", "{waiting}"]\n'
    with daemon_on(tmp_path, config) as daemon, daemon.agent() as agent:
        said = lines(request("1", "until_told", {}), BYE, request("2", "touch", {}))
        agent.channel.sendall(said + lines(request("3", "touch", {})).removesuffix(b"\n"))
        assert '"error":"draining"' in agent.hear()["content"]
        agent.end_input()
        (tmp_path / "told").touch()
        assert [line.get("content") for line in hear_all(agent)] == ["1", None]
        until(lambda: daemon.logged("session closed") == 1)
        assert not (tmp_path / "done").exists()


def test_a_hello_after_tools_is_told_that_it_comes_too_late(tmp_path: Path) -> None:
    with daemon_on(tmp_path, ECHO) as daemon, daemon.agent() as agent:
        agent.say(TOOLS, {"__port": "hello", "profile": "default"})
        assert agent.hear()["__port"] == "tools"
        told = agent.hear()
        assert (told["__port"], told["error"]) == ("fault", "invalid_request")
        assert agent.ask("echo", "hi")["content"] == '"hi"'


def test_a_bye_as_the_first_line_is_answered(tmp_path: Path) -> None:
    with daemon_on(tmp_path, ECHO) as daemon, daemon.agent() as agent:
        agent.say(BYE)
        assert hear_all(agent) == [BYE]
        assert serves(daemon)


def test_a_request_after_a_bye_as_the_first_line_is_not_run(tmp_path: Path) -> None:
    with daemon_on(tmp_path, ECHO + touch_tool(tmp_path)) as daemon, daemon.agent() as agent:
        agent.say(BYE, request("1", "touch", {}))
        assert BYE in hear_all(agent)
        # What had begun would be finished within the grace.
        daemon.process.terminate()
        assert daemon.process.wait(PATIENCE_S) == 0
        assert not (tmp_path / "done").exists()


def test_on_pipes_a_line_that_a_vanished_agent_left_is_not_executed(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(ECHO + touch_tool(tmp_path))
    words = [*SERVE, "--config", str(file), "--listen", "stdio"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(lines(request("1", "echo", "hi")))
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["content"] == '"hi"'
            stop(process)
            process.stdin.write(lines(request("2", "touch", {})))
            process.stdin.close()
            process.stdout.close()
            process.send_signal(signal.SIGCONT)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
        assert not (tmp_path / "done").exists()
