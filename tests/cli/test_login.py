"""A login from the command line, with the test as the person's browser."""

import argparse
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
import trio

from tests.servers.authorization_server import OAuthServer, serving
from tooldispatchd.cli import login as command
from tooldispatchd.installation import needs

PROGRAM = """\
import argparse, signal, sys
# What starts tests in the background has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
from tooldispatchd.cli import login
parser = argparse.ArgumentParser()
login.add_arguments(parser)
sys.exit(login.run(parser.parse_args()))
"""
CONFIG = """\
[mcp.docs]
url = "{url}/mcp"
auth = "oauth"
[mcp.robot]
url = "{url}/mcp"
auth = "oauth"
oauth = {{ grant = "client_credentials", client_id = "c", client_secret_env = "HOME" }}
[mcp.plain]
url = "{url}/mcp"
"""


def environ(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "STATE_", "DISPLAY"))}
    return kept | {"HOME": str(home), "XDG_STATE_HOME": str(home / "state")} | more


def words(home: Path, *arguments: str) -> list[str]:
    return ["--config", str(home / "t.toml"), *arguments]


def login(home: Path, *arguments: str) -> int:
    """The command in this process, where what it needs is imported once for all tests; its exit code."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(words(home, *arguments)))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home, with a configuration that names no server that is there."""
    for name in os.environ.keys() - environ(tmp_path).keys():
        monkeypatch.delenv(name)
    for name, value in environ(tmp_path).items():
        monkeypatch.setenv(name, value)
    configure(tmp_path)
    return tmp_path


def configure(home: Path, url: str = "http://127.0.0.1:9") -> None:
    (home / "t.toml").write_text(CONFIG.format(url=url))


