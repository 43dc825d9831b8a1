"""Where the MCP clients that others wrote are, once `make servers` has installed them."""

import json
import shlex
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.spawned import ROOT, Daemon
from tests.real.installed import SERVERS, binding

CLIENTS: Final = SERVERS / "clients"
PACKAGES: Final = CLIENTS / "node_modules"
CONFORMING: Final = (sys.executable, "-S", "-m", "tests.servers.conforming")
# Tools that become tasks at once; the server has them without that.
JOBS: Final = ("slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input")

needs_clients: Final = pytest.mark.skipif(
    not (CLIENTS / ".installed").exists(),
    reason="npm's clients are not installed: `make servers` does it where node is",
)


def node() -> str:
    """The Node that came with the clients: that of the machine may be too old for them."""
    found = [path for path in PACKAGES.glob("node-linux-*/bin/node") if path.exists()]
    return str(found[0]) if found else "node"


def conforming(name: str, revision: str, *profile: str) -> str:
    """The table of the server that has all that the suite looks for, and a profile of its name with further keys."""
    keys = ('prefix = ""', f'protocol = "{revision}"', f'cwd = "{ROOT}"')
    return binding(name, CONFORMING, *keys) + "\n".join([f"[agents.{name}]", f'mcp = ["{name}"]', *profile, ""])


def with_jobs(name: str, revision: str) -> str:
    """The same, with tools that become tasks at once; the server has them without that."""
    tasks = [f'[tools.{job}]\nmcp = "{name}"\nname = "{job}_now"\nmode = "background"\n' for job in JOBS]
    return conforming(name, revision, f"tools = {json.dumps(JOBS)}") + "".join(tasks)


def relay(program: Path, daemon: Daemon, profile: str) -> str:
    """A program without arguments, as each client can start it."""
    words = [sys.executable, "-m", "tooldispatchd", "mcp", "--socket", str(daemon.path), "--profile", profile]
    program.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
    program.chmod(0o755)
    return str(program)


def package(name: str) -> Path:
    """The directory of one of npm's packages."""
    return PACKAGES / name
