"""Files in the plumb notation: read, and put into the configuration's table, where they mean the same as TOML.

From here on it is one table, which is checked as a whole, and it is remembered where each part was written. The
notation's reader is imported only where a configuration names such a file.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import Final, Protocol, cast

import msgspec

from tooldispatchd.catalog.notation.places import NotationError, NotationProblem, SourcePosition, caret, problem_at
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.speckinds import MIB
from tooldispatchd.config.files import read_named
from tooldispatchd.config.key_patterns import Table

# A tool and its prompt fill some lines; a larger file is generated, and a grammar takes its time.
MAX_FILE_BYTES: Final = 1 * MIB
# A file for each team or domain; each costs a millisecond or more at every load.
MAX_FILES: Final = 64

# Where the notation's names go; they are the sections of a configuration.
_SECTIONS: Final = ("types", "mcp", "tools", "processes")
MASK: Final = "·"

# Of what the tokens do not reach. One that does not end goes on to the end of the file; what CEL writes between single
# quotes ends with its line.
_STRING: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*(?:"""|\\?\Z|"{1,2}\Z)'
    r'|"(?:[^"\\]|\\.)*(?:"|\\?\Z)' + r"|'(?:[^'\\\n]|\\.)*'?",
    re.DOTALL,
)
_BEGIN: Final = re.compile(r"""\(\*|(?P<line>\#[^\n]*|//[^\n]*)|["']""")
_COMMENT_MARK: Final = re.compile(r"\(\*|\*\)")
_NUMBER: Final = re.compile(r'(?:[\w-]+\s*:\s*|"[^"]*"\s*:\s*)?(?P<number>-?\d[\w.+-]*)')
_LETTER: Final = re.compile(r"[^\n]")
_PARTS: Final = re.compile(r"""([rRbB]{0,2}(?P<quote>\"{3}|'{3}|["']))(.*?)((?P=quote)?)\Z""", re.DOTALL)


class Located(Protocol):
    """Knows where each part of a table was written: the reader's `Notation`, which is imported only if needed."""

    def place_of(self, path: Path) -> SourcePosition | None:
        """The place of what stands at `path`, or of the nearest around it."""

    def place_in(self, path: Path, line: int, column: int) -> SourcePosition | None:
        """The place of a character of the expression at `path`, both from 1."""


class PlumbFiles(msgspec.Struct, frozen=True):
    """What was read: `texts` by file, in the order named, and where each part of the table was written.

    `problems` are those of the key `plumb`, `mistakes` those within the files; `clashes` are the paths of names that
    the configuration declares too. `lacking` are the tables, by `(section, name)`, that lack something because of a
    mistake.
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
        # Of what both declare, the configuration's own is used.
        if self.located is None or path[:2] in self.clashes:
            return None
        return self.located.place_of(path) if within is None else self.located.place_in(path, *within)


def take_plumb(table: Table, path: FilePath, environ: Mapping[str, str], where: Callable[[Path], str]) -> PlumbFiles:
    """Put what the plumb files of `table` declare into it, in place.

    `path` is the configuration's file; `where` says where in it the value of a path stands, as it is shown.
    """
    found = read_named("plumb", table, path, environ, max_files=MAX_FILES, max_bytes=MAX_FILE_BYTES)
    sources = {file.shown: file.text for file in found.files}
    if not sources:
        return PlumbFiles(problems=found.problems)
    # A parser and its grammar take long to import, and few configurations have such a file.
    from tooldispatchd.catalog.notation.reader import read_notation  # noqa: PLC0415  # see above

    types = table.get("types", {})
    try:
        notation = read_notation(list(sources.items()), list(types) if isinstance(types, dict) else None)
    except NotationError as error:
        return PlumbFiles(sources, problems=found.problems, mistakes=error.problems)
    clashes = _merge(notation.table, table)
    mistakes = [
        problem_at(place, f"{'.'.join(map(str, path))} is declared already, at {where(path)}")
        for path, place in notation.places.items()
        if path in clashes
    ]
    mistakes += notation.problems
    return PlumbFiles(sources, notation, clashes, found.problems, tuple(mistakes), notation.lacking - clashes)


def _merge(declared: Table, table: Table) -> frozenset[Path]:
    """Add what is `declared` to `table`, in place; returns the paths of names that are there already, which stay."""
    clashes: set[Path] = set()
    for section in _SECTIONS:
        new = declared.get(section)
        old = table.setdefault(section, {}) if new else None
        # The schema refuses a section of the wrong kind.
        if not isinstance(new, dict) or not isinstance(old, dict):
            continue
        for name, entry in cast("Table", new).items():
            if name in old:
                clashes.add((section, name))
            else:
                old[name] = entry
    return frozenset(clashes)


class MaskedText:
    """A plumb file as a report may show it: lines with a caret beneath, and without what may be a secret.

    What stands between quotes or in a comment is masked, letter by letter so that columns stay: a token ends up in a
    server's environment, its arguments or its URL, and all of these are strings. Where a string begins and ends is what
    the notation's own tokens say, as far as they go: a quote in a comment, or within triple quotes, begins none.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._masked = masked(text)

    def excerpt(self, line: int, column: int, *, shows_value: bool) -> str:
        """The line with a caret under the column, both from 1; a string that begins there stays if `shows_value`."""
        text = self._masked
        start = _offset(text, line, column)
        found = _STRING.match(self._text, start) if shows_value else None
        if found is not None:
            text = text[:start] + found.group() + text[found.end() :]
        return caret(text, line, column)

    def excerpt_without_value(self, line: int, column: int) -> str:
        """The same where a number, too, may be a secret: one that begins there, or after the key there, is masked."""
        text = self._masked
        found = _NUMBER.match(text, _offset(text, line, column))
        if found is not None:
            start, end = found.span("number")
            text = text[:start] + MASK * (end - start) + text[end:]
        return caret(text, line, column)


