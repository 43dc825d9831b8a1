"""What this machine lacks of what a configuration asks for.

What it cannot enforce (`enforceable_for`) is tried once, and only where anything is asked. Programs, directories and
places that are not there (`absent`) may be made before they are needed: they are warned of.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.enforcement import MEANS, Enforceable, programs
from tooldispatchd.catalog.speckinds import WORKSPACE
from tooldispatchd.catalog.specs import McpSpec, ProcessSpec, ProfileSpec, ToolSpec
from tooldispatchd.catalog.workspaces import VARIABLES, segments
from tooldispatchd.children.abilities import AbilitiesError, read_abilities

# What a program can be bounded by, and what it can be shut in from.
BOUNDS: Final = ("cpu_s", "memory", "processes", "files", "file_size", "nice", "user")
SHUT_IN: Final = ("network", "read", "write")


def absent(catalog: Catalog, environ: Mapping[str, str]) -> list[str]:
    """A sentence for each thing that is not there; `environ` is the daemon's, whose PATH its children get."""
    return [f"{where}{what}" for where, whats in absences(catalog, environ) for what in whats]


def absences(catalog: Catalog, environ: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """For each table what is not there of what its keys name, and what stands before these in a sentence."""
    path = environ.get("PATH", os.defpath)
    if catalog.config.agent_command is not None:
        # Its first word is what a table has as its `command`.
        yield "agent_", _no_program(catalog.config.agent_command[0], ".", path)
    for where, spec in _tables(catalog):
        yield where, list(_absent_of(spec, path))


def _absent_of(spec: McpSpec | ToolSpec | ProcessSpec | ProfileSpec, path: str) -> Iterator[str]:
    if isinstance(spec, ProfileSpec):
        yield from _no_parent(spec)
        # Past `configuration` all of them are URIs (RFC 8089).
        roots = {f"roots[{index}]": root for index, root in enumerate(spec.roots) if root != WORKSPACE}
        directories = {key: unquote(root[len("file://") :]) for key, root in roots.items()}
    else:
        cwd = None if spec.cwd == WORKSPACE else spec.cwd
        program = program_of(spec)
        if program is not None:
            yield from _no_program(program, cwd or ".", spec.env.get("PATH", path))
        directories = {} if cwd is None else {"cwd": cwd}
    missing = (key for key, each in directories.items() if not Path(each).is_dir())
    yield from (f"{key}: there is no such directory" for key in missing)
    # A program that is shut in could not start.
    for key, shown in (("read", spec.read), ("write", spec.write)):
        for index, place in enumerate(shown or ()):
            if place != WORKSPACE and not Path(place).exists():
                yield f"{key}[{index}]: there is nothing of this name"
    if spec.sandbox in MEANS and spec.network and spec.read is None and spec.write is None:
        yield "sandbox: it says how, and not what: by itself it shuts nothing in"


def _tables(catalog: Catalog) -> Iterator[tuple[str, McpSpec | ToolSpec | ProcessSpec | ProfileSpec]]:
    """Each table that may start a program, and what stands before its keys in a sentence."""
    config = catalog.config
    yield from ((f"mcp.{name}.", spec) for name, spec in config.mcp.items() if spec.enabled)
    yield from ((f"tools.{name}.", tool) for name, tool in config.tools.items())
    yield from ((f"processes.{name}.", process) for name, process in config.processes.items())
    for name, binding in catalog.servers.items():
        # A server without a name stands where it is used, which may be more than once.
        if name not in config.mcp and binding.spec.enabled:
            yield f"server {name}: ", binding.spec
    yield from ((f"agents.{name}.", profile) for name, profile in config.agents.items())


def program_of(spec: McpSpec | ToolSpec | ProcessSpec) -> str | None:
    """The first word of the command of a table, if it has one."""
    return spec.command[0] if isinstance(spec.command, tuple) else spec.command


def find_program(program: str, directory: str, path: str, mode: int = os.F_OK | os.X_OK) -> str | None:
    """The file that a child in `directory` with `path` as its PATH would run; None where none has the access `mode`."""
    # An absolute program stays what it is, and relative entries of PATH start where the child does.
    name = str(Path(directory).absolute() / program) if "/" in program else program
    entries = (str(Path(directory) / entry) for entry in path.split(os.pathsep))
    return shutil.which(name, mode, os.pathsep.join(entries))


def _no_parent(profile: ProfileSpec) -> Iterator[str]:
    """The directory that a workspace is made in, where that is missing."""
    above = None if profile.workspace is None else segments(profile.workspace, dict.fromkeys(VARIABLES))[0]
    if above is not None and not Path(above).is_dir():
        made = "make = true makes only what is below it" if profile.make else "no session opens without it"
        yield f"workspace: there is no directory {above}; {made}"


def _no_program(program: str, directory: str, path: str) -> list[str]:
    """What is to be said where a child in `directory` with `path` as its PATH would not find the program."""
    if find_program(program, directory, path) is not None:
        return []
    if find_program(program, directory, path, os.F_OK) is not None:
        return ["command: this file may not be executed: chmod +x makes it a program"]
    in_path = "" if "/" in program.partition(" ")[0] else " in PATH"
    more = "; what follows the program's name belongs in args" if len(program.split()) > 1 else ""
    return [f"command: there is no such program{in_path}{more}"]


def enforceable_for(catalog: Catalog) -> Enforceable:
    """What can be enforced; it is tried only where a program of the catalog asks for something."""
    if not any(programs(catalog.config, catalog.profiles, catalog.servers)):
        return Enforceable()
    try:
        abilities = read_abilities()
    except AbilitiesError as error:
        of_means = (f"{means}.{key}" for means in MEANS for key in SHUT_IN)
        return Enforceable(dict.fromkeys((*BOUNDS, *of_means, "memory_cgroup", "processes_cgroup"), str(error)))
    # By the names that `enforce` has for them.
    lacking = {key: getattr(abilities, key) for key in BOUNDS}
    for means in MEANS:
        lacking |= {f"{means}.{key}": getattr(getattr(abilities, means), key) for key in SHUT_IN}
    lacking |= cgroup_lacks()
    return Enforceable({name: why for name, why in lacking.items() if why is not None}, is_root=os.geteuid() == 0)


def cgroup_lacks() -> dict[str, str | None]:
    """For the bounds that a cgroup may count for a whole call: why it cannot, else None."""
    # It needs trio, which takes long to import and is not needed to read a configuration.
    from tooldispatchd.children.leaves import LeavesError, delegated  # noqa: PLC0415  # as above

    try:
        there = (delegated() / "cgroup.controllers").read_text(encoding="ascii").split()
    except (LeavesError, OSError) as error:
        return dict.fromkeys(("memory_cgroup", "processes_cgroup"), str(error))
    named = {"memory_cgroup": "memory", "processes_cgroup": "pids"}
    return {name: None if each in there else f"the cgroup has no controller {each}" for name, each in named.items()}
