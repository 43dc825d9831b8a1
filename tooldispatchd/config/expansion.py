"""Put the environment into a configuration's texts, and its directory before their relative paths.

Only the keys that `EXPANDED` names are touched. `${VAR}` must be set, `${VAR:-default}` need not be (an empty
variable counts as unset, as in a shell), `${file:PATH}`, `${credential:NAME}` and `${command:WORDS}` are what these
hold or print (`secret_sources`), `$$` is a dollar, and a dollar before anything else is itself.

A token, and a text among options, is taken as it is written unless there is a `${` in it.

The texts of a request are templates still when they leave this: a dollar of a value is two in them, and
`${parameters.NAME}` stands as it is.
"""

import os
import re
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from functools import partial
from pathlib import Path as FilePath
from typing import Final
from urllib.parse import quote

import msgspec

from tooldispatchd.catalog.auditspec import STORES, file_store, is_database
from tooldispatchd.catalog.hookspec import HookKind
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.servers import is_meant_as_url
from tooldispatchd.catalog.speckinds import HEADER_VALUE_PATTERN, MAX_HEADER_CHARS, WORKSPACE
from tooldispatchd.catalog.workspaces import VARIABLES
from tooldispatchd.config.credentials import SecretError
from tooldispatchd.config.key_patterns import KeyLocation, Pattern, Table, leaves, places
from tooldispatchd.config.listen_values import parse_place, quote_path
from tooldispatchd.config.secret_sources import NOT_RUN, SecretSources


class _Meaning(Enum):
    """What a text stands for, which decides whether it may be empty and where a relative path in it starts."""

    WORD = auto()
    PROGRAM = auto()
    FILE = auto()
    URL = auto()
    SERVER = auto()  # a binding's name or a URL
    DOCUMENT = auto()  # a file or a URL
    LISTEN = auto()
    STORE = auto()  # a kind and, behind a colon, a file; or the URL of a database
    HEADER = auto()  # a header's value
    ROOT = auto()  # a directory, as a path or a file:// URI
    DIRECTORY = auto()  # a path, or the session's workspace
    WORKSPACE = auto()  # a directory with variables of the session in its path
    PLACE = auto()  # what a program may read or change; links are resolved, so that none leads around a bound
    TEMPLATE = auto()  # a text of a request, or a table or a list of such, however deep
    HEADER_TEMPLATE = auto()  # a header's value in a request
    TAKEN = auto()  # as it is written, unless it has a variable


