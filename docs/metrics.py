"""Write the table of metrics in docs/operate/metrics.md from their families: `python -m docs.metrics`.

The table stands between two comments; what stands around it is written by hand.
"""

import re
import sys
from pathlib import Path
from typing import Final

from tooldispatchd.metrics.families import ALL

DOCUMENT: Final = Path(__file__).parent / "operate" / "metrics.md"
_TABLE: Final = re.compile(r"(<!-- metrics -->\n).*?(<!-- end -->\n)", re.DOTALL)


def with_table(text: str) -> str:
    """The document with the table as it should be."""
    rows = [
        f"| `{metric.name}` | {metric.kind} | {', '.join(f'`{label}`' for label in metric.labels)} | {metric.help} |\n"
        for metric in ALL
    ]
    table = "".join(["| metric | kind | labels | meaning |\n", "|---|---|---|---|\n", *rows])
    return _TABLE.sub(lambda found: found[1] + table + found[2], text)


if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{DOCUMENT.name}\n")
