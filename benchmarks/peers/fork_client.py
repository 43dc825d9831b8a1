"""Fork again and again from a warm Python that holds what the daemon's warm parent holds; one JSON object on stdout.

python -m benchmarks.peers.fork_client IN_FLIGHT SECONDS    os.fork, os._exit in the child, os.waitpid
"""

import gc
import os
import sys
import time
from importlib import import_module

import msgspec

from benchmarks.peers.warm_functions import echo

# What the warm parent has in memory beside the tool's module: its own program, and what reads a function's types.
PARENT = (
    "tooldispatchd.forked.python.warm",
    "tooldispatchd.forked.python.functions",
    "tooldispatchd.forked.python.signature",
)


def measure(in_flight: int, until: float) -> list[float]:
    begun: dict[int, float] = {}
    took: list[float] = []

    def begin() -> None:
        now = time.perf_counter()
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        begun[pid] = now

    for _ in range(in_flight):
        begin()
    while begun:
        pid, status = os.waitpid(-1, 0)
        assert status == 0
        took.append(time.perf_counter() - begun.pop(pid))
        if time.perf_counter() < until:
            begin()
    return took


def main() -> None:
    in_flight, seconds = int(sys.argv[1]), float(sys.argv[2])
    for name in PARENT:
        import_module(name)
    assert echo("bees").text == "bees"
    # As the warm parent does.
    gc.collect()
    gc.freeze()
    cpu, begun = time.process_time(), time.perf_counter()
    took = measure(in_flight, begun + seconds)
    span, cpu = time.perf_counter() - begun, time.process_time() - cpu
    done = len(took)
    found = {"calls_per_s": done / span, "p50_us": sorted(took)[done // 2] * 1e6, "cpu_us": cpu / done * 1e6}
    print(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main()
