"""What is shown of a configuration's problems: where each stands, and only values that can be no secret."""

import json
import re
from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import Final, cast

import msgspec
from msgspec import UNSET

from tooldispatchd.catalog.confinement import KEYS
from tooldispatchd.catalog.notation.places import NotationProblem, SourcePosition
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.specs import BINDING_PATTERN
from tooldispatchd.daemon.key_patterns import Pattern, Table, is_of
from tooldispatchd.daemon.mcp_json import McpJson
from tooldispatchd.daemon.plumb_excerpts import MaskedText
from tooldispatchd.daemon.plumb_files import PlumbFiles
from tooldispatchd.daemon.toml_lines import TomlLines

# Enough for any file that was written by hand; the rest of a generated one says the same again.
MAX_SHOWN: Final = 50
MAX_VALUE_CHARACTERS: Final = 80

_PYTHON: Final = ("python", "venv", "prefork", "resident", "max_forks", "max_rss")
_SERVER_SHOWN: Final[tuple[Pattern, ...]] = (
    ("cwd",),
    ("tools", "#"),
    ("deny", "#"),
    ("prefix",),
    ("handshake_s",),
    ("call_s",),
    ("enabled",),
    ("protocol",),
    ("transport",),
    ("private",),
    ("on_timeout",),
    ("restart",),
    ("shared",),
    ("lazy",),
    ("mcp_resources",),
    ("trace",),
    ("oauth", "grant"),
    ("oauth", "algorithm"),
    ("oauth", "redirect_port"),
    *((key,) for key in KEYS),
    *((key, "#") for key in ("read", "write")),
)
# A list of what may be shown, not of what may not: a token ends up in `args`, in a URL and under keys that nobody
# thought of. `env`, `args`, `command`, `hosts` and all that names a file of a server, and the value of any unknown key,
# are named by their kind only.
_PROGRAMS: Final[tuple[Pattern, ...]] = (("tools", "*"), ("processes", "*"), ("agents", "*"))
_SHOWN: Final[tuple[Pattern, ...]] = (
    ("daemon", "listen"),
    ("daemon", "listen", "#"),
    ("daemon", "grace_s"),
    ("limits", "*"),
    ("types", "*"),
    ("plumb", "#"),
    ("mcp_json", "#"),
    *(("mcp", "*", *key) for key in _SERVER_SHOWN),
    ("tools", "*", "type"),
    ("tools", "*", "title"),
    ("tools", "*", "call_s"),
    ("tools", "*", "inline"),
    ("tools", "*", "map"),
    ("tools", "*", "process"),
    ("tools", "*", "name"),
    ("tools", "*", "hint"),
    ("tools", "*", "expose"),
    ("tools", "*", "cwd"),
    *(("tools", "*", "mcp", *key) for key in _SERVER_SHOWN),
    *(("tools", "*", key) for key in _PYTHON),
    *((*table, key) for table in _PROGRAMS for key in KEYS),
    *((*table, key, "#") for table in _PROGRAMS for key in ("read", "write")),
    *((*table, key) for table in _PROGRAMS[:2] for key in ("input_mode", "output_mode", "reuse")),
    ("processes", "*", "kind"),
    ("processes", "*", "type"),
    ("processes", "*", "map"),
    ("processes", "*", "filter"),
    ("processes", "*", "project"),
    ("processes", "*", "chain", "#"),
    ("processes", "*", "cwd"),
    ("processes", "*", "model"),
    ("processes", "*", "tools", "#"),
    *(("processes", "*", "mcp", "#", *key) for key in _SERVER_SHOWN),
    ("agents", "*", "tools", "#"),
    ("agents", "*", "mcp", "#"),
    ("agents", "*", "roots", "#"),
    ("agents", "*", "mcp_resources"),
    ("agents", "*", "jobs"),
    ("agents", "*", "uid"),
    ("agents", "*", "uid", "#"),
    ("agents", "*", "gid"),
    ("agents", "*", "gid", "#"),
)
# A server by its name may be shown, and by its URL not: what has no sign of a URL is taken for a name.
_NAME: Final = re.compile(BINDING_PATTERN)
# People put the token itself there. It has other letters than a variable (POSIX, XBD 8.1), and more than a choice.
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_CHOICE: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,11}")
_SERVERS: Final[tuple[Pattern, ...]] = (("mcp", "*"), ("tools", "*", "mcp"), ("processes", "*", "mcp", "#"))
_SHOWN_IF: Final[tuple[tuple[Pattern, re.Pattern[str]], ...]] = (
    *((server, _NAME) for server in _SERVERS[1:]),
    *(((*server, "auth"), _CHOICE) for server in _SERVERS),
    *(((*server, "token_env"), _VARIABLE) for server in _SERVERS),
    *(((*server, "oauth", "client_secret_env"), _VARIABLE) for server in _SERVERS),
    (("agents", "*", "token_env"), _VARIABLE),
)
_WITHIN: Final = re.compile(r"(?:line (?P<line>\d+), )?column (?P<column>\d+): ")
_NO_FILES: Final = PlumbFiles()
_NO_JSON: Final = McpJson()
_KINDS: Final = (
    (bool, "a boolean"),
    (str, "a string"),
    (int, "a whole number"),
    (float, "a number"),
    (list, "an array"),
    (dict, "a table"),
    (type(None), "null"),
)


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


