"""An agent that behaves: one call after another, until stdin ends; then print how long they took.

    prober.py SOCKET [TOOL]     of an inline `echo`, or of the tool `echo` of a server, by its full name

It runs before all others on its core, so that a peer that shares it takes nothing from it; where the system does not
allow that, it says so. It prints a line "ready" after its first answer.
"""

import os
import select
import socket
import sys
import time
from contextlib import suppress
from typing import Final

import msgspec

PAUSE_S: Final = 0.0005
"""Between two calls, so that what holds the daemon up is met as often as it lasts."""
WORDS: Final = "is anybody there"


def request(tool: str) -> bytes:
    """The call as a line; a server's tool takes a record."""
    value: object = {"text": WORDS} if ":" in tool else WORDS
    return msgspec.json.encode({"__port": "tool_req", "id": "1", "name": tool, "input": value}) + b"\n"


def ask(peer: socket.socket, line: bytes) -> float:
    """One call; the seconds it took."""
    start = time.perf_counter()
    peer.sendall(line)
    answer = peer.recv(4096)
    took = time.perf_counter() - start
    if WORDS.encode() not in answer or not answer.endswith(b"\n"):
        sys.exit(f"no answer: {answer[:200]!r}")
    return took


def percentile(took: list[float], share: float) -> float:
    """In microseconds; `took` is sorted."""
    return took[min(len(took) - 1, int(len(took) * share))] * 1e6


def main() -> None:
    is_first = False
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        is_first = True
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(sys.argv[1])
    line = request(sys.argv[2] if len(sys.argv) > 2 else "echo")
    ask(peer, line)
    print("ready", flush=True)
    took = []
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        took.append(ask(peer, line))
    took.sort()
    found = {
        "calls": len(took),
        "p50_us": percentile(took, 0.5),
        "p99_us": percentile(took, 0.99),
        "worst_us": took[-1] * 1e6,
        "is_first": is_first,
    }
    print(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main()