_CONFINED: Final[dict[Pattern, _Meaning]] = {("read", "#"): _Meaning.PLACE, ("write", "#"): _Meaning.PLACE}
_SERVER: Final[dict[Pattern, _Meaning]] = {
    ("command",): _Meaning.PROGRAM,
    ("url",): _Meaning.URL,
    ("args", "#"): _Meaning.WORD,
    ("env", "*"): _Meaning.WORD,
    ("cwd",): _Meaning.DIRECTORY,
    ("headers", "*"): _Meaning.HEADER,
    ("token",): _Meaning.TAKEN,
    ("token_file",): _Meaning.FILE,
    ("oauth", "client_id"): _Meaning.TAKEN,
    ("oauth", "client_secret_file"): _Meaning.FILE,
    ("oauth", "private_key_file"): _Meaning.FILE,
    ("ca",): _Meaning.FILE,
    ("cert",): _Meaning.FILE,
    ("key",): _Meaning.FILE,
    **_CONFINED,
}
_COMMAND: Final[dict[Pattern, _Meaning]] = {
    ("command", "#"): _Meaning.PROGRAM,
    ("args", "#"): _Meaning.WORD,
    ("env", "*"): _Meaning.WORD,
    ("cwd",): _Meaning.DIRECTORY,
    ("options",): _Meaning.TAKEN,
    **_CONFINED,
}
_PROFILE: Final[dict[Pattern, _Meaning]] = {
    ("token",): _Meaning.TAKEN,
    ("token_file",): _Meaning.FILE,
    ("roots", "#"): _Meaning.ROOT,
    ("workspace",): _Meaning.WORKSPACE,
    ("workspaces", "#"): _Meaning.FILE,
}
_API: Final[dict[Pattern, _Meaning]] = {
    ("base_url",): _Meaning.URL,
    ("headers", "*"): _Meaning.HEADER,
    ("query", "*"): _Meaning.WORD,
    **dict.fromkeys([("token",), ("basic", "password"), ("api_key", "value")], _Meaning.TAKEN),
    ("basic", "user"): _Meaning.WORD,
    ("oauth", "token_url"): _Meaning.URL,
    **dict.fromkeys([("token_file",), ("ca",), ("cert",), ("key",)], _Meaning.FILE),
    **dict.fromkeys([("basic", "password_file"), ("api_key", "value_file")], _Meaning.FILE),
    **dict.fromkeys([("oauth", "client_secret_file"), ("oauth", "refresh_token_file")], _Meaning.FILE),
}
_REQUEST: Final[dict[Pattern, _Meaning]] = {
    **{(key,): _Meaning.TEMPLATE for key in ("url", "path", "body", "text", "octets")},
    **{(key, "*"): _Meaning.TEMPLATE for key in ("query", "cookies", "form", "multipart")},
    ("headers", "*"): _Meaning.HEADER_TEMPLATE,
}
_FOREIGN_REQUEST: Final[dict[Pattern, _Meaning]] = {
    ("url",): _Meaning.TEMPLATE,
    ("headers", "*"): _Meaning.HEADER_TEMPLATE,
    ("bodyTemplate",): _Meaning.TEMPLATE,
}
_TABLES: Final[tuple[tuple[Pattern, dict[Pattern, _Meaning]], ...]] = (
    (("mcp", "*"), _SERVER),
    (("tools", "*"), _COMMAND | {("venv",): _Meaning.FILE}),
    (("tools", "*", "mcp"), _SERVER),
    (("rest", "*"), _API),
    (("openapi", "*"), _API | {("spec",): _Meaning.DOCUMENT}),
    (("tools", "*", "rest"), _REQUEST),
    (("restTools", "*"), _FOREIGN_REQUEST),
    (("processes", "*"), _COMMAND | _PROFILE),
    (("processes", "*", "mcp", "#"), _SERVER),
    (("agents", "*"), _CONFINED | _PROFILE),
    (
        ("toolbox", "*"),
        {("workspace",): _Meaning.DIRECTORY, ("env", "*"): _Meaning.WORD, ("shared",): _Meaning.FILE, **_CONFINED},
    ),
    (
        ("hooks", "*"),
        {
            **{(kind.value, "#"): _Meaning.PROGRAM for kind in HookKind},
            ("cwd",): _Meaning.DIRECTORY,
            ("env", "*"): _Meaning.WORD,
            ("venv",): _Meaning.FILE,
            **_CONFINED,
        },
    ),
    (("traces",), {("endpoint",): _Meaning.URL, ("headers", "*"): _Meaning.HEADER}),
    (("toolbox", "*", "search"), {("url",): _Meaning.URL, ("token",): _Meaning.TAKEN, ("token_file",): _Meaning.FILE}),
)
EXPANDED: Final[dict[Pattern, _Meaning]] = {
    ("daemon", "listen", "#"): _Meaning.LISTEN,
    ("audit", "store"): _Meaning.STORE,
    ("plumb", "#"): _Meaning.FILE,
    ("mcp_json", "#"): _Meaning.FILE,
    ("agent_command", "#"): _Meaning.PROGRAM,
    **{(*table, *key): meaning for table, keys in _TABLES for key, meaning in keys.items()},
    ("tools", "*", "mcp"): _Meaning.SERVER,
    ("processes", "*", "mcp", "#"): _Meaning.SERVER,
}
_VARIABLE: Final = re.compile(
    r"\$\$ | \$\{ (?P<name>[A-Za-z_][A-Za-z0-9_]*) (?: :- (?P<default>[^{}]*) )? \}"
    r" | \$\{ (?P<source>file|credential|command): (?P<what>[^{}]+) \} | (?P<broken>\$\{)",
    re.VERBOSE,
)
_TEMPLATE_SIGN: Final = re.compile(rf"\$\{{ parameters\. [^{{}}]+ \}} | {_VARIABLE.pattern}", re.VERBOSE)
ABSENT: Final = "the environment has no"
BROKEN: Final = '"${" begins no variable that can be read'
_FORMS: Final = (
    '"${NAME}", "${NAME:-default}", "${file:PATH}", "${credential:NAME}", "${command:WORDS}", or "$$" for a dollar'
)
# As `catalog.arguments` has it, in shapes that are surely meant so.
_FIELD: Final = re.compile(r"\$\{(\w[\w -]*)(?:\.\.\.|\?[^{}]+)?\}")
_HEADER: Final = re.compile(HEADER_VALUE_PATTERN.removesuffix("$"))
# RFC 8089, 2: no host, or this one.
_FILE_URI: Final = re.compile(r"file://(?:localhost)?(?P<path>/(?:[^%?#\x00]|%[0-9A-Fa-f]{2})*)", re.IGNORECASE)
# RFC 3986, 3.3, and the sign of what is encoded already.
_PATH_SIGNS: Final = "/:@!$&'()*+,;=~%"
# These may be empty once they are expanded.
_MAY_BE_EMPTY: Final = frozenset(
    {_Meaning.WORD, _Meaning.HEADER, _Meaning.TEMPLATE, _Meaning.HEADER_TEMPLATE, _Meaning.TAKEN}
)
_TEMPLATES: Final = frozenset({_Meaning.TEMPLATE, _Meaning.HEADER_TEMPLATE})
_HEADERS: Final = frozenset({_Meaning.HEADER, _Meaning.HEADER_TEMPLATE})
# Of a place for https, where it is relative.
_PEM_OPTION: Final = re.compile(r"((?:^|(?<=&))(?:cert|key)=)(?!/)([^&]+)")
_PATHS: Final = frozenset({_Meaning.FILE, _Meaning.DOCUMENT, _Meaning.DIRECTORY, _Meaning.WORKSPACE})
# Where the word stands for the session's own directory.
_OF_SESSIONS: Final = frozenset({_Meaning.DIRECTORY, _Meaning.PLACE, _Meaning.ROOT})


