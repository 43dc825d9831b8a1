"""Traces: each call that waits is a span, where its request says, and what it starts lies within it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.daemon.spawned import Daemon, daemon_on, until

TRACE = "0af7651916cd43dd8448eb211c80319c"
ABOVE = f"00-{TRACE}-b7ad6b7169203331-01"
CONFIG = """
[traces]
endpoint = "http://127.0.0.1:{port}"
headers = {{ authorization = "Bearer hush-hush-hush" }}
[tools.echo]
type = "string -> string"
inline = "id"
[tools.within]
type = "json -> string"
command = ["/bin/sh", "-c", 'cat >/dev/null; printf "\\"%s\\"" "$TRACEPARENT"']
[tools.fails]
command = ["false"]
"""


class Collector(HTTPServer):
    """Keeps the spans that it is sent, by name, and the headers of the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Collecting)
        self.spans: list[Any] = []
        self.resources: list[Any] = []
        self.keys: set[str | None] = set()

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == f"execute_tool {name}"]


class Collecting(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        asked = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.keys.add(self.headers["Authorization"])
        for group in asked.resource_spans:
            self.server.resources.append(group.resource)
            self.server.spans += [span for scope in group.scope_spans for span in scope.spans]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def collecting() -> Iterator[Collector]:
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            collector.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, Collector]]:
    with collecting() as collector:
        config = CONFIG.format(port=collector.server_port)
        with daemon_on(tmp_path_factory.mktemp("traced"), config) as daemon:
            yield daemon, collector


def said(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def test_a_call_is_a_span_below_that_of_its_request_and_its_program_is_within_it(
    traced: tuple[Daemon, Collector],
) -> None:
    daemon, collector = traced
    with daemon.agent() as agent:
        agent.call("c1", "within", 1, traceparent=ABOVE)
        answer = agent.hear()
    until(lambda: bool(collector.named("within")))
    (span,) = collector.named("within")
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, "b7ad6b7169203331")
    assert answer["content"] == f'"00-{TRACE}-{span.span_id.hex()}-01"'
    told = said(span)
    assert told["gen_ai.operation.name"] == "execute_tool"
    assert (told["gen_ai.tool.name"], told["gen_ai.tool.call.id"]) == ("within", "c1")
    assert (told["tooldispatchd.tool.kind"], told["tooldispatchd.profile"]) == ("process", "default")
    assert 0 < span.end_time_unix_nano - span.start_time_unix_nano < 20e9
    assert collector.keys == {"Bearer hush-hush-hush"}
    names = {each.key: each.value.string_value for each in collector.resources[0].attributes}
    assert names["service.name"] == "tooldispatchd"


def test_one_that_fails_says_so_and_without_a_trace_begins_one(traced: tuple[Daemon, Collector]) -> None:
    daemon, collector = traced
    with daemon.agent() as agent:
        agent.ask("fails", {})
    until(lambda: bool(collector.named("fails")))
    (span,) = collector.named("fails")
    assert (span.parent_span_id, span.status.code) == (b"", 2)
    assert said(span)["error.type"] == "tool_failed"


def test_who_does_not_want_a_trace_recorded_gets_none_and_what_answers_at_once_has_none(
    traced: tuple[Daemon, Collector],
) -> None:
    daemon, collector = traced
    before = len(collector.named("within"))
    with daemon.agent() as agent:
        agent.call("c2", "within", 1, traceparent=ABOVE[:-1] + "0")
        assert agent.hear()["content"].startswith(f'"00-{TRACE}-')
        agent.ask("echo", "x")
        agent.call("c3", "within", 1, traceparent=ABOVE)
        agent.hear()
    until(lambda: len(collector.named("within")) > before)
    assert [said(span)["gen_ai.tool.call.id"] for span in collector.named("within")[before:]] == ["c3"]
    assert collector.named("echo") == []


def test_a_collector_that_is_not_there_is_told_of_and_keeps_nobody(tmp_path: Path) -> None:
    with collecting() as collector:
        port = collector.server_port
    with daemon_on(tmp_path, CONFIG.format(port=port)) as daemon:
        with daemon.agent() as agent:
            assert agent.ask("within", 1)["is_error"] is False
        daemon.process.terminate()
        assert daemon.process.wait(10) == 0
    assert daemon.logged("traces not sent") >= 1
    assert "hush" not in daemon.log.read_text()
