"""A family for each test, which must leave neither descriptor nor child behind."""

from collections.abc import AsyncIterator

import pytest

from tooldispatchd.children.family import Family, open_family


@pytest.fixture
async def family(nothing_left: None) -> AsyncIterator[Family]:
    async with open_family() as family:
        # The guardians start with the first child and their descriptors stay.
        await family.spawn(["true"]).kill()
        yield family
