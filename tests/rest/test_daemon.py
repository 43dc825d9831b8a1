"""A real daemon with tools that are requests: from the agent's line to the bytes on the wire, and back."""

import gzip
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemon.spawned import Agent, Daemon, Message, until, without_places
from tests.rest.recording import Recorder, Respond, answer, recording
from tests.seeds.seeded import seeded

ENVIRON = {"TOKEN": "hunter2-token", "KEY": "hunter2-key"}
CONFIG = """\
[rest.api]
base_url = "{url}/v1"
token_env = "TOKEN"
api_key = {{ query = "key", value_env = "KEY" }}
call_s = 5

[tools.weather]
type = "{{city: string, units?: string}} -> json"
description = "The weather in a city."
rest = {{ api = "api", path = "/weather/${{parameters.city}}" }}

[tools.create]
type = "{{title: string, tags?: [string]}} -> {{id: int}}"
call_s = 1
[tools.create.rest]
api = "api"
path = "/items"
method = "POST"
headers = {{ X-Title = "${{parameters.title}}" }}
body = {{ item = {{ title = "${{parameters.title}}", tags = "${{parameters.tags}}" }} }}

[tools.chat]
type = "{{message: string}} -> string"
rest = {{ api = "api", path = "/chat", method = "POST", stream = {{ format = "sse" }} }}

[tools.twice]
process = "both"
[processes.both]
kind = "plumb"
chain = ["lift(weather)", "lift(weather)"]
type = "!{{city: string, units?: string}} -> !json"
"""


@contextmanager
def serving(directory: Path, respond: Respond, config: str = CONFIG) -> Iterator[tuple[Daemon, Recorder]]:
    with recording(respond) as api:
        text = config.format(url=api.url)
        with seeded(directory, text, environ=ENVIRON) as daemon:
            yield daemon, api


def echo(_request: bytes) -> Iterator[bytes]:
    yield answer(b'{"city": "x", "degrees": 21.5}')


def hello(agent: Agent, **asked: object) -> Message:
    agent.say({"__port": "hello", "profile": "default", **asked})
    return agent.hear()


def test_a_request_goes_over_the_wire_byte_by_byte(tmp_path: Path) -> None:
    with serving(tmp_path, echo) as (daemon, api), daemon.agent() as agent:
        heard = agent.ask("weather", {"city": "São Paulo/1", "units": "C&F"})
        assert (heard["is_error"], json.loads(heard["content"])) == (False, {"city": "x", "degrees": 21.5})
        version = api.asked[0].partition(b"tooldispatchd/")[2].partition(b"\r")[0]
        assert api.asked == [
            b"GET /v1/weather/S%C3%A3o%20Paulo%2F1?units=C%26F&key=hunter2-key HTTP/1.1\r\n"
            b"Host: 127.0.0.1:" + str(api.port).encode() + b"\r\n"
            b"Accept-Encoding: identity\r\n"
            b"Accept: application/json, text/*;q=0.9, */*;q=0.8\r\n"
            b"authorization: Bearer hunter2-token\r\n"
            b"User-Agent: tooldispatchd/" + version + b"\r\n\r\n"
        ]


def test_the_list_of_tools_shows_what_a_request_does(tmp_path: Path) -> None:
    with serving(tmp_path, echo) as (daemon, _), daemon.agent() as agent:
        tools = {tool["name"]: tool for tool in hello(agent, schemas="mcp")["tools"]}
    assert tools["weather"]["description"] == "The weather in a city."
    assert tools["weather"]["annotations"] == {"readOnlyHint": True}
    assert "annotations" not in tools["create"]
    assert tools["create"]["outputSchema"]["required"] == ["id"]


def test_a_missing_parameter_is_invalid_and_nothing_is_sent(tmp_path: Path) -> None:
    with serving(tmp_path, echo) as (daemon, api), daemon.agent() as agent:
        for value in ({}, {"city": ".."}, {"city": ""}, {"city": 5}, {"city": "x", "extra": 1}):
            heard = json.loads(agent.ask("weather", value)["content"])
            assert (heard["error"], heard["ran"]) == ("invalid_input", "no")
        heard = json.loads(agent.ask("create", {"title": "a\r\nX-Evil: 1"})["content"])
        assert heard["violations"][0]["path"] == "/title"
        assert api.connections == 0


def test_meta_says_how_a_tool_runs(tmp_path: Path) -> None:
    with serving(tmp_path, echo) as (daemon, _), daemon.agent() as agent:
        hello(agent, meta=True)
        meta = agent.ask("weather", {"city": "x"})["meta"]
    assert (meta["kind"], meta["provider"]) == ("rest", "api")


