"""What a configuration names and this machine lacks just now: programs, directories, places; and what says nothing.

Each may still come to be before it is needed, so that it is said and refuses nothing. Nothing is started.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

import msgspec

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.enforcement import MEANS
from tooldispatchd.catalog.specs import ConfinedSpec, McpSpec, ProcessSpec, ToolSpec


class _Start(msgspec.Struct, frozen=True):
    """How a child is started: `where` stands before the keys of its table; `path` is the child's PATH."""

    where: str
    program: str | None
    cwd: str | None
    path: str


def absent(catalog: Catalog, environ: Mapping[str, str]) -> list[str]:
    """A sentence for each thing that is not there; `environ` is the daemon's, whose PATH its children get."""
    said: list[str] = []
    for start in _starts(catalog, environ.get("PATH", os.defpath)):
        if start.program is not None and not _is_program(start.program, start):
            said.append(f"{start.where}{_no_program(start.program)}")
        if start.cwd is not None and not _is_directory(start.cwd):
            said.append(f"{start.where}cwd: there is no such directory")
    said += _places(catalog)
    for name, profile in catalog.config.agents.items():
        for index, root in enumerate(profile.roots):
            # Once they are read, all of them are URIs (RFC 8089).
            if not _is_directory(unquote(root.removeprefix("file://"))):
                said.append(f"agents.{name}.roots[{index}]: there is no such directory")
    return said


def _places(catalog: Catalog) -> Iterator[str]:
    """The places that programs may read or change and that are not there: a program that is shut in cannot start."""
    config = catalog.config
    tables: tuple[tuple[str, Mapping[str, ConfinedSpec]], ...] = (
        ("tools.", config.tools),
        ("processes.", config.processes),
        ("agents.", config.agents),
        ("mcp.", {name: spec for name, spec in config.mcp.items() if spec.enabled}),
        # As below.
        ("server ", {name: each.spec for name, each in catalog.servers.items() if name not in config.mcp}),
    )
    for section, specs in tables:
        for name, spec in specs.items():
            where = f"{section}{name}{': ' if section == 'server ' else '.'}"
            for key, places in (("read", spec.read), ("write", spec.write)):
                for index, place in enumerate(places or ()):
                    if not Path(place).exists():
                        yield f"{where}{key}[{index}]: there is nothing of this name"
            if spec.sandbox in MEANS and spec.network and spec.read is None and spec.write is None:
                yield f"{where}sandbox: it says how, and not what: by itself it shuts nothing in"


def _starts(catalog: Catalog, path: str) -> Iterator[_Start]:
    config = catalog.config
    if config.agent_command is not None:
        # Its first word is what a table has as its `command`.
        yield _Start("agent_", config.agent_command[0], None, path)
    for name, server in config.mcp.items():
        if server.enabled:
            yield _start(f"mcp.{name}.", server.command, server, path)
    for name, tool in config.tools.items():
        yield _start(f"tools.{name}.", None if tool.command is None else tool.command[0], tool, path)
    for name, process in config.processes.items():
        yield _start(f"processes.{name}.", None if process.command is None else process.command[0], process, path)
    for name, binding in catalog.servers.items():
        # These stand where they are used, which may be more than once.
        if name not in config.mcp and binding.spec.enabled:
            yield _start(f"server {name}: ", binding.spec.command, binding.spec, path)


def _start(where: str, program: str | None, spec: McpSpec | ToolSpec | ProcessSpec, path: str) -> _Start:
    return _Start(where, program, spec.cwd, spec.env.get("PATH", path))


def _is_program(program: str, start: _Start) -> bool:
    """Whether it would be found, as children look for it: relative entries of PATH start where the child does."""
    here = start.cwd or "."
    if "/" in program:
        # An absolute one stays what it is.
        return shutil.which(Path(here).absolute() / program) is not None
    entries = (str(Path(here) / entry) for entry in start.path.split(os.pathsep))
    return shutil.which(program, path=os.pathsep.join(entries)) is not None


def _no_program(program: str) -> str:
    where = "" if "/" in program.partition(" ")[0] else " in PATH"
    is_line = len(program.split()) > 1
    more = "; what follows the program's name belongs in args" if is_line else ""
    return f"command: there is no such program{where}{more}"


def _is_directory(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except ValueError:
        # A NUL, which a URI may have written as %00.
        return False
