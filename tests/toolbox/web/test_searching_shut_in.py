"""The tool `search` in a daemon, as the documents show its table."""

import http.server
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.spawned import ROOT, daemon_on

ANSWER = json.dumps({"results": [{"url": "https://a.test/", "title": "Found", "content": "it"}]}).encode()


class Engine(http.server.BaseHTTPRequestHandler):
    """A SearXNG that notes what it is asked."""

    asked: tuple[str, ...] = ()

    def do_GET(self) -> None:  # the library's name
        type(self).asked += (f"{self.path} {self.headers['Authorization']}",)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as above
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.HTTPServer(("127.0.0.1", 0), Engine) as served:
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield served.server_port
        served.shutdown()
        thread.join()


def test_searxng_is_asked_without_a_key_as_documented(tmp_path: Path, port: int) -> None:
    (shown,) = re.findall(
        r"```toml\n(\[toolbox\.web\.search\]\n.*?)```", (ROOT / "docs/toolbox.md").read_text(), re.DOTALL
    )
    assert ":8888" in shown
    config = f'{shown.replace(":8888", f":{port}")}\n[agents.default]\ntoolboxes = ["web"]\n'
    with daemon_on(tmp_path, config) as daemon, daemon.agent() as agent:
        told = str(agent.ask("search", {"query": "two words"})["content"])
    assert "1. Found" in told
    assert Engine.asked == ("/search?q=two+words&format=json None",)
