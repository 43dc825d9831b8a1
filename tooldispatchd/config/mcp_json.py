"""Files in which other MCP clients keep their servers: read, and put into `[mcp]` of the configuration's table.

    {"mcpServers": {"NAME": {"command": …, "args": […], "env": {…}, "cwd": …}}}
    {"servers": {"NAME": {"type": "http", "url": …, "headers": {…}}}}

Only the form of the file is checked here. The servers are checked as all of `[mcp]` is, and it is remembered where each
was written. A table of `[mcp]` with neither `command` nor `url` completes the server of its name.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import Final, NoReturn, cast

import msgspec

from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.servers import NO_WAY
from tooldispatchd.catalog.speckinds import BINDING_PATTERN, MIB
from tooldispatchd.config.expansion import ABSENT, BROKEN
from tooldispatchd.config.files import NamedFile, NamedFiles, read_named
from tooldispatchd.config.foreign_servers import (
    LISTS,
    WAYS,
    FileContext,
    complete,
    is_decided,
    listed,
    may_restrict,
    quoted,
    toml_key,
    translate,
)
from tooldispatchd.config.key_patterns import Table

# Some hundred servers have room; what is larger is another file.
MAX_FILE_BYTES: Final = 1 * MIB
# One for each client of a user, and more.
MAX_FILES: Final = 16
# A server's table has three levels, and a client's own settings a few more.
MAX_DEPTH: Final = 32
_MAX_NAME: Final = 32

_ONE_OF_THEIRS: Final = "command or url, or the name of a server in a file of mcp_json"
_SECTIONS: Final = ("mcpServers", "servers")
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


class JsonLines:
    """On which line of a JSON text each key and each item stands; json gives values only. It must have read the text.

    One pass over the text's strings and signs, with a list in the place of recursion.
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        self.depth = 0
        """How deep arrays and objects are nested."""
        # Where the next value stands; within an object it ends with None until the key is there.
        path: list[str | int | None] = []
        line, position, is_key = 1, 0, False
        for token in _TOKEN.finditer(text):
            line += text.count("\n", position, token.start())
            position = token.start()
            sign = token.group()
            if sign in "{[":
                self._note(path, line)
                path.append(None if sign == "{" else 0)
                self.depth = max(self.depth, len(path))
                is_key = sign == "{"
            elif sign in "}]":
                path.pop()
                is_key = False
            elif sign == ",":
                is_key = not isinstance(path[-1], int)
                path[-1] = None if is_key else int(path[-1] or 0) + 1
            elif is_key and sign != ":":
                path[-1] = json.loads(sign)
                self._note(path, line)
                is_key = False
            elif sign != ":":
                self._note(path, line)

    def line_of(self, path: Path) -> int:
        """The line, from 1, of the key or the item at `path`, or of the nearest around it; the first if none is."""
        around = (path[:length] for length in range(len(path), 0, -1))
        return next((self._lines[each] for each in around if each in self._lines), 1)

    def _note(self, path: list[str | int | None], line: int) -> None:
        known = tuple(step for step in path if step is not None)
        if known and len(known) == len(path):
            self._lines.setdefault(known, line)


class Mistake(msgspec.Struct, frozen=True):
    """A mistake in a file at a `line`, from 1, outside of the servers' tables."""

    file: str
    line: int
    why: str


class ServerSource(msgspec.Struct, frozen=True):
    """Where a server's table was written: the file as reports name it, its lines, and the path within it.

    `own` are the keys that `[mcp.NAME]` beside it says, and `names` what others are called there.
    """

    file: str
    lines: JsonLines
    path: Path
    own: frozenset[str] = frozenset()
    names: dict[str, str] = {}

    def __str__(self) -> str:
        """File and line."""
        return f"{self.file}:{self.lines.line_of(self.path)}"


