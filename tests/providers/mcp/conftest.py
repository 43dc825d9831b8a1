"""Every test of this folder leaves nothing behind."""

import pytest


@pytest.fixture(autouse=True)
def _nothing_is_left(nothing_left: None) -> None: ...
