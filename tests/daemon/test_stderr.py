"""What programs write to stderr though they succeed: in the log at debug, and nowhere else."""

import json
from pathlib import Path

from tests.daemon.spawned import daemon_on, until

CONFIG = """
[tools.chatty]
command = ["/bin/sh", "-c", "cat; seq 5000 >&2; echo 'the secret is out' >&2"]
[tools.quiet]
command = ["cat"]
[agents.default]
tools = ["chatty", "quiet"]
"""


def test_at_debug_the_end_of_stderr_stands_in_the_log(tmp_path: Path) -> None:
    with daemon_on(tmp_path, CONFIG, "--log-level", "debug") as daemon, daemon.agent() as agent:
        assert agent.ask("quiet", 1)["content"] == "1"
        assert agent.ask("chatty", 2)["content"] == "2"
        until(lambda: daemon.logged("stderr of a program") > 0)
        (line,) = [line for line in map(json.loads, daemon.log.read_text().splitlines()) if "stderr_tail" in line]
    assert (line["level"], line["tool"], line["id"], line["session"]) == ("debug", "chatty", "ask", 1)
    assert line["stderr_tail"].endswith("5000\nthe secret is out\n")
    assert len(line["stderr_tail"]) <= 4096


def test_at_info_nothing_of_it_does(tmp_path: Path) -> None:
    with daemon_on(tmp_path, CONFIG) as daemon, daemon.agent() as agent:
        assert agent.ask("chatty", 2)["content"] == "2"
        agent.close()
        until(lambda: daemon.logged("session closed") > 0)
        assert "secret" not in daemon.log.read_text()
