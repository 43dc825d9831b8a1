"""What this machine lacks of what a configuration asks for.

What it cannot enforce (`enforceable_for`) is tried once, and only where anything is asked. Programs, directories and
places that are not there (`absent`) may still come to be before they are needed: of them is warned only.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import msgspec

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.enforcement import MEANS, Enforceable, programs
from tooldispatchd.catalog.specs import ConfinedSpec, McpSpec, ProcessSpec, ToolSpec
from tooldispatchd.children.abilities import Abilities, AbilitiesError, read_abilities

_BOUNDS: Final = ("cpu_s", "memory", "processes", "files", "file_size", "nice", "user")
_MEANS: Final = ("landlock", "bubblewrap")
_KEYS: Final = ("network", "read", "write")


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


def enforceable_for(catalog: Catalog) -> Enforceable:
    """What can be enforced, where any program of the catalog asks for something; nothing is tried else."""
    if not any(programs(catalog.config, catalog.profiles, catalog.servers)):
        return Enforceable()
    try:
        return enforceable_by(read_abilities())
    except AbilitiesError as error:
        return Enforceable(dict.fromkeys(_all_abilities(), str(error)))


def enforceable_by(abilities: Abilities) -> Enforceable:
    """The abilities by the names that `enforce` has for them, and what the daemon's cgroup adds."""
    lacking = {key: getattr(abilities, key) for key in _BOUNDS}
    for means in _MEANS:
        lacking |= {f"{means}.{key}": getattr(getattr(abilities, means), key) for key in _KEYS}
    lacking |= cgroup_lacks()
    return Enforceable({name: why for name, why in lacking.items() if why is not None}, is_root=os.geteuid() == 0)


def cgroup_lacks() -> dict[str, str | None]:
    """Why whole calls cannot be counted by a cgroup; None for what can."""
    # It needs trio, which those who only read a configuration have not.
    from tooldispatchd.children.leaves import LeavesError, delegated  # noqa: PLC0415  # as above

    try:
        there = (delegated() / "cgroup.controllers").read_text(encoding="ascii").split()
    except (LeavesError, OSError) as error:
        return dict.fromkeys(("memory_cgroup", "processes_cgroup"), str(error))
    named = {"memory_cgroup": "memory", "processes_cgroup": "pids"}
    return {name: None if each in there else f"the cgroup has no controller {each}" for name, each in named.items()}


def _all_abilities() -> tuple[str, ...]:
    of_means = (f"{means}.{key}" for means in _MEANS for key in _KEYS)
    return (*_BOUNDS, *of_means, "memory_cgroup", "processes_cgroup")
