"""The commands with which an operator looks at a running daemon, and has it read its configuration."""

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.daemon.spawned import Daemon, daemon_on, until, without_places
from tooldispatchd.config.configuration import ConfigError, load

COMMAND = [sys.executable, "-m", "tooldispatchd"]
CONFIG = """
[tools.stuck]
command = ["sleep", "1000"]
[tools.nap]
command = ["sleep", "0.01"]
[tools.echo]
type = "string -> string"
inline = "id"
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("operated"), CONFIG) as running:
        yield running


def words(daemon: Daemon, *words: str) -> list[str]:
    return [*COMMAND, *words, "--socket", str(daemon.path)]


def run(daemon: Daemon, *said: str) -> tuple[int, str, str]:
    """The exit code of a command, what it printed, and what it complained of."""
    command = words(daemon, *said)
    ended = subprocess.run(command, env=without_places(), capture_output=True, text=True, timeout=20, check=False)
    return ended.returncode, ended.stdout, ended.stderr


def test_a_reload_tells_what_has_changed_and_what_is_wrong(daemon: Daemon) -> None:
    file = daemon.path.parent / "config.toml"
    file.write_text(CONFIG + '[tools.more]\ncommand = ["true"]\n[limits]\nstalled_s = 7\n')
    code, changed, warnings = run(daemon, "reload")
    assert (code, changed) == (0, "tools.more: new\n")
    assert warnings.startswith("warning: limits.stalled_s stays as it was")
    file.write_text(CONFIG + "[tools.more]\ncommand = 7\n")
    with pytest.raises(ConfigError) as wrong:
        load(file, os.environ)
    assert run(daemon, "reload", "--apply") == (2, "", f"{wrong.value}\n")
    code, told, complaint = run(daemon, "reload", "--json")
    assert (code, complaint) == (2, "")
    assert json.loads(told) == {"ok": False, "problems": wrong.value.fields(), "warnings": [], "changed": []}


def test_the_log_is_followed_as_a_terminal_shows_it_until_ctrl_c(daemon: Daemon) -> None:
    said = words(daemon, "logs", "--level", "debug", "--tool", "echo")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(said, env=without_places(), text=True, **pipes) as logs, daemon.agent() as agent:
        assert logs.stdout is not None
        # It follows from some moment on.
        until(lambda: bool(agent.ask("echo", "x") and select.select([logs.stdout], [], [], 0.1)[0]))
        line = logs.stdout.readline()
        logs.send_signal(signal.SIGINT)
        assert (logs.wait(20), logs.stderr and logs.stderr.read()) == (130, "")
    assert re.fullmatch(r"[\d:]{8} debug   call answered            session=\d+ .*tool=echo .*\n", line)
    assert '"call answered"' not in daemon.log.read_text()
