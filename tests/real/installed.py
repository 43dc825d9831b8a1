"""Where the MCP servers that others wrote are, once `make servers` has installed them; and who can run here."""

import json
import os
import sys
from typing import Final

import pytest

from tests.daemon.spawned import ROOT

SERVERS: Final = ROOT / "build" / "servers"
OWN: Final = ROOT / "tests" / "servers"
THIN: Final = (sys.executable, "-I", str(ROOT / "benchmarks" / "peers" / "thin_mcp.py"))

needs_npm: Final = pytest.mark.skipif(
    not (SERVERS / "npm" / ".installed").exists(),
    reason="npm's servers are not installed: `make servers` does it where node is",
)
needs_sdk1: Final = pytest.mark.skipif(
    not (SERVERS / "sdk1" / ".installed").exists(), reason="SDK 1.x is not installed: `make servers` does it"
)
needs_sdk2: Final = pytest.mark.skipif(
    not (SERVERS / "sdk2" / ".installed").exists(), reason="SDK 2.x's servers are not installed: `make servers` does it"
)
# Most servers of others take a second or two to start; those that make no new point do so in `make soak` alone.
makes_no_new_point: Final = pytest.mark.skipif("SOAK" not in os.environ, reason="`make soak` plays it")


def npm(name: str, *args: str) -> tuple[str, ...]:
    """The command of one of npm's servers."""
    return (str(SERVERS / "npm" / "node_modules" / ".bin" / f"mcp-server-{name}"), *args)


def pypi(sdk: str, name: str, *args: str) -> tuple[str, ...]:
    """The command of a server of PyPI, under `sdk1` or `sdk2`."""
    return (str(SERVERS / sdk / "bin" / f"mcp-server-{name}"), *args)


def python_of(sdk: str) -> str:
    """The interpreter that has that SDK."""
    return str(SERVERS / sdk / "bin" / "python")


def binding(name: str, command: tuple[str, ...], *lines: str) -> str:
    """The table of a server over stdio; `lines` are further keys."""
    program, *args = command
    head = [f"[mcp.{name}]", f"command = {json.dumps(program)}", f"args = {json.dumps(args)}"]
    return "\n".join([*head, *lines, ""])


def url_binding(name: str, url: str, *lines: str) -> str:
    """The table of a server behind a URL; `lines` are further keys."""
    return "\n".join([f"[mcp.{name}]", f"url = {json.dumps(url)}", *lines, ""])