def test_an_error_of_the_api_is_its_own_and_no_fault(tmp_path: Path) -> None:
    def respond(request: bytes) -> Iterator[bytes]:
        yield answer(request, status="429 x", media_type="text/plain", more="Retry-After: 2\r\n")

    with serving(tmp_path, respond) as (daemon, _), daemon.agent() as agent:
        heard = agent.ask("weather", {"city": "x"})
    said = json.loads(heard["content"])
    assert heard["is_error"] is True
    assert "fault" not in heard
    assert (said["http_status"], said["retry_after_ms"]) == (429, 2000)
    assert "hunter2" not in heard["content"]


def test_an_answer_of_another_type_is_not_delivered(tmp_path: Path) -> None:
    with serving(tmp_path, echo) as (daemon, _), daemon.agent() as agent:
        fault = json.loads(agent.ask("create", {"title": "x"})["content"])
    assert (fault["error"], fault["ran"]) == ("invalid_output", "maybe")


def test_an_answer_that_breaks_a_document_is_given_with_a_warning(tmp_path: Path) -> None:
    def respond(request: bytes) -> Iterator[bytes]:
        yield answer(b"", status="201 Created")

    made = {"description": "made", "content": {"application/json": {"schema": {"type": "object"}}}}
    document = {
        "openapi": "3.0.0",
        "info": {"title": "things", "version": "1"},
        "paths": {"/things": {"post": {"operationId": "make", "responses": {"201": made}}}},
    }
    (tmp_path / "things.json").write_text(json.dumps(document))
    config = '[openapi.o]\nspec = "things.json"\nbase_url = "{url}"\n'
    with serving(tmp_path, respond, config) as (daemon, _), daemon.agent() as agent:
        hello(agent, meta=True)
        heard = agent.ask("o_make", {})
    assert (heard["content"], heard["is_error"]) == ("null", False)
    assert "null is not of type" in heard["meta"]["warnings"][0]


def test_an_api_that_hangs_costs_one_call_and_its_connection_is_closed(tmp_path: Path) -> None:
    def respond(_request: bytes) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
        time.sleep(3)

    with serving(tmp_path, respond) as (daemon, api), daemon.agent() as agent:
        began = time.monotonic()
        fault = json.loads(agent.ask("create", {"title": "x"})["content"])
        assert (fault["error"], fault["stage"], fault["ran"]) == ("timeout", "run", "maybe")
        assert time.monotonic() - began < 5
        assert api.connections == 1


def test_a_cancelled_call_closes_its_connection(tmp_path: Path) -> None:
    def respond(_request: bytes) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        for _ in range(100):
            time.sleep(0.05)
            yield b"1\r\nx\r\n"

    with serving(tmp_path, respond) as (daemon, api), daemon.agent() as agent:
        agent.call("a", "weather", {"city": "x"})
        until(lambda: len(api.asked) == 1)
        agent.say({"__port": "tool_cancel", "id": "a"})
        assert json.loads(agent.hear()["content"])["error"] == "cancelled"
        until(lambda: api.closed == 1)


def test_tokens_are_updates_and_the_answer_comes_at_the_end(tmp_path: Path) -> None:
    def respond(_request: bytes) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        for word in ("Hello", " world"):
            yield b'data: {"type": "token", "content": "' + word.encode() + b'"}\n\n'
            time.sleep(0.1)
        yield b'data: {"type": "done", "answer": "Hello world!"}\n\n'

    with serving(tmp_path, respond) as (daemon, _), daemon.agent() as agent:
        hello(agent, updates=True)
        agent.call("a", "chat", {"message": "hi"})
        heard = [agent.hear()]
        while heard[-1]["__port"] != "tool_resp":
            heard.append(agent.hear())
    assert "".join(line["content"] for line in heard[:-1]) == "Hello world"
    assert json.loads(heard[-1]["content"]) == "Hello world!"


def test_a_stream_that_takes_too_long_fails_with_what_came(tmp_path: Path) -> None:
    def respond(_request: bytes) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        yield b'data: {"type": "token", "content": "so far"}\n\n'
        time.sleep(3)

    with serving(tmp_path, respond) as (daemon, _), daemon.agent() as agent:
        fault = json.loads(agent.ask("chat", {"message": "hi"}, deadline_ms=500)["content"])
    assert (fault["error"], fault["stdout_tail"]) == ("timeout", "so far")


