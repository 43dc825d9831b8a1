"""Real clients over HTTP at a real daemon: sessions, calls, streams, and who is let in."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.spawned import PATIENCE_S, Daemon, until
from tests.mcpface.web.calling import ACCEPT, BEARER, TOKEN, Caller, raw, web_daemon

Place = tuple[Daemon, int]
MODERN = "2026-07-28"
META = {"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with web_daemon(tmp_path_factory.mktemp("open"), "profile=default&origins=https://app.example") as served:
        yield served


@pytest.fixture(scope="module")
def safe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with web_daemon(tmp_path_factory.mktemp("safe"), "profiles=safe,other") as served:
        yield served


def opened(place: Place, **headers: str) -> Caller:
    caller = Caller(place[1], **headers)
    assert caller.initialize().status == 200
    return caller


# --- sessions and calls ---


def test_a_client_opens_a_session_and_calls(place: Place) -> None:
    caller = opened(place)
    assert caller.send("POST", b'{"jsonrpc":"2.0","method":"notifications/initialized"}').status == 202
    assert "echo" in {tool["name"] for tool in caller.ask("tools/list").message["result"]["tools"]}
    answered = caller.call("steps", {})
    assert answered.message["result"]["content"] == [{"type": "text", "text": "1"}]


def test_a_long_answer_comes_whole(place: Place) -> None:
    text = "x" * 3_000_000
    (part,) = opened(place).call("echo", text).message["result"]["content"]
    assert part["text"].strip('"') == text


def test_what_comes_before_the_answer_makes_a_stream_of_events(place: Place) -> None:
    answered = opened(place).call("steps", {}, _meta={"progressToken": "p"})
    assert answered.headers["content-type"] == "text/event-stream"
    assert b"notifications/progress" in answered.body
    assert answered.message["result"]["content"] == [{"type": "text", "text": "1"}]


def test_a_session_that_was_ended_is_not_found(place: Place) -> None:
    caller = opened(place)
    assert caller.send("DELETE").status == 204
    until(lambda: caller.ask("ping").status == 404)


def test_a_session_that_is_ended_ends_its_calls(place: Place) -> None:
    caller = opened(place)
    body = b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"nap","arguments":{}}}'
    head = "".join(f"{name}: {value}\r\n" for name, value in caller.headers.items())
    request = f"POST /mcp HTTP/1.1\r\nHost: localhost:{place[1]}\r\n{head}Content-Length: {len(body)}\r\n\r\n"
    with raw(place[1], request.encode() + body) as connection:
        until(lambda: bool(place[0].running("sleep 30; echo 1")))
        assert caller.send("DELETE").status == 204
        answer = b""
        while b'"isError":true' not in answer:
            answer += connection.recv(4096)
    assert b"the session has ended" in answer
    until(lambda: not place[0].running("sleep 30; echo 1"))


@pytest.mark.parametrize("key", ["nothing", "x" * 500])
def test_a_session_that_never_was_is_not_found(place: Place, key: str) -> None:
    assert Caller(place[1]).ask("ping", Mcp_Session_Id=key).status == 404


def test_a_request_without_a_session_is_refused(place: Place) -> None:
    assert Caller(place[1]).ask("tools/list").status == 400
    assert Caller(place[1]).send("GET").status == 400


def test_a_line_that_broke_is_taken_up_from_the_last_event(place: Place) -> None:
    caller = opened(place)
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}
    message["params"] = {"name": "steps", "arguments": {}, "_meta": {"progressToken": 1}}
    body = json.dumps(message).encode()
    head = "".join(f"{name}: {value}\r\n" for name, value in caller.headers.items())
    request = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{place[1]}\r\n{head}Content-Length: {len(body)}\r\n\r\n"
    with raw(place[1], request.encode() + body) as connection:
        seen = b""
        while b"progress" not in seen:
            seen += connection.recv(4096)
    event = next(line[4:] for line in seen.split(b"\n") if line.startswith(b"id: ")).strip().decode()
    assert caller.send("GET", Last_Event_ID=event).message["id"] == 7


def test_without_a_handshake_a_request_says_its_revision(place: Place) -> None:
    caller = Caller(place[1], **{"MCP-Protocol-Version": MODERN})
    answered = caller.ask("tools/list", META, Mcp_Method="tools/list")
    assert answered.status == 200
    assert "mcp-session-id" not in answered.headers


@pytest.mark.parametrize("headers", [{}, {"Mcp_Method": "tools/call"}, {"Mcp_Method": "tools/list", "x": "1"}])
def test_headers_of_that_revision_say_what_the_body_says(place: Place, headers: dict[str, str]) -> None:
    caller = Caller(place[1], **{"MCP-Protocol-Version": MODERN})
    params = META | {"name": "echo", "arguments": {}}
    answered = caller.ask("tools/call", params, **headers)
    assert answered.status == 400
    assert answered.message["error"]["code"] == -32020


STATED = META["_meta"]
UNSTATED = {name: value for name, value in STATED.items() if "protocolVersion" not in name}
UNKNOWN = "2999-01-01"


@pytest.mark.parametrize(
    ("revision", "method", "params", "wrong"),
    [
        (MODERN, "tools/list", {}, (400, -32602)),
        (MODERN, "tools/list", {"_meta": UNSTATED}, (400, -32602)),
        (MODERN, "tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN}}, (400, -32602)),
        (
            UNKNOWN,
            "tools/list",
            {"_meta": STATED | {"io.modelcontextprotocol/protocolVersion": UNKNOWN}},
            (400, -32022),
        ),
        (UNKNOWN, "tools/list", META, (400, -32020)),
        (MODERN, "tools/call", META | {"name": "nothing"}, (400, -32602)),
        (MODERN, "ping", META, (404, -32601)),
        (MODERN, "initialize", META, (404, -32601)),
    ],
)
def test_the_status_says_what_is_wrong_in_that_revision(
    place: Place, revision: str, method: str, params: dict[str, object], wrong: tuple[int, int]
) -> None:
    caller = Caller(place[1], **{"MCP-Protocol-Version": revision})
    name = {"Mcp_Name": str(params["name"])} if "name" in params else {}
    answered = caller.ask(method, params, Mcp_Method=method, **name)
    assert (answered.status, answered.message["error"]["code"]) == wrong
    assert answered.message["id"] == 1


@pytest.mark.parametrize(
    ("name", "headers", "opened"),
    [
        ("one", {}, 1),
        # A proxy has many clients, and one user.
        ("proxied", {"X-Forwarded-For": "192.0.2.1"}, 2),
        # A program that does not say which one it is.
        (None, {}, 2),
    ],
)
def test_requests_of_one_program_on_this_machine_share_a_session(
    place: Place, name: str | None, headers: dict[str, str], opened: int
) -> None:
    client = {} if name is None else {"io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"}}
    caller = Caller(place[1], **{"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}, **headers)
    before = place[0].logged("session opened")
    for _ in range(2):
        assert caller.ask("tools/list", {"_meta": STATED | client}).status == 200
    assert place[0].logged("session opened") - before == opened


def test_programs_of_other_names_have_other_sessions(place: Place) -> None:
    caller = Caller(place[1], **{"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"})
    before = place[0].logged("session opened")
    for name in ("first", "second"):
        client = {"io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"}}
        assert caller.ask("tools/list", {"_meta": STATED | client}).status == 200
    assert place[0].logged("session opened") - before == 2


def test_to_close_the_answer_is_to_cancel_the_call_in_that_revision(place: Place) -> None:
    daemon, port = place
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": META | {"name": "nap", "arguments": {}}}
    ).encode()
    head = {**ACCEPT, "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "nap"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    request = f"POST /mcp HTTP/1.1\r\nHost: localhost:{port}\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
    with raw(port, request.encode() + body):
        until(lambda: bool(daemon.running("sleep 30; echo 1")))
    until(lambda: not daemon.running("sleep 30; echo 1"))


# --- who is let in ---


def test_without_the_token_nothing_is_told(safe: Place) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}):
        for method, path in (("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/else"), ("PUT", "/")):
            refused = Caller(safe[1], **headers).send(method, path=path)
            assert (refused.status, refused.body, refused.headers["www-authenticate"]) == (401, b"", "Bearer")
            assert set(refused.headers) <= {"date", "www-authenticate", "content-length", "connection"}


def test_a_token_says_which_profile_it_opens(safe: Place) -> None:
    assert opened(safe, **BEARER).ask("tools/list").status == 200
    assert opened(safe, Authorization="bearer another-token").ask("tools/list").status == 200


def test_a_session_belongs_to_the_token_that_opened_it(safe: Place) -> None:
    caller = opened(safe, **BEARER)
    assert caller.ask("ping", Authorization="Bearer another-token").status == 404
    assert caller.send("DELETE", Authorization="Bearer another-token").status == 404
    assert caller.ask("ping").status == 200


def test_a_wrong_token_is_logged_with_its_address_and_never_itself(safe: Place) -> None:
    daemon, port = safe
    Caller(port).ask("ping", Authorization="Bearer a-secret-guess")
    until(lambda: daemon.logged("token refused") > 0)
    log = daemon.log.read_text()
    assert '"address":"127.0.0.1"' in log
    assert "guess" not in log
    assert TOKEN not in log


def test_the_token_stands_in_no_argument_and_no_variable(safe: Place) -> None:
    opened(safe, **BEARER)
    for pid in safe[0].running("tooldispatchd.mcpface.web"):
        for name in ("cmdline", "environ"):
            assert TOKEN.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:1", "localhost:{port}.evil.example"])
def test_another_host_is_refused_before_anything_else(safe: Place, host: str) -> None:
    refused = Caller(safe[1]).ask("ping", Host=host.format(port=safe[1]))
    assert (refused.status, refused.body) == (421, b"")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
def test_names_of_this_machine_are_known(place: Place, host: str) -> None:
    assert Caller(place[1], Host=f"{host}:{place[1]}").initialize().status == 200


def test_a_page_that_is_not_listed_may_not_call(place: Place) -> None:
    for origin in ("https://evil.example", "null", "https://app.example.evil.example"):
        assert Caller(place[1]).ask("ping", Origin=origin).status == 403


def test_a_page_that_is_listed_may(place: Place) -> None:
    caller = Caller(place[1], Origin="https://app.example")
    preflight = caller.send("OPTIONS", Access_Control_Request_Method="POST")
    assert preflight.status == 204
    assert "Authorization" in preflight.headers["access-control-allow-headers"]
    answered = caller.initialize()
    assert answered.headers["access-control-allow-origin"] == "https://app.example"
    assert "Mcp-Session-Id" in answered.headers["access-control-expose-headers"]


def test_no_answer_names_a_program(place: Place) -> None:
    assert "server" not in Caller(place[1]).ask("ping").headers


# --- what is no use ---


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /mcp HTTP/1.1\r\n\r\n", 400),
        (b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (b"POST /mcp HTTP/1.1\r\nHost: l\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /mcp HTTP/1.1\r\nHost: l\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        (b"POST /mcp HTTP/1.1\r\nHost: l\r\nContent-Length: -1\r\n\r\n", 400),
    ],
)
def test_what_is_not_http_is_refused_and_the_connection_ended(place: Place, request_: bytes, status: int) -> None:
    with raw(place[1], request_) as connection:
        answer = b""
        while chunk := connection.recv(4096):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 %d" % status)


def test_a_body_over_the_bound_of_a_line_is_refused_unread(place: Place) -> None:
    caller = opened(place)
    head = "".join(f"{name}: {value}\r\n" for name, value in caller.headers.items())
    request = f"POST /mcp HTTP/1.1\r\nHost: localhost:{place[1]}\r\n{head}Content-Length: 100000000\r\n\r\n"
    with raw(place[1], request.encode(), b"x" * (9 * 1024 * 1024)) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 413")
    assert caller.ask("ping").status == 200


def test_another_kind_of_body_is_refused(place: Place) -> None:
    refused = opened(place).ask("ping", Content_Type="text/plain")
    assert (refused.status, b"Content-Type: application/json" in refused.body) == (415, True)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/", 200, "This is a server for MCP clients"),
        ("/mcp", 400, "This is an address for MCP clients"),
        ("/favicon.ico", 404, "the address for MCP clients is /mcp"),
    ],
)
def test_a_person_who_looks_reads_a_sentence(place: Place, path: str, status: int, words: str) -> None:
    for method in ("GET", "HEAD"):
        browser = Caller(place[1], Accept="text/html,*/*;q=0.8").send(method, path=path)
        assert browser.headers["content-type"] == "text/plain; charset=utf-8"
        assert (words in browser.body.decode()) is (method == "GET")
    assert Caller(place[1]).send("GET", path=path).status == status


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_load_balancer_is_answered_by_any_name_and_without_a_token(safe: Place, path: str) -> None:
    asked = Caller(safe[1]).send("GET", path=path, Host="10.0.0.5")
    assert (asked.status, asked.body) == (200, b"ok\n")
    assert Caller(safe[1]).send("HEAD", path=path).status == 200
    assert Caller(safe[1]).send("POST", path=path).status == 401


def test_what_is_no_json_is_told_and_the_session_goes_on(place: Place) -> None:
    caller = opened(place)
    assert caller.send("POST", b"{").message["error"]["code"] == -32700
    assert caller.ask("ping").status == 200


def test_a_session_answers_while_it_calls(place: Place) -> None:
    caller = opened(place)
    body = b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"nap","arguments":{}}}'
    head = "".join(f"{name}: {value}\r\n" for name, value in caller.headers.items())
    request = f"POST /mcp HTTP/1.1\r\nHost: localhost:{place[1]}\r\n{head}Content-Length: {len(body)}\r\n\r\n"
    with raw(place[1], request.encode() + body):
        began = time.monotonic()
        assert caller.ask("ping").status == 200
        assert time.monotonic() - began < PATIENCE_S / 2
    caller.send("DELETE")
