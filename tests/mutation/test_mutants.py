"""What the list of equivalent mutants says is there."""

from pathlib import Path
from typing import Final

import pytest

from tests.mutation.equivalents import EQUIVALENTS
from tests.mutation.mutants import all_of

ROOT: Final = Path(__file__).parents[2]


@pytest.mark.parametrize("name", EQUIVALENTS)
def test_each_mutant_that_is_left_out_exists(name: str) -> None:
    source = (ROOT / (name.replace(".", "/") + ".py")).read_text(encoding="utf-8")
    texts = {text for text, _what in EQUIVALENTS[name]}
    found = {(one.text, one.what) for one in all_of(source, texts)}
    assert EQUIVALENTS[name].keys() - found == set()
