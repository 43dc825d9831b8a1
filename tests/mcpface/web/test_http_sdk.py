"""The SDK's own client over HTTP, in each of its ways to begin."""

from collections.abc import Iterator
from typing import Literal

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.mcpface.web.calling import BEARER, web_daemon


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with web_daemon(tmp_path_factory.mktemp("sdk"), "profiles=safe,default&profile=default") as (_, port):
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.mark.parametrize(
    ("mode", "revision"), [("auto", "2026-07-28"), ("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")]
)
@pytest.mark.parametrize(("headers", "tool"), [({}, "steps"), (BEARER, "echo")])
async def test_the_sdk_lists_and_calls(
    url: str, mode: Literal["auto", "legacy", "2026-07-28"], revision: str, headers: dict[str, str], tool: str
) -> None:
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        assert client.protocol_version == revision
        assert tool in {each.name for each in (await client.list_tools()).tools}
        called = await client.call_tool(tool, {})
        # A text is what `echo` takes, and MCP's arguments are an object.
        assert bool(called.is_error) is (tool == "echo")
