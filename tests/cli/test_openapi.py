"""The command: what a document makes, as a list and as tables; and a document at a URL, fetched and kept."""

import argparse
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tooldispatchd.cli import openapi as command
from tooldispatchd.config.configuration import load_catalog

DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Pets"},
    "servers": [{"url": "/v1"}],
    "paths": {
        "/pets/{id}": {
            "get": {
                "operationId": "getPet",
                "tags": ["pets"],
                "parameters": [{"name": "a$b", "in": "query", "schema": {"type": "string", "enum": ["x", None]}}],
                "responses": {"200": {"content": {"application/json": {"schema": {"type": "object"}}}}},
            },
            "post": {"operationId": "addPet", "security": [{"key": []}]},
            "trace": {"operationId": "trace"},
        }
    },
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "query", "name": "k"}}},
}


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(words))


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "pets.json"
    path.write_text(json.dumps(DOCUMENT))
    return str(path)


def test_a_file_is_shown_with_its_tools_and_what_they_need(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file, "--base-url", "https://pets.example", "--name", "pets") == 0
    assert capsys.readouterr().out.splitlines() == [
        "Pets, at https://pets.example: 2 tools",
        "pets_getPet  GET /pets/{id}",
        "pets_addPet  POST /pets/{id}",
        'needed by 1: the key k: api_key = { query = "k", value_env = "…" }',
        "left out: TRACE /pets/{id}: the method TRACE is not sent",
    ]


def test_what_is_wrong_is_told_beside_what_there_is(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file, "--tags", "pets", "--operations", "getPt") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.replace(file, "FILE").splitlines() == [
        "FILE: openapi.api.spec: the document does not say where the API is: base_url is missing",
        '    allowed: base_url = "https://…"',
        "FILE: openapi.api.operations.0: the document has no such operation",
        '    did you mean "getPet"?',
    ]


def test_its_tables_are_a_configuration_that_means_the_same(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, "--toml", "--base-url", "https://pets.example", "--name", "pets") == 0
    (tmp_path / "written.toml").write_text(capsys.readouterr().out)
    key = 'api_key = { query = "k", value = "s" }'
    (tmp_path / "made.toml").write_text(f'[openapi.pets]\nspec = "{file}"\nbase_url = "https://pets.example"\n{key}\n')
    written, made = (load_catalog(tmp_path / f"{name}.toml", {}) for name in ("written", "made"))
    assert {name: tool.spec for name, tool in written.tools.items()} == {
        name: tool.spec for name, tool in made.tools.items()
    }
    assert written.apis["pets"].origin == made.apis["pets"].origin


def test_a_table_of_the_configuration_is_shown_by_its_name(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tooldispatchd.toml").write_text(
        f'[openapi.mine]\nspec = "{file}"\nbase_url = "https://x.example"\nmethods = ["GET"]\n'
    )
    assert run("mine") == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["mine_getPet  GET /pets/{id}"]
    assert run("min") == 2
    assert capsys.readouterr().err.splitlines()[1:] == [
        "tooldispatchd.toml:1: openapi: there is no [openapi.min]",
        '    did you mean "mine"?',
    ]


# --- fetching ---


class Documents(BaseHTTPRequestHandler):
    """Serves one document, in YAML, and says what it was asked."""

    content = b"openapi: 3.1.0\nservers: [{url: /v1}]\npaths: {/a: {get: {operationId: one}}}\n"
    asked: list[tuple[str, str | None]] = []  # noqa: RUF012  # one server, one list
    status = 200

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(**more: Any) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    asked: list[tuple[str, str | None]] = []
    handler = type("Handler", (Documents,), {"asked": asked, **more})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def configured(directory: Path, url: str, more: str = "") -> Path:
    path = directory / "t.toml"
    path.write_text(f'[openapi.pets]\nspec = "{url}/openapi.yaml?key=s3cret"\ntoken = "t0ken"\n{more}')
    path.chmod(0o600)
    return path


def test_what_is_at_a_url_is_fetched_and_read_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    with serving() as (url, asked):
        config = configured(tmp_path, url)
        assert run("pets", "--update", "--config", str(config)) == 0
        out, err = capsys.readouterr()
        assert out.splitlines() == [f"an API, at {url}/v1: 1 tools", "pets_one  GET /a"]
        assert err.startswith("tooldispatchd: openapi.pets: new, 76 bytes, sha256 ")
        assert run("pets", "--update", "--config", str(config)) == 0
        assert "openapi.pets: unchanged, " in capsys.readouterr().err
    # Credentials go to the API's own origin alone, which the table does not say.
    assert asked == [("/openapi.yaml?key=s3cret", None)] * 2
    catalog = load_catalog(config, {"STATE_DIRECTORY": str(tmp_path)})
    assert list(catalog.tools) == ["pets_one"]
    assert catalog.apis["pets"].origin == url
    with serving(content=b'{"openapi":"3.1.0"}') as (url, asked):
        config = configured(tmp_path, url, f'base_url = "{url}/v2"\n')
        assert run("pets", "--update", "--config", str(config)) == 0
    assert asked == [("/openapi.yaml?key=s3cret", "Bearer t0ken")]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"status": 404}, "cannot fetch the document: it was answered with the status 404"),
        ({"content": b"a: *b"}, "cannot read the document: line 1: an alias (*) stands for nothing that is complete"),
    ],
)
def test_what_cannot_be_used_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: Any, why: str
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    with serving(**more) as (url, _):
        assert run("pets", "--update", "--config", str(configured(tmp_path, url))) in {1, 2}
    assert capsys.readouterr().err == f"tooldispatchd: {why}\n"
    assert not (tmp_path / "openapi").exists()


def test_a_server_that_is_not_there_is_told_without_the_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        config = configured(tmp_path, f"http://127.0.0.1:{nobody.getsockname()[1]}")
        assert run("pets", "--update", "--config", str(config)) == 1
    err = capsys.readouterr().err
    assert err.startswith("tooldispatchd: cannot fetch the document: ")
    assert "s3cret" not in err


def test_a_url_is_shown_without_a_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    with serving() as (url, _):
        assert run(f"{url}/openapi.yaml", "--name", "p") == 0
    assert capsys.readouterr().out.splitlines() == [f"an API, at {url}/v1: 1 tools", "p_one  GET /a"]
    assert not (tmp_path / "openapi").exists()


def test_a_file_is_not_fetched(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "t.toml"
    config.write_text(f'[openapi.pets]\nspec = "{file}"\n')
    assert run("pets", "--update", "--config", str(config)) == 2
    assert "names a file" in capsys.readouterr().err
