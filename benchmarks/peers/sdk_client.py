"""The official SDK's client against the same thin server, under trio.

sdk_client.py IN_FLIGHT SECONDS [URL]    one JSON object on stdout; over stdio, or to the server at URL
"""

import sys
import time
from pathlib import Path

import msgspec
import trio
from mcp import Client, StdioServerParameters

WARM_CALLS = 50
SERVER = StdioServerParameters(command=sys.executable, args=[str(Path(__file__).with_name("thin_mcp.py"))])


async def call_until(client: Client, until: float, took: list[float]) -> None:
    start = time.perf_counter()
    while start < until:
        await client.call_tool("echo", {"text": "what did the survey of bees find"})
        now = time.perf_counter()
        took.append(now - start)
        start = now


async def measure(in_flight: int, seconds: float, server: StdioServerParameters | str) -> dict[str, float]:
    # The handshake that every server knows: the daemon's too, and without a probe before it.
    async with Client(server, mode="legacy") as client:
        for _ in range(WARM_CALLS):
            await client.call_tool("echo", {"text": "warm"})
        took: list[float] = []
        cpu, start = time.process_time(), time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(in_flight):
                nursery.start_soon(call_until, client, start + seconds, took)
        span, cpu = time.perf_counter() - start, time.process_time() - cpu
    done = len(took)
    return {"calls_per_s": done / span, "p50_us": sorted(took)[done // 2] * 1e6, "cpu_us": cpu / done * 1e6}


if __name__ == "__main__":
    server = sys.argv[3] if len(sys.argv) > 3 else SERVER
    print(msgspec.json.encode(trio.run(measure, int(sys.argv[1]), float(sys.argv[2]), server)).decode())
