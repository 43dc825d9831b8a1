"""What the tests with others' clients share: nothing is left of a daemon, nor of what a test itself started."""

import pytest


@pytest.fixture(autouse=True)
def leaves_nothing(nothing_left: None) -> None:
    """Every test here starts processes."""
