"""The program that the daemon starts: its places come as JSON on descriptor 3, and on stdin whom they admit later on.

Its end is the end of stdin.
"""

import gc
import os
from typing import Final

import msgspec
import trio

from tooldispatchd.mcpface.web.logbook import LogBook
from tooldispatchd.mcpface.web.serving import serve_places
from tooldispatchd.wire.webplaces import WebPlaces

SPEC_FD: Final = 3
STDIN_FD: Final = 0
# As other helpers of the daemon that are not the loop itself, but less: people wait for these answers.
NICE: Final = 5


def main() -> None:
    """Serve until the daemon ends, or says that it does."""
    os.nice(NICE)
    with os.fdopen(SPEC_FD, "rb") as spec:
        places = msgspec.json.decode(spec.read(), type=WebPlaces)
    for place in places.places:
        os.set_inheritable(place.fd, False)  # noqa: FBT003  # the standard library's own
    gc.freeze()
    trio.run(_serve, places)


async def _serve(places: WebPlaces) -> None:
    async with trio.lowlevel.FdStream(os.dup(STDIN_FD)) as told:
        await serve_places(places, LogBook(), told)


if __name__ == "__main__":
    main()
