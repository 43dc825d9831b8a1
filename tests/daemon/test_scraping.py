"""Metrics of a real daemon: over HTTP, on a Unix socket, by Prometheus itself."""

import http.client
import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest

from tests.daemon.spawned import Daemon, Message, daemon_on, server, until
from tests.mcpface.web.calling import free_port
from tooldispatchd.daemon.scraping import MAX_SCRAPES

CONFIG = "\n".join(
    [
        '[tools.echo]\ntype = "string -> string"\ninline = "id"',
        server("kit", "hangs"),
        '[agents.default]\ntools = ["echo"]',
        '[agents.kit]\ntools = ["echo"]\nmcp = ["kit"]\ntoken = "hush-hush-hush"',
    ]
)
RULES = Path(__file__).parents[2] / "docs" / "operate" / "alerts.yml"


class Scraped(Daemon):
    """A daemon and the port of its metrics."""

    port: int

    def get(self, path: str = "/metrics", method: str = "GET", **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def said(self, lines: bytes) -> bytes:
        """What is answered to these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as raw:
            raw.sendall(lines)
            return b"".join(iter(lambda: raw.recv(65_536), b""))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    directory, port = tmp_path_factory.mktemp("metrics"), free_port()
    places = (f"http://127.0.0.1:{port}/metrics", f"http+unix:{directory}/metrics.sock?path=/metrics&mode=0600")
    words = [word for place in places for word in ("--listen", place)]
    with daemon_on(directory, CONFIG, *words) as running:
        scraped = Scraped(running.process, running.path, running.log)
        scraped.port = port
        yield scraped


def test_calls_and_servers_are_counted_and_no_secret_is_told(daemon: Scraped) -> None:
    with daemon.agent() as agent:
        agent.hello("default")
        agent.ask("echo", "a secret input")
    with daemon.agent() as agent:
        agent.say({"__port": "hello", "profile": "kit", "token": "hush-hush-hush"})
        until(lambda: 'server_connections{server="kit",state="opening"} 1' in daemon.get()[1])
        agent.say({"__port": "hello", "agent": "wrong", "profile": "kit", "token": "a-wrong-one"})
        agent.hear()
    status, text = daemon.get()
    assert status == 200
    assert 'tooldispatchd_calls_total{tool="echo",kind="inline",provider="inline",outcome="ok"} 1\n' in text
    assert "tooldispatchd_hellos_not_authenticated_total 1\n" in text
    assert "secret" not in text
    assert "hush" not in text


def test_a_host_that_is_no_text_is_refused(daemon: Scraped) -> None:
    assert daemon.said(b"GET /metrics HTTP/1.1\r\nHost: \xff\r\n\r\n").startswith(b"HTTP/1.1 403 ")
    assert "scrape failed" not in daemon.log.read_text()


def test_there_is_one_path_and_it_is_only_read(daemon: Scraped) -> None:
    assert daemon.get("/")[0] == 404
    assert daemon.get("/metrics/x")[0] == 404
    assert daemon.get("/mcp", "POST")[0] == 404
    assert daemon.get(method="POST")[0] == 405
    assert daemon.get(method="HEAD") == (200, "")
    assert daemon.get("/metrics?name=x")[0] == 200


def test_a_page_of_a_browser_does_not_read_it_by_another_name(daemon: Scraped) -> None:
    assert daemon.get(Host="evil.example")[0] == 403
    assert daemon.get(Host=f"localhost:{daemon.port}")[0] == 200


def test_what_is_no_request_is_refused_within_bounds(daemon: Scraped) -> None:
    assert daemon.said(b"hello\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert daemon.said(b"GET /metrics HTTP/1.1\r\nA: " + b"x" * 20_000).startswith(b"HTTP/1.1 431")


def test_who_says_nothing_takes_a_bounded_number_of_places_and_agents_go_on(daemon: Scraped) -> None:
    silent = [socket.create_connection(("127.0.0.1", daemon.port)) for _ in range(MAX_SCRAPES + 1)]
    silent[-1].settimeout(20)
    assert silent[-1].recv(1) == b""
    with daemon.agent() as agent:
        assert agent.ask("echo", "hi")["content"] == '"hi"'
    for each in silent:
        each.close()
    until(lambda: scrapes(daemon))


def scrapes(daemon: Scraped) -> bool:
    try:
        return daemon.get()[0] == 200
    except (ConnectionError, http.client.HTTPException):
        return False


def test_a_unix_socket_has_them_too(daemon: Scraped) -> None:
    path = daemon.path.with_name("metrics.sock")
    assert path.stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(str(path))
        raw.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert raw.recv(15) == b"HTTP/1.1 200 \r\n"


def test_an_administrator_gets_the_same_text(daemon: Scraped) -> None:
    with daemon.agent() as agent:
        agent.say({"__port": "admin_req", "id": "1", "ask": "metrics"})
        text = agent.hear()["value"]["text"]
    assert "tooldispatchd_sessions_opened_total" in text
    command = [sys.executable, "-m", "tooldispatchd", "metrics", "--socket", str(daemon.path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "\ntooldispatchd_sessions_opened_total " in printed


@pytest.mark.skipif(which("prometheus") is None, reason="there is no prometheus: `make build/prometheus/.tried`")
def test_prometheus_scrapes_it_and_reads_the_rules(daemon: Scraped, tmp_path: Path) -> None:
    # It looks at what it is to scrape no sooner than five seconds after its start, in which nothing is done.
    scraping = {"job_name": "tooldispatchd", "static_configs": [{"targets": [f"127.0.0.1:{daemon.port}"]}]}
    config, port = tmp_path / "prometheus.json", free_port()
    interval = {"scrape_interval": "100ms", "scrape_timeout": "100ms", "evaluation_interval": "100ms"}
    config.write_text(json.dumps({"global": interval, "rule_files": [str(RULES)], "scrape_configs": [scraping]}))
    with (tmp_path / "log").open("wb") as log:
        command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data"]
        running = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stderr=log, env=os.environ)
    try:
        until(lambda: values(port, 'up{job="tooldispatchd"}') == ["1"])
        until(lambda: values(port, "tooldispatchd_build_info") == ["1"])
        rules = asked(port, "rules")["groups"][0]["rules"]
        until(lambda: all(each["health"] == "ok" for each in asked(port, "rules")["groups"][0]["rules"]))
        assert len(rules) > 5
    finally:
        running.kill()
        running.wait()


def values(port: int, query: str) -> list[str]:
    try:
        return [each["value"][1] for each in asked(port, f"query?query={query}")["result"]]
    except OSError:
        # It is just being started.
        return []


def asked(port: int, path: str) -> Message:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=20) as answer:
        told: Message = json.load(answer)["data"]
        return told
