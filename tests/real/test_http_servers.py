"""The everything server of npm over HTTP, in both of its forms; and what becomes of agents when such a server dies."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.daemon.spawned import until
from tests.real.installed import OWN, needs_npm, npm, url_binding
from tests.real.listening import free_port, says_ports, takes_port
from tests.real.visit import Visit, visit
from tooldispatchd.client.conversation import Call
from tooldispatchd.client.errors import FaultError

PROFILE = '[agents.default]\nmcp = ["every"]\n'
FORMS = pytest.mark.parametrize(
    ("mode", "path", "lines"),
    [
        pytest.param("streamableHttp", "mcp", [], id="streamable"),
        pytest.param("sse", "sse", ['transport = "sse"'], id="the older pair"),
        pytest.param("sse", "sse", [], id="the older pair, found out"),
    ],
)


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    """Where the everything server is, in each of its modes."""
    with takes_port(npm("everything", "streamableHttp")) as newer, takes_port(npm("everything", "sse")) as older:
        yield {"streamableHttp": newer, "sse": older}


@needs_npm
@FORMS
def test_everything_answers_and_tells_its_progress_over_http(
    tmp_path: Path, ports: dict[str, int], mode: str, path: str, lines: list[str]
) -> None:
    told: list[tuple[float | None, float | None]] = []
    table = url_binding("every", f"http://127.0.0.1:{ports[mode]}/{path}", *lines)
    with visit(tmp_path, table + PROFILE) as agent:
        (warning,) = agent.ready.warnings
        assert "'simulate-research-query' is left out: it can only be called as a task" in warning
        assert {"every:echo", "every:get-sum", "every:get-tiny-image"} <= agent.tools
        assert agent.call("every:echo", message="bees") == "Echo: bees"
        assert json.loads(agent.call("every:get-structured-content", location="Chicago"))["humidity"] > 0
        refused = agent.error("every:gzip-file-as-resource", name="x", data="ftp://127.0.0.1/x", outputType="resource")
        assert "rotocol" in refused
        sums = [Call("every:get-sum", {"a": number, "b": 1}) for number in range(40)]
        answers = agent.client.call_many(sums)
        assert [answer.content for answer in answers if not isinstance(answer, FaultError)] == [
            f"The sum of {number} and 1 is {number + 1}." for number in range(40)
        ]
        answer = agent.client.call(
            "every:trigger-long-running-operation",
            {"duration": 0.3, "steps": 3},
            on_update=lambda update: told.append((update.progress, update.total)),
        )
    assert not answer.is_error
    assert told == [(1.0, 3.0), (2.0, 3.0), (3.0, 3.0)]


def test_a_server_that_nobody_runs_is_left_out(tmp_path: Path) -> None:
    table = url_binding("every", f"http://127.0.0.1:{free_port()}/mcp")
    with visit(tmp_path, table + PROFILE) as agent:
        (warning,) = agent.ready.warnings
        assert "cannot connect" in str(warning)
        assert agent.fault("every:echo").code == "server_unavailable"


@needs_npm
def test_a_server_that_was_restarted_and_says_400_to_its_old_sessions_is_opened_anew(tmp_path: Path) -> None:
    server = [*npm("everything", "streamableHttp")]
    with ExitStack() as first:
        port = first.enter_context(takes_port(server))
        table = url_binding("every", f"http://127.0.0.1:{port}/mcp", 'restart = "backoff"')
        with visit(tmp_path, table + PROFILE) as agent:
            assert agent.call("every:echo", message="bees") == "Echo: bees"
            first.close()
            with takes_port(server, port):
                until(lambda: _answers(agent))
                assert agent.call("every:echo", message="wasps") == "Echo: wasps"


def _answers(agent: Visit) -> bool:
    try:
        return agent.call("every:echo", message="x") == "Echo: x"
    except FaultError as fault:
        # What it may be while the server is down, and at the call that finds out; never the call's own failure.
        if fault.code not in {"server_unavailable", "connection_dead"}:
            raise
        return False


@pytest.mark.parametrize(
    ("words", "path", "lines"),
    [(["http"], "mcp", []), (["sse"], "sse", ['transport = "sse"'])],
    ids=["streamable", "the older pair"],
)
def test_a_call_at_a_server_that_has_gone_fails_at_once(
    tmp_path: Path, words: list[str], path: str, lines: list[str]
) -> None:
    with ExitStack() as server:
        (port,) = server.enter_context(says_ports([sys.executable, str(OWN / "sdk_any.py"), *words]))
        table = url_binding("every", f"http://127.0.0.1:{port}/{path}", *lines)
        with visit(tmp_path, table + PROFILE) as agent:
            assert agent.call("every:say", words="bees") == "bees"
            server.close()
            assert agent.fault("every:say", words="bees").code in {"server_unavailable", "connection_dead"}
