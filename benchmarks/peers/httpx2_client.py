"""httpx2 at the same API: its blocking client for one request at a time, that for trio for more.

httpx2_client.py IN_FLIGHT SECONDS URL    one JSON object on stdout
"""

import sys
import time

import httpx2
import msgspec
import trio

WARM_CALLS = 50
PARAMETERS = {"units": "metric", "days": "3"}


def check(answer: httpx2.Response) -> None:
    assert answer.raise_for_status().json()["city"] == "Paris"


def block(seconds: float, url: str) -> dict[str, float]:
    took: list[float] = []
    with httpx2.Client() as client:
        for _ in range(WARM_CALLS):
            check(client.get(url, params=PARAMETERS))
        cpu, start = time.process_time(), time.perf_counter()
        begun = start
        while begun < start + seconds:
            check(client.get(url, params=PARAMETERS))
            now = time.perf_counter()
            took.append(now - begun)
            begun = now
        return result(took, time.perf_counter() - start, time.process_time() - cpu)


async def ask_until(client: httpx2.AsyncClient, url: str, until: float, took: list[float]) -> None:
    begun = time.perf_counter()
    while begun < until:
        check(await client.get(url, params=PARAMETERS))
        now = time.perf_counter()
        took.append(now - begun)
        begun = now


async def ask(in_flight: int, seconds: float, url: str) -> dict[str, float]:
    limits = httpx2.Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
    async with httpx2.AsyncClient(limits=limits) as client:
        for _ in range(WARM_CALLS):
            check(await client.get(url, params=PARAMETERS))
        took: list[float] = []
        cpu, start = time.process_time(), time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(in_flight):
                nursery.start_soon(ask_until, client, url, start + seconds, took)
        return result(took, time.perf_counter() - start, time.process_time() - cpu)


def result(took: list[float], span: float, cpu: float) -> dict[str, float]:
    done = len(took)
    return {"calls_per_s": done / span, "p50_us": sorted(took)[done // 2] * 1e6, "cpu_us": cpu / done * 1e6}


if __name__ == "__main__":
    in_flight, seconds, url = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    found = block(seconds, url) if in_flight == 1 else trio.run(ask, in_flight, seconds, url)
    print(msgspec.json.encode(found).decode())
