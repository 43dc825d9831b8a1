"""The SDK's own client over HTTP, in each of its ways to begin."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult

from tests.mcpface.web.calling import BEARER, CONFIG, web_daemon

# On trio the SDK leaves its streams of events to the collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

Mode = Literal["auto", "legacy", "2026-07-28"]
MODES: Final[list[tuple[Mode, str]]] = [
    ("auto", "2026-07-28"),
    ("legacy", "2025-11-25"),
    ("2026-07-28", "2026-07-28"),
]
ASKING: Final = """
[limits]
approve_s = 1
[tools.shell]
type = "{line: string} -> {line: string}"
inline = "id"
approve = "always"
[tools.push]
type = "{line: string} -> {line: string}"
inline = "id"
approve = "always"
[agents.asked]
tools = ["shell", "push"]
token = "asked"
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    query = "profiles=safe,default,asked&profile=default"
    with web_daemon(tmp_path_factory.mktemp("sdk"), query, CONFIG + ASKING) as (_, port):
        yield f"http://127.0.0.1:{port}/mcp"


@asynccontextmanager
async def connected(url: str, mode: Mode, headers: dict[str, str], **callbacks: Any) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, **callbacks) as client,
    ):
        yield client


@pytest.mark.parametrize(("mode", "revision"), MODES)
@pytest.mark.parametrize(("headers", "tool"), [({}, "steps"), (BEARER, "echo")])
async def test_the_sdk_lists_and_calls(url: str, mode: Mode, revision: str, headers: dict[str, str], tool: str) -> None:
    async with connected(url, mode, headers) as client:
        assert client.protocol_version == revision
        assert tool in {each.name for each in (await client.list_tools()).tools}
        called = await client.call_tool(tool, {})
        # A text is what `echo` takes, and MCP's arguments are an object.
        assert bool(called.is_error) is (tool == "echo")


class Asked:
    """A user who answers what is asked, one answer after the other; then never again."""

    def __init__(self, *answers: ElicitResult) -> None:
        self.messages: list[str] = []
        self._answers = list(answers)

    async def __call__(self, _context: object, params: ElicitRequestParams) -> ElicitResult:
        self.messages.append(params.message)
        if not self._answers:
            await anyio.sleep_forever()
        return self._answers.pop(0)


@asynccontextmanager
async def asked(url: str, mode: Mode, user: Asked | None) -> AsyncIterator[Client]:
    callbacks = {} if user is None else {"elicitation_callback": user}
    async with connected(url, mode, {"Authorization": "Bearer asked"}, **callbacks) as client:
        yield client


async def run(client: Client, tool: str, line: str) -> tuple[bool, str]:
    """Whether a call failed, and what it said."""
    called = await client.call_tool(tool, {"line": line})
    return bool(called.is_error), called.content[0].text  # type: ignore[union-attr]  # a text


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_sdk_s_user_is_asked_whether_a_call_may_run(url: str, mode: Mode) -> None:
    user = Asked(
        ElicitResult(action="decline"),
        ElicitResult(action="accept", content={"allow": "this tool"}),
    )
    async with asked(url, mode, user) as client:
        is_error, text = await run(client, "shell", "make")
        assert (is_error, "shell may not run: the client's user declined" in text) == (True, True)
        for line in ("make", "ls"):
            assert await run(client, "shell", line) == (False, json.dumps({"line": line}, separators=(",", ":")))
    assert [message.splitlines()[2] for message in user.messages] == ['Input: {"line":"make"}'] * 2


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_of_the_sdk_that_shows_no_forms_is_refused(url: str, mode: Mode) -> None:
    # Of another tool: requests of 2026-07-28 share a session, and so what their users have decided.
    async with asked(url, mode, None) as client:
        is_error, text = await run(client, "push", "x")
    assert (is_error, "`elicitation`" in text, "`approver`" in text) == (True, True, True)


async def test_a_user_who_never_answers_refuses_when_the_daemon_s_limit_passes(url: str) -> None:
    async with asked(url, "legacy", Asked()) as client:
        is_error, text = await run(client, "push", "x")
    assert (is_error, "nobody answered within 1 s" in text) == (True, True)
