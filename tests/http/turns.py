"""How long one task keeps all others waiting."""

import math
import time
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from tests.http.wires import wire_to
from tests.servers.raw_http import Peer, serving
from tooldispatchd.http.errors import WireError
from tooldispatchd.http.reply import HttpReply

# Of the processor's time, not the clock's: other processes do not count. What is bounded takes 1 to 10 ms.
TURN_S: Final = 0.020
# What the host of a virtual machine takes counts as its own: a turn that is too long is so each time.
TRIES: Final = 5


class Turns(trio.abc.Instrument):
    """Measures how long the longest turn of any task took, in seconds of the processor."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        # It is added within a turn.
        self._began = time.thread_time()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.longest_s = max(self.longest_s, time.thread_time() - self._began)


async def longest_turn(answer: bytes, take: Callable[[HttpReply], Awaitable[None]]) -> float:
    """The longest turn while `take` deals with this answer, in the best of some tries."""
    longest_s = math.inf
    for _ in range(TRIES):
        longest_s = min(longest_s, await _longest_turn(answer, take))
        if longest_s < TURN_S:
            break
    return longest_s


async def _longest_turn(answer: bytes, take: Callable[[HttpReply], Awaitable[None]]) -> float:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(answer)

    turns = Turns()
    async with serving(script) as server, wire_to(server.url) as wire:
        trio.lowlevel.add_instrument(turns)
        try:
            async with wire.exchange("POST", [], b"{}") as reply:
                await take(reply)
        except WireError:
            pass
        finally:
            trio.lowlevel.remove_instrument(turns)
    return turns.longest_s
