"""Files in which other MCP clients keep their servers: read, and put into `[mcp]` of the configuration's table.

    {"mcpServers": {"NAME": {"command": …, "args": […], "env": {…}, "cwd": …}}}
    {"servers": {"NAME": {"type": "http", "url": …, "headers": {…}}}}
    {"mcpServers": [{"name": "NAME", "command": …}]}
    {"queues": {"NAME": {"concurrent": 3}}}
    {"restTools": {"NAME": {"method": …, "url": …, "parametersSchema": {…}}}}

Only the form of the file is checked here. The servers are checked as all of `[mcp]` is, and the requests as all of
`[restTools]`; it is remembered where each was written. A server with a mistake is left out, unless that stands in a key
that restricts. A table of `[mcp]` with neither `command` nor `url` completes
the server of its name.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Final, cast

import msgspec

from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.servers import NO_WAY
from tooldispatchd.catalog.speckinds import MIB
from tooldispatchd.config.documents import MAX_DEPTH, Document, DocumentError, FileLines, read_json, read_toml
from tooldispatchd.config.env_files import read_env_file
from tooldispatchd.config.expansion import ABSENT, BROKEN, expand_file
from tooldispatchd.config.files import NamedFile, NamedFiles, UnusableFileError, read_named
from tooldispatchd.config.foreign_entries import plain_entry
from tooldispatchd.config.foreign_servers import (
    LEAST_OUTPUT,
    SPELLINGS,
    WAYS,
    FileContext,
    complete,
    is_decided,
    is_off,
    listed,
    may_restrict,
    quoted,
    restricts,
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
# In the place of a command that cannot be used; it is never started.
PLACEHOLDER: Final = "left-out"

_ONE_OF_THEIRS: Final = "command or url, or the name of a server in a file of mcp_json"
# Of Claude Code and most others; VS Code; Zed; Codex; Amp; VS Code's settings; opencode and Crush; Continue; goose.
_SECTIONS: Final = (
    *("mcpServers", "servers", "context_servers", "mcp_servers", "amp.mcpServers", "mcp.servers"),
    *("mcp", "modelContextProtocolServers", "extensions"),
)
# Other programs have keys of these names too: there each value must be a server.
_DOUBTFUL: Final = frozenset({"mcp", "extensions"})
REQUESTS: Final = "restTools"
# Files with all settings of a client, of which these say what its servers may do.
_SETTINGS: Final = re.compile(
    r"settings\.jsonc?|\.claude\.json|(?:claude_desktop_)?config\.\w+|opencode\..*|\.?crush\.json|librechat\.ya?ml"
)
_RESTRICTING: Final = re.compile(
    r"permissions?|(?:core)?tools|mcp|(?:mcp\.)?(?:enabled?|disabled?|allow(?:ed)?|den(?:y|ied)|excluded?|included?|block(?:ed)?)"
    r"(?:mcp|tools|servers|list).*",
    re.IGNORECASE,
)


def _may_restrict(key: str, value: object, path: FilePath) -> bool:
    """Tell whether a key beside the servers could take something away from them."""
    if value is None or value is False or value == {}:
        return False
    return _RESTRICTING.fullmatch(key) is not None if _SETTINGS.fullmatch(path.name) else may_restrict(key)


def _read_document(path: FilePath, text: str) -> Document:
    """The document of a file, whose name says of which kind it is. Raises `DocumentError`."""
    if path.suffix == ".toml":
        return read_toml(text)
    if path.suffix not in {".yaml", ".yml"}:
        return read_json(text)
    # Few configurations name such a file.
    from tooldispatchd.config.yaml_documents import read_yaml  # noqa: PLC0415  # see above

    return read_yaml(text)


class _Entry(msgspec.Struct, frozen=True):
    """A server of a file: its name there, its value, and where that stands."""

    name: str
    value: object
    path: Path


class _Parts(msgspec.Struct, frozen=True):
    """The whole object of a file, the keys under which its servers stand, and the servers."""

    top: Table
    sections: frozenset[str]
    entries: tuple[_Entry, ...]
    passed: str | None = None
    """A project whose servers are not for the directory of the configuration."""


def _entries_of(holder: object, path: Path) -> list[_Entry]:
    """List the servers of a table, or of a list of named servers; a nameless one is named by its place."""
    if isinstance(holder, dict):
        return [_Entry(str(name), value, (*path, str(name))) for name, value in cast("Table", holder).items()]
    found: list[_Entry] = []
    for index, each in enumerate(cast("list[object]", holder) if isinstance(holder, list) else ()):
        value = dict(cast("Table", each)) if isinstance(each, dict) else {}
        named = [value.pop(key) for key in ("name", "key") if key in value]
        name = next((each for each in named if isinstance(each, str)), f"server-{index + 1}")
        found.append(_Entry(name, value, (*path, index)))
    return found


def _is_server(value: object) -> bool:
    return isinstance(value, dict) and not plain_entry(cast("Table", value)).keys().isdisjoint(WAYS)


def _parts_of(document: Document, home: FilePath) -> _Parts | None:
    """Find the servers of a document; None where it has neither a section for them nor requests."""
    top = cast("Table", document.value) if isinstance(document.value, dict) else {}
    for section in _SECTIONS:
        holder, path = top.get(section), cast("Path", (section,))
        if section == "mcp" and isinstance(holder, dict) and isinstance(holder.get("servers"), dict):
            holder, path = holder["servers"], (section, "servers")
        found = _entries_of(holder, path)
        is_doubted = path[-1] in _DOUBTFUL
        if (found or holder == {}) and not (is_doubted and not any(_is_server(each.value) for each in found)):
            return _with_projects(_Parts(top, frozenset({section}), tuple(found)), home)
    if top and all(map(_is_server, top.values())):
        return _Parts(top, frozenset(top), tuple(_entries_of(top, ())))
    parts = _with_projects(_Parts(top, frozenset(), ()), home)
    return parts if parts.sections or isinstance(top.get(REQUESTS), dict) else None


def _with_projects(parts: _Parts, home: FilePath) -> _Parts:
    """Add the servers that Claude Code keeps for the project in which the configuration lies."""
    projects = parts.top.get("projects")
    entries, passed = {each.name: each for each in parts.entries}, None
    has_servers = False
    for directory, project in cast("Table", projects).items() if isinstance(projects, dict) else ():
        own = cast("Table", project).get("mcpServers") if isinstance(project, dict) else None
        has_servers = has_servers or isinstance(own, dict)
        if not own:
            continue
        if not home.is_relative_to(directory):
            passed = passed or directory
            continue
        path = ("projects", directory, "mcpServers")
        entries |= {each.name: each for each in _entries_of(own, path)}
        off = cast("Table", project).get("disabledMcpServers")
        for name in entries.keys() & set(map(str, off if isinstance(off, list) else ())):
            if isinstance(value := entries[name].value, dict):
                entries[name] = msgspec.structs.replace(entries[name], value={**value, "disabled": True})
    sections = parts.sections | ({"projects"} if has_servers else set())
    return _Parts(parts.top, frozenset(sections), tuple(entries.values()), passed)


def _dialect_of(path: FilePath, parts: _Parts) -> frozenset[str]:
    """Tell what the client of a file expands besides `${NAME}`: the file's place or form says which client."""
    where, form = f"{path.parent.name}/{path.name}".lower(), str(parts.top.get("$schema", "")).lower()
    is_of_crush = "crush" in where or "crush" in form
    is_of_opencode = "opencode" in where or "opencode" in form or (parts.sections == {"mcp"} and not is_of_crush)
    told = {
        "bare": is_of_crush or ".gemini/" in where or ".qwen/" in where,
        "braced": is_of_opencode,
        "percent": path.name == "claude_desktop_config.json",
    }
    return frozenset(kind for kind, is_expanded in told.items() if is_expanded)