@asynccontextmanager
async def started(server: OAuthServer, home: Path, *arguments: str) -> AsyncIterator[trio.Process]:
    """A login at `server`, which serves already."""
    configure(home, server.url)
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", PROGRAM, *words(home, *arguments)],
        env=environ(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    async with process.stdout, process.stderr:
        try:
            yield process
        finally:
            process.kill()


async def address(process: trio.Process) -> str:
    """The address that the person is shown."""
    assert process.stdout is not None
    said = b""
    while b"\n\n    http" not in said or not said.endswith(b"\n\n"):
        chunk = await process.stdout.receive_some()
        assert chunk, said
        said += chunk
    return said.decode().split()[-1]


async def shown(capsys: pytest.CaptureFixture[str]) -> str:
    """The same, of a login in this process."""
    said = ""
    with trio.fail_after(20):
        while not said.endswith("\n\n"):
            await trio.sleep(0.005)
            said += capsys.readouterr().out
    return said.split()[-1]


async def consent(url: str) -> httpx2.Response:
    """What a browser does at the address of a login; the page that it ends at."""
    async with httpx2.AsyncClient(trust_env=False) as browser:
        away = await browser.get(url)
        return await browser.get(away.headers["Location"])


async def rest(stream: trio.abc.ReceiveStream | None) -> str:
    assert stream is not None
    return b"".join([chunk async for chunk in stream]).decode()


async def test_a_login_prints_the_address_waits_for_the_browser_and_stores_the_tokens(home: Path) -> None:
    server = OAuthServer()
    async with serving(server), started(server, home, "docs", "--no-browser") as process:
        page = await consent(await address(process))
        said, complaints = await rest(process.stdout), await rest(process.stderr)
        assert await process.wait() == 0
    assert page.text == "You can close this page: the login goes on where it was started.\n"
    [stored] = (home / "state" / "tooldispatchd" / "oauth").glob("*.json")
    assert said == f"logged in at docs; the tokens are in {stored}\n"
    assert complaints == ""
    assert not any(secret in said for secret in server.given)


async def test_a_login_is_forgotten_once(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = OAuthServer()
    async with serving(server), trio.open_nursery() as nursery:
        configure(home, server.url)
        nursery.start_soon(trio.to_thread.run_sync, login, home, "docs", "--no-browser")
        await consent(await shown(capsys))
    [stored] = (home / "state" / "tooldispatchd" / "oauth").glob("*.json")
    assert capsys.readouterr().out == f"logged in at docs; the tokens are in {stored}\n"
    assert await trio.to_thread.run_sync(login, home, "docs", "--forget") == 0
    assert await trio.to_thread.run_sync(login, home, "docs", "--forget") == 0
    assert capsys.readouterr().out == "forgot the tokens of docs\nthere were no tokens of docs\n"
    assert not stored.exists()


async def test_the_browser_is_opened_where_there_is_a_screen(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server, opened = OAuthServer(), home / "opened"
    browser = home / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    browser.chmod(0o755)
    # No part of the interpreter, wherever the command is started.
    (home / "webbrowser.py").write_text("raise SystemExit")
    monkeypatch.chdir(home)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("BROWSER", str(browser))
    async with serving(server), trio.open_nursery() as nursery:
        configure(home, server.url)
        nursery.start_soon(trio.to_thread.run_sync, login, home, "docs")
        url = await shown(capsys)
        await consent(url)
    await trio.to_thread.run_sync(command._opened.pop().wait)
    assert opened.read_text() == url


async def test_a_login_that_is_refused_fails_and_says_why(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = OAuthServer()
    codes: list[int] = []
    server.denies = True

    async def log_in() -> None:
        codes.append(await trio.to_thread.run_sync(login, home, "docs", "--no-browser"))

    async with serving(server), trio.open_nursery() as nursery:
        configure(home, server.url)
        nursery.start_soon(log_in)
        url = await shown(capsys)
        await consent(url)
    refused = "cannot log in at docs: the authorization server refused the login (access_denied)"
    assert codes == [1]
    assert capsys.readouterr().err == f"tooldispatchd: {refused}\n"


@asynccontextmanager
async def elsewhere(server: OAuthServer) -> AsyncIterator[OAuthServer]:
    """Both serve, and `server` is authorised by the other one, which is the result."""
    other = OAuthServer()
    server.tokens = other.tokens
    async with serving(server), serving(other):
        server.resource_metadata = {"authorization_servers": [other.url]}
        other.resource = server.mcp
        yield other


async def test_an_authorization_server_elsewhere_is_named_with_the_line_that_lists_it(home: Path) -> None:
    server = OAuthServer()
    async with elsewhere(server) as other, started(server, home, "docs", "--no-browser") as process:
        complaints = await rest(process.stderr)
        assert await process.wait() == 1
    host = other.url.removeprefix("http://")
    assert complaints == (
        f"tooldispatchd: cannot log in at docs: its authorization server {other.url} is not among its `hosts`\n"
        f'If you trust it, put into the table of docs:\n\n    hosts = ["{host}"]\n\n'
    )
    assert other.requests == []


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("", 1)])
async def test_at_a_terminal_the_person_is_asked_whether_to_trust_it(home: Path, answer: str, code: int) -> None:
    server = OAuthServer()
    terminal, its = os.openpty()
    async with elsewhere(server) as other:
        configure(home, server.url)
        process = await trio.lowlevel.open_process(
            [sys.executable, "-c", PROGRAM, *words(home, "docs", "--no-browser")],
            env=environ(home),
            stdin=its,
            stdout=subprocess.PIPE,
            stderr=its,
        )
        os.close(its)
        assert process.stdout is not None
        try:
            async with process.stdout, trio.lowlevel.FdStream(terminal) as person:
                said = b""
                while not said.endswith(b"[y/N] "):
                    said += await person.receive_some()
                await person.send_all(answer.encode() + b"\n")
                if not code:
                    await consent(await address(process))
                with trio.fail_after(20):
                    assert await process.wait() == code
        finally:
            process.kill()
    question = f"its authorization server {other.url} is not among its `hosts`. Trust it? [y/N] "
    assert said.decode() == question
    assert bool(other.asked("/token")) is not bool(code)


async def test_who_gives_up_is_not_shown_a_traceback(home: Path) -> None:
    server = OAuthServer()
    async with serving(server), started(server, home, "docs", "--no-browser") as process:
        await address(process)
        process.send_signal(2)
        complaints = await rest(process.stderr)
        assert await process.wait() == 130
    assert complaints == "tooldispatchd: gave up the login at docs\n"


def test_a_server_that_is_not_there_is_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert login(home, "docs", "--no-browser") == 1
    said = capsys.readouterr()
    assert said.err.startswith("tooldispatchd: cannot log in at docs: cannot connect to 127.0.0.1 port 9")
    assert said.out == ""


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("dogs", "no server dogs in the configuration; did you mean docs?"),
        ("plain", 'server plain needs no login: it has no auth = "oauth"'),
        (
            "robot",
            "server robot needs no login: with oauth.grant = client_credentials the daemon gets tokens by itself",
        ),
    ],
)
def test_a_server_that_nobody_can_log_in_at_is_a_mistake(
    home: Path, capsys: pytest.CaptureFixture[str], server: str, why: str
) -> None:
    assert login(home, server) == 2
    assert capsys.readouterr() == ("", f"tooldispatchd: {why}\n")


def test_a_configuration_that_cannot_be_used_is_reported(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "t.toml").write_text("[mcp.docs]\n")
    assert login(home, "docs") == 2
    assert "cannot use" in capsys.readouterr().err


def test_a_credential_without_the_extra_is_told_of_before_anybody_is_asked(home: Path) -> None:
    (home / "tooldispatchd-token-key").write_bytes(bytes(32))
    program = f"import sys\nsys.modules['cryptography'] = None\n{PROGRAM}"
    ended = subprocess.run(
        [sys.executable, "-c", program, *words(home, "docs")],
        env=environ(home, CREDENTIALS_DIRECTORY=str(home)),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    missing = f"the credential tooldispatchd-token-key {needs('oauth')}"
    assert (ended.returncode, ended.stderr) == (1, f"tooldispatchd: cannot log in at docs: {missing}\n")
