"""The report of a configuration's problems: where each stands, and only values that cannot be secrets."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path as FilePath
from typing import Final

import msgspec
from msgspec import UNSET

from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.secrecy import is_shown, is_shown_as
from tooldispatchd.catalog.specs import Config
from tooldispatchd.config.key_patterns import Table, entries
from tooldispatchd.config.mcp_json import McpJson
from tooldispatchd.config.plumb_files import MaskedText, PlumbFiles
from tooldispatchd.config.toml_lines import TomlLines
from tooldispatchd.installation import install_words

# Enough for any file that was written by hand; the rest of a generated one says the same again, and a file that was
# replaced by another differs in everything.
MAX_SHOWN: Final = 50
MAX_VALUE_CHARACTERS: Final = 80
# Of one server that is left out.
MAX_REASONS: Final = 5

# As an import says that a package is not there.
_LACKING: Final = "No module named"
_WITHIN: Final = re.compile(r"(?:line (?P<line>\d+), )?column (?P<column>\d+): ")
_KINDS: Final = (
    (bool, "a boolean"),
    (str, "a string"),
    (int, "a whole number"),
    (float, "a number"),
    (list, "an array"),
    (dict, "a table"),
    (type(None), "null"),
)


def rest_of(told: Sequence[object]) -> list[str]:
    """How many there are beyond the first `MAX_SHOWN`, where there are any."""
    more = len(told) - MAX_SHOWN
    return [f"and {more} more"] if more > 0 else []


class Finding(msgspec.Struct, frozen=True):
    """One problem, ready to be shown: `line` and `column` from 1, `key` as TOML writes it; each may be unknown.

    `file` is None for the configuration itself. `excerpt` is the line that is meant, with a caret beneath.
    """

    why: str
    line: int | None = None
    key: str | None = None
    seen: str | None = None
    allowed: str | None = None
    nearest: str | None = None
    file: str | None = None
    excerpt: str | None = None
    column: int | None = None

    def text(self, file: FilePath) -> str:
        """The problem in one line; beneath, what was seen and what would be right, and the line that is meant."""
        name = self.file or str(file)
        where = f"{name}:{self.line}" if self.line else name
        first = ": ".join(filter(None, (where, self.key, self.why)))
        seen = f"seen {self.seen}" if self.seen else None
        allowed = f"allowed: {self.allowed}" if self.allowed else None
        meant = f'did you mean "{self.nearest}"?' if self.nearest else None
        second = "; ".join(filter(None, (seen, allowed, meant)))
        return "\n    ".join(filter(None, (first, second, self.excerpt)))

    def reason(self) -> str:
        """Write the problem as a part of a sentence, without its place and the value seen."""
        advice = (self.allowed and f"allowed: {self.allowed}", self.nearest and f'did you mean "{self.nearest}"?')
        said = ": ".join(filter(None, (self.key, self.why)))
        told = "; ".join(filter(None, advice))
        return f"{said} ({told})" if told else said

    def fields(self, file: FilePath | None) -> dict[str, object]:
        """The same for a program; what is unknown is None."""
        return {
            "file": self.file or (file and str(file)),
            "line": self.line,
            "column": self.column,
            "key": self.key,
            "why": self.why,
            "value": self.seen,
            "allowed": self.allowed,
            "did_you_mean": self.nearest,
        }


class Sources:
    """The files of one configuration, and where each part of its table was written.

    `table` is what all of them say together, before any expansion; `plumb` and `servers` are set once they are read,
    and `made` is of what table each tool of a toolbox was made, or of a request that another program keeps.
    """

    def __init__(self, path: FilePath, text: str, table: Table) -> None:
        self.path = path
        self.table = table
        self.plumb = PlumbFiles()
        self.servers = McpJson()
        self.made: Mapping[Path, Path] = {}
        self.text = text
        # Made once, since a file may have many problems.
        self._masked: dict[str, MaskedText] = {}

    @cached_property
    def _lines(self) -> TomlLines:
        return TomlLines(self.text)

    @property
    def files(self) -> tuple[FilePath, ...]:
        """All of them, the configuration's own first."""
        return (self.path, *map(FilePath, (*self.plumb.texts, *self.servers.files)))

    def where(self, path: Path) -> str:
        """`FILE:LINE` of what stands at `path`."""
        path = self.origin(path)
        file, line = self._elsewhere(path) or (self.path, self._lines.line_of(path))
        return f"{file}:{line}"

    def origin(self, path: Path) -> Path:
        """Where what stands at `path` was written: of a tool that was made of another table that table, or its key."""
        for length in range(len(path), 1, -1):
            made = self.made.get(path[:length])
            if made is not None:
                # The keys of an API are those of the table that it was made of.
                return (*made, *path[length:]) if path[0] == "rest" and length > 2 else made
        return path

    def file_of(self, path: Path) -> FilePath:
        """The file in which what stands at `path` was written, as reports name it."""
        elsewhere = self._elsewhere(path)
        return self.path if elsewhere is None else FilePath(elsewhere[0])

    def _elsewhere(self, path: Path) -> tuple[str, int] | None:
        """File and line of what stands at `path`; None for what the configuration's own file says."""
        found = self.plumb.place_of(path)
        return self.servers.place_of(path) or (None if found is None else (found.file, found.line))

    def left_out(self, problems: Iterable[Problem]) -> dict[str, str]:
        """Map the servers of other clients' files that have all these problems to their reasons.

        Empty where any of the problems is of something else.
        """
        if self.plumb.problems or self.plumb.mistakes or self.servers.mistakes:
            return {}
        said = [*self.servers.problems, *problems]
        if not all(map(self.servers.leaves_out, said)):
            return {}
        reasons: dict[str, dict[Path, str]] = {}
        for each in said:
            told = reasons.setdefault(str(each.path[1]), {})
            # That a way is missing follows from the key that was misspelt.
            if len(each.path) > 2 or not told:
                told.setdefault(each.path, self._finding(each).reason())
        return {name: "; ".join([*told.values()][:MAX_REASONS]) for name, told in reasons.items()}

    def findings(self, problems: Iterable[Problem]) -> tuple[Finding, ...]:
        """Each problem with its line, and the mistakes in the files themselves, in the order of the files."""
        said = [*self.plumb.problems, *self.servers.problems, *map(self._of_its_table, problems)]
        unique = {(problem.path, problem.why): problem for problem in said}
        findings = [self._finding(problem) for problem in unique.values()]
        for mistake in self.plumb.mistakes:
            excerpt = self._masked_text(mistake.file).excerpt(mistake.line, mistake.column, shows_value=False)
            findings.append(
                Finding(
                    why=printable(mistake.why),
                    line=mistake.line,
                    nearest=mistake.nearest and printable(mistake.nearest),
                    file=mistake.file,
                    excerpt=_indented(excerpt),
                    column=mistake.column,
                )
            )
        findings += [Finding(printable(each.why), each.line, file=each.file) for each in self.servers.mistakes]
        order = {file: number for number, file in enumerate([*self.plumb.texts, *self.servers.files], 1)}
        return tuple(sorted(findings, key=lambda finding: (order.get(finding.file or "", 0), finding.line or 0)))

    def _of_its_table(self, problem: Problem) -> Problem:
        """A problem of a tool that was made of another table is that table's."""
        if problem.path[:2] not in self.made:
            return problem
        allowed = f"{install_words('toolbox')} brings it" if _LACKING in problem.why else problem.allowed
        # Of one key that is written under another name, what was seen is the same.
        value = problem.value if problem.path in self.made else UNSET
        return msgspec.structs.replace(problem, path=self.origin(problem.path), value=value, allowed=allowed)

    def _finding(self, problem: Problem) -> Finding:
        place, why = self.plumb.place_of(problem.path), problem.why
        found = _WITHIN.match(why)
        if found is not None:
            within = self.plumb.place_of(problem.path, (int(found["line"] or 1), int(found["column"])))
            if within is not None:
                # The caret shows the place, and an expression of the notation is written otherwise than what it
                # means: its columns are others.
                place, why = within, why[found.end() :]
        file, line = self._elsewhere(problem.path) or (None, self._lines.line_of(problem.path))
        finding = Finding(
            why=printable(why),
            file=file,
            line=line,
            key=_key(problem.path),
            seen=None if problem.value is UNSET else _seen(problem.path, self.table),
            allowed=self.servers.advice(problem),
            nearest=problem.nearest and printable(problem.nearest),
            excerpt=None if problem.excerpt is None else _indented(printable_lines(problem.excerpt)),
        )
        if place is None:
            return finding
        text = self._masked_text(place.file)
        if is_shown(Config, problem.path):
            excerpt = text.excerpt(place.line, place.column, shows_value=True)
        else:
            excerpt = text.excerpt_without_value(place.line, place.column)
        return msgspec.structs.replace(
            finding, file=place.file, line=place.line, excerpt=_indented(excerpt), column=place.column
        )

    def _masked_text(self, file: str) -> MaskedText:
        if file not in self._masked:
            self._masked[file] = MaskedText(self.plumb.texts[file])
        return self._masked[file]


