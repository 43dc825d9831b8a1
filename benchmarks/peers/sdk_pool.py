"""Connections to thin stdio servers, opened by the official SDK's client, under trio: one JSON object on stdout.

sdk_pool.py CONNECTIONS AT_ONCE
"""

import sys
import time
from pathlib import Path

import msgspec
import trio
from mcp import Client, StdioServerParameters

from benchmarks.harness import memory_kib

SERVER = StdioServerParameters(command=sys.executable, args=["-I", str(Path(__file__).with_name("thin_mcp.py"))])
BEFORE = 3
"""Connections that pay for what all of them share."""
SETTLE_S = 0.3


async def hold(opening: trio.Semaphore, opened: trio.Event, ended: trio.Event) -> None:
    """One connection with its list of tools, in a task of its own, as the SDK wants it."""
    await opening.acquire()
    async with Client(SERVER, mode="legacy") as client:
        await client.list_tools()
        opening.release()
        opened.set()
        await ended.wait()


async def open_all(nursery: trio.Nursery, number: int, at_once: int, ended: trio.Event) -> None:
    """Return when so many more connections are open."""
    opening = trio.Semaphore(at_once)
    each_opened = [trio.Event() for _ in range(number)]
    for opened in each_opened:
        nursery.start_soon(hold, opening, opened, ended)
    for opened in each_opened:
        await opened.wait()


async def measure(connections: int, at_once: int) -> dict[str, float]:
    ended = trio.Event()
    async with trio.open_nursery() as nursery:
        await open_all(nursery, BEFORE, BEFORE, ended)
        await trio.sleep(SETTLE_S)
        memory, cpu, start = memory_kib("self")["Rss"], time.process_time(), time.perf_counter()
        await open_all(nursery, connections, at_once, ended)
        took, cpu = time.perf_counter() - start, time.process_time() - cpu
        await trio.sleep(SETTLE_S)
        memory = memory_kib("self")["Rss"] - memory
        ended.set()
    return {"seconds": took, "cpu_ms": cpu / connections * 1e3, "kib": memory / connections}


if __name__ == "__main__":
    print(msgspec.json.encode(trio.run(measure, int(sys.argv[1]), int(sys.argv[2]))).decode())
