"""A daemon that an administrator looks at and changes while it runs; and tools that try to."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.spawned import Daemon, daemon_on, until, without_places
from tooldispatchd.client.blocking import connect

# It asks for the status itself, and has a process ask that it has left to the daemon; it gives what both are told.
RULER: Final = """
import json, os, socket, sys
def ask():
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(sys.argv[1])
    channel.sendall(b'{"__port":"hello"}\\n{"__port":"admin_req","id":"1","ask":"status"}\\n')
    lines = channel.makefile()
    ready = json.loads(lines.readline())
    return [ready["capabilities"]["admin"], json.loads(lines.readline()).get("error")]
reads, writes = os.pipe()
if not os.fork():
    parent = os.getpid()
    if not os.fork():
        os.setsid()
        while os.getppid() == parent:
            pass
        os.write(writes, json.dumps(ask()).encode())
    os._exit(0)
os.wait()
print(json.dumps([ask(), json.loads(os.read(reads, 1000))]))
"""
CONFIG: Final = """
[tools.ruler]
command = [{python}, "-I", "-S", "-c", {script}, {socket}]
[tools.stuck]
command = ["sleep", "1000"]
[tools.echo]
type = "string -> string"
inline = "id"
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    directory = tmp_path_factory.mktemp("administered")
    words = {"python": sys.executable, "script": RULER, "socket": f"{directory}/dispatch.sock"}
    written = {name: '"""' + word.replace("\\", "\\\\") + '"""' for name, word in words.items()}
    with daemon_on(directory, CONFIG.format(**written)) as running:
        yield running


def test_the_daemons_own_user_asks_without_a_session(daemon: Daemon) -> None:
    with connect(str(daemon.path)) as client:
        status = client.admin("status")
        assert (status["pid"], status["state"]) == (daemon.process.pid, "serving")
        sessions = client.admin("sessions")
    assert sessions == {"sessions": []}


def test_no_process_below_the_daemon_rules_it(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        told = agent.ask("ruler", {})
    assert told["content"] == '[[false,"not_allowed"],[false,"not_allowed"]]'


def test_an_agent_without_a_name_is_shown_by_its_program_and_the_last_fault_by_its_sentence(daemon: Daemon) -> None:
    program = Path("/proc/self/comm").read_text().strip()
    with daemon.agent() as agent:
        agent.ask("echo", 7)
        with connect(str(daemon.path)) as client:
            status = client.admin("status")
        screens = [run(daemon, word)[1] for word in ("tree", "status")]
    assert [f"{program} {os.getpid()}  " in screen for screen in screens] == [True, True]
    fault = status["last_fault"]
    assert isinstance(fault, dict)
    assert (fault["tool"], fault["code"]) == ("echo", "invalid_input")
    assert f"ago: {fault['detail']}"[:40] in screens[1]


def run(daemon: Daemon, *words: str) -> tuple[int, str, str]:
    """The exit code of a command, what it printed, and what it complained of."""
    command = [sys.executable, "-m", "tooldispatchd", *words, "--socket", str(daemon.path)]
    ended = subprocess.run(command, env=without_places(), capture_output=True, text=True, timeout=20, check=False)
    return ended.returncode, ended.stdout, ended.stderr


def test_a_call_is_ended_by_a_command_and_the_log_says_by_whom(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        agent.hello("default")
        agent.call("7", "stuck", {})
        until(lambda: '"in_flight": 1' in run(daemon, "status", "--json")[1])
        with connect(str(daemon.path)) as client:
            sessions = client.admin("sessions")["sessions"]
        assert isinstance(sessions, list)
        number = str(sessions[0]["number"])
        assert run(daemon, "end", "call", number, "7") == (0, f"call 7 of session {number} is ended\n", "")
        assert json.loads(agent.hear()["content"])["error"] == "cancelled"
        assert run(daemon, "end", "call", number, "7")[::2] == (
            1,
            "tooldispatchd: unknown_target: there is no such call\n",
        )
        lines = [json.loads(line) for line in daemon.log.read_text().splitlines()]
    (first, _) = [line for line in lines if line["event"] == "daemon administered"]
    assert (first["ask"], first["call"], first["uid"], first["pid"] > 0) == ("end", "7", os.geteuid(), True)


def test_status_draws_what_there_is(daemon: Daemon) -> None:
    code, drawn, complaint = run(daemon, "status")
    assert (code, complaint) == (0, "")
    assert drawn.startswith("daemon     serving for ")
    assert max(map(len, drawn.splitlines())) <= 80


def test_the_log_is_followed_at_a_level_of_its_readers_own(daemon: Daemon) -> None:
    with connect(str(daemon.path)) as client, daemon.agent() as agent:
        agent.hello("default")
        notes = client.follow("log", tick_s=0.1, level="debug", tool="echo")
        assert next(notes) is None
        assert agent.ask("echo", "x")["content"] == '"x"'
        note = next(found for found in notes if found is not None)
        assert (note.value["event"], note.value["tool"], note.dropped) == ("call answered", "echo", 0)
        notes.close()
    assert '"call answered"' not in daemon.log.read_text()


def test_a_daemon_that_does_not_answer_is_given_up(daemon: Daemon) -> None:
    os.kill(daemon.process.pid, signal.SIGSTOP)
    try:
        told = run(daemon, "status", "--timeout", "0.5")
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)
    assert told == (3, "", "tooldispatchd: the daemon did not answer within 0.5 s\n")


def test_what_answers_administrators_is_loaded_with_their_first_line(tmp_path: Path) -> None:
    script = (
        "import sys, tooldispatchd.cli.serve, tooldispatchd.daemon.start\n"
        "print([name for name in sys.modules if name.startswith('tooldispatchd.admin')])"
    )
    words = [sys.executable, "-c", script]
    ended = subprocess.run(words, env=without_places(), capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
