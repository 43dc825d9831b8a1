"""Run a program again and again with one input, without the daemon; one JSON object on stdout.

spawn_client.py bare IN_FLIGHT SECONDS      cat, by os.posix_spawn, raw pipes, poll, waitpid
spawn_client.py python IN_FLIGHT SECONDS    a Python that imports what `warm_functions` does, in the same way
spawn_client.py trio IN_FLIGHT SECONDS      cat, by trio.run_process
"""

import os
import select
import sys
import time

import msgspec
import trio

CAT = ["/bin/cat"]
PYTHON = [sys.executable, "-c", "import dataclasses, json, msgspec, sys; json.dump(json.load(sys.stdin), sys.stdout)"]
INPUT = b'{"text": "what did the survey of bees find"}'


def start(words: list[str]) -> tuple[int, int]:
    """Spawn one, give it its input; its pid and the pipe that its output comes from."""
    stdin_read, stdin_write = os.pipe()
    stdout_read, stdout_write = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, stdin_read, 0), (os.POSIX_SPAWN_DUP2, stdout_write, 1)]
    pid = os.posix_spawn(words[0], words, os.environ, file_actions=actions)
    os.close(stdin_read)
    os.close(stdout_write)
    os.write(stdin_write, INPUT)
    os.close(stdin_write)
    return pid, stdout_read


def measure_bare(words: list[str], in_flight: int, until: float) -> list[float]:
    poll = select.poll()
    running: dict[int, tuple[int, float, bytes]] = {}
    took: list[float] = []

    def begin() -> None:
        now = time.perf_counter()
        pid, fd = start(words)
        running[fd] = (pid, now, b"")
        poll.register(fd, select.POLLIN)

    for _ in range(in_flight):
        begin()
    while running:
        for fd, _events in poll.poll():
            pid, begun, output = running[fd]
            chunk = os.read(fd, 65536)
            running[fd] = (pid, begun, output + chunk)
            if chunk:
                continue
            poll.unregister(fd)
            os.close(fd)
            del running[fd]
            _pid, status = os.waitpid(pid, 0)
            assert status == 0
            assert output == INPUT
            took.append(time.perf_counter() - begun)
            if time.perf_counter() < until:
                begin()
    return took


async def call_until(until: float, took: list[float]) -> None:
    begun = time.perf_counter()
    while begun < until:
        done = await trio.run_process(CAT, stdin=INPUT, capture_stdout=True)
        assert done.stdout == INPUT
        now = time.perf_counter()
        took.append(now - begun)
        begun = now


async def measure_trio(in_flight: int, until: float) -> list[float]:
    took: list[float] = []
    async with trio.open_nursery() as nursery:
        for _ in range(in_flight):
            nursery.start_soon(call_until, until, took)
    return took


def main() -> None:
    kind, in_flight, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    cpu, begun = time.process_time(), time.perf_counter()
    if kind == "trio":
        took = trio.run(measure_trio, in_flight, begun + seconds)
    else:
        took = measure_bare(PYTHON if kind == "python" else CAT, in_flight, begun + seconds)
    span, cpu = time.perf_counter() - begun, time.process_time() - cpu
    done = len(took)
    found = {"calls_per_s": done / span, "p50_us": sorted(took)[done // 2] * 1e6, "cpu_us": cpu / done * 1e6}
    print(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main()
