"""A module that cannot be imported, until the file that it asks for is there."""

import os
from pathlib import Path

if not Path(os.environ["REPAIRED"]).exists():
    raise RuntimeError("not yet repaired")


def add(a: int) -> int:
    return a + 1