def find(
    problems: Iterable[Problem],
    table: Table,
    source: str,
    plumb: PlumbFiles = _NO_FILES,
    servers: McpJson = _NO_JSON,
) -> tuple[Finding, ...]:
    """Each problem with its line, in the order of the files: the configuration's own, those of `plumb`, of `servers`.

    `table` is what `source` and the files say together, before any expansion.
    """
    lines = TomlLines(source)
    report = _Report(table, lines, plumb, servers)
    unique = {(problem.path, problem.why): problem for problem in [*plumb.problems, *servers.problems, *problems]}
    findings = [report.finding(problem) for problem in unique.values()]
    findings += [report.mistake(mistake) for mistake in plumb.mistakes]
    findings += [Finding(printable(each.why), each.line, file=each.file) for each in servers.mistakes]
    order = {file: number for number, file in enumerate([*plumb.texts, *servers.files], 1)}
    return tuple(sorted(findings, key=lambda finding: (order.get(finding.file or "", 0), finding.line or 0)))


class _Report:
    """Makes findings, of whichever file they are."""

    def __init__(self, table: Table, lines: TomlLines, plumb: PlumbFiles, servers: McpJson) -> None:
        self._table = table
        self._lines = lines
        self._plumb = plumb
        self._servers = servers
        # Made once, since a file may have many problems.
        self._texts: dict[str, MaskedText] = {}

    def finding(self, problem: Problem) -> Finding:
        place, why = self._place(problem)
        foreign = self._servers.place_of(problem.path)
        own_line = self._lines.line_of(problem.path) if foreign is None else foreign[1]
        finding = Finding(
            why=printable(why),
            file=None if foreign is None else foreign[0],
            line=own_line if place is None else place.line,
            key=_key(problem.path),
            seen=None if problem.value is UNSET else _seen(problem.path, self._table),
            allowed=self._servers.advice(problem),
            nearest=problem.nearest and printable(problem.nearest),
        )
        if place is None:
            return finding
        text = self._text_of(place.file)
        if _is_shown(problem.path):
            excerpt = text.excerpt(place.line, place.column, shows_value=True)
        else:
            excerpt = text.excerpt_without_value(place.line, place.column)
        return msgspec.structs.replace(finding, file=place.file, excerpt=_indented(excerpt), column=place.column)

    def _place(self, problem: Problem) -> tuple[SourcePosition | None, str]:
        """Where in a plumb file a problem stands, and why, without the place within the value that the caret shows."""
        found = _WITHIN.match(problem.why)
        if found is not None:
            place = self._plumb.place_of(problem.path, (int(found["line"] or 1), int(found["column"])))
            if place is not None:
                # The notation is not written as what it means: a column of the one is none of the other.
                return place, problem.why[found.end() :]
        return self._plumb.place_of(problem.path), problem.why

    def mistake(self, mistake: NotationProblem) -> Finding:
        text = self._text_of(mistake.file)
        return Finding(
            why=printable(mistake.why),
            line=mistake.line,
            nearest=mistake.nearest and printable(mistake.nearest),
            file=mistake.file,
            excerpt=_indented(text.excerpt(mistake.line, mistake.column, shows_value=False)),
            column=mistake.column,
        )

    def _text_of(self, file: str) -> MaskedText:
        if file not in self._texts:
            self._texts[file] = MaskedText(self._plumb.texts[file])
        return self._texts[file]


def _indented(excerpt: str) -> str | None:
    """A line and its caret as they stand in a report; None where the line is empty."""
    line, pointer = excerpt.split("\n")
    return f"{line}\n    {pointer}" if line.strip() else None


def printable(text: str) -> str:
    """`text` with what a terminal would obey instead of show in its escaped form."""
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text)


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
    value = _value_at(path, table)
    if value is UNSET:
        return None
    if not isinstance(value, (dict, list)) and (_is_shown(path) or _is_shown_as(path, value)):
        return _written(value)
    return next((words for kind, words in _KINDS if isinstance(value, kind)), "a date or time")


def _value_at(path: Path, table: Table) -> object:
    """What stands at `path`; UNSET where nothing does."""
    value: object = table
    for key in path:
        is_there = key in value if isinstance(value, dict) else isinstance(value, list) and key in range(len(value))
        if not is_there:
            return UNSET
        value = cast("dict[str | int, object]", value)[key]
    return value


def _is_shown(path: Path) -> bool:
    return any(is_of(path, pattern) for pattern in _SHOWN)


def _is_shown_as(path: Path, value: object) -> bool:
    """Whether a value is of a form in which it can be no secret at this place."""
    return isinstance(value, str) and any(
        is_of(path, pattern) and form.fullmatch(value) is not None for pattern, form in _SHOWN_IF
    )


def _written(value: object) -> str:
    is_json = isinstance(value, (str, bool))
    text = printable(json.dumps(value, ensure_ascii=False) if is_json else str(value))
    return text if len(text) <= MAX_VALUE_CHARACTERS else text[:MAX_VALUE_CHARACTERS] + "…"
