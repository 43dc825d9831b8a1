"""The program that the daemon starts: its place comes as JSON on descriptor 3, and on stdin whom it admits later on.

Its end is the end of stdin.
"""

import gc
import os
from typing import Final

import msgspec
import trio

from tooldispatchd.mcpface.web.logbook import LogBook
from tooldispatchd.mcpface.web.serving import serve_place
from tooldispatchd.wire.webplaces import WebPlace

SPEC_FD: Final = 3
STDIN_FD: Final = 0
# As other helpers of the daemon that are not the loop itself, but less: people wait for these answers.
NICE: Final = 5


def main() -> None:
    """Serve until the daemon ends, or says that it does."""
    os.nice(NICE)
    with os.fdopen(SPEC_FD, "rb") as spec:
        place = msgspec.json.decode(spec.read(), type=WebPlace)
    os.set_inheritable(place.fd, False)  # noqa: FBT003  # the standard library's own
    gc.freeze()
    trio.run(_serve, place)


async def _serve(place: WebPlace) -> None:
    async with trio.lowlevel.FdStream(os.dup(STDIN_FD)) as told:
        await serve_place(place, LogBook(), told)


if __name__ == "__main__":
    main()
