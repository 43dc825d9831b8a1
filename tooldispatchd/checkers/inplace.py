"""Jobs done in this very process, with a turn of the loop before: where nobody else waits, as in a command."""

from collections.abc import Sequence
from typing import Final

import trio

from tooldispatchd.calls.gate import Turns
from tooldispatchd.checkers.frames import Work
from tooldispatchd.checkers.pool import Buffer


class InPlace:
    async def run(
        self,
        work: Work,
        arguments: bytes,
        payload: Buffer | Sequence[Buffer],
        *,
        turns: Turns,  # noqa: ARG002  # everybody has a place
    ) -> tuple[bytes, bytearray]:
        """Do the job."""
        await trio.lowlevel.checkpoint()
        parts = [payload] if isinstance(payload, bytes | bytearray | memoryview) else payload
        reply, result = work(arguments, bytearray(b"".join(parts)))
        return reply, bytearray(result)


IN_PLACE: Final = InPlace()
