"""Servers written with the official SDK of both generations, over HTTP in all its forms."""

import sys
from pathlib import Path

import pytest

from tests.real.installed import OWN, needs_sdk1, python_of, url_binding
from tests.real.listening import says_ports
from tests.real.test_sdk_stdio import is_served
from tests.real.visit import visit

NEW = sys.executable
OLD = python_of("sdk1")


@pytest.mark.parametrize(
    ("interpreter", "words", "path", "lines"),
    [
        pytest.param(NEW, ["http"], "mcp", [], id="2.x, stateless revision"),
        pytest.param(NEW, ["http", "json"], "mcp", [], id="2.x, stateless revision, json"),
        pytest.param(NEW, ["http"], "mcp", ['protocol = "2025-11-25"'], id="2.x, sessions"),
        pytest.param(NEW, ["http", "json"], "mcp", ['protocol = "2025-06-18"'], id="2.x, sessions, json"),
        pytest.param(NEW, ["http", "stateless"], "mcp", ['protocol = "2025-11-25"'], id="2.x, no sessions"),
        pytest.param(NEW, ["sse"], "sse", ['transport = "sse"'], id="2.x, the older pair"),
        pytest.param(OLD, ["http"], "mcp", [], id="1.x, sessions", marks=needs_sdk1),
        pytest.param(OLD, ["http", "json"], "mcp", [], id="1.x, sessions, json", marks=needs_sdk1),
        pytest.param(OLD, ["http", "stateless"], "mcp", [], id="1.x, no sessions", marks=needs_sdk1),
        pytest.param(OLD, ["sse"], "sse", ['transport = "sse"'], id="1.x, the older pair", marks=needs_sdk1),
        pytest.param(OLD, ["sse"], "sse", [], id="1.x, the older pair, found out", marks=needs_sdk1),
    ],
)
def test_a_server_over_http_is_served(
    tmp_path: Path, interpreter: str, words: list[str], path: str, lines: list[str]
) -> None:
    with says_ports([interpreter, str(OWN / "sdk_any.py"), *words]) as (port,):
        table = url_binding("sdk", f"http://127.0.0.1:{port}/{path}", *lines)
        with visit(tmp_path, table + '[agents.default]\nmcp = ["sdk"]\n') as agent:
            is_served(agent)
