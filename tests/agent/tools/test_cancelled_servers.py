"""Calls of a server written with the official SDK that are ended early, in either era, through a real daemon.

A server of 2026-07-28 cancels a call whose response is closed; one of 2025-11-25 lets it run on, and has to be told.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.spawned import daemon_on, until

SERVER = Path(__file__).parents[2] / "servers" / "sdk_http_server.py"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with subprocess.Popen([sys.executable, str(SERVER), "streamable"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        process.kill()


@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
def test_a_server_hears_of_a_call_that_is_cancelled_and_it_may_have_run(
    url: str, protocol: str, tmp_path: Path
) -> None:
    config = f'[mcp.s]\nurl = "{url}"\nprotocol = "{protocol}"\n'
    with daemon_on(tmp_path, config) as daemon, daemon.agent() as agent:
        assert agent.hello("default")["warnings"] == []
        agent.call("1", "s:linger", {"directory": str(tmp_path)})
        until((tmp_path / "began").exists)
        agent.say({"__port": "tool_cancel", "id": "1"})
        fault = json.loads(agent.hear()["content"])
        assert (fault["error"], fault["ran"]) == ("cancelled", "maybe")
        until((tmp_path / "cancelled").exists)
        # The connection lives: the next call is answered.
        assert agent.ask("s:say", {"words": "on"})["content"] == "on"


@pytest.mark.parametrize(("protocol", "revision"), [("auto", "2026-07-28"), ("2025-11-25", "2025-11-25")])
def test_a_server_is_of_the_era_of_the_first_message(protocol: str, revision: str, tmp_path: Path) -> None:
    words = json.dumps([str(SERVER.with_name("sdk_server.py"))])
    config = f'[mcp.s]\ncommand = "{sys.executable}"\nargs = {words}\nprotocol = "{protocol}"\n'
    with daemon_on(tmp_path, config, "--log-level", "debug") as daemon, daemon.agent() as agent:
        assert agent.hello("default")["warnings"] == []
        assert agent.ask("s:say", {"words": "hi"})["content"] == "hi"
        assert f'"revision":"{revision}"' in daemon.log.read_text().replace(" ", "")
