"""Files in which other MCP clients keep their servers: found, read, and put into `[mcp]` of the configuration's table.

    {"mcpServers": {"NAME": {"command": …, "args": […], "env": {…}, "cwd": …}}}
    {"servers": {"NAME": {"type": "http", "url": …, "headers": {…}}}}

Only the form is looked at here; what the keys hold is checked as all of `[mcp]` is, and where each was written is
remembered. `${VAR}`, `${VAR:-text}` and `${env:VAR}` are rewritten as the configuration writes them, and expanded with
it.
"""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import Final, NoReturn, cast

import msgspec

from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.speckinds import BINDING_PATTERN, MIB
from tooldispatchd.daemon.expansion import expand_file
from tooldispatchd.daemon.json_lines import JsonLines
from tooldispatchd.daemon.key_patterns import Table

# Some hundred servers have room; what is larger is another file.
MAX_FILE_BYTES: Final = 1 * MIB
# One for each client of a user, and more.
MAX_FILES: Final = 16
# A server's table has three levels, and a client's own settings a few more.
MAX_DEPTH: Final = 32
_MAX_NAME: Final = 32

_SECTIONS: Final = ("mcpServers", "servers")
# What is copied as it stands. A server's table has many more keys, which no other client knows.
_COPIED: Final = ("command", "args", "env", "cwd", "url", "headers")
_KEYS: Final = (*_COPIED, "type", "disabled")
# Of which a server has one.
_WAYS: Final = ("url", "command")
# `http` is whatever is behind the URL: some clients fall back to the older transport there, as `auto` does.
_TYPES: Final = {
    "stdio": ("command", "auto"),
    "http": ("url", "auto"),
    "streamable-http": ("url", "http"),
    "sse": ("url", "sse"),
}
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?(?P<body>[A-Za-z_][A-Za-z0-9_]*(?::-[^{}]*)?)\}|\$\{|\$")
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Mistake(msgspec.Struct, frozen=True):
    """What is wrong in a file at a `line`, from 1, that is no key of a server."""

    file: str
    line: int
    why: str


class Written(msgspec.Struct, frozen=True):
    """Where a server's table was written: the file as reports name it, its lines, and the path within it."""

    file: str
    lines: JsonLines
    path: Path


class McpJson(msgspec.Struct, frozen=True):
    """What was read: the `files` as reports name them, and where each server's table was written, by its binding.

    `problems` are those of the key `mcp_json` and of servers' tables, `mistakes` those of the files themselves. Where
    one of them is not `read`, the names that it declares are unknown, and whoever uses one is right all the same.
    """

    files: tuple[str, ...] = ()
    servers: dict[str, Written] = {}
    problems: tuple[Problem, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    warnings: tuple[str, ...] = ()
    read: bool = True

    def place_of(self, path: Path) -> tuple[str, int] | None:
        """The file and the line of what stands at `path`, or of the nearest around it; None where it is elsewhere."""
        written = self.servers.get(str(path[1])) if len(path) > 1 and path[0] == "mcp" else None
        return None if written is None else (written.file, written.lines.line_of((*written.path, *path[2:])))


def take_mcp_json(table: Table, path: FilePath, environ: Mapping[str, str], where: Callable[[Path], str]) -> McpJson:
    """Put the servers of the files that `table` names into its `[mcp]`, in place.

    `path` is the configuration's file; `where` says where the table at a path was written that is there already.
    """
    named = table.get("mcp_json")
    if not isinstance(named, list) or not named:
        # What is no list is the schema's to refuse.
        return McpJson()
    if len(named) > MAX_FILES:
        return McpJson(problems=(Problem(("mcp_json",), "too many files", allowed=f"at most {MAX_FILES}"),), read=False)
    home = path.absolute().parent
    reader = _Reader(table, home, where)
    for index, text in enumerate(cast("list[object]", named)):
        if isinstance(text, str) and text:
            shown = text if "${" in text else str(path.parent / text)
            reader.add(("mcp_json", index), expand_file(text, environ, home), shown)
    return reader.found()


class _UnreadableError(Exception):
    """Why a file cannot be used, and in which line, from 1."""

    def __init__(self, why: str, line: int = 1) -> None:
        super().__init__(why)
        self.why = why
        self.line = line


class _Reader:
    """Collects the servers of one file after another."""

    def __init__(self, table: Table, home: FilePath, where: Callable[[Path], str]) -> None:
        self._table = table
        self._home = home
        self._where = where
        self._seen: set[FilePath] = set()
        self._files: list[str] = []
        self._servers: dict[str, Written] = {}
        self._problems: list[Problem] = []
        self._mistakes: list[Mistake] = []
        self._warnings: list[str] = []
        self._read = True

    def found(self) -> McpJson:
        """All of it."""
        collected = (tuple(self._problems), tuple(self._mistakes), tuple(self._warnings))
        return McpJson(tuple(self._files), self._servers, *collected, self._read)

    def add(self, path: Path, file: FilePath | None, shown: str) -> None:
        """Read one file, which the configuration names at `path`; None for one whose name cannot be expanded."""
        if file is None:
            self._read = False
            return
        text = _read(file) if file not in self._seen else _UnreadableError("this file is named twice")
        self._seen.add(file)
        if isinstance(text, _UnreadableError):
            self._problems.append(Problem(path, text.why, value=shown))
            self._read = False
            return
        self._files.append(shown)
        try:
            servers = self._servers_of(text, shown)
        except _UnreadableError as error:
            self._mistakes.append(Mistake(shown, error.line, error.why))
            self._read = False
            return
        for written, entry in servers:
            self._add_server(written, entry, None if file.parent == self._home else file.parent)

    def _servers_of(self, text: str, shown: str) -> list[tuple[Written, object]]:
        """Each server's entry of one document."""
        document = _parse(text)
        lines = JsonLines(text)
        if lines.depth > MAX_DEPTH:
            raise _UnreadableError(f"arrays and objects are nested more than {MAX_DEPTH} deep")
        top = cast("Table", document) if isinstance(document, dict) else {}
        section = next((key for key in _SECTIONS if key in top), "")
        servers = top.get(section)
        if not isinstance(servers, dict):
            raise _UnreadableError('no object "mcpServers" or "servers"', lines.line_of((section,)))
        self._warn_unknown(Written(shown, lines, ()), [key for key in top if key != section])
        return [(Written(shown, lines, (section, str(name))), entry) for name, entry in servers.items()]

    def _add_server(self, written: Written, entry: object, directory: FilePath | None) -> None:
        """Put an entry into `[mcp]`; `directory` is where its relative paths start if not at the configuration."""
        name = str(written.path[-1])
        binding = name if re.fullmatch(BINDING_PATTERN, name) else _sanitised(name)
        mcp = self._table.setdefault("mcp", {})
        if not isinstance(mcp, dict):
            # The schema says what is wrong with it.
            return
        line = written.lines.line_of(written.path)
        if binding in mcp:
            other = self._servers.get(binding)
            at = self._where(("mcp", binding)) if other is None else f"{other.file}:{other.lines.line_of(other.path)}"
            self._mistakes.append(Mistake(written.file, line, f"mcp.{binding} is declared already, at {at}"))
            return
        if binding != name:
            self._warnings.append(f"{written.file}:{line}: server {_quoted(name)} is called {binding}")
        self._servers[binding] = written
        mcp[binding] = entry
        if isinstance(entry, dict):
            given = cast("Table", entry)
            unknown = [key for key in given if key not in _KEYS]
            if unknown and all(given.get(way) is None for way in _WAYS):
                given = self._reached(given, ("mcp", binding), unknown)
            else:
                self._warn_unknown(written, unknown)
            mcp[binding] = self._server(given, ("mcp", binding), directory)

    def _reached(self, given: Table, place: Path, unknown: list[str]) -> Table:
        """An entry with no way to its server, as if an unknown key that must be meant were that; a problem anyway."""
        meant = {key: way for key in unknown if (way := _way_meant(key)) is not None}
        self._problems += [Problem((*place, key), "unknown key", nearest=way) for key, way in meant.items()]
        if meant:
            return {**given, **{way: given[key] for key, way in meant.items()}}
        why = f"a server has command or url, this one has neither; unknown: {_listed(unknown)}"
        self._problems.append(Problem(place, why))
        # What else it has belongs to the way that is not there.
        return {}

    def _server(self, given: Table, place: Path, directory: FilePath | None) -> Table:
        """An entry as a table of `[mcp]`; what has a problem is left out."""
        table = {key: _rewritten(given[key]) for key in _COPIED if given.get(key) is not None}
        if directory is not None:
            _anchor(table, directory)
        disabled = given.get("disabled")
        if isinstance(disabled, bool):
            table["enabled"] = not disabled
        elif disabled is not None:
            self._problems.append(Problem((*place, "disabled"), "wrong kind of value", allowed="true or false"))
        if given.get("type") is not None:
            self._add_type(table, given["type"], (*place, "type"))
        return table

    def _add_type(self, table: Table, kind: object, path: Path) -> None:
        """What the type of a server says of its table; `path` is where it stands."""
        way, transport = _TYPES.get(str(kind), ("", "auto"))
        if not way:
            allowed = ", ".join(f'"{each}"' for each in _TYPES)
            close = nearest(str(kind), _TYPES)
            self._problems.append(Problem(path, "no such type", allowed=allowed, nearest=close))
        elif way not in table:
            self._problems.append(Problem(path, f'a server of type "{kind}" has a {way}'))
        elif transport != "auto":
            table["transport"] = transport

    def _warn_unknown(self, written: Written, keys: list[str]) -> None:
        """One warning for all that an object has and nobody here knows."""
        if keys:
            line = min(written.lines.line_of((*written.path, key)) for key in keys)
            what = f"server {_quoted(str(written.path[-1]))}" if written.path else "the file"
            self._warnings.append(f"{written.file}:{line}: {what} has keys that mean nothing here: {_listed(keys)}")


def _parse(text: str) -> object:
    def refuse(constant: str) -> NoReturn:
        raise _UnreadableError(f"not JSON: {constant}")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        # The cause would carry the whole file along, with every token in it.
        raise _UnreadableError(f"not JSON: {error.msg} (column {error.colno})", error.lineno) from None
    except RecursionError:
        raise _UnreadableError(f"arrays and objects are nested more than {MAX_DEPTH} deep") from None
    except ValueError:
        # The interpreter reads no number of thousands of digits.
        raise _UnreadableError("a number has too many digits") from None


def _read(path: FilePath) -> str | _UnreadableError:
    """The file's text, or why there is none."""
    content = b""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            return _UnreadableError(f"cannot use this file: it is over {MAX_FILE_BYTES // MIB} MiB")
        # Editors of other systems mark the text as UTF-8.
        return content.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return _UnreadableError(f"cannot read this file: not UTF-8 in line {line}")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return _UnreadableError(f"cannot read this file: {why}")


def _rewritten(value: object) -> object:
    """A value with its texts as the configuration writes them; in these files a dollar alone is a dollar."""
    if isinstance(value, str):
        return _VARIABLE.sub(_variable, value)
    if isinstance(value, list):
        return [_rewritten(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {key: _rewritten(item) for key, item in cast("Table", value).items() if item is not None}
    return value


def _variable(found: re.Match[str]) -> str:
    if found["body"] is not None:
        return f"${{{found['body']}}}"
    # What begins a variable and is none is told where variables are expanded.
    return found.group() if found.group() == "${" else "$$"


def _anchor(table: Table, directory: FilePath) -> None:
    """Let the relative paths of a server start where its file lies, in place."""
    command, cwd = table.get("command"), table.get("cwd")
    prefix = str(directory).replace("$", "$$")
    if isinstance(command, str) and command.startswith(("./", "../")):
        table["command"] = f"{prefix}/{command}"
    if isinstance(cwd, str) and cwd and not cwd.startswith(("/", "${")):
        table["cwd"] = f"{prefix}/{cwd}"


def _sanitised(name: str) -> str:
    """The nearest name that a binding may have."""
    return _NO_NAME.sub("-", name).strip("-._")[:_MAX_NAME] or "server"


def _way_meant(key: str) -> str | None:
    """Which way to a server a key must mean that other clients have: `serverUrl`, or one that is misspelt."""
    return next((way for way in _WAYS if way in key.lower()), None) or nearest(key, _WAYS)


def _listed(keys: list[str]) -> str:
    """Enough of them to see what is meant: a client's own settings may be many."""
    return ", ".join(map(_quoted, keys[:5])) + (", …" if len(keys) > 5 else "")


def _quoted(name: str) -> str:
    """A name of a file as it may be shown: in one line, and not endless."""
    text = json.dumps(name)
    return text if len(text) <= 60 else f'{text[:60]}…"'