def expand(
    table: Table, environ: Mapping[str, str], directory: FilePath, sources: SecretSources | None = None
) -> list[Problem]:
    """Expand the texts of `table` in place; `directory` is where its relative paths start.

    A text with a problem stays as it is written. What is read as a secret is known to `sources`.
    """
    expand_place = partial(
        _expand_place, sources=sources or SecretSources(environ, directory), environ=environ, directory=directory
    )
    problems: list[Problem] = []
    for pattern, meaning in EXPANDED.items():
        found = list(places(table, pattern))
        within = [leaf for each in found for leaf in leaves(each.value, each.path)]
        for place in (*found, *within):
            path = place.path
            modes = places(table, (str(path[0]), str(path[1]), "input_mode")) if _is_argument(path) else ()
            # There a dollar names a field of the input.
            is_template = any(mode.value == "args" for mode in modes)
            # The schema refuses a text that is empty as it is written.
            if isinstance(place.value, str) and place.value and not is_template:
                problems.extend(expand_place(place, place.value, meaning))
    return problems


def _is_argument(path: Path) -> bool:
    """Whether an argument of a program, not of a server, stands at `path`."""
    return len(path) == 4 and path[0] in {"tools", "processes"} and path[2] == "args"


def expand_file(text: str, environ: Mapping[str, str], directory: FilePath) -> FilePath | None:
    """The file that `text` names, or None where `expand` has a problem with it; of a command it has none."""
    if "${command:" in text:
        return None
    place = KeyLocation(("plumb", 0), {0: text})
    sources = SecretSources(environ, directory)
    if _expand_place(place, text, _Meaning.FILE, sources=sources, environ=environ, directory=directory):
        return None
    return FilePath(str(place.value))


def _expand_place(
    place: KeyLocation,
    text: str,
    meaning: _Meaning,
    *,
    sources: SecretSources,
    environ: Mapping[str, str],
    directory: FilePath,
) -> list[Problem]:
    """Expand one text in place. No problem shows the expanded text."""
    # A binding's name holds no dollar, and is shown in messages, which nothing of the environment may be.
    if meaning is _Meaning.SERVER and not is_meant_as_url(text):
        return []
    # Only a command's first word is the program.
    if meaning is _Meaning.PROGRAM and place.path[-1] not in {0, "command"}:
        meaning = _Meaning.WORD
    if (text == WORKSPACE and meaning in _OF_SESSIONS) or (meaning is _Meaning.TAKEN and "${" not in text):
        return []
    if meaning is _Meaning.WORKSPACE:
        # These are put in where a session opens.
        environ = {**environ, **{name: f"${{{name}}}" for name in VARIABLES}}
    signs = _TEMPLATE_SIGN if meaning in _TEMPLATES else _VARIABLE
    problems = list(_text_problems(text, environ, place.path, signs))
    if problems:
        return problems

    try:
        expanded = signs.sub(lambda found: _replacement(found, meaning, environ, sources), text)
    except SecretError as error:
        return [Problem(place.path, error.why, value=text)]
    if meaning is _Meaning.STORE and NOT_RUN in expanded:
        # What a command would print there is not known.
        return []
    if (misfit := _misfit(meaning, text, expanded)) is not None:
        return [Problem(place.path, misfit[0], value=text, allowed=misfit[1])]
    value = _anchored(meaning, expanded, directory)
    place.put(value)
    problem = parse_place(value) if meaning is _Meaning.LISTEN else None
    if not isinstance(problem, Problem):
        return []
    # Nothing that comes from the environment may be shown, not even in a guess.
    hidden = {} if text == expanded else {"value": text, "nearest": None}
    return [msgspec.structs.replace(problem, path=place.path, **hidden)]


