"""On which line of a TOML text each key stands."""

import re
import tomllib
from collections.abc import Iterator
from typing import Final, cast

from tooldispatchd.catalog.problems import Path
from tooldispatchd.config.key_patterns import Table

# What may hide or end a statement's newline. One pass over the text: trial parses of ever longer runs of lines would
# need no such expression, but cost the square of a long value's lines.
_TOKEN: Final = re.compile(
    r'''
      """ (?: [^\\] | \\. )*? """ "{0,2}
    | \'\'\' .*? \'\'\' '{0,2}
    | " (?: [^"\\\n] | \\. )* "
    | ' [^'\n]* '
    | \# [^\n]*
    | [\[\]{}\n]
    ''',
    re.DOTALL | re.VERBOSE,
)


class TomlLines:
    """On which line of a TOML text each key stands; tomllib gives values only. It must have read the text.

    The source is cut into statements (a header, or a key with its whole value) where a newline stands outside of every
    string and bracket, and each statement is then read by tomllib alone, so that all rules about keys remain its own.
    Linear in the source; made only when there is something to report.
    """

    def __init__(self, source: str) -> None:
        self.lines: dict[Path, int] = {}
        self._table: Path = ()
        # How many elements each array of tables has so far.
        self._elements: dict[Path, int] = {}
        for line, statement in _statements(source.replace("\r\n", "\n")):
            if statement.lstrip().startswith("["):
                self._read_header(statement, line)
            else:
                self._read_keys(tomllib.loads(statement), self._table, line)

    def line_of(self, path: Path) -> int | None:
        """The line, from 1, of the key at `path`, or of the nearest table around it; None where there is neither."""
        around = (path[:length] for length in range(len(path), 0, -1))
        return next((self.lines[each] for each in around if each in self.lines), None)

    def _read_header(self, statement: str, line: int) -> None:
        is_element = statement.lstrip().startswith("[[")
        # Read alone, a header is a chain of tables with one key each.
        keys: list[str] = []
        inner: object = tomllib.loads(statement)
        while inner:
            if isinstance(inner, list):
                inner = inner[0]
            else:
                key, inner = next(iter(cast("Table", inner).items()))
                keys.append(key)
        path: Path = ()
        for position, key in enumerate(keys, 1):
            path = (*path, key)
            if is_element and position == len(keys):
                self._elements[path] = self._elements.get(path, 0) + 1
            self.lines.setdefault(path, line)
            if path in self._elements:
                path = (*path, self._elements[path] - 1)
        # A table may first have been implied, by the header of one inside it.
        self.lines[path] = line
        self._table = path

    def _read_keys(self, value: object, path: Path, line: int) -> None:
        if not isinstance(value, dict):
            return
        for key, inner in cast("dict[str, object]", value).items():
            self.lines.setdefault((*path, key), line)
            self._read_keys(inner, (*path, key), line)


def _statements(source: str) -> Iterator[tuple[int, str]]:
    """Each statement with the line it starts on; blank lines and comments are none."""
    line, start, depth, breaks = 1, 0, 0, 0
    for token in _TOKEN.finditer(source + "\n"):
        text = token.group()
        if text in {"[", "{"}:
            depth += 1
        elif text in {"]", "}"}:
            depth -= 1
        elif text == "\n" and depth == 0:
            statement = source[start : token.start()]
            if statement.strip() and not statement.lstrip().startswith("#"):
                yield line, statement
            start = token.end()
            line, breaks = line + breaks + 1, 0
        else:
            breaks += text.count("\n")
