"""The entry for `tooldispatchd mcp` in the configuration of an MCP client: where each keeps it, and in which shape.

A change is made in the text of the file and shown before it is written; what else stands there stays as it is.
"""

import difflib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from tooldispatchd.mcpface.jsonc import EditError, Json, read_jsonc, with_value

# Where a login shell, and a desktop that starts an editor, look for programs on every Linux.
LOGIN_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
PROGRAM: Final = "tooldispatchd"
# Keys of an entry that make it one for a URL: a command beside them would not be run, or not alone.
OF_URLS: Final = frozenset({"url", "serverUrl", "httpUrl", "uri"})
_Reads = Callable[[str], Json]
_Edits = Callable[[str, Sequence[str], Json], str]


class InstallError(Exception):
    """The entry cannot be written; the message says why, with file and line."""


class ClientSpec(msgspec.Struct, frozen=True):
    """Where a client keeps its servers. `table` is the key of the file that has them, by name."""

    title: str
    user: tuple[str, ...]
    """Its file for all projects, below the home directory; `CONFIG` stands for $XDG_CONFIG_HOME. Of several the first
    that is there counts, else the first."""
    project: tuple[str, ...] = ()
    """Its file of one project, below that, likewise; none if it has none."""
    home: str | None = None
    """The variable that names another directory for the file of all projects, without those above it."""
    table: str = "mcpServers"
    is_named: bool = False
    """Whether an entry says its own `name`."""
    is_list: bool = False
    """Whether the table is a list, of which each entry does so."""
    start: tuple[str, ...] = ("command", "args")
    """The keys of the program and of its arguments; one for both as a list."""
    extra: dict[str, Json] = {}
    """What it wants in an entry beside the command."""
    fresh: dict[str, Json] = {}
    """Keys of a new entry that its user may change later."""
    head: dict[str, Json] = {}
    """Keys at the beginning of a new file."""


