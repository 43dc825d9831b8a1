"""Tasks of the stateless revision, as the client of an SDK meets them over each transport."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.spawned import Daemon, daemon_on, until
from tests.mcpface.real.clients import relay, with_jobs
from tests.real.installed import needs_sdk2, python_of
from tests.real.listening import free_port

CLIENT: Final = str(Path(__file__).with_name("python_tasks.py"))
CONFIG: Final = with_jobs("suite", "2026-07-28")
LIMIT_S: Final = 100

pytestmark = needs_sdk2


@contextmanager
def served(place: Path, over: str) -> Iterator[tuple[Daemon, str]]:
    """A daemon, and how a client reaches it."""
    url = f"http://127.0.0.1:{free_port()}/mcp"
    with daemon_on(place, CONFIG, "--listen", f"{url}?profile=suite") as daemon:
        yield daemon, url if over == "HTTP" else relay(place / "relay", daemon, "suite")


@pytest.mark.parametrize("over", ["stdio", "HTTP"])
def test_calls_become_tasks_that_ask_end_fail_and_are_cancelled(tmp_path: Path, over: str) -> None:
    with served(tmp_path, over) as (_, target):
        words = [python_of("sdk2"), CLIENT, target]
        seen = json.loads(subprocess.run(words, stdout=subprocess.PIPE, timeout=LIMIT_S, check=True).stdout)
    assert seen == {
        "sync": ["Hello, ada!"],
        "at once": ["working", "completed", "one is computed."],
        "asks": ["working", "input_required", "completed", "It was answered: accept."],
        "asks twice": ["working", "input_required", "completed", "['confirm', 'name']"],
        "promoted": ["working", "completed", "Hello, ada!"],
        "promoted, then asks": ["working", "input_required", "completed", "Hello, ada!"],
        "failed": ["working", "failed", -32603],
        "cancelled": ["working", "cancelled"],
    }


def test_a_client_that_is_killed_while_its_task_asks_leaves_nothing(tmp_path: Path) -> None:
    with served(tmp_path, "stdio") as (daemon, target):
        words = [python_of("sdk2"), CLIENT, target, "confirm_delete"]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == b"input_required\n"
            client.kill()
        until(lambda: daemon.logged("session closed") == 1)
        opened = next(json.loads(line) for line in daemon.log.read_text().splitlines() if "session opened" in line)
        until(lambda: not Path(f"/proc/{opened['pid']}").exists())
        assert daemon.logged("connection ended") == 1
