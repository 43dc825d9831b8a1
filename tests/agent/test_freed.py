"""Channels, sessions and connections are freed by the end of the last who needs them: the collector finds nothing."""

import gc
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
import trio

from tests.agent.fakes import ANYONE, OUT_BUFFER_BYTES, OWN_USER, HeldPlan, Ledger, open_runtime, small_catalog
from tests.daemon.asking_servers import asking_over_http, asking_over_websocket
from tests.daemon.spawned import MISBEHAVING
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.host import ChannelHost
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config, McpSpec, ProfileSpec
from tooldispatchd.front.channel import Channel, SocketWire
from tooldispatchd.front.front import Front

HELLO: Final = {"__port": "hello"}
LIVES: Final[dict[str, list[object]]] = {
    "that says nothing": [],
    "with an inline call": [{"id": "1", "name": "echo", "input": 1}],
    "with a call that runs": [{"id": "1", "name": "held"}],
    "with a job": [{"id": "1", "name": "echo", "background": True}],
    "with a named agent": [{**HELLO, "agent": "a"}, {"__port": "bye", "agent": "a"}],
    "with named agents that stay": [HELLO, {**HELLO, "agent": "a"}, {**HELLO, "agent": "b"}],
    "that is refused": [{**HELLO, "profile": "nobody"}],
}


@contextmanager
def nothing_for_the_collector() -> Iterator[None]:
    """Fails where the block leaves objects of ours that only the collector can free."""
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = [type(each) for each in gc.garbage]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert sorted(each.__qualname__ for each in found if each.__module__.startswith("tooldispatchd")) == []


async def live(runtime: Runtime, front: Front, said: bytes, ended: bytes) -> None:
    """One channel: it says `said`, hears until `ended` is among it, and leaves."""
    ours, theirs = socket.socketpair()
    closed = trio.Event()
    gone = trio.Event()
    channel = Channel(front, SocketWire(ours), runtime.state.memory.share(0))
    host = ChannelHost(lambda: runtime, channel, lambda _host: gone.set(), entrance=ANYONE, visitor=OWN_USER)
    channel.open(host, closed=closed.set)
    async with trio.SocketStream(trio.socket.from_stdlib_socket(theirs)) as agent:
        await agent.send_all(said)
        heard = b""
        while ended not in heard:
            chunk = await agent.receive_some()
            assert chunk, heard
            heard += chunk
    await closed.wait()
    await gone.wait()


async def check(catalog: Catalog, said: bytes, ended: bytes) -> None:
    held = HeldPlan()
    async with open_runtime(catalog, held) as runtime, trio.open_nursery() as nursery:
        front = Front(runtime.services.timer, Ledger(), out_buffer_bytes=OUT_BUFFER_BYTES, stalled_s=10)
        nursery.start_soon(front.run)
        # What is made once for all, such as plans and tables, is made by the first.
        await live(runtime, front, said, ended)
        with nothing_for_the_collector():
            await live(runtime, front, said, ended)
            # A shared server is stopped after the last of its sessions.
            while runtime.services.home.child_tasks:
                await trio.sleep(0.01)
            await trio.testing.wait_all_tasks_blocked()
        assert runtime.state.memory.held == 0
        nursery.cancel_scope.cancel()


def encoded(*messages: object) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


@pytest.mark.parametrize("life", LIVES)
async def test_a_channel_is_freed_at_its_end(life: str) -> None:
    await check(small_catalog(), encoded(*LIVES[life], {"__port": "ping"}), b"pong")


async def test_a_channel_that_leaves_in_the_middle_of_a_line_is_freed() -> None:
    await check(small_catalog(), encoded({"__port": "ping"}) + b"x" * 100_000, b"pong")


def of_server(spec: McpSpec) -> Catalog:
    catalog = build_catalog(Config(mcp={"server": spec}, agents={"default": ProfileSpec(mcp=("server",))}))
    assert isinstance(catalog, Catalog)
    return catalog


CALL: Final = encoded(HELLO, {"id": "1", "name": "server:echo", "input": {}})


@pytest.mark.parametrize("mode", ["echo", "silent_calls", "dies_at_start"])
@pytest.mark.parametrize("shared", [False, True])
async def test_a_connection_over_stdio_is_freed_at_its_end(mode: str, shared: bool) -> None:
    args = ("-I", "-S", str(MISBEHAVING), mode)
    spec = McpSpec(command=sys.executable, args=args, shared=shared, keep_s=0, call_s=0.2, handshake_s=10)
    await check(of_server(spec), CALL, b'"id":"1"')


@pytest.mark.parametrize("shared", [False, True])
async def test_a_connection_over_http_is_freed_at_its_end(shared: bool) -> None:
    with asking_over_http("call") as url:
        await check(of_server(McpSpec(url=url, shared=shared, keep_s=0)), CALL, b'"id":"1"')


async def test_a_connection_over_websocket_is_freed_at_its_end() -> None:
    with asking_over_websocket() as url:
        await check(of_server(McpSpec(url=url)), CALL, b'"id":"1"')
