"""What is shown of a configuration's problems: where each stands, and only values that can be no secret."""

import json
from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import Final, cast

import msgspec
from msgspec import UNSET

from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.daemon.key_patterns import Pattern, Table, is_of
from tooldispatchd.daemon.toml_lines import TomlLines

# Enough for any file that was written by hand; the rest of a generated one says the same again.
MAX_SHOWN: Final = 50
MAX_VALUE_CHARACTERS: Final = 80

# A list of what may be shown, not of what may not: a token ends up in `args`, in a URL and under keys that nobody
# thought of. `env`, `args` and `command` of a server, and the value of any unknown key, are named by their kind only.
_SHOWN: Final[tuple[Pattern, ...]] = (
    ("daemon", "listen"),
    ("daemon", "listen", "#"),
    ("daemon", "grace_s"),
    ("limits", "*"),
    ("types", "*"),
    ("mcp", "*", "cwd"),
    ("mcp", "*", "tools", "#"),
    ("mcp", "*", "deny", "#"),
    ("mcp", "*", "prefix"),
    ("mcp", "*", "handshake_s"),
    ("mcp", "*", "call_s"),
    ("mcp", "*", "enabled"),
    ("mcp", "*", "protocol"),
    ("mcp", "*", "on_timeout"),
    ("tools", "*", "type"),
    ("tools", "*", "title"),
    ("tools", "*", "call_s"),
    ("tools", "*", "inline"),
    ("tools", "*", "map"),
    ("tools", "*", "cwd"),
    ("agents", "*", "tools", "#"),
    ("agents", "*", "mcp", "#"),
    ("agents", "*", "jobs"),
    ("agents", "*", "uid"),
    ("agents", "*", "uid", "#"),
    ("agents", "*", "gid"),
    ("agents", "*", "gid", "#"),
)
_KINDS: Final = (
    (bool, "a boolean"),
    (str, "a string"),
    (int, "a whole number"),
    (float, "a number"),
    (list, "an array"),
    (dict, "a table"),
)


class Finding(msgspec.Struct, frozen=True):
    """One problem, ready to be shown: `line` from 1, `key` as TOML writes it; both may be unknown."""

    why: str
    line: int | None = None
    key: str | None = None
    seen: str | None = None
    allowed: str | None = None
    nearest: str | None = None

    def text(self, file: FilePath) -> str:
        """The problem in one line, and in a second one what was seen and what would be right."""
        where = f"{file}:{self.line}" if self.line else f"{file}"
        first = ": ".join(filter(None, (where, self.key, self.why)))
        seen = f"seen {self.seen}" if self.seen else None
        allowed = f"allowed: {self.allowed}" if self.allowed else None
        meant = f'did you mean "{self.nearest}"?' if self.nearest else None
        second = "; ".join(filter(None, (seen, allowed, meant)))
        return f"{first}\n    {second}" if second else first


def find(problems: Iterable[Problem], table: Table, source: str) -> tuple[Finding, ...]:
    """Each problem with its line, in the order of the file; `table` is what `source` says, before any expansion."""
    lines = TomlLines(source)
    unique = {(problem.path, problem.why): problem for problem in problems}
    findings = [
        Finding(
            why=printable(problem.why),
            line=lines.line_of(problem.path),
            key=_key(problem.path),
            seen=None if problem.value is UNSET else _seen(problem.path, table),
            allowed=problem.allowed,
            nearest=problem.nearest and printable(problem.nearest),
        )
        for problem in unique.values()
    ]
    return tuple(sorted(findings, key=lambda finding: finding.line or 0))


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
    value: object = table
    for key in path:
        is_there = key in value if isinstance(value, dict) else isinstance(value, list) and key in range(len(value))
        if not is_there:
            return None
        value = cast("dict[str | int, object]", value)[key]
    if not isinstance(value, (dict, list)) and any(is_of(path, pattern) for pattern in _SHOWN):
        return _written(value)
    return next((words for kind, words in _KINDS if isinstance(value, kind)), "a date or time")


def _written(value: object) -> str:
    is_json = isinstance(value, (str, bool))
    text = printable(json.dumps(value, ensure_ascii=False) if is_json else str(value))
    return text if len(text) <= MAX_VALUE_CHARACTERS else text[:MAX_VALUE_CHARACTERS] + "…"
