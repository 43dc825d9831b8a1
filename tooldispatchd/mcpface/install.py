"""The entry for `tooldispatchd mcp` in the configuration of an MCP client: where each keeps it, and in which shape.

A change is made in the text of the file and shown before it is written; what else stands there stays as it is.
"""

import difflib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from tooldispatchd.mcpface.jsonc import Json, JsoncError, read_jsonc, with_value

# Where a login shell, and a desktop that starts an editor, look for programs on every Linux.
LOGIN_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
PROGRAM: Final = "tooldispatchd"
# Keys of an entry that make it one for a URL: a command beside them would not be run, or not alone.
OF_URLS: Final = frozenset({"url", "serverUrl", "httpUrl"})


class InstallError(Exception):
    """The entry cannot be written; the message says why, with file and line."""


class ClientSpec(msgspec.Struct, frozen=True):
    """Where a client keeps its servers. `table` is the key of the file that has them, by name."""

    title: str
    user: str
    """Its file for all projects, below the home directory; `CONFIG` stands for $XDG_CONFIG_HOME."""
    project: str | None
    """Its file of one project, below that; None if it has none."""
    table: str = "mcpServers"
    extra: dict[str, str] = {}
    """What it wants in an entry beside the command."""


# From the documentation of each, read in November 2026.
CLIENTS: Final[Mapping[str, ClientSpec]] = {
    "claude-code": ClientSpec("Claude Code", ".claude.json", ".mcp.json", extra={"type": "stdio"}),
    "claude-desktop": ClientSpec("Claude Desktop", "CONFIG/Claude/claude_desktop_config.json", None),
    "cursor": ClientSpec("Cursor", ".cursor/mcp.json", ".cursor/mcp.json"),
    "gemini": ClientSpec("Gemini CLI", ".gemini/settings.json", ".gemini/settings.json"),
    "vscode": ClientSpec(
        "VS Code", "CONFIG/Code/User/mcp.json", ".vscode/mcp.json", table="servers", extra={"type": "stdio"}
    ),
    "windsurf": ClientSpec("Windsurf", ".codeium/windsurf/mcp_config.json", None),
    "zed": ClientSpec("Zed", "CONFIG/zed/settings.json", ".zed/settings.json", table="context_servers"),
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
        if spec.project is None:
            raise InstallError(f"{spec.title} has no configuration of a project: leave --project out")
        return project / spec.project
    home = environ.get("HOME")
    if not home:
        raise InstallError(f"cannot tell where {spec.title} keeps its servers: $HOME is not set")
    if client == "claude-code" and (moved := environ.get("CLAUDE_CONFIG_DIR")):
        return Path(moved) / spec.user
    told = environ.get("XDG_CONFIG_HOME", "")
    # The specification of base directories has a relative one ignored.
    config = told if told.startswith("/") else f"{home}/.config"
    return Path(home) / spec.user.replace("CONFIG", config, 1)


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
    spec = CLIENTS[client]
    wanted: dict[str, Json] = {**spec.extra, "command": start[0], "args": [*start[1:]]}
    before = _read(path)
    text = before or ""
    where = (spec.table, name)
    try:
        if _is_command(_at(read_jsonc(text), where)):
            for key, value in wanted.items():
                text = with_value(text, (*where, key), value)
        else:
            text = with_value(text, where, wanted)
    except JsoncError as error:
        raise InstallError(f"cannot edit {path}:{error.line}: {error}; nothing was changed") from error
    return Installation(path, before, text)


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
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _is_command(entry: Json) -> bool:
    """Whether this is the entry of a program, which can be given another one."""
    return isinstance(entry, dict) and "command" in entry and not OF_URLS & entry.keys()
