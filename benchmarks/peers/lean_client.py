"""The least that a client of a stdio MCP server can do: blocking pipes, one read for many answers, msgspec.

lean_client.py IN_FLIGHT SECONDS    calls of `echo`; one JSON object on stdout
lean_client.py blob BYTES ROUNDS    calls of `blob`, one at a time
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import msgspec

WARM_CALLS = 200


class Answer(msgspec.Struct):
    """What a client reads of a response before it looks at the result."""

    id: int
    result: msgspec.Raw = msgspec.Raw(b"")


class Client:
    """One server, its pipes, and the calls asked so far."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        self._requests = requests
        self._answers = answers
        self._decode = msgspec.json.Decoder(Answer).decode
        self._encode = msgspec.json.Encoder().encode
        self._pieces: list[bytes] = []
        self._asked = 0

    def send(self, method: str, params: object) -> None:
        """One request."""
        self._asked += 1
        message = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}
        self._requests.write(self._encode(message) + b"\n")

    def call(self, calls: int, tool: str, arguments: object) -> None:
        """So many calls in one write."""
        params = {"name": tool, "arguments": arguments}
        lines = []
        for _ in range(calls):
            self._asked += 1
            message = {"jsonrpc": "2.0", "id": self._asked, "method": "tools/call", "params": params}
            lines.append(self._encode(message))
        lines.append(b"")
        self._requests.write(b"\n".join(lines))

    def receive(self) -> int:
        """How many answers the next read completes."""
        chunk = self._answers.read(1 << 20)
        if not chunk:
            sys.exit("the server closed its output")
        self._pieces.append(chunk)
        if b"\n" not in chunk:
            return 0
        *lines, tail = b"".join(self._pieces).split(b"\n")
        self._pieces = [tail] if tail else []
        for line in lines:
            self._decode(line)
        return len(lines)

    def finish(self) -> None:
        """Wait for the one answer that is due."""
        while not self.receive():
            pass


def measure_calls(client: Client, in_flight: int, seconds: float) -> dict[str, float]:
    for _ in range(WARM_CALLS):
        client.call(1, "echo", {"text": "warm"})
        client.finish()
    took = []
    done = 0
    client.call(in_flight, "echo", {"text": "what did the survey of bees find"})
    cpu, start = time.process_time(), time.perf_counter()
    asked = start
    while asked < start + seconds:
        answered = client.receive()
        now = time.perf_counter()
        if answered:
            done += answered
            took.append(now - asked)
            asked = now
            client.call(answered, "echo", {"text": "what did the survey of bees find"})
    span, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"calls_per_s": done / span, "p50_us": sorted(took)[len(took) // 2] * 1e6, "cpu_us": cpu / done * 1e6}


def measure_blobs(client: Client, size: int, rounds: int) -> dict[str, float]:
    took = []
    for _ in range(rounds):
        start = time.perf_counter()
        client.call(1, "blob", {"bytes": size})
        client.finish()
        took.append(time.perf_counter() - start)
    return {"seconds": sorted(took)[rounds // 2]}


def main() -> None:
    server = [sys.executable, str(Path(__file__).with_name("thin_mcp.py"))]
    with subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        client = Client(process.stdin, process.stdout)
        client.send("initialize", {"protocolVersion": "2025-11-25"})
        client.finish()
        if sys.argv[1] == "blob":
            found = measure_blobs(client, int(sys.argv[2]), int(sys.argv[3]))
        else:
            found = measure_calls(client, int(sys.argv[1]), float(sys.argv[2]))
        print(msgspec.json.encode(found).decode())
        process.stdin.close()


if __name__ == "__main__":
    main()