def _indented(excerpt: str) -> str | None:
    """A line and its caret as they stand in a report; None where the line is empty."""
    line, pointer = excerpt.split("\n")
    return f"{line}\n    {pointer}" if line.strip() else None


def printable(text: str) -> str:
    """`text` with escapes for what would steer a terminal."""
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text)


def printable_lines(text: str) -> str:
    """The same, line by line."""
    return "\n".join(map(printable, text.split("\n")))


def _key(path: Path) -> str | None:
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
            continue
        is_bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
        shown = key if is_bare else printable(json.dumps(key, ensure_ascii=False))
        text += f".{shown}" if text else shown
    return text or None


def _seen(path: Path, table: Table) -> str | None:
    """What the file says at `path`: the value as it is written, or only its kind where it may be a secret."""
    value: object = table
    for step in path:
        inner = dict(entries(value))
        if step not in inner:
            return None
        value = inner[step]
    if isinstance(value, (dict, list)) or not is_shown_as(Config, path, value):
        return next((words for kind, words in _KINDS if isinstance(value, kind)), "a date or time")
    is_json = isinstance(value, (str, bool))
    text = printable(json.dumps(value, ensure_ascii=False) if is_json else str(value))
    return text if len(text) <= MAX_VALUE_CHARACTERS else text[:MAX_VALUE_CHARACTERS] + "…"
