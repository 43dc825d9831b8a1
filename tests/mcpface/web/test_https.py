"""TLS at a place, and a Unix socket in its stead."""

import http.client
import socket
import ssl
from pathlib import Path

import pytest

from tests.daemon.forking import run_forked
from tests.daemon.spawned import PATIENCE_S, daemon_on, until
from tests.mcpface.web.calling import ACCEPT, BEARER, CONFIG, free_port, raw
from tests.mcpface.web.certificates import make_certificate

PING = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}'


def ask(port: int, trusted: Path) -> int:
    context = ssl.create_default_context(cafile=str(trusted))
    connection = http.client.HTTPSConnection("localhost", port, timeout=PATIENCE_S, context=context)
    try:
        connection.request("POST", "/mcp", PING, ACCEPT | BEARER)
        return connection.getresponse().status
    finally:
        connection.close()


def is_up(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_place_has_tls_and_takes_up_a_renewed_certificate(tmp_path: Path) -> None:
    port = free_port()
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    first = make_certificate(cert, key)
    place = f"https://127.0.0.1:{port}/mcp?profile=safe&cert={cert}&key={key}"
    with daemon_on(tmp_path, CONFIG, "--listen", place) as daemon:
        assert ask(port, first) == 200
        with raw(port, b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n") as plain:
            assert not plain.recv(1000).startswith(b"HTTP")
        second = make_certificate(cert, key)
        assert ask(port, second) == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(port, first)
        cert.write_text("spoilt")
        assert ask(port, second) == 200
        # What a client does wrong is no defect of ours.
        assert daemon.logged("connection failed") == 0


def test_clients_that_only_begin_tls_hold_nobody_up(tmp_path: Path) -> None:
    port = free_port()
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    trusted = make_certificate(cert, key)
    place = f"https://127.0.0.1:{port}/mcp?profile=safe&cert={cert}&key={key}"
    with daemon_on(tmp_path, CONFIG, "--listen", place):
        until(lambda: is_up(port))
        with raw(port, b"\x16\x03\x01"), raw(port), raw(port, b"\x16"):
            assert ask(port, trusted) == 200


def test_a_certificate_that_cannot_be_used_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    place = f"https://127.0.0.1:1/mcp?profile=safe&cert={tmp_path}/config.toml"
    ended = run_forked("serve", "--config", str(tmp_path / "config.toml"), "--listen", place)
    assert ended.returncode == 2
    assert "cert: there is no PEM certificate in this file" in ended.stderr


def test_a_unix_socket_takes_http_too(tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    with daemon_on(tmp_path, CONFIG, "--listen", f"http+unix:{path}?mode=0600&profile=safe"):
        assert path.stat().st_mode & 0o777 == 0o600
        with socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(PATIENCE_S)
            channel.connect(str(path))
            head = "".join(f"{name}: {value}\r\n" for name, value in (ACCEPT | BEARER).items())
            request = f"POST /mcp HTTP/1.1\r\nHost: any\r\n{head}Content-Length: {len(PING)}\r\n\r\n"
            channel.sendall(request.encode() + PING)
            assert channel.recv(4096).startswith(b"HTTP/1.1 200")
    assert not path.exists()
