"""What two daemons are asked, they answer alike."""

import shutil

import pytest

from tests.implementations.differential import search


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node for the second daemon")
def test_both_daemons_answer_alike() -> None:
    search(100, 20)
