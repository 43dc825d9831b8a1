"""How many examples a property is tried with: many in `make soak`, a quarter of them in `make test`.

Continuous integration tries the same ones each time, so that there more of them would not find more with each change.
"""

import os
from typing import Final

IS_LONG: Final = "SOAK" in os.environ
LEAST: Final = 10


def examples(many: int) -> int:
    """So many in the long form."""
    return many if IS_LONG else min(many, max(LEAST, many // 4))
