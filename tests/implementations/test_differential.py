"""What two daemons are asked, they answer alike."""

import shutil

import pytest

from tests.implementations.differential import search


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node for the second daemon")
# A conversation may be long.
@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize("is_low", [False, True], ids=["high limits", "low limits"])
def test_both_daemons_answer_alike(is_low: bool) -> None:
    search(50, 20, is_low=is_low)