def _replacement(found: re.Match[str], meaning: _Meaning, environ: Mapping[str, str], sources: SecretSources) -> str:
    """What stands in the place of a sign. Raises `SecretError`."""
    is_template = meaning in _TEMPLATES
    if found["source"] is not None:
        value = sources.read(found["source"], found["what"])
    elif found["name"] is None:
        return found[0] if is_template else "$"
    else:
        # As in a shell, a default stands for an empty variable too.
        value = environ.get(found["name"], "") or found["default"] or ""
        sources.note_variable(found["name"], value)
    if meaning is _Meaning.STORE and _is_password(found):
        return quote(value, safe="")
    return value.replace("$", "$$") if is_template else value


def _is_password(found: re.Match[str]) -> bool:
    """Whether it is all that stands between the `:` and the `@` of a URL."""
    return found.string[: found.start()].endswith(":") and found.string[found.end() :].startswith("@")


def _misfit(meaning: _Meaning, text: str, expanded: str) -> tuple[str, str | None] | None:
    """Why a text cannot be what it should once its variables are in place, and what would be right."""
    if not expanded and meaning not in _MAY_BE_EMPTY:
        return "is empty once its variables are in place", None
    # The schema has checked the text as it is written. A line feed out of a variable would begin another header.
    is_header = len(expanded) <= MAX_HEADER_CHARS and _HEADER.fullmatch(expanded) is not None
    if meaning in _HEADERS and text != expanded and not is_header:
        allowed = f"ASCII in one line, at most {MAX_HEADER_CHARS} characters"
        return "no header can have this value once its variables are in place", allowed
    if meaning is _Meaning.ROOT and "://" in expanded and _FILE_URI.fullmatch(expanded) is None:
        return "no directory of this machine", "a path, or file:// and an absolute path"
    if meaning is _Meaning.STORE and not (file_store(expanded) or is_database(expanded)):
        return "no store", STORES
    return None


def _text_problems(text: str, environ: Mapping[str, str], path: Path, signs: re.Pattern[str]) -> Iterator[Problem]:
    for found in signs.finditer(text):
        name = found["name"]
        if found["broken"]:
            why, allowed = BROKEN, _FORMS
        elif name and name not in environ and found["default"] is None:
            why, allowed = f"{ABSENT} {name}", f'"${{{name}:-default}}"'
        else:
            continue
        field = _FIELD.match(text, found.start())
        if field and _is_argument(path):
            # What follows the name is not shown: any text of a configuration may be a secret.
            mode = 'input_mode = "args"'
            meant = f'"${{{field[1]}}}" names a field of the input with {mode} alone'
            why, allowed = (meant, mode) if found["broken"] else (f"{meant}, and {why}", f"{mode}, or {allowed}")
        yield Problem(path, why, value=text, allowed=allowed)


def _anchored(meaning: _Meaning, text: str, directory: FilePath) -> str:
    """`text` with its relative path made absolute, where it is one."""
    if meaning is _Meaning.LISTEN:
        kind, _, socket = text.partition(":")
        where, mark, options = socket.partition("?")
        anchor = FilePath(quote_path(str(directory)))
        if kind == "https":
            # The certificate and its key.
            holder = str(anchor).replace("&", "%26")
            options = _PEM_OPTION.sub(lambda found: f"{found[1]}{holder}/{found[2]}", options)
            return f"{kind}:{where}{mark}{options}"
        if kind not in {"unix", "http+unix"} or where.startswith("@") or not where:
            return text
        return f"{kind}:{anchor / where}{mark}{options}"
    if meaning is _Meaning.STORE:
        stored = file_store(text)
        return text if stored is None else f"{stored[0]}:{directory / stored[1]}"
    if meaning is _Meaning.ROOT:
        found = _FILE_URI.fullmatch(text)
        if found is not None:
            return f"file://{quote(found['path'], safe=_PATH_SIGNS)}"
        # Whoever reads a URI takes dots away (RFC 3986, 5.2.4), so that none are left.
        return FilePath(os.path.normpath(directory / text)).as_uri()
    if meaning is _Meaning.PLACE:
        return os.path.realpath(directory / text)
    # A program without a slash is looked for in PATH.
    if meaning is _Meaning.DOCUMENT and "://" in text:
        return text
    if meaning in _PATHS or (meaning is _Meaning.PROGRAM and "/" in text):
        return str(directory / text)
    return text
