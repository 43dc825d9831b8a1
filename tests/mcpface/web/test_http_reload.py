"""Places for MCP clients that come and go while the daemon runs."""

import http.client
import json
import ssl
import threading
from pathlib import Path

import pytest

from tests.daemon.reload.reloadable import Reloadable, serving
from tests.daemon.spawned import PATIENCE_S, until
from tests.mcpface.web.calling import CONFIG, Caller, free_port, web_process
from tests.mcpface.web.certificates import make_certificate
from tests.mcpface.web.test_https import ask


def configuration(directory: Path, *places: str) -> str:
    """That of these places for MCP clients, beside the agents' own."""
    return f"{CONFIG}\n[daemon]\nlisten = {json.dumps([f'unix:{directory}/dispatch.sock', *places])}\n"


def reload(directory: Path, daemon: Reloadable, *places: str) -> None:
    (directory / "config.toml").write_text(configuration(directory, *places))
    assert daemon.hang_up()["event"] == "configuration reloaded"


def is_open(port: int) -> bool:
    try:
        return Caller(port).send("OPTIONS").status == 403
    except ConnectionRefusedError:
        return False


def test_a_place_comes_and_another_goes_and_what_runs_there_is_finished(tmp_path: Path) -> None:
    one, two = free_port(), free_port()
    with serving(tmp_path, configuration(tmp_path)) as daemon, daemon.agent() as agent:
        agent.hello("default")
        reload(tmp_path, daemon, f"http://127.0.0.1:{one}/mcp?profile=default")
        until(lambda: is_open(one))
        client = Caller(one)
        client.initialize()
        answers: list[object] = []
        calling = threading.Thread(
            target=lambda: answers.append(client.call("steps", {}).message["result"]["content"][0]["text"])
        )
        calling.start()
        first = web_process(daemon)
        until(lambda: bool(daemon.running("sleep")) or bool(answers))
        reload(tmp_path, daemon, f"http://127.0.0.1:{two}/mcp?profile=default")
        until(lambda: is_open(two))
        assert not is_open(one)
        calling.join(PATIENCE_S)
        assert answers == ["1"]
        until(lambda: first not in daemon.running("tooldispatchd.mcpface.web"))
        assert Caller(two).initialize().status == 200
        assert agent.ask("echo", "still here")["content"] == '"still here"'
        reload(tmp_path, daemon)
        until(lambda: daemon.running("tooldispatchd.mcpface.web") == set())
        assert agent.ask("echo", "still here")["content"] == '"still here"'


def test_a_certificate_in_other_files_is_the_next_connections(tmp_path: Path) -> None:
    port = free_port()
    cert, key, other, others_key = (tmp_path / name for name in ("cert.pem", "key.pem", "other.pem", "other-key.pem"))
    first, second = make_certificate(cert, key), make_certificate(other, others_key)
    place = f"https://127.0.0.1:{port}/mcp?profile=safe"
    with serving(tmp_path, configuration(tmp_path, f"{place}&cert={cert}&key={key}")) as daemon:
        until(lambda: is_listening(port))
        assert ask(port, first) == 200
        reload(tmp_path, daemon, f"{place}&cert={other}&key={others_key}")
        until(lambda: is_trusted(port, second))
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(port, first)


def is_listening(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.connect()
    except ConnectionRefusedError:
        return False
    finally:
        connection.close()
    return True


def is_trusted(port: int, trusted: Path) -> bool:
    try:
        return ask(port, trusted) == 200
    except ssl.SSLCertVerificationError:
        return False
