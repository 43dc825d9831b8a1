"""Warm parents for each test, of which nothing may be left."""

from collections.abc import AsyncIterator

import pytest
import trio

from tests.providers.python.runs import Runs
from tooldispatchd.children.family import open_family
from tooldispatchd.providers.python.warm import open_warm


@pytest.fixture
async def runs(nothing_left: None) -> AsyncIterator[Runs]:
    async with open_family() as family, trio.open_nursery() as nursery:
        nursery.start_soon(family.end_orphans)
        async with open_warm(family) as warm:
            yield Runs(family, warm)
        assert len(family) == 0
        nursery.cancel_scope.cancel()
