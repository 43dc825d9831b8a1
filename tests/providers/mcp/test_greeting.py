"""The answer to `initialize`."""

from importlib.metadata import version

import pytest
from msgspec import Raw

from tooldispatchd.providers.mcp.greeting import (
    INITIALIZE,
    MAX_INSTRUCTIONS_CHARS,
    MAX_NAME_CHARS,
    Greeting,
    read_greeting,
)


def test_the_client_names_itself_by_the_version_that_is_installed() -> None:
    assert INITIALIZE["clientInfo"] == {"name": "tooldispatchd", "version": version("tooldispatchd")}


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_revision_with_a_handshake_is_accepted(revision: str) -> None:
    said = b'{"protocolVersion":"' + revision.encode() + b'","capabilities":{"tools":{}},"instructions":"Hi."}'
    assert read_greeting(Raw(said)) == Greeting(revision, None, has_tools=True, instructions="Hi.")


@pytest.mark.parametrize("capabilities", [b"{}", b'{"tools":null}', b'{"prompts":{}}'])
def test_a_server_that_declares_no_tools_has_none(capabilities: bytes) -> None:
    greeting = read_greeting(Raw(b'{"protocolVersion":"2025-11-25","capabilities":' + capabilities + b"}"))
    assert greeting == Greeting("2025-11-25", None, has_tools=False, instructions=None)


@pytest.mark.parametrize(
    ("server", "name"),
    [
        (b'{"name":"docs","version":"1"}', "docs"),
        (b'{"name":"' + b"x" * 1000 + b'"}', "x" * MAX_NAME_CHARS),
        (b'{"name":""}', None),
        (b'{"name":7}', None),
        (b'{"version":"1"}', None),
        (b"null", None),
        (b"[]", None),
    ],
)
def test_what_a_server_calls_itself_is_known_where_it_can_be_read(server: bytes, name: str | None) -> None:
    greeting = read_greeting(Raw(b'{"protocolVersion":"2025-11-25","serverInfo":' + server + b"}"))
    assert greeting == Greeting("2025-11-25", name, has_tools=False, instructions=None)


def test_an_unknown_revision_is_named_and_cut() -> None:
    why = read_greeting(Raw(b'{"protocolVersion":"2099-01-01' + b"x" * 1000 + b'"}'))
    assert isinstance(why, str)
    assert "'2099-01-01xxx" in why
    assert len(why) < 200


@pytest.mark.parametrize(
    "result", [b"null", b"{}", b"[]", b'{"protocolVersion":7}', b"{", b'{"protocolVersion":"\xff"}']
)
def test_what_is_no_greeting_says_so(result: bytes) -> None:
    assert read_greeting(Raw(result)) == "its answer to initialize cannot be read"


def test_long_instructions_are_cut() -> None:
    said = b'{"protocolVersion":"2025-11-25","instructions":"' + b"x" * 100_000 + b'"}'
    greeting = read_greeting(Raw(said))
    assert isinstance(greeting, Greeting)
    assert greeting.instructions == "x" * MAX_INSTRUCTIONS_CHARS