def test_many_calls_share_connections_that_are_closed_with_the_daemon(tmp_path: Path) -> None:
    with serving(tmp_path, echo) as (daemon, api):
        with daemon.agent() as agent, daemon.agent() as other:
            for each in (agent, other):
                for number in range(50):
                    each.call(str(number), "weather", {"city": "x"})
            for each in (agent, other):
                assert sorted(int(each.hear()["id"]) for _ in range(50)) == list(range(50))
        assert len(api.asked) == 100
        assert api.connections <= 100
        daemon.process.terminate()
        assert daemon.process.wait(10) == 0
        until(lambda: api.closed == api.connections)


def test_requests_that_only_read_share_what_their_api_has_for_itself(tmp_path: Path) -> None:
    # Neither is answered before both are there.
    both = threading.Barrier(2)

    def respond(_request: bytes) -> Iterator[bytes]:
        both.wait(5)
        yield answer()

    config = CONFIG.replace("call_s = 5", 'call_s = 5\nexclusive = "api"', 1)
    with serving(tmp_path, respond, config) as (daemon, _), daemon.agent() as agent:
        agent.call("1", "weather", {"city": "x"})
        agent.call("2", "weather", {"city": "y"})
        assert {agent.hear()["is_error"], agent.hear()["is_error"]} == {False}


def test_no_secret_is_in_the_log(tmp_path: Path) -> None:
    def respond(request: bytes) -> Iterator[bytes]:
        if b"/items" in request:
            yield b"nonsense: " + request
        else:
            yield answer(request, status="500 x")

    with serving(tmp_path, respond) as (daemon, _), daemon.agent() as agent:
        agent.ask("weather", {"city": "x"})
        heard = agent.ask("create", {"title": "x"})
        assert json.loads(heard["content"])["error"] == "tool_failed"
        assert "hunter2" not in heard["content"]
        log = daemon.log.read_text()
    assert "hunter2" not in log


def test_a_chain_may_lift_a_request(tmp_path: Path) -> None:
    with serving(tmp_path, lambda _request: [answer(b'{"city": "y"}')]) as (daemon, api), daemon.agent() as agent:
        heard = agent.ask("twice", {"city": "x"})
    assert json.loads(heard["content"]) == {"city": "y"}
    assert [line.split()[1].partition("?")[0] for line in api.lines()] == ["/v1/weather/x", "/v1/weather/y"]


def test_a_bomb_beside_other_agents_holds_nobody_up(tmp_path: Path) -> None:
    bomb = gzip.compress(b"[" + b"[]," * 40_000_000 + b"[]]")

    def respond(request: bytes) -> Iterator[bytes]:
        is_bomb = b"bomb" in request
        yield answer(bomb, more="Content-Encoding: gzip\r\n") if is_bomb else answer()

    config = CONFIG + '[tools.echo]\ninline = "id"\n'
    with serving(tmp_path, respond, config) as (daemon, _), daemon.agent() as agent, daemon.agent() as other:
        for number in range(8):
            agent.call(str(number), "weather", {"city": "bomb"})
        slowest = 0.0
        for _ in range(300):
            began = time.monotonic()
            assert other.ask("echo", 1)["content"] == "1"
            slowest = max(slowest, time.monotonic() - began)
        for _ in range(8):
            assert json.loads(agent.hear()["content"])["limit"] == "content_bytes"
    assert slowest < 0.5


def test_the_command_calls_a_request(tmp_path: Path) -> None:
    with recording(echo) as api:
        (tmp_path / "t.toml").write_text(CONFIG.format(url=api.url))
        words = [
            sys.executable,
            "-m",
            "tooldispatchd",
            "call",
            "weather",
            "city=x",
            "--config",
            str(tmp_path / "t.toml"),
        ]
        ended = subprocess.run(words, env=without_places() | ENVIRON, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, '{"city":"x","degrees":21.5}\n')
    assert api.lines() == ["GET /v1/weather/x?key=hunter2-key HTTP/1.1"]


@pytest.mark.parametrize("config", [CONFIG.format(url="https://x.example"), '[tools.a]\ninline = "id"\n'])
def test_only_a_configuration_with_requests_imports_what_makes_them(tmp_path: Path, config: str) -> None:
    (tmp_path / "t.toml").write_text(config)
    script = (
        "import sys; from pathlib import Path; from tooldispatchd.config.configuration import load_catalog\n"
        f"load_catalog(Path({str(tmp_path / 't.toml')!r}), {ENVIRON!r})\n"
        "import tooldispatchd.daemon.start\n"
        "wings = ('tooldispatchd.providers.rest', 'tooldispatchd.metrics', 'h11')\n"
        "print([name for name in sys.modules if name.startswith(wings)],"
        " 'tooldispatchd.catalog.rest.requests' in sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], env=without_places(), capture_output=True, text=True, check=True
    )
    assert ended.stdout == f"[] {'rest.api' in config}\n"
