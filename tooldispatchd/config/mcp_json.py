"""Files in which other MCP clients keep their servers: read, and put into `[mcp]` of the configuration's table.

    {"mcpServers": {"NAME": {"command": …, "args": […], "env": {…}, "cwd": …}}}
    {"servers": {"NAME": {"type": "http", "url": …, "headers": {…}}}}
    {"queues": {"NAME": {"concurrent": 3}}}
    {"restTools": {"NAME": {"method": …, "url": …, "parametersSchema": {…}}}}

Only the form of the file is checked here. The servers are checked as all of `[mcp]` is, and the requests as all of
`[restTools]`; it is remembered where each was written. A table of `[mcp]` with neither `command` nor `url` completes
the server of its name.
"""

from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import Final, cast

import msgspec

from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.servers import NO_WAY
from tooldispatchd.catalog.speckinds import MIB
from tooldispatchd.config.documents import MAX_DEPTH, Document, DocumentError, FileLines, read_json
from tooldispatchd.config.env_files import read_env_file
from tooldispatchd.config.expansion import ABSENT, BROKEN, expand_file
from tooldispatchd.config.files import NamedFile, NamedFiles, UnusableFileError, read_named
from tooldispatchd.config.foreign_servers import (
    LEAST_OUTPUT,
    SPELLINGS,
    WAYS,
    FileContext,
    complete,
    is_decided,
    listed,
    may_restrict,
    quoted,
    rewritten_request,
    seconds_of,
    size_of,
    toml_key,
    translate,
)
from tooldispatchd.config.key_patterns import Table
from tooldispatchd.config.server_names import ServerNames

# Some hundred servers have room; what is larger is another file.
MAX_FILE_BYTES: Final = 1 * MIB
# One for each client of a user, and more.
MAX_FILES: Final = 16

_ONE_OF_THEIRS: Final = "command or url, or the name of a server in a file of mcp_json"
_SECTIONS: Final = ("mcpServers", "servers")
REQUESTS: Final = "restTools"


def _read_document(path: FilePath, text: str) -> Document:
    """The document of a file, whose name says of which kind it is. Raises `DocumentError`."""
    if path.suffix not in {".yaml", ".yml"}:
        return read_json(text)
    # Few configurations name such a file.
    from tooldispatchd.config.yaml_documents import read_yaml  # noqa: PLC0415  # see above

    return read_yaml(text)


def _parts_of(document: Document) -> tuple[str, Table, Table | None]:
    """The key under which servers stand, the whole object, and the servers by name; None where there are none."""
    top = cast("Table", document.value) if isinstance(document.value, dict) else {}
    section = next((key for key in _SECTIONS if key in top), "")
    servers = top.get(section, {} if isinstance(top.get(REQUESTS), dict) else None)
    return section, top, cast("Table", servers) if isinstance(servers, dict) else None


def _document_of(file: NamedFile) -> Document:
    """The document of a file, which has servers or requests. Raises `DocumentError`."""
    # Editors of other systems mark the text as UTF-8.
    document = _read_document(file.path, file.text.removeprefix("\ufeff"))
    if document.lines.depth > MAX_DEPTH:
        raise DocumentError(f"arrays and objects are nested more than {MAX_DEPTH} deep")
    section, _, servers = _parts_of(document)
    if servers is None:
        raise DocumentError('no object "mcpServers" or "servers"', document.lines.line_of((section,)))
    return document


class Mistake(msgspec.Struct, frozen=True):
    """A mistake in a file at a `line`, from 1, outside of the servers' tables."""

    file: str
    line: int
    why: str


class ServerSource(msgspec.Struct, frozen=True):
    """Where a server's table was written: the file as reports name it, its lines, and the path within it.

    `own` are the keys that `[mcp.NAME]` beside it says, and `names` what others are called there. `variables` are those
    that stand in the file `env_file`, with their lines.
    """

    file: str
    lines: FileLines
    path: Path
    own: frozenset[str] = frozenset()
    names: dict[str, str] = {}
    env_file: str = ""
    variables: dict[str, int] = {}

    def __str__(self) -> str:
        """File and line."""
        return f"{self.file}:{self.lines.line_of(self.path)}"