def _read_parts(file: NamedFile, home: FilePath) -> tuple[_Parts, FileLines]:
    """Read the servers of a file, and on which lines they stand. Raises `DocumentError`."""
    # Editors of other systems mark the text as UTF-8.
    document = _read_document(file.path, file.text.removeprefix("\ufeff"))
    if document.lines.depth > MAX_DEPTH:
        raise DocumentError(f"arrays and objects are nested more than {MAX_DEPTH} deep")
    parts = _parts_of(document, home)
    if parts is None:
        line = max(document.lines.line_of((key,)) for key in _SECTIONS)
        raise DocumentError('no object "mcpServers" or "servers"', line)
    return parts, document.lines


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
    is_off: bool = False

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
    left_out: Mapping[str, str] = {}
    """Servers that cannot be used, by binding, each with the reason."""

    def leaves_out(self, problem: Problem) -> bool:
        """Tell whether a mistake costs its server alone: it stands in its entry, in no key that restricts."""
        written = self.servers.get(str(problem.path[1])) if len(problem.path) > 1 else None
        if written is None or problem.path[1] in self.left_out or self.place_of(problem.path) is None:
            return False
        return written.is_off or len(problem.path) == 2 or not restricts(str(problem.path[2]))

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


def take_mcp_json(
    table: Table,
    path: FilePath,
    environ: Mapping[str, str],
    where: Callable[[Path], str],
    left_out: Mapping[str, str] = MappingProxyType({}),
) -> McpJson:
    """Put the servers of the files that `table` names into its `[mcp]`, in place.

    `path` is the configuration's file; `where` says where the table at a path was written that is there already.
    Servers to be `left_out`, each with its reason, are there, and never start.
    """
    found = read_named("mcp_json", table, path, environ, max_files=MAX_FILES, max_bytes=MAX_FILE_BYTES)
    reader = _Reader(table, path.absolute().parent, environ, where=where, named=found, left_out=left_out)
    for file, read in [(file, reader.read(file)) for file in found.files]:
        if read is not None:
            reader.add(file, *read)
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
        left_out: Mapping[str, str],
    ) -> None:
        self._left_out = left_out
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
        return McpJson(tuple(self._files), self._servers, *collected, self._requests, self._queues, self._left_out)

    def read(self, file: NamedFile) -> tuple[_Parts, FileLines] | None:
        """Read one file and note the names of its servers; None where it cannot be read."""
        self._files.append(file.shown)
        try:
            parts, lines = _read_parts(file, self._home)
        except DocumentError as error:
            self._mistakes.append(Mistake(file.shown, error.line, error.why))
            self._is_complete = False
            return None
        self._names.add(each.name for each in parts.entries)
        return parts, lines

    def add(self, file: NamedFile, parts: _Parts, lines: FileLines) -> None:
        """Put the servers of one file into the table."""
        dialect = _dialect_of(file.path, parts)
        places = FileContext(file.path.parent, is_elsewhere=file.path.parent != self._home, dialect=dialect)
        shown, top = file.shown, parts.top
        requests = top.get(REQUESTS)
        defaults = top.get("defaults")
        if isinstance(defaults, dict):
            places = self._with_defaults(shown, lines, cast("Table", defaults), places)
        self._add_queues(shown, lines, top.get("queues"))
        for name, entry in cast("Table", requests).items() if isinstance(requests, dict) else ():
            self._add_request(shown, lines, str(name), entry)
        if parts.passed is not None:
            line = lines.line_of(("projects", parts.passed, "mcpServers"))
            self._warnings.append(
                f"{shown}:{line}: servers of projects in which the configuration does not lie are not taken"
            )
        known = {*parts.sections, "queues", *((REQUESTS,) if isinstance(requests, dict) else ())}
        unknown = [key for key in top if key not in known and (key, type(top[key])) != ("defaults", dict)]
        self._warn_unknown(ServerSource(shown, lines, ()), unknown)
        open_ones = [each.name for each in parts.entries if self._add_server(shown, lines, each, places)]
        restricting = [key for key in unknown if _may_restrict(key, top[key], file.path)] if open_ones else []
        for key in restricting:
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

    def _add_server(self, file: str, lines: FileLines, found_entry: _Entry, places: FileContext) -> bool:
        """Put an entry into `[mcp]`; returns whether nothing there restricts it."""
        name, entry, path = found_entry.name, found_entry.value, found_entry.path
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
        reason = self._left_out.get(binding)
        if reason is not None:
            self._servers[binding] = msgspec.structs.replace(written, is_off=is_off(given))
            self._warnings.append(f"{written}: server {quoted(name)} is left out: {reason}")
            # Names of its tools that a profile has begin as they did.
            prefix = {key: own[key] for key in ("prefix",) if key in own}
            mcp[binding] = {"command": PLACEHOLDER, "enabled": False, **prefix}
            return False
        self._servers[binding] = ServerSource(file, lines, path, frozenset(own), names, is_off=is_off(given))
        if not isinstance(entry, dict):
            mcp[binding] = entry
            return False
        found = translate(given, own, ("mcp", binding), places)
        if found.literal:
            self._warnings.append(
                f"{written}: server {quoted(name)} has {listed([*found.literal])}, which is no variable in this file"
            )
        if found.env_file is not None:
            self._add_variables(binding, found.table, found.env_file, places)
        self._problems += found.problems + complete(found.table, own, ("mcp", binding), str(written))
        self._warn_unknown(written, found.unknown, name)
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

    def _warn_unknown(self, written: ServerSource, keys: list[str], name: str | None = None) -> None:
        """Add one warning for all unknown keys of an object."""
        if keys:
            line = min(written.lines.line_of((*written.path, key)) for key in keys)
            what = '"defaults"' if written.path == ("defaults",) else "the file"
            what = what if name is None else f"server {quoted(name)}"
            self._warnings.append(f"{written.file}:{line}: {what} has keys that mean nothing here: {listed(keys)}")
