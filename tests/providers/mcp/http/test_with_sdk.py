"""The links against the official SDK's server, over a real socket and in a process of its own."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from tests.providers.mcp.linking import Linked, Speaks, at, linked
from tooldispatchd.providers.mcp.http.door import PairWay, StreamableWay

SERVER = Path(__file__).parents[3] / "servers" / "sdk_http_server.py"


INITIALIZE: dict[str, object] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "0"},
}


@asynccontextmanager
async def running(mode: str) -> AsyncIterator[str]:
    """The server's origin, while it runs."""
    process = await trio.lowlevel.open_process([sys.executable, str(SERVER), mode], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        with trio.fail_after(30):
            said = b""
            while not said.endswith(b"\n"):
                said += await process.stdout.receive_some()
        yield f"http://127.0.0.1:{int(said)}"
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            if process.stdout is not None:
                await process.stdout.aclose()


async def greet(far: Linked) -> None:
    answer = await far.result("initialize", **INITIALIZE)
    assert isinstance(answer, dict)
    far.link.dialect = Speaks(answer["protocolVersion"])
    far.tell("notifications/initialized")
    await far.link.greeted()


async def say(far: Linked) -> object:
    return await far.result("tools/call", name="say", arguments={"words": "é"})


SAID = {"content": [{"type": "text", "text": "é"}], "isError": False}


async def test_streamable_http_with_a_session_a_stream_and_a_poll() -> None:
    async with running("streamable") as origin:
        spec = at(f"{origin}/mcp")
        assert spec.reach is not None
        async with linked(StreamableWay(spec, spec.reach), Speaks("")) as far:
            await greet(far)
            assert await say(far) == SAID
            polled = await far.result("tools/call", name="poll", arguments={}, _meta={"progressToken": 7})
            assert polled == {"content": [{"type": "text", "text": "back"}], "isError": False}
            assert sum(b"notifications/progress" in message for message in far.inbox.messages) == 2
            assert far.link.ended == {"undelivered": 0}


async def test_the_older_pair() -> None:
    async with running("pair") as origin:
        spec = at(f"{origin}/sse")
        assert spec.reach is not None
        async with linked(PairWay(spec, spec.reach), Speaks("")) as far:
            await greet(far)
            assert await say(far) == SAID
            assert far.link.ended == {"undelivered": 0}