class McpJson(msgspec.Struct, frozen=True):
    """The `files` that were read, as reports name them, and where each server's table was written, by its binding.

    `problems` are those of the key `mcp_json` and of servers' tables, `mistakes` those of the files themselves.
    """

    files: tuple[str, ...] = ()
    servers: dict[str, ServerSource] = {}
    problems: tuple[Problem, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    warnings: tuple[str, ...] = ()

    def place_of(self, path: Path) -> tuple[str, int] | None:
        """The file and the line of what stands at `path`, or of the nearest around it; None where it is elsewhere."""
        written = self.servers.get(str(path[1])) if len(path) > 1 and path[0] == "mcp" else None
        if written is None or (len(path) > 2 and path[2] in written.own):
            return None
        keys = (*(written.names.get(str(key), key) for key in path[2:3]), *path[3:])
        return written.file, written.lines.line_of((*written.path, *keys))

    def advice(self, problem: Problem) -> str | None:
        """The advice of a problem, in words for files that other clients must be able to read as well."""
        is_absent = problem.why.startswith(ABSENT)
        if not (is_absent or problem.why == BROKEN) or self.place_of(problem.path) is None:
            return problem.allowed
        go_without = f"enabled = false in [mcp.{toml_key(str(problem.path[1]))}], to go without this server"
        return f"to set it for the daemon, or {go_without}" if is_absent else go_without


def take_mcp_json(table: Table, path: FilePath, environ: Mapping[str, str], where: Callable[[Path], str]) -> McpJson:
    """Put the servers of the files that `table` names into its `[mcp]`, in place.

    `path` is the configuration's file; `where` says where the table at a path was written that is there already.
    """
    found = read_named("mcp_json", table, path, environ, max_files=MAX_FILES, max_bytes=MAX_FILE_BYTES)
    reader = _Reader(table, path.absolute().parent, where, found)
    for file in found.files:
        reader.add(file)
    return reader.found()


class _UnreadableError(Exception):
    """Why a file cannot be used, and in which line, from 1."""

    def __init__(self, why: str, line: int = 1) -> None:
        super().__init__(why)
        self.why = why
        self.line = line


class _Reader:
    """Collects the servers of one file after another."""

    def __init__(self, table: Table, home: FilePath, where: Callable[[Path], str], named: NamedFiles) -> None:
        self._table = table
        self._home = home
        self._where = where
        self._files: list[str] = []
        self._servers: dict[str, ServerSource] = {}
        self._problems = list(named.problems)
        self._mistakes: list[Mistake] = []
        self._warnings: list[str] = []
        self._is_complete = named.is_complete

    def found(self) -> McpJson:
        mcp = self._table.get("mcp")
        for name, own in mcp.items() if isinstance(mcp, dict) and self._is_complete else ():
            if isinstance(own, dict) and name not in self._servers and own.keys().isdisjoint(WAYS):
                close = nearest(str(name), self._servers)
                self._problems.append(Problem(("mcp", name), NO_WAY, allowed=_ONE_OF_THEIRS, nearest=close))
        collected = (tuple(self._problems), tuple(self._mistakes), tuple(self._warnings))
        return McpJson(tuple(self._files), self._servers, *collected)

    def add(self, file: NamedFile) -> None:
        """Put the servers of one file into the table."""
        self._files.append(file.shown)
        context = FileContext(file.path.parent, is_elsewhere=file.path.parent != self._home)
        try:
            # Editors of other systems mark the text as UTF-8.
            self._add_servers(file.text.removeprefix("\ufeff"), file.shown, context)
        except _UnreadableError as error:
            self._mistakes.append(Mistake(file.shown, error.line, error.why))
            self._is_complete = False

    def _add_servers(self, text: str, shown: str, places: FileContext) -> None:
        """Each server of one document."""

        def refuse(constant: str) -> NoReturn:
            raise _UnreadableError(f"not JSON: {constant}")

        try:
            document: object = json.loads(text, parse_constant=refuse)
        except json.JSONDecodeError as error:
            # The cause would carry the whole file along, with every token in it.
            raise _UnreadableError(f"not JSON: {error.msg} (column {error.colno})", error.lineno) from None
        except RecursionError:
            raise _UnreadableError(f"arrays and objects are nested more than {MAX_DEPTH} deep") from None
        except ValueError:
            # The interpreter reads no number of thousands of digits.
            raise _UnreadableError("a number has too many digits") from None
        lines = JsonLines(text)
        if lines.depth > MAX_DEPTH:
            raise _UnreadableError(f"arrays and objects are nested more than {MAX_DEPTH} deep")
        top = cast("Table", document) if isinstance(document, dict) else {}
        section = next((key for key in _SECTIONS if key in top), "")
        servers = top.get(section)
        if not isinstance(servers, dict):
            raise _UnreadableError('no object "mcpServers" or "servers"', lines.line_of((section,)))
        unknown = [key for key in top if key != section]
        self._warn_unknown(ServerSource(shown, lines, ()), unknown)
        open_ones = [
            name for name, entry in servers.items() if self._add_server(shown, lines, (section, name), entry, places)
        ]
        for key in filter(may_restrict, unknown if open_ones else ()):
            why = f'{quoted(key)} may restrict servers: say "tools", "deny" or "enabled" of each in [mcp.NAME]'
            self._mistakes.append(Mistake(shown, lines.line_of((key,)), f"{why}; said nowhere: {listed(open_ones)}"))

    def _add_server(self, file: str, lines: JsonLines, path: Path, entry: object, places: FileContext) -> bool:
        """Put an entry into `[mcp]`; returns whether nothing there restricts it."""
        name = str(path[-1])
        # Else the nearest name that a binding may have.
        is_name = re.fullmatch(BINDING_PATTERN, name) is not None
        binding = name if is_name else _NO_NAME.sub("-", name).strip("-._")[:_MAX_NAME] or "server"
        mcp = self._table.setdefault("mcp", {})
        if not isinstance(mcp, dict):
            # The schema refuses it.
            return False
        written = ServerSource(file, lines, path)
        own = mcp.get(binding)
        if binding in mcp and (binding in self._servers or not isinstance(own, dict) or own.keys() & set(WAYS)):
            at = self._servers[binding] if binding in self._servers else self._where(("mcp", binding))
            self._mistakes.append(Mistake(file, lines.line_of(path), f"mcp.{binding} is declared already, at {at}"))
            return False
        if not is_name:
            self._warnings.append(f"{written}: server {quoted(name)} is called {binding}")
        own = cast("Table", own or {})
        given = cast("Table", entry) if isinstance(entry, dict) else {}
        names = {LISTS[key]: key for key in given if key in LISTS}
        self._servers[binding] = ServerSource(file, lines, path, frozenset(own), names)
        if not isinstance(entry, dict):
            mcp[binding] = entry
            return False
        found = translate(given, own, ("mcp", binding), places)
        self._problems += found.problems + complete(found.table, own, ("mcp", binding), str(written))
        self._warn_unknown(written, found.unknown)
        mcp[binding] = found.table
        return found.table.get("enabled") is not False and not is_decided(own)

    def _warn_unknown(self, written: ServerSource, keys: list[str]) -> None:
        """Add one warning for all unknown keys of an object."""
        if keys:
            line = min(written.lines.line_of((*written.path, key)) for key in keys)
            what = f"server {quoted(str(written.path[-1]))}" if written.path else "the file"
            self._warnings.append(f"{written.file}:{line}: {what} has keys that mean nothing here: {listed(keys)}")
