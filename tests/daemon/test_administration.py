"""A daemon that an administrator looks at and changes while it runs; and tools that try to."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.spawned import Daemon, daemon_on, without_places
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


def test_what_answers_administrators_is_loaded_with_their_first_line(tmp_path: Path) -> None:
    script = (
        "import sys, tooldispatchd.cli.serve, tooldispatchd.daemon.daemon\n"
        "print([name for name in sys.modules if name.startswith('tooldispatchd.admin')])"
    )
    words = [sys.executable, "-c", script]
    ended = subprocess.run(words, env=without_places(), capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