# From the documentation of each, read in November 2026.
CLIENTS: Final[Mapping[str, ClientSpec]] = {
    "claude-code": ClientSpec(
        "Claude Code", (".claude.json",), (".mcp.json",), home="CLAUDE_CONFIG_DIR", extra={"type": "stdio"}
    ),
    "claude-desktop": ClientSpec("Claude Desktop", ("CONFIG/Claude/claude_desktop_config.json",)),
    # The second is that of its extension for VS Code, before this had one with its other programs.
    "cline": ClientSpec(
        "Cline",
        (
            ".cline/data/settings/cline_mcp_settings.json",
            "CONFIG/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        ),
        extra={"type": "stdio"},
    ),
    "codex": ClientSpec(
        "Codex", (".codex/config.toml",), (".codex/config.toml",), home="CODEX_HOME", table="mcp_servers"
    ),
    "continue": ClientSpec(
        "Continue",
        (".continue/config.yaml",),
        (".continue/mcpServers/tooldispatchd.yaml",),
        is_named=True,
        is_list=True,
        head={"name": "tooldispatchd", "version": "0.0.1", "schema": "v1"},
    ),
    "copilot": ClientSpec(
        "Copilot CLI",
        (".copilot/mcp-config.json",),
        (".github/mcp.json",),
        home="COPILOT_HOME",
        extra={"type": "local"},
        fresh={"tools": ["*"]},
    ),
    "cursor": ClientSpec("Cursor", (".cursor/mcp.json",), (".cursor/mcp.json",)),
    "gemini": ClientSpec("Gemini CLI", (".gemini/settings.json",), (".gemini/settings.json",)),
    "goose": ClientSpec(
        "Goose",
        ("CONFIG/goose/config.yaml",),
        table="extensions",
        start=("cmd", "args"),
        extra={"type": "stdio"},
        is_named=True,
        fresh={"description": "Tools of tooldispatchd", "enabled": True},
    ),
    # Its version 2, which has its servers one level deeper, reads this too.
    "opencode": ClientSpec(
        "opencode",
        ("CONFIG/opencode/opencode.json", "CONFIG/opencode/opencode.jsonc"),
        ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
        table="mcp",
        start=("command",),
        extra={"type": "local"},
    ),
    "vscode": ClientSpec(
        "VS Code", ("CONFIG/Code/User/mcp.json",), (".vscode/mcp.json",), table="servers", extra={"type": "stdio"}
    ),
    "windsurf": ClientSpec("Windsurf", (".codeium/windsurf/mcp_config.json",)),
    "zed": ClientSpec("Zed", ("CONFIG/zed/settings.json",), (".zed/settings.json",), table="context_servers"),
}


class Installation(msgspec.Struct, frozen=True):
    """A change of one file: its text as it is, None if there is no file, and as it is to be."""

    path: Path
    before: str | None
    after: str

    @property
    def is_needed(self) -> bool:
        return self.before != self.after

    def diff(self) -> str:
        """The change as a unified diff."""
        before = (self.before or "").splitlines(keepends=True)
        after = self.after.splitlines(keepends=True)
        named = str(self.path)
        lines = difflib.unified_diff(before, after, named if self.before is not None else "/dev/null", named)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def config_path(client: str, environ: Mapping[str, str], *, project: Path | None) -> Path:
    """The file of a client, for all projects or for one; raises `InstallError`."""
    spec = CLIENTS[client]
    if project is not None:
        if not spec.project:
            raise InstallError(f"{spec.title} has no configuration of a project: leave --project out")
        return _first(project / each for each in spec.project)
    home = environ.get("HOME")
    if not home:
        raise InstallError(f"cannot tell where {spec.title} keeps its servers: $HOME is not set")
    if spec.home is not None and (moved := environ.get(spec.home)):
        return Path(moved) / Path(spec.user[0]).name
    told = environ.get("XDG_CONFIG_HOME", "")
    # The specification of base directories has a relative one ignored.
    config = told if told.startswith("/") else f"{home}/.config"
    return _first(Path(home) / each.replace("CONFIG", config, 1) for each in spec.user)


def _first(paths: Iterable[Path]) -> Path:
    """Return the first file that is there, else the first."""
    known = list(paths)
    return next((each for each in known if each.exists()), known[0])


def command(words: Sequence[str], argv0: str) -> list[str]:
    """How a client that was started anywhere starts us, with the words behind `tooldispatchd`."""
    # Its mere name only where every shell finds it; a virtual environment's is on the path of few.
    if shutil.which(PROGRAM, path=LOGIN_PATH) is not None:
        return [PROGRAM, *words]
    beside = Path(sys.executable).parent / PROGRAM
    for program in (Path(argv0), beside):
        if program.name == PROGRAM and os.access(program, os.X_OK):
            return [str(program.absolute()), *words]
    # -P: a client starts us in the project that it has open, whose modules may have the names of ours.
    return [sys.executable, "-P", "-m", PROGRAM, *words]


def plan(client: str, path: Path, name: str, start: Sequence[str]) -> Installation:
    """The change that makes `start` the command of the server `name`; raises `InstallError`.

    In an entry that is there already only what it starts is replaced: its `env`, and what a user has allowed, stay.
    """
    before = _read(path)
    text = before or ""
    read, edited = _format_of(path.suffix)
    try:
        expected = read(text)
        for at, value in _edits(CLIENTS[client], expected, name, start):
            if _at(expected, at) != value:
                text, expected = edited(text, at, value), _put(expected, at, value)
    except EditError as error:
        raise InstallError(f"cannot edit {path}:{error.line}: {error}; nothing was changed") from error
    with suppress(EditError):
        if read(text) == expected:
            return Installation(path, before, text)
    raise InstallError(f"cannot edit {path}: its servers are in a form that this cannot change; write it by hand")


def _edits(spec: ClientSpec, found: Json, name: str, start: Sequence[str]) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield what is to stand where in a file that has the value `found`."""
    values: list[Json] = [[*start]] if len(spec.start) == 1 else [start[0], [*start[1:]]]
    wanted: dict[str, Json] = {**spec.extra, **dict(zip(spec.start, values, strict=True))}
    # opencode's own form since version 2.
    deeper = spec.table == "mcp" and isinstance(_at(found, ("mcp", "servers")), dict)
    tables = (spec.table, "servers") if deeper else (spec.table,)
    entry = _at(found, (*tables, name))
    # The entry of a program can be given another one; a command beside a URL would not be run, or not alone.
    if isinstance(entry, dict) and spec.start[0] in entry and not OF_URLS & entry.keys():
        yield from (((*tables, name, key), value) for key, value in wanted.items())
        return
    if found is None:
        yield from (((key,), value) for key, value in spec.head.items())
    whole = {**({"name": name} if spec.is_named else {}), **spec.fresh, **wanted}
    if spec.is_list and not isinstance(_at(found, tables), list):
        yield tables, [whole]
    else:
        yield (*tables, name), whole


def _put(value: Json, path: Sequence[str], new: Json) -> Json:
    """Return the value with another one under the keys of `path`."""
    if not path:
        return new
    if isinstance(value, list):
        at = next((at for at, each in enumerate(value) if _at(each, ("name",)) == path[0]), len(value))
        return [*value[:at], _put(_at(value, path[:1]), path[1:], new), *value[at + 1 :]]
    members = value if isinstance(value, dict) else {}
    return {**members, path[0]: _put(members.get(path[0]), path[1:], new)}


def _format_of(suffix: str) -> tuple[_Reads, _Edits]:
    # Few clients need the others.
    if suffix == ".toml":
        from tooldispatchd.mcpface.tomledit import read_toml, with_toml  # noqa: PLC0415

        return read_toml, with_toml
    if suffix == ".yaml":
        from tooldispatchd.mcpface.yamledit import read_yaml, with_yaml  # noqa: PLC0415

        return read_yaml, with_yaml
    return read_jsonc, with_value


def write(change: Installation) -> None:
    """Put the file in the place of the old one, whole or not at all, with its mode; raises `InstallError`."""
    # A link to a file elsewhere stays a link.
    path = Path(os.path.realpath(change.path))
    if _read(path) != change.before:
        raise InstallError(f"cannot write {change.path}: it has changed meanwhile; run this again")
    # The directory's mode would let us; who has taken the file's away wants no change.
    if change.before is not None and not path.stat().st_mode & stat.S_IWUSR:
        raise InstallError(f"cannot write {change.path}: it is read-only")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, change.after.encode())
    except OSError as error:
        raise InstallError(f"cannot write {change.path}: {error.strerror}") from error


def _replace(path: Path, content: bytes) -> None:
    # Of its user alone where it is new: such files may come to hold keys.
    fd, made = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            with suppress(FileNotFoundError):
                was = path.stat()
                os.fchmod(file.fileno(), stat.S_IMODE(was.st_mode))
                if (was.st_uid, was.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), was.st_uid, was.st_gid)
            file.flush()
            os.fsync(file.fileno())
        Path(made).replace(path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise


def _read(path: Path) -> str | None:
    """The text with its own line ends; None if there is no file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InstallError(f"cannot read {path}: {error.strerror}") from error
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InstallError(f"cannot edit {path}:{line}: it is not UTF-8; nothing was changed") from error


def _at(value: Json, path: Sequence[str]) -> Json:
    for key in path:
        if isinstance(value, list):
            value = next((each for each in value if isinstance(each, dict) and each.get("name") == key), None)
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value
