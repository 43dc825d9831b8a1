"""Wires for the tests of this folder, and the exchange that most of them make."""

from typing import Final

from tooldispatchd.http.reach import Reach
from tooldispatchd.http.wire import HttpWire

MIB: Final = 1024 * 1024


def wire_to(url: str, *, headers: tuple[tuple[str, str], ...] = (), max_bytes: int = MIB) -> HttpWire:
    return HttpWire(Reach(url=url, headers=headers), max_bytes=max_bytes)


async def post(wire: HttpWire, body: bytes = b"{}") -> tuple[int, bytes]:
    async with wire.exchange("POST", [("Content-Type", "application/json")], body) as reply:
        return reply.status, await reply.read(MIB)
