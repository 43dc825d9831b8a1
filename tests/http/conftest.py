import pytest


@pytest.fixture(autouse=True)
def leaves_nothing(nothing_left: None) -> None:
    """An exchange that failed still has a socket to close."""
