"""However small the pieces are in which a server says something, other tasks get their turn."""

from typing import Final

import pytest
import trio

from tests.http.turns import TURN_S, longest_turn
from tests.http.wires import MIB
from tooldispatchd.http.reply import HttpReply

CHUNKED: Final = b"Transfer-Encoding: chunked\r\n\r\n"


async def measured(answer: bytes, *, is_read: bool = True) -> float:
    """The longest turn while this answer is taken."""

    async def take(reply: HttpReply) -> None:
        if is_read:
            await reply.read(MIB)
        else:
            # Until all of it lies here.
            await trio.sleep(0.1)

    return await longest_turn(answer, take)


async def test_a_body_of_tiny_chunks_holds_nobody_up() -> None:
    answer = b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"1\r\nx\r\n" * 60_000 + b"0\r\n\r\n"
    assert await measured(answer) < TURN_S


async def test_a_body_of_tiny_chunks_that_nobody_reads_holds_nobody_up() -> None:
    answer = b"HTTP/1.1 401 Unauthorized\r\n" + CHUNKED + b"1\r\nx\r\n" * 60_000
    assert await measured(answer, is_read=False) < TURN_S


FIELDS: Final = {"each its own": b"".join(b"%x:\n" % number for number in range(13_000)), "all equal": b"a:\n" * 21_000}


@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS.keys())
@pytest.mark.parametrize("status", [200, 103])
async def test_a_flood_of_headers_holds_nobody_up(fields: bytes, status: int) -> None:
    head = b"HTTP/1.1 %d Told\r\n" % status + fields
    assert await measured((head + b"\r\n") * 3) < TURN_S


async def test_a_flood_of_trailers_holds_nobody_up() -> None:
    answer = b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"2\r\n{}\r\n0\r\n" + b"a:\n" * 21_000 + b"\r\n"
    assert await measured(answer) < TURN_S
