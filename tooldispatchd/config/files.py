"""The files that a configuration consists of or names: read with a bound, and refused where anybody may change them."""

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import cast

import msgspec

from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.speckinds import MIB
from tooldispatchd.config.expansion import expand_file
from tooldispatchd.config.exposure import why_exposed
from tooldispatchd.config.key_patterns import Table
from tooldispatchd.config.regular_files import read_regular


class UnusableFileError(Exception):
    """A file of the configuration cannot be used.

    `verb` is what was attempted, "read" or "use". `line`, from 1, is that of the first byte that is not UTF-8.
    """

    def __init__(self, verb: str, why: str, line: int | None = None) -> None:
        super().__init__(why)
        self.verb = verb
        self.why = why
        self.line = line


def read_text(path: FilePath, max_bytes: int) -> str:
    """The text of a file; raises `UnusableFileError`."""
    content = read_bytes(path, max_bytes)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        # The cause would carry the whole file along, with every token in it.
        raise UnusableFileError("read", "not UTF-8", line) from None


def read_bytes(path: FilePath, max_bytes: int) -> bytes:
    """The content of a file; raises `UnusableFileError`."""
    try:
        content, _ = read_regular(path, max_bytes)
        changeable = why_exposed(str(path))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UnusableFileError("read", why or str(error)) from error
    if changeable is not None:
        raise UnusableFileError("use", changeable)
    if len(content) > max_bytes:
        raise UnusableFileError("use", f"it is over {max_bytes // MIB} MiB")
    return content


class NamedFile(msgspec.Struct, frozen=True):
    """A file that the configuration names: `shown` is its name in reports, `index` its place in the list."""

    index: int
    path: FilePath
    shown: str
    text: str


class NamedFiles(msgspec.Struct, frozen=True):
    """The files of one key that could be read, what is wrong with the others, and whether these are all."""

    files: tuple[NamedFile, ...] = ()
    problems: tuple[Problem, ...] = ()
    is_complete: bool = True


def read_named(
    key: str, table: Table, config: FilePath, environ: Mapping[str, str], *, max_files: int, max_bytes: int
) -> NamedFiles:
    """Read the files that `table` names in its list `key`; `config` is the configuration's own file.

    A name that cannot be expanded is left to `expand`, and what is no list of texts to the schema.
    """
    named = table.get(key)
    if not isinstance(named, list) or not named:
        return NamedFiles(is_complete=False)
    if len(named) > max_files:
        problem = Problem((key,), "too many files", allowed=f"at most {max_files}")
        return NamedFiles(problems=(problem,), is_complete=False)
    files: dict[FilePath, NamedFile] = {}
    problems: list[Problem] = []
    for index, name in enumerate(cast("list[object]", named)):
        if isinstance(name, str) and "${command:" in name:
            problems.append(Problem((key, index), "no command is run for the name of a file", value=name))
        path = expand_file(name, environ, config.absolute().parent) if isinstance(name, str) and name else None
        if path is None:
            continue
        if path in files:
            problems.append(Problem((key, index), "this file is named twice", value=name))
            continue
        # As it is written, beside the configuration, and with nothing of the environment.
        shown = str(name) if "${" in str(name) else str(config.parent / str(name))
        try:
            files[path] = NamedFile(index, path, shown, read_text(path, max_bytes))
        except UnusableFileError as error:
            why = error.why if error.line is None else f"{error.why} in line {error.line}"
            problems.append(Problem((key, index), f"cannot {error.verb} this file: {why}", value=name))
    return NamedFiles(tuple(files.values()), tuple(problems), len(files) == len(named))
