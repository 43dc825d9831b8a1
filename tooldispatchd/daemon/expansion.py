"""Put the environment into a configuration's texts, and its directory before their relative paths.

Only the keys that `EXPANDED` names are touched. `${VAR}` must be set, `${VAR:-default}` need not be (an empty
variable counts as unset, as in a shell), `$$` is a dollar, and a dollar before anything else is itself.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Final

import msgspec

from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.daemon.key_patterns import Pattern, Place, Table, places
from tooldispatchd.daemon.listen_values import check_listen, quote_path

EXPANDED: Final[tuple[Pattern, ...]] = (
    ("daemon", "listen", "#"),
    ("mcp", "*", "command"),
    ("mcp", "*", "args", "#"),
    ("mcp", "*", "env", "*"),
    ("mcp", "*", "cwd"),
    ("tools", "*", "command", "#"),
    ("tools", "*", "args", "#"),
    ("tools", "*", "env", "*"),
    ("tools", "*", "cwd"),
    ("agents", "*", "token_file"),
)
_VARIABLE: Final = re.compile(
    r"\$\$ | \$\{ (?P<name>[A-Za-z_][A-Za-z0-9_]*) (?: :- (?P<default>[^{}]*) )? \} | (?P<broken>\$\{)", re.VERBOSE
)
_FORMS: Final = '"${NAME}", "${NAME:-default}", or "$$" for a dollar'


def expand(table: Table, environ: Mapping[str, str], directory: FilePath) -> list[Problem]:
    """Expand the texts of `table` in place; `directory` is where its relative paths start.

    A text with a problem stays as it is written.
    """
    problems: list[Problem] = []
    for pattern in EXPANDED:
        for place in places(table, pattern):
            # What is empty as it stands is the schema's to refuse.
            if isinstance(place.value, str) and place.value:
                problems.extend(_expand_place(place, place.value, environ, directory))
    return problems


def _expand_place(place: Place, text: str, environ: Mapping[str, str], directory: FilePath) -> list[Problem]:
    problems = list(_text_problems(text, environ, place.path))
    if problems:
        return problems
    expanded = _VARIABLE.sub(lambda found: _replacement(found, environ), text)
    if not expanded and _is_never_empty(place.path):
        return [Problem(place.path, "is empty once its variables are in place", value=text)]
    value = _anchored(place.path, expanded, directory)
    place.put(value)
    problem = check_listen(value, place.path) if place.path[0] == "daemon" else None
    # Nothing that comes from the environment may be shown, in a guess neither.
    if problem and text != expanded:
        problem = msgspec.structs.replace(problem, value=text, nearest=None)
    return [problem] if problem else []


def _text_problems(text: str, environ: Mapping[str, str], path: Path) -> Iterator[Problem]:
    for found in _VARIABLE.finditer(text):
        name = found["name"]
        if found["broken"]:
            yield Problem(path, '"${" begins no variable that can be read', value=text, allowed=_FORMS)
        elif name and name not in environ and found["default"] is None:
            yield Problem(path, f"the environment has no {name}", value=text, allowed=f'"${{{name}:-default}}"')


def _replacement(found: re.Match[str], environ: Mapping[str, str]) -> str:
    name, default = found["name"], found["default"]
    if name is None:
        return "$"
    return environ.get(name, "") if default is None else environ.get(name, "") or default


def _is_program(path: Path) -> bool:
    return path[0] != "daemon" and (path[2:] == ("command",) or path[2:] == ("command", 0))


def _is_never_empty(path: Path) -> bool:
    return path[0] == "daemon" or _is_file(path) or _is_program(path)


def _is_file(path: Path) -> bool:
    return path[-1] == "cwd" or path[0] == "agents"


def _anchored(path: Path, text: str, directory: FilePath) -> str:
    """`text` with its relative path made absolute, where it is one."""
    if path[0] == "daemon":
        kind, _, socket = text.partition(":")
        where, mark, options = socket.partition("?")
        if kind != "unix" or where.startswith("@") or not where:
            return text
        return f"unix:{FilePath(quote_path(str(directory))) / where}{mark}{options}"
    # A program without a slash is looked for in PATH.
    if _is_file(path) or (_is_program(path) and "/" in text):
        return str(directory / text)
    return text
