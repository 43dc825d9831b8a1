"""A daemon that is started without standard descriptors serves as any other, and gives their numbers to nothing."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.daemon.spawned import PATIENCE_S, SERVE, Daemon, ready

CLOSED = [(0,), (1,), (2,), (0, 1, 2)]
CONFIG = """
[tools.up]
type = "string -> string"
command = ["tr", "a-z", "A-Z"]
input_mode = "text"
output_mode = "text"
[tools.bounded]
type = "string -> string"
command = ["tr", "a-z", "A-Z"]
input_mode = "text"
output_mode = "text"
files = 500
[tools.function]
python = "raising:up"
"""
MODULE = "def up(text: str) -> str:\n    return text.upper()\n"


@pytest.mark.parametrize("closed", CLOSED, ids=str)
def test_a_daemon_without_standard_descriptors_serves(tmp_path: Path, closed: tuple[int, ...]) -> None:
    file, path = tmp_path / "config.toml", tmp_path / "dispatch.sock"
    file.write_text(CONFIG)
    (tmp_path / "raising.py").write_text(MODULE)
    closing = " ".join(f"{fd}>&-" for fd in closed)
    words = ["sh", "-c", f'exec "$@" {closing}', "sh", *SERVE, "--config", str(file), "--listen", f"unix:{path}"]
    log = tmp_path / "log"
    with (
        log.open("ab") as output,
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as process,
        ready(Daemon(process, path, log), is_heard=2 not in closed) as daemon,
        daemon.agent() as agent,
    ):
        assert agent.ask("up", "abc")["content"] == '"ABC"'
        assert agent.ask("bounded", "abc")["content"] == '"ABC"'
        assert agent.ask("function", {"text": "abc"})["content"] == '"ABC"'
        links = {str(Path(f"/proc/{process.pid}/fd/{fd}").readlink()) for fd in closed}
        assert links == {os.devnull}
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
