"""Every test of this folder leaves nothing behind."""

from collections.abc import Iterator

import pytest

from tests.providers.mcp.connecting import children, open_files


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = open_files(), children()
    yield
    assert (open_files(), children()) == before
