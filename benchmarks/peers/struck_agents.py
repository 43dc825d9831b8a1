"""Agents whose servers are about to be struck: each calls now and then; until stdin ends, then print what came of it.

    struck_agents.py SOCKET AGENTS

It prints a line "ready" once every agent has had an answer. Then one of them calls every few milliseconds, in turn,
unless it still waits for its last answer.
"""

import json
import select
import socket
import sys
import time
from typing import Final

BETWEEN_S: Final = 0.004
WAIT_S: Final = 20.0
HELLO: Final = b'{"__port":"hello","profile":"struck"}\n'


class Agent:
    """One channel, and what was asked and answered on it."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.socket.sendall(HELLO)
        self.tail = b""
        self.asked = 0
        self.answered: list[str] = []
        self.faults = 0
        self.is_ready = False

    def ask(self) -> None:
        """One more call."""
        self.asked += 1
        request = {"__port": "tool_req", "id": str(self.asked), "name": "struck:echo", "input": {"text": "bees"}}
        self.socket.sendall(json.dumps(request).encode() + b"\n")

    def take(self) -> None:
        """Read what has come."""
        *lines, self.tail = (self.tail + self.socket.recv(65536)).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if message["__port"] == "ready":
                self.is_ready = True
            else:
                self.answered.append(message["id"])
                self.faults += message["is_error"]

    @property
    def waits(self) -> bool:
        """Whether an answer is due."""
        return self.asked > len(self.answered)


def serve(poller: select.epoll, agents: dict[int, Agent], seconds: float) -> None:
    for fd, _events in poller.poll(seconds):
        agents[fd].take()


def settle(poller: select.epoll, agents: dict[int, Agent]) -> None:
    """Until all are ready and nobody waits."""
    until = time.monotonic() + WAIT_S
    while any(each.waits or not each.is_ready for each in agents.values()):
        if time.monotonic() > until:
            sys.exit("an answer never came")
        serve(poller, agents, 0.1)


def main() -> None:
    agents = {each.socket.fileno(): each for each in (Agent(sys.argv[1]) for _ in range(int(sys.argv[2])))}
    poller = select.epoll()
    for fd in agents:
        poller.register(fd, select.EPOLLIN)
    settle(poller, agents)
    for each in agents.values():
        each.ask()
    settle(poller, agents)
    print("ready", flush=True)
    turn = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        turn += 1
        agent = list(agents.values())[turn % len(agents)]
        if not agent.waits:
            agent.ask()
        serve(poller, agents, BETWEEN_S)
    settle(poller, agents)
    found = {
        "calls": sum(each.asked for each in agents.values()),
        "once": sum(len(set(each.answered)) for each in agents.values()),
        "answers": sum(len(each.answered) for each in agents.values()),
        "faults": sum(each.faults for each in agents.values()),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
