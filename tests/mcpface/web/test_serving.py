"""A web process in this one: what load balancers are told while the daemon is not ready."""

import os
import socket
from pathlib import Path

import msgspec
import trio
from trio.testing import memory_stream_one_way_pair, wait_all_tasks_blocked

from tests.daemon.spawned import PATIENCE_S
from tooldispatchd.mcpface.web.logbook import LogBook
from tooldispatchd.mcpface.web.serving import serve_place
from tooldispatchd.wire.webplaces import WebPlace


async def test_a_place_is_ready_once_the_daemon_says_so(nothing_left: None) -> None:
    daemon, told = memory_stream_one_way_pair()
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    place = WebPlace(
        "http://127.0.0.1/mcp",
        *(listening.detach(), "door", "http", "/mcp", (), (), {}, None, 1000, 1000),
        is_ready=False,
    )
    with Path(os.devnull).open("wb") as log, trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_place, place, LogBook(log.fileno()), told)
            assert (await status(port, "/healthz"), await status(port, "/readyz")) == (200, 503)
            await daemon.send_all(msgspec.json.encode(msgspec.structs.replace(place, is_ready=True)) + b"\n")
            await wait_all_tasks_blocked()
            assert await status(port, "/readyz") == 200
            await daemon.aclose()


async def status(port: int, path: str) -> int:
    async with await trio.open_tcp_stream("127.0.0.1", port) as client:
        await client.send_all(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join([chunk async for chunk in client])
    return int(answer.split()[1])
