"""Tokens of an authorization server at a real place: which open it, and what is told of those that do not."""

import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import jwt
import msgspec
import pytest
import trio
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from trio.testing import memory_stream_one_way_pair, wait_all_tasks_blocked

from tests.daemon.spawned import PATIENCE_S, until
from tests.mcpface.web.calling import CONFIG, Caller, web_daemon
from tooldispatchd.mcpface.web.logbook import LogBook
from tooldispatchd.mcpface.web.serving import serve_place
from tooldispatchd.wire.webplaces import TokenIssuer, WebPlace

AUDIENCE: Final = "https://tools.example/mcp"
RSA: Final = rsa.generate_private_key(65537, 2048)
EC: Final = ec.generate_private_key(ec.SECP256R1())
WEAK: Final = rsa.generate_private_key(65537, 1024)  # that is what is refused
STRANGE: Final = ec.generate_private_key(ec.SECP256R1())


def public(key: Any, kid: str) -> dict[str, Any]:
    algorithm = jwt.get_algorithm_by_name("RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256")
    written: dict[str, Any] = json.loads(algorithm.to_jwk(key.public_key()))
    return written | {"kid": kid}


@contextmanager
def issuing() -> Iterator[str]:
    """An authorization server on this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            origin = f"http://127.0.0.1:{server.server_port}"
            shown = [public(RSA, "r"), public(EC, "e"), public(WEAK, "w")]
            told: object = {"keys": [*shown, {"kty": "oct", "kid": "o", "k": "c2VjcmV0"}]}
            if self.path == "/.well-known/oauth-authorization-server":
                told = {"issuer": origin, "jwks_uri": f"{origin}/keys"}
            elif self.path != "/keys":
                self.send_error(404)
                return
            body = json.dumps(told).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's own name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Caller, str]]:
    with issuing() as issuer:
        table = f'[http_auth.company]\nissuer = "{issuer}"\naudience = "{AUDIENCE}"\nscopes = ["tools", "more"]\n'
        query = "profile=default&auth=company"
        with web_daemon(tmp_path_factory.mktemp("oauth"), query, CONFIG + table) as (_, port):
            yield Caller(port), issuer


def claims(issuer: str, **other: object) -> dict[str, object]:
    now = int(time.time())
    good = {"iss": issuer, "aud": AUDIENCE, "sub": "ann", "exp": now + 600, "scope": "more tools"}
    return {name: value for name, value in (good | other).items() if value is not None}


def bearer(issuer: str, key: Any = EC, algorithm: str = "ES256", kid: str = "e", **other: object) -> dict[str, str]:
    token = jwt.encode(claims(issuer, **other), key, algorithm, headers={"kid": kid})
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(("key", "algorithm", "kid"), [(EC, "ES256", "e"), (RSA, "RS256", "r"), (RSA, "PS256", "r")])
def test_a_token_of_the_issuer_opens_the_place(
    place: tuple[Caller, str], key: object, algorithm: str, kid: str
) -> None:
    caller = Caller(place[0].port, **bearer(place[1], key, algorithm, kid))
    assert caller.initialize().status == 200
    assert caller.call("echo", "hi").status == 200


# The library warns of what it signs with here.
@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
@pytest.mark.parametrize(
    "other",
    [
        {"exp": 1},
        {"exp": None},
        {"nbf": 9_999_999_999},
        {"iss": "https://else.example"},
        {"iss": None},
        {"aud": "https://else.example"},
        {"aud": None},
        {"sub": None},
        {"sub": 7},
        {"key": STRANGE},
        {"kid": "unknown"},
        {"kid": "r"},
        {"key": WEAK, "algorithm": "RS256", "kid": "w"},
        {"key": "secret" * 10, "algorithm": "HS256", "kid": "o"},
        {"key": None, "algorithm": "none"},
    ],
)
def test_any_other_token_does_not(place: tuple[Caller, str], other: dict[str, object]) -> None:
    refused = place[0].ask("ping", **bearer(place[1], **other))  # type: ignore[arg-type]
    assert (refused.status, refused.body) == (401, b"")
    assert 'error="invalid_token"' in refused.headers["www-authenticate"]


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "e30.e30.", "." * 100, "eyJhbGciOiJFUzI1NiJ9" + "." * 2])
def test_what_is_no_token_does_not_either(place: tuple[Caller, str], token: str) -> None:
    assert place[0].ask("ping", Authorization=f"Bearer {token}").status == 401


def test_a_token_without_a_scope_is_told_which_it_lacks(place: tuple[Caller, str]) -> None:
    refused = place[0].ask("ping", **bearer(place[1], scope="tools"))
    assert refused.status == 403
    assert 'error="insufficient_scope", scope="tools more"' in refused.headers["www-authenticate"]


def test_a_client_without_a_token_is_told_where_to_get_one(place: tuple[Caller, str]) -> None:
    caller, issuer = place
    metadata = '"https://tools.example/.well-known/oauth-protected-resource/mcp"'
    assert f"resource_metadata={metadata}" in caller.ask("ping").headers["www-authenticate"]
    for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
        told = json.loads(caller.send("GET", path=path).body)
        assert told["resource"] == AUDIENCE
        assert told["authorization_servers"] == [issuer]
        assert told["scopes_supported"] == ["tools", "more"]


def test_a_session_belongs_to_the_subject_that_opened_it(place: tuple[Caller, str]) -> None:
    caller = Caller(place[0].port, **bearer(place[1]))
    caller.initialize()
    assert caller.ask("ping", **bearer(place[1], sub="bob")).status == 404
    assert caller.ask("ping", **bearer(place[1], exp=int(time.time()) + 900)).status == 200


def test_a_stream_ends_with_its_token(place: tuple[Caller, str]) -> None:
    # Clocks may differ by half a minute.
    caller = Caller(place[0].port, **bearer(place[1], exp=int(time.time()) - 26))
    caller.initialize()
    with pytest.raises(http.client.IncompleteRead):
        caller.send("GET")
    assert caller.ask("ping").status == 401
    assert caller.ask("ping", **bearer(place[1])).status == 200


def test_an_issuer_is_reached_through_the_proxy_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer = "https://login.example"
    table = f'[http_auth.company]\nissuer = "{issuer}"\naudience = "{AUDIENCE}"\n'
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        with web_daemon(tmp_path, "profile=default&auth=company", CONFIG + table) as (_, port):
            asking = threading.Thread(target=Caller(port).ask, args=("ping",), kwargs=bearer(issuer))
            asking.start()
            proxy.settimeout(PATIENCE_S)
            connection = proxy.accept()[0]
            with connection:
                assert connection.recv(4096).startswith(b"CONNECT login.example:443 ")
            asking.join()


def test_an_issuer_that_does_not_answer_as_one_is_no_fault_of_the_token(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            server.accept()[0].close()
            with server.accept()[0] as connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-x\r\n")

        threading.Thread(target=serve, daemon=True).start()
        issuer = f"http://127.0.0.1:{server.getsockname()[1]}"
        table = f'[http_auth.company]\nissuer = "{issuer}"\naudience = "{AUDIENCE}"\n'
        with web_daemon(tmp_path, "profile=default&auth=company", CONFIG + table) as (daemon, port):
            assert Caller(port).ask("ping", **bearer(issuer)).status == 503
            until(lambda: daemon.logged("issuer's keys not fetched") == 1)


async def test_an_issuers_keys_are_kept_while_other_places_come(nothing_left: None) -> None:
    daemon, told = memory_stream_one_way_pair()
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    with Path(os.devnull).open("wb") as log, trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            with issuing() as issuer:
                place = WebPlace(
                    f"http://127.0.0.1:{port}/mcp",
                    *(listening.detach(), "door", "http", "/mcp", None, (), {}, "default", 1000, 1000),
                    issuer=TokenIssuer(issuer, AUDIENCE, ()),
                )
                nursery.start_soon(serve_place, place, LogBook(log.fileno()), told)
                assert await status_of(port, bearer(issuer)) == 400
            # The issuer is gone.
            renewed = msgspec.structs.replace(place, places_sharing=2)
            await daemon.send_all(msgspec.json.encode(renewed) + b"\n")
            await wait_all_tasks_blocked()
            assert await status_of(port, bearer(issuer)) == 400
            await daemon.aclose()


async def status_of(port: int, headers: dict[str, str]) -> int:
    """That of a request of a client that says not which session it ends."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as client:
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        await client.send_all(f"DELETE /mcp HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\r\n".encode())
        answer = b"".join([chunk async for chunk in client])
    return int(answer.split()[1])
