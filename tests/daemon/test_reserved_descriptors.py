"""Idle connections leave room for the programs of those who are in."""

import json
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.daemon.spawned import PATIENCE_S, SERVE, Daemon, ready

CONFIG: Final = """
[limits]
sessions_per_uid = 10000
[tools.up]
type = "string -> string"
command = ["tr", "a-z", "A-Z"]
input_mode = "text"
output_mode = "text"
"""


def test_idle_connections_leave_room_for_programs_and_who_comes_too_late_is_told(tmp_path: Path) -> None:
    file, path, log = tmp_path / "config.toml", tmp_path / "dispatch.sock", tmp_path / "log"
    file.write_text(CONFIG)
    words = ["sh", "-c", 'ulimit -n 128; exec "$@"', "sh", *SERVE, "--config", str(file), "--listen", f"unix:{path}"]
    with (
        log.open("ab") as output,
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=output) as process,
        ready(Daemon(process, path, log)) as daemon,
        daemon.agent() as agent,
        ExitStack() as idle,
    ):
        for _ in range(150):
            connection = idle.enter_context(socket.socket(socket.AF_UNIX))
            connection.settimeout(PATIENCE_S)
            connection.connect(str(path))
        told = json.loads(connection.makefile("rb").readline())
        assert (told["error"], told["what"], told["line"]) == ("too_many", "connections", 0)
        assert agent.ask("up", "abc")["content"] == '"ABC"'
