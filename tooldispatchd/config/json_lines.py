"""On which line of a JSON file each key and each item stands; json gives values only.

One pass over the text's strings and signs, with a list in the place of recursion. It is made for a file that has been
read already, so that nothing needs to be checked.
"""

import json
import re
from typing import Final

from tooldispatchd.catalog.problems import Path

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


class JsonLines:
    """The lines of one text; `text` must be one that json has read."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        self.depth = 0
        """How deep arrays and objects are nested."""
        self._read(text)

    def line_of(self, path: Path) -> int:
        """The line, from 1, of the key or the item at `path`, or of the nearest around it; the first if none is."""
        around = (path[:length] for length in range(len(path), 0, -1))
        return next((self._lines[each] for each in around if each in self._lines), 1)

    def _read(self, text: str) -> None:
        # Where the next value stands; within an object it ends with None until the key is there.
        path: list[str | int | None] = []
        line, position, is_key = 1, 0, False
        for token in _TOKEN.finditer(text):
            line += text.count("\n", position, token.start())
            position = token.start()
            sign = token.group()
            if sign in "{[":
                self._note(path, line)
                path.append(None if sign == "{" else 0)
                self.depth = max(self.depth, len(path))
                is_key = sign == "{"
            elif sign in "}]":
                path.pop()
                is_key = False
            elif sign == ",":
                is_key = not isinstance(path[-1], int)
                path[-1] = None if is_key else int(path[-1] or 0) + 1
            elif is_key and sign != ":":
                path[-1] = json.loads(sign)
                self._note(path, line)
                is_key = False
            elif sign != ":":
                self._note(path, line)

    def _note(self, path: list[str | int | None], line: int) -> None:
        known = tuple(step for step in path if step is not None)
        if known and len(known) == len(path):
            self._lines.setdefault(known, line)