def masked(text: str) -> str:
    """`text` with a mask for every letter inside quotes and blanks for comments; each line is as long as it was."""
    # Who shows no excerpt needs no tokens.
    from tooldispatchd.catalog.notation.reader import words_of  # noqa: PLC0415  # see above

    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    parts: list[str] = []
    end = 0
    for place, word, is_text in words_of(text):
        start = starts[place.line - 1] + place.column - 1
        parts += [_masked_rest(text[end:start]), _masked_text(word) if is_text else word]
        end = start + len(word)
    return "".join([*parts, _masked_rest(text[end:])])


def _masked_text(text: str) -> str:
    """A string with its quotes."""
    parts = _PARTS.match(text)
    assert parts is not None, "a quote begins a string, after what says of which kind it is"
    opening, _, inner, closing = parts.groups()
    return f"{opening}{_LETTER.sub(MASK, inner)}{closing}"


def _masked_rest(text: str) -> str:
    """What lies between tokens or behind the last of them: comments, and what can be none."""
    parts: list[str] = []
    place = 0
    while (begin := _BEGIN.search(text, place)) is not None:
        parts.append(text[place : begin.start()])
        if begin["line"] is not None:
            place = begin.end()
            parts.append(" " * len(begin["line"]))
        elif begin.group() == "(*":
            place = _end_of_comment(text, begin.end())
            # The sign of a comment that does not end is the mistake.
            shown = begin.end() if place == len(text) and not text.endswith("*)") else begin.start()
            parts.append(text[begin.start() : shown] + _LETTER.sub(" ", text[shown:place]))
        else:
            string = _STRING.match(text, begin.start())
            assert string is not None, "a quote begins a string, which may have no end"
            place = string.end()
            parts.append(_masked_text(string.group()))
    return "".join([*parts, text[place:]])


def _end_of_comment(text: str, place: int) -> int:
    """Where a comment ends whose inside begins at `place`; comments nest."""
    depth = 1
    while depth:
        mark = _COMMENT_MARK.search(text, place)
        if mark is None:
            return len(text)
        depth += 1 if mark.group() == "(*" else -1
        place = mark.end()
    return place


def _offset(text: str, line: int, column: int) -> int:
    place = 0
    for _ in range(line - 1):
        place = text.find("\n", place) + 1
    return place + column - 1
