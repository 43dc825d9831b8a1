"""How a daemon ends, and what is left of it: nothing."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.daemon.spawned import PATIENCE_S, Agent, Daemon, carriers, daemon_on, server, until
from tests.daemon.traces import on_a_busy_machine
from tests.processes import is_running

# What a daemon may take beyond its grace until it has exited.
TEARDOWN_S = 6.0


def config(directory: Path, grace_s: float = 10.0) -> str:
    done = directory / "done"
    return f"""
[daemon]
grace_s = {grace_s}
[tools.echo]
type = "string -> string"
inline = "id"
[tools.stuck]
command = ["sleep", "1000"]
[tools.until_told]
command = ["sh", "-c", "cat >/dev/null; until [ -e {directory}/told ]; do sleep 0.01; done; echo 1"]
[tools.touch]
command = ["sh", "-c", "cat >/dev/null; touch {done}; echo 1"]
{server("steady", "echo")}
{server("stubborn", "stubborn")}
{server("silent", "silent")}
[agents.default]
tools = ["echo", "stuck", "until_told", "touch"]
[agents.slow_to_end]
tools = ["stuck", "echo"]
mcp = ["stubborn"]
[agents.served]
tools = ["stuck"]
mcp = ["steady"]
[agents.stubborn]
mcp = ["stubborn"]
[agents.waiting]
tools = ["until_told"]
mcp = ["silent"]
"""


def start(daemon: Daemon, agent: Agent, tool: str, word: str) -> None:
    """Begin a call and wait until its process runs."""
    agent.call("running", tool, {})
    until(lambda: bool(daemon.running(word)))


def family_of(daemon: Daemon) -> bytes:
    """The run id of its children, which it must have."""
    (run_id,) = daemon.run_ids()
    return run_id


def stop(daemon: Daemon) -> None:
    """Send SIGTERM and wait until the daemon drains."""
    daemon.process.send_signal(signal.SIGTERM)
    until(lambda: daemon.logged("daemon draining") == 1)


# --- signals ---


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_daemon_ends_at_a_signal_with_exit_code_0(tmp_path: Path, number: signal.Signals) -> None:
    with daemon_on(tmp_path, config(tmp_path)) as daemon, daemon.agent() as agent:
        assert agent.ask("echo", "alive")["content"] == '"alive"'
        daemon.process.send_signal(number)
        assert agent.hear() == {"end": True}
        assert daemon.process.wait(on_a_busy_machine(TEARDOWN_S)) == 0


def test_a_running_call_has_its_grace_and_a_new_one_gets_draining(tmp_path: Path) -> None:
    with daemon_on(tmp_path, config(tmp_path)) as daemon, daemon.agent() as agent, daemon.agent() as reader:
        reader.say({"__port": "admin_req", "id": "log", "ask": "log"})
        assert reader.hear()["__port"] == "admin_resp"
        start(daemon, agent, "until_told", "sh")
        run_id = family_of(daemon)
        stop(daemon)
        refused = agent.ask("echo", "late")
        assert '"error":"draining"' in refused["content"]
        # Who comes now may look on, and holds nothing up.
        with daemon.agent() as operator:
            assert '"error":"draining"' in operator.ask("echo", "late")["content"]
            operator.say({"__port": "admin_req", "id": "a", "ask": "status"})
            status = operator.hear()["value"]
            assert (status["state"], status["calls"]["in_flight"]) == ("draining", 1)
            assert status["drain_left_s"] > 0
        (tmp_path / "told").touch()
        answer = agent.hear()
        assert (answer["id"], answer["content"]) == ("running", "1")
        assert agent.hear() == {"end": True}
        # Who reads the log reads it to the end.
        told = [note["value"]["event"] for note in iter(reader.hear, {"end": True})]
        assert told[-1] == "session closed"
        assert daemon.process.wait(on_a_busy_machine(TEARDOWN_S)) == 0
        assert carriers(run_id) == set()


def test_a_call_that_outlives_the_grace_is_answered_and_ended(tmp_path: Path) -> None:
    with daemon_on(tmp_path, config(tmp_path, grace_s=0.3)) as daemon, daemon.agent() as agent:
        start(daemon, agent, "stuck", "sleep")
        run_id = family_of(daemon)
        began = time.monotonic()
        stop(daemon)
        answer = agent.hear()
        assert answer["id"] == "running"
        assert '"error":"draining"' in answer["content"]
        assert agent.hear() == {"end": True}
        assert daemon.process.wait(on_a_busy_machine(TEARDOWN_S)) == 0
        assert 0.3 <= time.monotonic() - began < 0.3 + on_a_busy_machine(TEARDOWN_S)
        assert carriers(run_id) == set()


def test_a_request_after_the_grace_gets_draining_while_the_session_is_torn_down(tmp_path: Path) -> None:
    with daemon_on(tmp_path, config(tmp_path, grace_s=0.3)) as daemon, daemon.agent() as agent:
        agent.hello("slow_to_end")
        start(daemon, agent, "stuck", "sleep")
        stop(daemon)
        # At the end of the grace; the server, which ignores all but a kill, takes seconds from here.
        assert agent.hear()["id"] == "running"
        for number in range(3):
            late = agent.ask("echo", number)
            assert '"error":"draining"' in late["content"]
        assert agent.hear() == {"end": True}
        assert daemon.process.wait(TEARDOWN_S) == 0


def test_a_server_that_ignores_all_but_a_kill_does_not_hold_the_end_up(tmp_path: Path) -> None:
    with daemon_on(tmp_path, config(tmp_path, grace_s=0.3)) as daemon, daemon.agent() as agent:
        agent.hello("stubborn")
        run_id = family_of(daemon)
        began = time.monotonic()
        stop(daemon)
        assert daemon.process.wait(20) == 0
        assert time.monotonic() - began < 0.3 + on_a_busy_machine(TEARDOWN_S)
        assert carriers(run_id) == set()


def test_a_session_that_waits_for_its_servers_alone_does_not_hold_the_end_up(tmp_path: Path) -> None:
    with daemon_on(tmp_path, config(tmp_path, grace_s=100)) as daemon, daemon.agent() as agent:
        agent.say({"__port": "hello", "profile": "waiting"})
        until(lambda: daemon.logged("session opened") == 1)
        stop(daemon)
        assert agent.hear()["error"] == "draining"
        assert agent.hear() == {"end": True}
        assert daemon.process.wait(TEARDOWN_S) == 0


def test_a_call_that_runs_while_servers_open_has_its_grace(tmp_path: Path) -> None:
    with daemon_on(tmp_path, config(tmp_path, grace_s=100)) as daemon, daemon.agent() as agent:
        agent.say({"__port": "hello", "profile": "waiting"})
        start(daemon, agent, "until_told", "sh")
        stop(daemon)
        (tmp_path / "told").touch()
        assert (answer := agent.hear())["id"] == "running"
        assert answer["content"] == "1"
        assert agent.hear()["error"] == "draining"
        assert agent.hear() == {"end": True}
        assert daemon.process.wait(TEARDOWN_S) == 0


def test_a_hello_that_waits_when_the_grace_is_over_gets_draining(tmp_path: Path) -> None:
    with daemon_on(tmp_path, config(tmp_path, grace_s=0.3)) as daemon, daemon.agent() as agent:
        agent.say({"__port": "hello", "profile": "waiting"})
        start(daemon, agent, "until_told", "sh")
        stop(daemon)
        told = [agent.hear(), agent.hear()]
        assert sorted(line.get("id", "hello") for line in told) == ["hello", "running"]
        assert all('"error":"draining"' in line.get("content", "") or line.get("error") == "draining" for line in told)
        assert agent.hear() == {"end": True}
        assert daemon.process.wait(TEARDOWN_S) == 0


def test_a_second_signal_ends_everything_at_once(tmp_path: Path) -> None:
    with daemon_on(tmp_path, config(tmp_path)) as daemon, daemon.agent() as agent, daemon.agent() as other:
        other.hello("stubborn")
        start(daemon, agent, "stuck", "sleep")
        run_id = family_of(daemon)
        stop(daemon)
        began = time.monotonic()
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(on_a_busy_machine(TEARDOWN_S)) == 1
        # What runs would have had its grace, which is longer.
        assert time.monotonic() - began < on_a_busy_machine(TEARDOWN_S)
        until(lambda: carriers(run_id) == set())


def test_a_killed_daemon_leaves_no_process_behind(tmp_path: Path) -> None:
    with daemon_on(tmp_path, config(tmp_path)) as daemon, daemon.agent() as agent, daemon.agent() as other:
        other.hello("stubborn")
        agent.hello("served")
        start(daemon, agent, "stuck", "sleep")
        run_id = family_of(daemon)
        assert len(carriers(run_id)) >= 3
        daemon.process.kill()
        daemon.process.wait()
        until(lambda: carriers(run_id) == set(), within_s=2)


# --- ends of a channel ---


def test_a_half_closed_channel_gets_the_answer_of_what_runs(tmp_path: Path) -> None:
    with daemon_on(tmp_path, config(tmp_path)) as daemon, daemon.agent() as agent:
        start(daemon, agent, "until_told", "sh")
        agent.end_input()
        (tmp_path / "told").touch()
        assert agent.hear()["content"] == "1"
        assert agent.hear() == {"end": True}


def test_a_closed_channel_cancels_what_runs(tmp_path: Path) -> None:
    with daemon_on(tmp_path, config(tmp_path)) as daemon, daemon.agent() as agent:
        start(daemon, agent, "stuck", "sleep")
        (pid,) = daemon.running("sleep")
        agent.close()
        until(lambda: not is_running(pid))
        until(lambda: daemon.logged("session closed") == 1)


def test_a_channel_closed_with_unread_answers_cancels_what_runs(tmp_path: Path) -> None:
    with daemon_on(tmp_path, config(tmp_path)) as daemon, daemon.agent() as agent:
        start(daemon, agent, "stuck", "sleep")
        (pid,) = daemon.running("sleep")
        agent.say({"__port": "ping"})
        assert agent.channel.recv(1) == b"{"
        agent.close()
        until(lambda: not is_running(pid))


def test_lines_that_a_vanished_agent_left_are_not_executed(tmp_path: Path) -> None:
    with daemon_on(tmp_path, config(tmp_path)) as daemon, daemon.agent() as agent:
        agent.ask("echo", "open")
        # Stopped, the daemon finds the line and the end together.
        daemon.process.send_signal(signal.SIGSTOP)
        agent.call("1", "touch", {})
        agent.close()
        daemon.process.send_signal(signal.SIGCONT)
        until(lambda: daemon.logged("session closed") == 1)
        assert not (tmp_path / "done").exists()


def test_lines_before_an_end_of_input_are_executed(tmp_path: Path) -> None:
    with daemon_on(tmp_path, config(tmp_path)) as daemon, daemon.agent() as agent:
        agent.ask("echo", "open")
        daemon.process.send_signal(signal.SIGSTOP)
        agent.call("1", "touch", {})
        agent.end_input()
        daemon.process.send_signal(signal.SIGCONT)
        assert agent.hear()["content"] == "1"
        assert (tmp_path / "done").exists()


def test_signals_that_mean_nothing_are_ignored_and_logged(tmp_path: Path) -> None:
    numbers = [
        signal.SIGUSR1,
        signal.SIGTRAP,
        signal.SIGALRM,
        signal.SIGIO,
        signal.SIGSYS,
        signal.SIGRTMIN,
        signal.SIGRTMIN + 1,
    ]
    with daemon_on(tmp_path, config(tmp_path)) as daemon, daemon.agent() as agent:
        for number in numbers:
            daemon.process.send_signal(number)
        until(lambda: daemon.logged("signal ignored") == len(numbers))
        number = signal.SIGRTMIN
        assert agent.ask("echo", "alive")["content"] == '"alive"'
        # What is ignored here is not ignored in programs.
        start(daemon, agent, "stuck", "sleep")
        (sleeping,) = daemon.running("sleep")
        os.kill(sleeping, number)
        assert '"signal":' in str(agent.hear()["content"])


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGXCPU])
def test_a_signal_that_asks_for_an_end_drains(tmp_path: Path, number: signal.Signals) -> None:
    with daemon_on(tmp_path, config(tmp_path)) as daemon, daemon.agent() as agent:
        start(daemon, agent, "stuck", "sleep")
        (pid,) = daemon.running("sleep")
        daemon.process.send_signal(number)
        assert daemon.process.wait(PATIENCE_S) == 0
        assert not is_running(pid)
