"""Files in the plumb notation: found, read, and put into the configuration's table, where they mean the same as TOML.

Nothing is checked here that is checked of every configuration: it is one table from here on, and where each part of it
was written is remembered. The notation's reader is imported where a configuration names such a file, and never else.
"""

from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import Final, Protocol, cast

import msgspec

from tooldispatchd.catalog.notation.places import NotationError, NotationProblem, SourcePosition, problem_at
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.speckinds import MIB
from tooldispatchd.config.files import read_named
from tooldispatchd.config.key_patterns import Table

# A tool and its prompt fill some lines; what is larger was written by no hand, and a grammar takes its time.
MAX_FILE_BYTES: Final = 1 * MIB
# A file for each team or domain; each costs a millisecond or more at every load.
MAX_FILES: Final = 64

# Where the notation's names go; they are the sections of a configuration.
_SECTIONS: Final = ("types", "mcp", "tools", "processes")


class Located(Protocol):
    """What knows where each part of a table was written: the reader's `Notation`, which is imported only if needed."""

    def place_of(self, path: Path) -> SourcePosition | None:
        """The place of what stands at `path`, or of the nearest around it."""

    def place_in(self, path: Path, line: int, column: int) -> SourcePosition | None:
        """The place of a character of the expression at `path`, both from 1."""


class PlumbFiles(msgspec.Struct, frozen=True):
    """What was read: `texts` by file, in the order named, and where each part of the table was written.

    `problems` are those of the key `plumb`, `mistakes` those within the files; `clashes` are the paths of names that
    the configuration declares too.
    `lacking` are the tables, by `(section, name)`, that are less than was meant, because of a mistake.
    """

    texts: dict[str, str] = {}
    located: Located | None = None
    clashes: frozenset[Path] = frozenset()
    problems: tuple[Problem, ...] = ()
    mistakes: tuple[NotationProblem, ...] = ()
    lacking: frozenset[Path] = frozenset()

    def place_of(self, path: Path, within: tuple[int, int] | None = None) -> SourcePosition | None:
        """Where the value at `path`, or the nearest one around it, was written; None where that is in no plumb file.

        `within` is a line and a column of the value, for one that is an expression.
        """
        # What both declare goes on as the configuration has it.
        if self.located is None or path[:2] in self.clashes:
            return None
        return self.located.place_of(path) if within is None else self.located.place_in(path, *within)


def take_plumb(table: Table, path: FilePath, environ: Mapping[str, str], where: Callable[[Path], str]) -> PlumbFiles:
    """Put what the plumb files of `table` declare into it, in place.

    `path` is the configuration's file; `where` says where in it the value of a path stands, as it is shown.
    """
    found = read_named("plumb", table, path, environ, max_files=MAX_FILES, max_bytes=MAX_FILE_BYTES)
    sources = {file.shown: file.text for file in found.files}
    files = _parse(sources, table, where) if sources else PlumbFiles()
    return msgspec.structs.replace(files, problems=found.problems)


def _parse(sources: dict[str, str], table: Table, where: Callable[[Path], str]) -> PlumbFiles:
    # A parser and its grammar are not paid for by who has no such file.
    from tooldispatchd.catalog.notation.reader import read_notation  # noqa: PLC0415  # see above

    try:
        notation = read_notation(list(sources.items()), _types_of(table))
    except NotationError as error:
        return PlumbFiles(sources, mistakes=error.problems)
    clashes = _merge(notation.table, table)
    mistakes = [
        problem_at(place, f"{'.'.join(map(str, path))} is declared already, at {where(path)}")
        for path, place in notation.places.items()
        if path in clashes
    ]
    mistakes += notation.problems
    return PlumbFiles(sources, notation, clashes, mistakes=tuple(mistakes), lacking=notation.lacking - clashes)


def _types_of(table: Table) -> list[str] | None:
    """The types that the configuration itself declares; None where it has them in no table."""
    types = table.get("types", {})
    return list(types) if isinstance(types, dict) else None


def _merge(declared: Table, table: Table) -> frozenset[Path]:
    """Add what is `declared` to `table`, in place; the paths of names that are there already, which stay."""
    clashes: set[Path] = set()
    for section in _SECTIONS:
        new = declared.get(section)
        old = table.setdefault(section, {}) if new else None
        # A section of the wrong kind is the schema's to refuse.
        if not isinstance(new, dict) or not isinstance(old, dict):
            continue
        for name, entry in cast("Table", new).items():
            if name in old:
                clashes.add((section, name))
            else:
                old[name] = entry
    return frozenset(clashes)
