"""Clients that mean harm, or nothing at all: nobody else notices, and nothing is left."""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.daemon.places.test_doors import refusal
from tests.daemon.spawned import PATIENCE_S, Daemon, carriers, until
from tests.mcpface.web.calling import ACCEPT, BEARER, Caller, free_port, raw, web_daemon, web_process

Place = tuple[Daemon, int]
# An answer takes milliseconds; more than this, on a busy machine too, somebody was waited for.
SOON_S = 5.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with web_daemon(tmp_path_factory.mktemp("hostile"), "profiles=default,safe&profile=default") as served:
        yield served


def is_served(place: Place) -> bool:
    began = time.monotonic()
    caller = Caller(place[1], **BEARER)
    caller.initialize()
    told = caller.call("echo", "hi").message
    return "error" not in told and time.monotonic() - began < SOON_S


def test_thousands_who_only_connect_keep_nobody_out(place: Place) -> None:
    with ExitStack() as crowd:
        for _ in range(1500):
            crowd.enter_context(raw(place[1]))
        assert is_served(place)


def test_thousands_of_half_heads_keep_nobody_out(place: Place) -> None:
    with ExitStack() as crowd:
        for _ in range(1200):
            crowd.enter_context(raw(place[1], b"POST /mcp HTTP/1.1\r\nHost: loc"))
        assert is_served(place)


def test_half_bodies_are_given_up_and_hold_nobody_up(place: Place) -> None:
    head = "".join(f"{name}: {value}\r\n" for name, value in ACCEPT.items())
    request = f"POST /mcp HTTP/1.1\r\nHost: localhost:{place[1]}\r\n{head}Content-Length: 8000000\r\n\r\n".encode()
    with ExitStack() as crowd:
        for _ in range(20):
            crowd.enter_context(raw(place[1], request, b"x" * 1_000_000))
        assert is_served(place)


def test_a_head_that_drips_is_given_up(place: Place) -> None:
    with raw(place[1], b"POST /mcp HTTP/1.1\r\n") as drip:
        drip.settimeout(0.5)
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE_S:
            try:
                drip.sendall(b"X: y\r\n")
                if not drip.recv(100):
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
    pytest.fail("it was read to no end")


def test_a_stream_that_nobody_reads_holds_up_no_other(place: Place) -> None:
    caller = Caller(place[1])
    caller.initialize()
    head = "".join(f"{name}: {value}\r\n" for name, value in caller.headers.items())
    text = "x" * 3_000_000
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": text}}
    ).encode()
    request = f"POST /mcp HTTP/1.1\r\nHost: localhost:{place[1]}\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode()
    with ExitStack() as crowd:
        for _ in range(8):
            crowd.enter_context(raw(place[1], request + body))
        assert is_served(place)


def test_sessions_of_one_client_leave_room_for_others(place: Place) -> None:
    statuses = [Caller(place[1]).initialize().status for _ in range(460)]
    assert statuses.count(503) > 0
    assert is_served(place)


def answered(caller: Caller, head: str, body: bytes) -> bytes:
    """The first line of the answer to a request, which need not be read to its end."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in caller.headers.items())
    request = f"POST /mcp HTTP/1.1\r\nHost: localhost:{caller.port}\r\n{lines}{head}\r\n".encode()
    with raw(caller.port) as client, suppress(ConnectionError):
        client.settimeout(PATIENCE_S)
        with suppress(ConnectionError):
            client.sendall(request + body)
        return client.recv(4096).partition(b"\r\n")[0]
    return b""


@pytest.mark.parametrize("chunk", [b"1\r\n \r\n", b"1;" + b"a" * 200 + b"\r\n \r\n"])
def test_a_body_in_the_smallest_chunks_is_refused(place: Place, chunk: bytes) -> None:
    caller = Caller(place[1], **BEARER)
    caller.initialize()
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    chunks = chunk * 2000 + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    assert answered(caller, "Transfer-Encoding: chunked\r\n", chunks) == b"HTTP/1.1 400 "


def test_a_body_in_small_chunks_is_served(place: Place) -> None:
    caller = Caller(place[1], **BEARER)
    caller.initialize()
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "y" * 200_000}}).encode()
    chunks = b"".join(b"40\r\n%b\r\n" % body[at : at + 64].ljust(64) for at in range(0, len(body), 64))
    assert answered(caller, "Transfer-Encoding: chunked\r\n", chunks + b"0\r\n\r\n") == b"HTTP/1.1 200 "


def test_a_head_of_many_lines_is_refused_before_it_is_read(place: Place) -> None:
    assert answered(Caller(place[1]), "a:\r\n" * 3500, b"") == b"HTTP/1.1 431 "


def test_a_batch_of_many_messages_is_refused_before_it_is_taken_apart(place: Place) -> None:
    caller = Caller(place[1], **BEARER)
    caller.initialize()
    began = time.monotonic()
    told = caller.send("POST", b"[" + b"{}," * 2_000_000 + b"{}]")
    assert "error" in told.message
    assert time.monotonic() - began < SOON_S


# --- ends ---


def test_a_web_process_that_is_killed_comes_back_and_the_log_says_so(tmp_path: Path) -> None:
    with web_daemon(tmp_path) as (daemon, port):
        caller = Caller(port)
        caller.initialize()
        first = web_process(daemon)
        os.kill(first, signal.SIGKILL)
        until(lambda: daemon.logged("web process ended") == 1)
        until(lambda: daemon.logged("session closed") == 1)
        until(lambda: bool(daemon.running("tooldispatchd.mcpface.web") - {first}))
        # What connects meanwhile waits for it.
        assert caller.ask("ping").status == 404
        assert Caller(port).initialize().status == 200


def test_a_daemon_that_is_killed_leaves_no_web_process_and_no_socket(tmp_path: Path) -> None:
    with web_daemon(tmp_path) as (daemon, port):
        Caller(port).initialize()
        (run_id,) = daemon.run_ids()
        daemon.process.kill()
        daemon.process.wait()
        until(lambda: not carriers(run_id))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def test_a_daemon_that_is_told_to_end_finishes_what_runs_and_takes_nobody(tmp_path: Path) -> None:
    with web_daemon(tmp_path) as (daemon, port):
        caller = Caller(port)
        caller.initialize()
        head = "".join(f"{name}: {value}\r\n" for name, value in caller.headers.items())
        body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"steps","arguments":{}}}'
        request = f"POST /mcp HTTP/1.1\r\nHost: localhost:{port}\r\n{head}Content-Length: {len(body)}\r\n\r\n"
        with raw(port, request.encode() + body) as connection:
            until(lambda: bool(daemon.running("sleep")))
            daemon.process.terminate()
            answer = b""
            while chunk := connection.recv(4096):
                answer += chunk
        assert b'"text":"1"' in answer
        assert daemon.process.wait(PATIENCE_S) == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def test_the_private_way_in_is_for_the_web_process_alone(place: Place) -> None:
    names = [line.split()[-1][1:] for line in Path("/proc/net/unix").read_text().splitlines() if "-web-" in line]
    for name in set(names):
        with socket.socket(socket.AF_UNIX) as intruder:
            intruder.settimeout(PATIENCE_S)
            try:
                intruder.connect("\0" + name)
            except ConnectionRefusedError:
                continue
            assert b"not_authenticated" in intruder.recv(4096)


def test_a_port_that_is_taken_is_told_at_the_start(tmp_path: Path) -> None:
    port = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        code, said = refusal(tmp_path, f"http://127.0.0.1:{port}/mcp?profile=default")
    assert code == 3
    assert "another program is listening there" in said
