from collections.abc import Iterator

import pytest

from tests.toolbox.callers import Caller


@pytest.fixture
def caller() -> Iterator[Caller]:
    with Caller() as one:
        yield one
