"""A family that takes orphans in, as the daemon's does."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio
from trio.testing import wait_all_tasks_blocked

from tooldispatchd.children.family import Family, open_family
from tooldispatchd.children.orphans import TICK_S


@asynccontextmanager
async def tended_family(tick_s: float = TICK_S) -> AsyncIterator[Family]:
    """One whose orphans are looked at every `tick_s` seconds, also while no child ends."""
    async with open_family() as family, trio.open_nursery() as services:
        services.start_soon(partial(family.end_orphans, tick_s=tick_s))
        # What is orphaned before that has begun goes elsewhere.
        await wait_all_tasks_blocked()
        yield family
        services.cancel_scope.cancel()


def whole(fd: int) -> bytes:
    """All that comes out of a descriptor until its end; it is closed."""
    with os.fdopen(fd, "rb") as stream:
        return stream.read()
