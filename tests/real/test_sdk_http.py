"""Servers written with the official SDK of both generations, over HTTP in all its forms."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.installed import OWN, SERVERS, needs_sdk1, python_of, url_binding
from tests.real.listening import says_ports
from tests.real.test_sdk_stdio import is_served
from tests.real.visit import visit

MODES = ["http", "http,json", "http,stateless", "sse"]
Ports = dict[tuple[str, str], int]


@pytest.fixture(scope="module")
def ports() -> Iterator[Ports]:
    """Where the servers of each generation that is installed are, by its name and their mode."""
    with says_ports([sys.executable, str(OWN / "sdk_any.py"), *MODES]) as new:
        found = {("2.x", mode): port for mode, port in zip(MODES, new, strict=True)}
        if not (SERVERS / "sdk1" / ".installed").exists():
            yield found
            return
        with says_ports([python_of("sdk1"), str(OWN / "sdk_any.py"), *MODES]) as old:
            yield found | {("1.x", mode): port for mode, port in zip(MODES, old, strict=True)}


@pytest.mark.parametrize(
    ("generation", "mode", "lines"),
    [
        pytest.param("2.x", "http", [], id="2.x, stateless revision"),
        pytest.param("2.x", "http,json", [], id="2.x, stateless revision, json"),
        pytest.param("2.x", "http", ['protocol = "2025-11-25"'], id="2.x, sessions"),
        pytest.param("2.x", "http,json", ['protocol = "2025-06-18"'], id="2.x, sessions, json"),
        pytest.param("2.x", "http,stateless", ['protocol = "2025-11-25"'], id="2.x, no sessions"),
        pytest.param("2.x", "sse", ['transport = "sse"'], id="2.x, the older pair"),
        pytest.param("1.x", "http", [], id="1.x, sessions", marks=needs_sdk1),
        pytest.param("1.x", "http,json", [], id="1.x, sessions, json", marks=needs_sdk1),
        pytest.param("1.x", "http,stateless", [], id="1.x, no sessions", marks=needs_sdk1),
        pytest.param("1.x", "sse", ['transport = "sse"'], id="1.x, the older pair", marks=needs_sdk1),
        pytest.param("1.x", "sse", [], id="1.x, the older pair, found out", marks=needs_sdk1),
    ],
)
def test_a_server_over_http_is_served(
    tmp_path: Path, ports: Ports, generation: str, mode: str, lines: list[str]
) -> None:
    path = "sse" if mode == "sse" else "mcp"
    table = url_binding("sdk", f"http://127.0.0.1:{ports[generation, mode]}/{path}", *lines)
    with visit(tmp_path, table + '[agents.default]\nmcp = ["sdk"]\n') as agent:
        is_served(agent)
