"""However small the pieces are in which a stream comes, other tasks get their turn."""

from typing import Final

import pytest
import trio

from tests.http.turns import TURN_S, longest_turn
from tests.http.wires import MIB
from tests.providers.mcp.linking import SHARE
from tooldispatchd.calls.memory import Memory
from tooldispatchd.http.eventstream import ServerSentEvent
from tooldispatchd.http.reply import HttpReply
from tooldispatchd.providers.mcp.http.serverstream import ServerStream

EVENTS: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


LINES: Final = {
    "empty lines": b"\n" * 500_000,
    "ends of lines of the other kind": b"\r" * 500_000,
    "comments": b":\n" * 250_000,
    "fields without a meaning": b"a\n" * 250_000,
    "lines of data": b"data\n" * 100_000,
    "lines of data, a few hundred in each piece": b"data:123\n" * 60_000,
    "events": b"data:1\n\n" * 60_000,
    "numbers of events": b"id\n\n" * 60_000,
}


@pytest.mark.parametrize("lines", LINES.values(), ids=LINES.keys())
async def test_a_stream_of_short_lines_holds_nobody_up(lines: bytes) -> None:

    async def take(_: ServerSentEvent) -> bool:
        return False

    async def follow(reply: HttpReply) -> None:
        await ServerStream(MIB, SHARE).follow(reply, take)

    assert await longest_turn(EVENTS + lines, follow) < TURN_S


async def test_what_a_long_event_held_is_let_go_of_uncopied_where_its_exchange_is_given_up_meanwhile() -> None:
    let_go: list[object] = []
    share = Memory(1 << 40, let_go=let_go.append).share(0)
    taken: list[object] = []

    async def follow(reply: HttpReply) -> None:
        async def take(event: ServerSentEvent) -> bool:
            taken.append(event.data)
            exchange.cancel()
            await trio.sleep_forever()

        with trio.CancelScope() as exchange:
            await ServerStream(4 * MIB, share).follow(reply, take)

    await longest_turn(EVENTS + b"data: " + b"x" * 2 * MIB + b"\n\n", follow)
    assert let_go[0] == b"x" * 2 * MIB
    assert let_go[0] is taken[0]
