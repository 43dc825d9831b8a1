"""A login from the command line, with the test as the person's browser."""

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


def words(home: Path, *arguments: str, program: str = PROGRAM) -> list[str]:
    return [sys.executable, "-c", program, "--config", str(home / "t.toml"), *arguments]


def environ(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "STATE_", "DISPLAY"))}
    return kept | {"HOME": str(home), "XDG_STATE_HOME": str(home / "state")} | more


def login(home: Path, *arguments: str, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    command = words(home, *arguments, program=program)
    return subprocess.run(command, env=environ(home), capture_output=True, text=True, timeout=30, check=False)


def configure(home: Path, url: str = "http://127.0.0.1:9") -> None:
    (home / "t.toml").write_text(CONFIG.format(url=url))


@asynccontextmanager
async def started(server: OAuthServer, home: Path, *arguments: str, **more: str) -> AsyncIterator[trio.Process]:
    """A login at `server`, which serves already."""
    configure(home, server.url)
    process = await trio.lowlevel.open_process(
        words(home, *arguments), env=environ(home, **more), stdout=subprocess.PIPE, stderr=subprocess.PIPE
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


async def rest(stream: trio.abc.ReceiveStream | None) -> str:
    assert stream is not None
    return b"".join([chunk async for chunk in stream]).decode()


async def test_a_login_prints_the_address_waits_for_the_browser_and_stores_the_tokens(tmp_path: Path) -> None:
    server = OAuthServer()
    async with serving(server), started(server, tmp_path, "docs", "--no-browser") as process:
        async with httpx2.AsyncClient(trust_env=False) as browser:
            away = await browser.get(await address(process))
            page = await browser.get(away.headers["Location"])
        said, complaints = await rest(process.stdout), await rest(process.stderr)
        assert await process.wait() == 0
    assert page.text == "You can close this page: the login goes on where it was started.\n"
    [stored] = (tmp_path / "state" / "tooldispatchd" / "oauth").glob("*.json")
    assert said == f"logged in at docs; the tokens are in {stored}\n"
    assert complaints == ""
    assert not any(secret in said for secret in server.given)
    again = login(tmp_path, "docs", "--forget")
    assert (again.returncode, again.stdout) == (0, "forgot the tokens of docs\n")
    assert not stored.exists()
    again = login(tmp_path, "docs", "--forget")
    assert (again.returncode, again.stdout) == (0, "there were no tokens of docs\n")


async def test_the_browser_is_opened_where_there_is_a_screen(tmp_path: Path) -> None:
    server, opened = OAuthServer(), tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(0o755)
    screen = {"DISPLAY": ":0", "BROWSER": str(browser)}
    async with serving(server), started(server, tmp_path, "docs", **screen) as process:
        shown = await address(process)
        with trio.fail_after(20):
            while not opened.exists():  # noqa: ASYNC110  # a shell cannot set an event
                await trio.sleep(0.01)
        assert opened.read_text() == shown
        process.terminate()
        await process.wait()


async def test_a_login_that_is_refused_fails_and_says_why(tmp_path: Path) -> None:
    server = OAuthServer()
    server.denies = True
    async with serving(server), started(server, tmp_path, "docs", "--no-browser") as process:
        async with httpx2.AsyncClient(trust_env=False) as browser:
            away = await browser.get(await address(process))
            await browser.get(away.headers["Location"])
        complaints = await rest(process.stderr)
        assert await process.wait() == 1
    refused = "cannot log in at docs: the authorization server refused the login (access_denied)"
    assert complaints == f"tooldispatchd: {refused}\n"


async def test_who_gives_up_is_not_shown_a_traceback(tmp_path: Path) -> None:
    server = OAuthServer()
    async with serving(server), started(server, tmp_path, "docs", "--no-browser") as process:
        await address(process)
        process.send_signal(2)
        complaints = await rest(process.stderr)
        assert await process.wait() == 1
    assert complaints == "tooldispatchd: gave up the login at docs\n"


def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    configure(tmp_path)
    ended = login(tmp_path, "docs", "--no-browser")
    assert ended.returncode == 1
    assert ended.stderr.startswith("tooldispatchd: cannot log in at docs: cannot connect to 127.0.0.1 port 9")
    assert ended.stdout == ""


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
def test_a_server_that_nobody_can_log_in_at_is_a_mistake(tmp_path: Path, server: str, why: str) -> None:
    configure(tmp_path)
    ended = login(tmp_path, server)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"tooldispatchd: {why}\n")


def test_a_configuration_that_cannot_be_used_is_reported(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text("[mcp.docs]\n")
    ended = login(tmp_path, "docs")
    assert ended.returncode == 2
    assert "cannot use" in ended.stderr


def test_without_the_extra_it_is_named(tmp_path: Path) -> None:
    configure(tmp_path)
    ended = login(tmp_path, "docs", program=f"import sys\nsys.modules['mcp'] = None\n{PROGRAM}")
    assert ended.returncode == 1
    missing = 'oauth needs tooldispatchd[oauth]: pip install "tooldispatchd[oauth]"'
    assert ended.stderr == f"tooldispatchd: cannot log in at docs: {missing}\n"
