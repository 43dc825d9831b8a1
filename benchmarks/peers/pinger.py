"""Another agent: ping the daemon, one at a time with a pause, until stdin ends; then print the worst round trip.

    pinger.py SOCKET

It prints a line "ready" after its first pong, so that the caller knows when it watches.
"""

import select
import socket
import sys
import time

import msgspec

PAUSE_S = 0.001


def ping(peer: socket.socket) -> float:
    start = time.perf_counter()
    peer.sendall(b'{"__port":"ping"}\n')
    answer = peer.recv(4096)
    if b'"pong"' not in answer:
        sys.exit(f"no pong: {answer[:200]!r}")
    return time.perf_counter() - start


def main() -> None:
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(sys.argv[1])
    ping(peer)
    print("ready", flush=True)
    took = []
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        took.append(ping(peer))
    took.sort()
    found = {"worst_ms": took[-1] * 1e3, "p50_ms": took[len(took) // 2] * 1e3, "pings": len(took)}
    print(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main()
