"""An agent that behaves: one call after another, until stdin ends; then print how long they took.

    prober.py SOCKET [TOOL]     of `echo`, or of another tool that gives its text back, such as a server's `echo`

It runs before all others on its core, so that a peer that shares it takes nothing from it; where the system does not
allow that, it says so. It prints a line "ready" after its first answer. Beside the time of each call it reads how much
processor time the server took meanwhile: that is the same on a busy machine as on an idle one.
"""

import os
import select
import socket
import struct
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


def clock_of(peer: socket.socket) -> int:
    """The clock that counts the processor time of the process behind a socket, as the kernel numbers it."""
    pid, _uid, _gid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    # MAKE_PROCESS_CPUCLOCK of the kernel's posix-timers.h, with CPUCLOCK_SCHED.
    return (~int(pid) << 3) | 2


def ask(peer: socket.socket, clock: int, line: bytes) -> tuple[float, float]:
    """One call; the seconds it took, and of the server's processor time."""
    held, start = time.clock_gettime(clock), time.perf_counter()
    peer.sendall(line)
    answer = peer.recv(4096)
    took = time.perf_counter() - start
    held = time.clock_gettime(clock) - held
    if WORDS.encode() not in answer or not answer.endswith(b"\n"):
        sys.exit(f"no answer: {answer[:200]!r}")
    return took, held


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
    line, clock = request(sys.argv[2] if len(sys.argv) > 2 else "echo"), clock_of(peer)
    ask(peer, clock, line)
    print("ready", flush=True)
    asked = []
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        asked.append(ask(peer, clock, line))
    took = sorted(took for took, _held in asked)
    found = {
        "calls": len(took),
        "p50_us": percentile(took, 0.5),
        "p99_us": percentile(took, 0.99),
        "worst_us": took[-1] * 1e6,
        "held_us": max(held for _took, held in asked) * 1e6,
        "is_first": is_first,
    }
    print(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main()
