"""The load generator where no C compiler is there: the same words and the same answer as `load.c`, but slower.

    load_python.py SOCKET PID CONNECTIONS IN_FLIGHT SECONDS NAME INPUT EXPECTED

Within the timed window answers are only counted by their newlines; they are kept, and read afterwards.
"""

import re
import select
import socket
import sys
import time
from pathlib import Path

import msgspec

ID_IN_ANSWER = re.compile(rb'"id":"(\d+)"')
WAIT_S = 60


class Connection:
    """One connection: how many calls were sent and answered, and every byte that came back."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.sent = 0
        self.answered = 0
        self.answers: list[bytes] = []
        self.asked_ns = 0


class Load:
    """All connections, one epoll set, and what was measured in the timed window."""

    def __init__(self, path: str, connections: int, name: str, input_json: str) -> None:
        self.head = b'{"__port":"tool_req","id":"'
        self.tail = f'","name":"{name}","input":{input_json}}}\n'.encode()
        self.set = select.epoll()
        self.all = [Connection(path) for _ in range(connections)]
        self.by_fd = {each.socket.fileno(): each for each in self.all}
        for fd in self.by_fd:
            self.set.register(fd, select.EPOLLIN)
        self.took_ns: list[int] = []
        self.calls = 0

    def request(self, connection: Connection, calls: int) -> None:
        """Send so many calls, each with an id of its own."""
        ids = range(connection.sent, connection.sent + calls)
        connection.sent += calls
        connection.asked_ns = time.perf_counter_ns()
        # The window is far below a socket's buffer, so a blocking send does not wait.
        connection.socket.sendall(b"".join(b"%b%09d%b" % (self.head, each, self.tail) for each in ids))

    def serve(self, *, again: bool) -> None:
        """Read what has come; with `again`, ask as many as were answered."""
        for fd, _events in self.set.poll(0.1, 512):
            connection = self.by_fd[fd]
            chunk = connection.socket.recv(65536)
            if not chunk:
                sys.exit("the server closed a connection")
            done = chunk.count(b"\n")
            connection.answers.append(chunk)
            connection.answered += done
            self.calls += done
            if done:
                # Since the newest request on this connection: exact with one call in flight, a floor with more.
                self.took_ns.append(time.perf_counter_ns() - connection.asked_ns)
            if done and again:
                self.request(connection, done)

    def unanswered(self) -> int:
        """Calls sent and not answered."""
        return sum(each.sent - each.answered for each in self.all)

    def wait_for_all(self) -> None:
        """Read on until nothing is due, for a minute at most."""
        until = time.monotonic() + WAIT_S
        while self.unanswered() > 0 and time.monotonic() < until:
            self.serve(again=False)

    def run(self, seconds: float) -> None:
        """Keep the window full for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.serve(again=True)

    def count_wrong(self, expected: bytes) -> tuple[int, int]:
        """Answers with an id that was not asked or came twice, and answers that are not what was expected."""
        wrong = errors = 0
        for connection in self.all:
            lines = b"".join(connection.answers).splitlines()
            found = [match.group(1) for line in lines if (match := ID_IN_ANSWER.search(line))]
            wrong += len(lines) - len({each for each in found if int(each) < connection.sent})
            errors += sum(expected not in line or b'"is_error":false' not in line for line in lines)
        return wrong, errors


def cpu_ns(pid: str) -> int:
    """CPU of all threads of `pid`, its children excluded."""
    return sum(int(each.read_text().split()[0]) for each in Path("/proc", pid, "task").glob("*/schedstat"))


def main() -> None:
    path, pid, connections, in_flight, seconds, name, input_json, expected = sys.argv[1:]
    load = Load(path, int(connections), name, input_json)
    for each in load.all:
        load.request(each, 1)
    load.wait_for_all()
    for each in load.all:
        load.request(each, int(in_flight))
    load.run(float(seconds) / 5)
    load.took_ns.clear()
    load.calls = 0
    server, own, start = cpu_ns(pid), time.process_time(), time.perf_counter()
    load.run(float(seconds))
    took = time.perf_counter() - start
    own = time.process_time() - own
    server = cpu_ns(pid) - server
    calls, latencies = load.calls, sorted(load.took_ns)
    load.wait_for_all()
    wrong, errors = load.count_wrong(expected.encode())
    result = {
        "calls": calls,
        "seconds": took,
        "p50_us": latencies[len(latencies) // 2] / 1e3 if latencies else 0.0,
        "p99_us": latencies[len(latencies) * 99 // 100] / 1e3 if latencies else 0.0,
        "server_cpu_us": server / 1e3 / calls if calls else 0.0,
        "own_cpu_share": own / took,
        "wrong": wrong,
        "errors": errors,
        "unanswered": load.unanswered(),
    }
    print(msgspec.json.encode(result).decode())


if __name__ == "__main__":
    main()
