"""Many clients at once, half of them over stdio, half over HTTP: none hears of another, and nothing is left of any."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.spawned import PATIENCE_S, Daemon, carriers, server, until
from tests.mcpface.clients import StdioClient, stdio_client
from tests.mcpface.web.calling import Caller, web_daemon, web_process

CONFIG: Final = server("notes", "remembers", 'prefix = ""') + '[agents.default]\nmcp = ["notes"]\n'
# Of each kind. A profile opens some servers at a time, so that the last waits for the first few.
HALF: Final = 25
FEW: Final = 3


class Clients:
    """Clients of both kinds at one daemon, each of which has opened its session."""

    def __init__(self, stdio: list[StdioClient], http: list[Caller]) -> None:
        self.stdio = stdio
        self.http = http

    def tell(self, word: str) -> list[str]:
        """Have each tell its server its number and that word, all at once; what the servers then know."""
        for number, client in enumerate(self.stdio):
            client.say(called(f"stdio-{number}-{word}"))
        with ThreadPoolExecutor(len(self.http)) as pool:
            over_http = pool.map(lambda each: tell(each[1], f"HTTP-{each[0]}-{word}"), enumerate(self.http))
        return [client.hear()["result"]["content"][0]["text"] for client in self.stdio] + list(over_http)


def called(text: str) -> dict[str, object]:
    return {"id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": text}}}


def tell(client: Caller, text: str) -> str:
    told: str = client.call("echo", {"text": text}).message["result"]["content"][0]["text"]
    return told


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Daemon, int]]:
    with web_daemon(tmp_path, config=CONFIG) as served:
        yield served


@contextmanager
def clients(daemon: Daemon, port: int, each: int) -> Iterator[Clients]:
    with ExitStack() as stack:
        where = ("--socket", str(daemon.path))
        stdio = [stack.enter_context(stdio_client(daemon.path.parent, *where)) for _ in range(each)]
        http = [Caller(port) for _ in range(each)]
        for client in stdio:
            client.initialize()
        for caller in http:
            caller.initialize()
        yield Clients(stdio, http)


def servers(daemon: Daemon) -> int:
    return len(daemon.running("remembers"))


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_fifty_clients_have_a_server_each_of_which_nothing_is_left(place: tuple[Daemon, int]) -> None:
    daemon, port = place
    with clients(daemon, port, 1) as warm:
        warm.tell("warm")
        warm.http[0].send("DELETE")
    until(lambda: servers(daemon) == 0)
    watched = (daemon.process.pid, web_process(daemon))
    before = [descriptors(pid) for pid in watched]
    with clients(daemon, port, HALF) as many:
        many.tell("one")
        known = many.tell("two")
        assert known == [
            f"{kind}-{number}-one {kind}-{number}-two" for kind in ("stdio", "HTTP") for number in range(HALF)
        ]
        assert servers(daemon) == 2 * HALF
        assert [client.leave() for client in many.stdio] == [0] * HALF
        assert {client.send("DELETE").status for client in many.http} == {204}
        until(lambda: servers(daemon) == 0)
        until(lambda: [descriptors(pid) for pid in watched] == before)


def test_killed_relays_take_their_own_servers_along_and_no_others(place: tuple[Daemon, int]) -> None:
    daemon, port = place
    with clients(daemon, port, FEW) as some:
        some.tell("one")
        some.stdio.pop().process.kill()
        until(lambda: servers(daemon) == 2 * FEW - 1)
        assert some.tell("two")[0] == "stdio-0-one stdio-0-two"


def test_if_the_web_process_is_killed_its_sessions_end_and_those_over_stdio_go_on(place: tuple[Daemon, int]) -> None:
    daemon, port = place
    with clients(daemon, port, FEW) as some:
        some.tell("one")
        first = daemon.running("tooldispatchd.mcpface.web")
        os.kill(web_process(daemon), signal.SIGKILL)
        until(lambda: servers(daemon) == FEW)
        until(lambda: daemon.running("tooldispatchd.mcpface.web") not in (set(), first))
        assert some.http[0].call("echo", {"text": "two"}).status == 404
        for client in some.http:
            del client.headers["Mcp-Session-Id"]
            client.initialize()
        assert some.tell("two")[0] == "stdio-0-one stdio-0-two"
        assert tell(some.http[0], "three") == "HTTP-0-two three"


def test_if_the_daemon_is_killed_nothing_is_left(place: tuple[Daemon, int]) -> None:
    daemon, port = place
    with clients(daemon, port, FEW) as some:
        some.tell("one")
        (run_id,) = daemon.run_ids()
        daemon.process.send_signal(signal.SIGKILL)
        assert {client.process.wait(PATIENCE_S) for client in some.stdio} == {3}
        until(lambda: not carriers(run_id))
