"""Files in the plumb notation: found, read, and put into the configuration's table, where they mean the same as TOML.

Nothing is checked here that is checked of every configuration: it is one table from here on, and where each part of it
was written is remembered. The notation's reader is imported where a configuration names such a file, and never else.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Final, Protocol, cast

import msgspec

from tooldispatchd.catalog.notation.places import NotationError, NotationProblem, SourcePosition, problem_at
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.specs import MIB
from tooldispatchd.daemon.expansion import expand_file
from tooldispatchd.daemon.key_patterns import Table
from tooldispatchd.daemon.secret_files import is_anyones

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
    the configuration declares too. Where one of the files is not `read`, names that it would have declared are unknown.
    `lacking` are the tables, by `(section, name)`, that are less than was meant, because of a mistake.
    """

    texts: dict[str, str] = {}
    located: Located | None = None
    clashes: frozenset[Path] = frozenset()
    problems: tuple[Problem, ...] = ()
    mistakes: tuple[NotationProblem, ...] = ()
    lacking: frozenset[Path] = frozenset()
    read: bool = True

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
    named = table.get("plumb")
    if not isinstance(named, list) or not named:
        # What is no list is the schema's to refuse.
        return PlumbFiles()
    sources, problems, read = _read_files(cast("list[object]", named), path, environ)
    files = _parse(sources, table, where) if sources else PlumbFiles()
    return msgspec.structs.replace(files, problems=tuple(problems), read=files.read and read)


def _read_files(
    named: Sequence[object], path: FilePath, environ: Mapping[str, str]
) -> tuple[dict[str, str], list[Problem], bool]:
    """The text of each file by its shown name, what is wrong with the names, and whether all are there."""
    if len(named) > MAX_FILES:
        return {}, [Problem(("plumb",), "too many files", allowed=f"at most {MAX_FILES}")], False
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    seen: set[FilePath] = set()
    for index, text in enumerate(named):
        file = expand_file(text, environ, path.absolute().parent) if isinstance(text, str) and text else None
        if file is None:
            continue
        content = _read(file) if file not in seen else "this file is named twice"
        seen.add(file)
        if isinstance(content, str):
            problems.append(Problem(("plumb", index), content, value=text))
        else:
            texts[_shown(str(text), path)] = content.decode()
    return texts, problems, len(texts) == len(named)


def _read(path: FilePath) -> bytes | str:
    """The file's bytes, which are UTF-8, or why it cannot be used."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            return f"cannot use this file: it is over {MAX_FILE_BYTES // MIB} MiB"
        content.decode()
        anyones = is_anyones(str(path))
        if anyones is not None:
            return f"cannot use this file: {anyones}"
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return f"cannot read this file: not UTF-8 in line {line}"
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return f"cannot read this file: {why}"
    return content


def _shown(text: str, path: FilePath) -> str:
    """How a report names the file: as it is written, beside the configuration, and with nothing of the environment."""
    return text if "${" in text else str(path.parent / text)


def _parse(sources: dict[str, str], table: Table, where: Callable[[Path], str]) -> PlumbFiles:
    # A parser and its grammar are not paid for by who has no such file.
    from tooldispatchd.catalog.notation.reader import read_notation  # noqa: PLC0415  # see above

    try:
        notation = read_notation(list(sources.items()), _types_of(table))
    except NotationError as error:
        return PlumbFiles(sources, mistakes=error.problems, read=False)
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