class McpJson(msgspec.Struct, frozen=True):
    """The `files` that were read, as reports name them, and where each server's table was written, by its binding, and
    each request, by its name.

    `problems` are those of the key `mcp_json` and of servers' tables, `mistakes` those of the files themselves. Some
    have queues beside the servers.
    """

    files: tuple[str, ...] = ()
    servers: dict[str, ServerSource] = {}
    problems: tuple[Problem, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    warnings: tuple[str, ...] = ()
    requests: dict[str, ServerSource] = {}
    queues: dict[str, ServerSource] = {}

    def place_of(self, path: Path) -> tuple[str, int] | None:
        """The file and the line of what stands at `path`, or of the nearest around it; None where it is elsewhere."""
        sections = {"mcp": self.servers, REQUESTS: self.requests, "queues": self.queues}
        written = sections.get(str(path[0]), {}).get(str(path[1])) if len(path) > 1 else None
        if written is None or (len(path) > 2 and path[2] in written.own):
            return None
        if path[2:3] == ("env",) and len(path) == 4 and path[3] in written.variables:
            return written.env_file, written.variables[str(path[3])]
        keys = (*(written.names.get(str(key), key) for key in path[2:3]), *path[3:])
        return written.file, written.lines.line_of((*written.path, *keys))

    def advice(self, problem: Problem) -> str | None:
        """The advice of a problem, in words for files that other clients must be able to read as well."""
        is_absent = problem.why.startswith(ABSENT)
        is_of_server = problem.path[:1] == ("mcp",) and self.place_of(problem.path) is not None
        if not (is_absent or problem.why == BROKEN) or not is_of_server:
            return problem.allowed
        go_without = f"enabled = false in [mcp.{toml_key(str(problem.path[1]))}], to go without this server"
        return f"to set it for the daemon, or {go_without}" if is_absent else go_without


def take_mcp_json(table: Table, path: FilePath, environ: Mapping[str, str], where: Callable[[Path], str]) -> McpJson:
    """Put the servers of the files that `table` names into its `[mcp]`, in place.

    `path` is the configuration's file; `where` says where the table at a path was written that is there already.
    """
    found = read_named("mcp_json", table, path, environ, max_files=MAX_FILES, max_bytes=MAX_FILE_BYTES)
    reader = _Reader(table, path.absolute().parent, environ, where=where, named=found)
    for file, document in [(file, reader.read(file)) for file in found.files]:
        if document is not None:
            reader.add(file, document)
    return reader.found()


class _Reader:
    """Collects the servers of one file after another."""

    def __init__(
        self,
        table: Table,
        home: FilePath,
        environ: Mapping[str, str],
        *,
        where: Callable[[Path], str],
        named: NamedFiles,
    ) -> None:
        self._table = table
        self._home = home
        self._environ = environ
        self._where = where
        mcp = table.get("mcp")
        self._names = ServerNames(mcp if isinstance(mcp, dict) else {})
        self._files: list[str] = []
        self._servers: dict[str, ServerSource] = {}
        self._queues: dict[str, ServerSource] = {}
        self._requests: dict[str, ServerSource] = {}
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
        return McpJson(tuple(self._files), self._servers, *collected, self._requests, self._queues)

    def read(self, file: NamedFile) -> Document | None:
        """The document of one file, whose servers are known by name then; None where it cannot be read."""
        self._files.append(file.shown)
        try:
            document = _document_of(file)
        except DocumentError as error:
            self._mistakes.append(Mistake(file.shown, error.line, error.why))
            self._is_complete = False
            return None
        self._names.add(map(str, _parts_of(document)[2] or ()))
        return document

    def add(self, file: NamedFile, document: Document) -> None:
        """Put the servers of one file into the table."""
        places = FileContext(file.path.parent, is_elsewhere=file.path.parent != self._home)
        shown, lines = file.shown, document.lines
        section, top, servers = _parts_of(document)
        requests = top.get(REQUESTS)
        defaults = top.get("defaults")
        if isinstance(defaults, dict):
            places = self._with_defaults(shown, lines, cast("Table", defaults), places)
        self._add_queues(shown, lines, top.get("queues"))
        for name, entry in cast("Table", requests).items() if isinstance(requests, dict) else ():
            self._add_request(shown, lines, str(name), entry)
        known = {section, "queues", *((REQUESTS,) if isinstance(requests, dict) else ())}
        unknown = [key for key in top if key not in known and (key, type(top[key])) != ("defaults", dict)]
        self._warn_unknown(ServerSource(shown, lines, ()), unknown)
        open_ones = [
            name
            for name, entry in (servers or {}).items()
            if self._add_server(shown, lines, (section, name), entry, places)
        ]
        for key in filter(may_restrict, unknown if open_ones else ()):
            why = f'{quoted(key)} may restrict servers: say "tools", "deny" or "enabled" of each in [mcp.NAME]'
            self._mistakes.append(Mistake(shown, lines.line_of((key,)), f"{why}; said nowhere: {listed(open_ones)}"))

    def _add_queues(self, file: str, lines: FileLines, queues: object) -> None:
        """Put the queues of a file into `[queues]`; what the configuration itself says of one holds alone."""
        own = self._table.setdefault("queues", {}) if queues else {}
        if queues and not isinstance(queues, dict):
            self._mistakes.append(Mistake(file, lines.line_of(("queues",)), "queues: an object is allowed"))
        if not isinstance(queues, dict) or not isinstance(own, dict):
            # The schema refuses the other.
            return
        for name, queue in cast("Table", queues).items():
            written = ServerSource(file, lines, ("queues", name))
            if name in self._queues:
                if own[name] != queue:
                    why = f"queues.{name} is another one at {self._queues[name]}"
                    self._mistakes.append(Mistake(file, lines.line_of(written.path), why))
            elif name not in own:
                own[name], self._queues[name] = queue, written

    def _with_defaults(self, shown: str, lines: FileLines, defaults: Table, places: FileContext) -> FileContext:
        """The context with what holds for all servers of a file: how long a call may take, and what a model gets."""
        time, size = "toolTimeout", "toolResponseMaxBytes"
        found = {time: seconds_of(time, defaults.get(time)), size: size_of(defaults.get(size))}
        allowed = {time: "a number over 0", size: f"a whole number of bytes, {LEAST_OUTPUT:,} at least,"}
        self._warn_unknown(ServerSource(shown, lines, ("defaults",)), [key for key in defaults if key not in found])
        for key, value in found.items():
            if value is None and defaults.get(key) is not None:
                why = f"{key}: {allowed[key]} is allowed"
                self._mistakes.append(Mistake(shown, lines.line_of(("defaults", key)), why))
        return msgspec.structs.replace(places, call_s=found[time], max_output=found[size])

    def _add_server(self, file: str, lines: FileLines, path: Path, entry: object, places: FileContext) -> bool:
        """Put an entry into `[mcp]`; returns whether nothing there restricts it."""
        name = str(path[-1])
        binding = self._names.binding_of(name)
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
        if binding != name:
            self._warnings.append(f"{written}: server {quoted(name)} is called {binding}")
        own = cast("Table", own or {})
        given = cast("Table", entry) if isinstance(entry, dict) else {}
        names = {SPELLINGS[key]: key for key in reversed(given) if key in SPELLINGS}
        self._servers[binding] = ServerSource(file, lines, path, frozenset(own), names)
        if not isinstance(entry, dict):
            mcp[binding] = entry
            return False
        found = translate(given, own, ("mcp", binding), places)
        if found.env_file is not None:
            self._add_variables(binding, found.table, found.env_file, places)
        self._problems += found.problems + complete(found.table, own, ("mcp", binding), str(written))
        self._warn_unknown(written, found.unknown)
        mcp[binding] = found.table
        return found.table.get("enabled") is not False and not is_decided(own)

    def _add_request(self, file: str, lines: FileLines, name: str, entry: object) -> None:
        """Put a request into `[restTools]`, with its texts as the configuration writes them."""
        requests = self._table.setdefault(REQUESTS, {})
        if not isinstance(requests, dict):
            # The schema refuses it.
            return
        written = ServerSource(file, lines, (REQUESTS, name))
        if name in requests:
            at = self._requests[name] if name in self._requests else self._where((REQUESTS, name))
            line = lines.line_of((REQUESTS, name))
            self._mistakes.append(Mistake(file, line, f"{REQUESTS}.{name} is declared already, at {at}"))
            return
        self._requests[name] = written
        requests[name] = rewritten_request(entry)

    def _add_variables(self, binding: str, table: Table, named: str, places: FileContext) -> None:
        """Put the variables of a server's `envFile` below those that its table has."""
        path = ("mcp", binding, "envFile")
        file = expand_file(named, self._environ, FilePath(places.directory))
        if file is None:
            self._problems.append(Problem(path, "a variable in this path cannot be read, or is not set"))
            return
        try:
            variables = read_env_file(file)
        except UnusableFileError as error:
            self._problems.append(Problem(path, f"cannot {error.verb} this file: {error.why}"))
            return
        env = table.get("env", {})
        if isinstance(env, dict):
            added = {name: each.line for name, each in variables.items() if name not in env}
            # What stands there is no text of the configuration: a dollar is itself.
            table["env"] = {name: variables[name].value.replace("$", "$$") for name in added} | cast("Table", env)
            self._servers[binding] = msgspec.structs.replace(
                self._servers[binding], env_file=str(file), variables=added
            )

    def _warn_unknown(self, written: ServerSource, keys: list[str]) -> None:
        """Add one warning for all unknown keys of an object."""
        if keys:
            line = min(written.lines.line_of((*written.path, key)) for key in keys)
            what = f"server {quoted(str(written.path[-1]))}" if len(written.path) > 1 else "the file"
            what = '"defaults"' if written.path == ("defaults",) else what
            self._warnings.append(f"{written.file}:{line}: {what} has keys that mean nothing here: {listed(keys)}")
