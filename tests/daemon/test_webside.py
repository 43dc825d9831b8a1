"""A web process as the daemon sees it, here one that reads nothing of what it is told."""

import socket
from collections.abc import Mapping

import trio
from trio.testing import wait_all_tasks_blocked

from tests.agent.fakes import Ledger
from tooldispatchd.children.family import Family
from tooldispatchd.children.spawn import Child
from tooldispatchd.daemon.webside import WebProcess
from tooldispatchd.wire.webplaces import WebPlace

# More than a pipe takes.
MANY_TOKENS = {str(number): "0" * 64 for number in range(2000)}


class Unreading(Family):
    """The family of processes that do not read."""

    def spawn_module(
        self, module: str, *, env: Mapping[str, str] = {}, is_joined: bool = False, extra: Mapping[int, int] = {}
    ) -> Child:
        return self.spawn(["sleep", "1000"], is_joined=is_joined)


def place(tokens: dict[str, str]) -> WebPlace:
    return WebPlace("http://127.0.0.1:1/mcp", 4, "door", "http", "/mcp", None, (), tokens, None, 1000, 1000)


async def test_nobody_waits_to_tell_a_web_process_that_was_told_to_stop(nothing_left: None) -> None:
    family = Unreading()
    try:
        with socket.socket() as listening, trio.fail_after(20):
            process = WebProcess(place({}), listening, family, Ledger())
            async with trio.open_nursery() as nursery:
                nursery.start_soon(process.run)
                await wait_all_tasks_blocked()
                process.renew(place(MANY_TOKENS))
                await wait_all_tasks_blocked()
                assert waiting_to_write() == 1
                process.stop()
                await wait_all_tasks_blocked()
                assert waiting_to_write() == 0
                family.kill_all()
    finally:
        await family.close()


def waiting_to_write() -> int:
    io = trio.lowlevel.current_statistics().io_statistics
    assert io.backend == "epoll"
    return io.tasks_waiting_write
