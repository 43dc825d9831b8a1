"""On which line of a TOML file each key stands; tomllib gives values only.

The source is cut into statements (a header, or a key with its whole value) where a newline stands outside of every
string and bracket, and each statement is then read by tomllib alone, so that all rules about keys remain its own.
Linear in the source, which must be valid TOML; made only when there is something to report.
"""

import re
import tomllib
from collections.abc import Iterator
from typing import Final, cast

from tooldispatchd.catalog.problems import Path

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
    """The lines of one source; `source` must be a text that tomllib has read."""

    def __init__(self, source: str) -> None:
        self._lines: dict[Path, int] = {}
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
        for length in range(len(path), 0, -1):
            line = self._lines.get(path[:length])
            if line is not None:
                return line
        return None

    def _read_header(self, statement: str, line: int) -> None:
        is_element = statement.lstrip().startswith("[[")
        keys = list(_header_keys(tomllib.loads(statement)))
        path: Path = ()
        for position, key in enumerate(keys, 1):
            path = (*path, key)
            if is_element and position == len(keys):
                self._elements[path] = self._elements.get(path, 0) + 1
            self._lines.setdefault(path, line)
            if path in self._elements:
                path = (*path, self._elements[path] - 1)
        # A table may first have been implied, by the header of one inside it.
        self._lines[path] = line
        self._table = path

    def _read_keys(self, value: object, path: Path, line: int) -> None:
        if not isinstance(value, dict):
            return
        for key, inner in cast("dict[str, object]", value).items():
            self._lines.setdefault((*path, key), line)
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


def _header_keys(table: dict[str, object]) -> Iterator[str]:
    """The keys of a header that was read alone: a chain of tables with one key each."""
    inner: object = table
    while inner:
        if isinstance(inner, list):
            inner = inner[0]
        else:
            key, inner = next(iter(cast("dict[str, object]", inner).items()))
            yield key
