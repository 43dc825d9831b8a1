"""Examine tools: their programs can be started, their modules imported, their directories are there.

None is called. The tools that a toolbox or a document of OpenAPI makes are looked at together, by its table's name.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, STDOUT
from time import monotonic
from types import MappingProxyType
from typing import Final

import msgspec
import trio

from tooldispatchd.catalog.hookspec import tools_of
from tooldispatchd.catalog.speckinds import WORKSPACE
from tooldispatchd.catalog.specs import ToolSpec
from tooldispatchd.children.inheritance import environment
from tooldispatchd.config.configuration import Loaded
from tooldispatchd.config.machine import absences, find_program
from tooldispatchd.doctor.diagnosis import Diagnosis, Examiner, fine, wrong

# A module may import much; the reader of signatures has 20 s itself.
IMPORT_S: Final = 45.0
VERSION_S: Final = 3.0
MAX_SHEBANG: Final = 256
# Those whose version is worth knowing, and that print it and nothing else; a shell is not asked.
_VERSIONED: Final = re.compile(r"(node|nodejs|npx|npm|bun|deno|uv|uvx|pipx|python[0-9.]*|ruby|perl|php|java)")
_INTERPRETER: Final = re.compile(r"(python[0-9.]*|node|nodejs|ruby|perl|php|sh|bash)")
# Neither an option nor one in which something of the input is put.
_SCRIPT: Final = re.compile(r"[^-$][^$]*\.(py|js|mjs|cjs|rb|pl|php|sh)")
_NO_ENV: Final[Mapping[str, str]] = MappingProxyType({})
_PARTS: Final = {"tools": "tool", "toolbox": "toolbox", "openapi": "api", "hooks": "hook", "restTools": "tool"}


def tool_examiners(loaded: Loaded, environ: Mapping[str, str], directory: Path) -> Iterator[Examiner]:
    """A check for each table that tools are made of, and for each process that is a program."""
    config = loaded.catalog.config
    programs = _Programs(environ, directory)
    lacking = dict(absences(loaded.catalog, environ))
    hooks = frozenset(tools_of(config.hooks))
    for (section, name), tools in _by_origin(loaded).items():
        part = "hook" if hooks.issuperset(tools) else _PARTS.get(section, section)
        said = [each for tool in tools for each in lacking.get(f"tools.{tool}.", ())]
        look = partial(programs.examine_tools, {tool: config.tools[tool] for tool in tools})
        yield Examiner(part, name, partial(_look, said, look), IMPORT_S)
    commands = {name: process.command for name, process in config.processes.items()}
    for name, command in (*commands.items(), ("agent_command", config.agent_command)):
        if command is not None:
            said = lacking.get("agent_" if name == "agent_command" else f"processes.{name}.", [])
            look = partial(programs.examine_program, command)
            yield Examiner("process", name, partial(_look, said, look))
    for name in config.agents:
        said = lacking.get(f"agents.{name}.", [])
        if said:
            yield Examiner("profile", name, partial(_look, said, None))


def _by_origin(loaded: Loaded) -> dict[tuple[str, str], list[str]]:
    """The names of tools by the table that each was made of."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in loaded.catalog.config.tools:
        section, table, *_ = loaded.origin(("tools", name))
        found.setdefault((str(section), str(table)), []).append(name)
    return found


def _look(lacking: Sequence[str], look: Callable[[], Diagnosis] | None) -> Diagnosis:
    """Tell what is lacking, or what a closer look shows."""
    began = monotonic()
    if lacking or look is None:
        seen = wrong("; ".join(dict.fromkeys(lacking)), "install or make what is missing, or correct the key")
    else:
        seen = look()
    return msgspec.structs.replace(seen, took_ms=(monotonic() - began) * 1000)


class _Programs:
    """Looks at what is there, as a daemon with this environment would find it; `directory` is the configuration's."""

    def __init__(self, environ: Mapping[str, str], directory: Path) -> None:
        self._environ = environ
        self._directory = directory

    def examine_tools(self, tools: Mapping[str, ToolSpec]) -> Diagnosis:
        """The tools of one table: one of `[tools]`, or as many as a toolbox or a document makes."""
        first = next(iter(tools.values()))
        if first.command is not None:
            return self.examine_program(first.command, first.env, first.cwd)
        what = _way(first) if len(tools) == 1 else f"{len(tools)} tools"
        functions = {tool: spec for tool, spec in tools.items() if spec.python is not None}
        if not functions:
            return fine(what, tools=list(tools))
        from tooldispatchd.config.python_tools import read_signatures  # noqa: PLC0415  # few configurations have any

        # In their own interpreters, as at each start of the daemon.
        why_not = [problem.why for problem in read_signatures(functions, self._directory, self._environ).problems]
        if why_not:
            advice = "correct the module, or install what it lacks into the environment that venv names"
            return wrong("; ".join(dict.fromkeys(why_not)), advice)
        return fine(f"{what}, imported", tools=list(tools))

    def examine_program(
        self, command: Sequence[str], env: Mapping[str, str] = _NO_ENV, cwd: str | None = None
    ) -> Diagnosis:
        """A program that is there: whether what runs it is there, too."""
        directory = "." if cwd in (None, WORKSPACE) else str(cwd)
        path = {**self._environ, **env}.get("PATH", os.defpath)
        program = find_program(command[0], directory, path) or command[0]
        missing = missing_interpreter(program)
        if missing is not None:
            said = f"its first line names an interpreter that is not there: {missing}"
            return wrong(said, "install that, or correct the line")
        script = missing_script(command, directory)
        if script is not None:
            return wrong(f"its script is not there: {script}", "correct the argument, or say cwd")
        return fine(f"the program {Path(program).name} can be started", program=program)


def _way(spec: ToolSpec) -> str:
    ways = {"mcp": "a server's tool", "rest": "a request", "native": "the provider's own", "python": "a function"}
    ways |= {way: way for way in ("inline", "map", "process")}
    return next((shown for way, shown in ways.items() if getattr(spec, way) is not None), "a tool")


def shebang_of(program: str) -> list[str]:
    """The words of a script's first line behind `#!`; none for any other file (execve(2))."""
    try:
        with Path(program).open("rb") as file:
            line = file.readline(MAX_SHEBANG)
    except OSError:
        return []
    return line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []


def missing_interpreter(program: str) -> str | None:
    """The interpreter that a script needs and that is not there; the kernel says only that there is no such file."""
    words = shebang_of(program)
    if not words or Path(words[0]).exists():
        return None
    return words[0]


def missing_script(command: Sequence[str], directory: str) -> str | None:
    """The file that a known interpreter is to run and that is not in `directory`; None where none is seen to lack."""
    if len(command) < 2 or not _INTERPRETER.fullmatch(Path(command[0]).name) or not _SCRIPT.fullmatch(command[1]):
        return None
    return None if (Path(directory) / command[1]).exists() else command[1]


async def interpreter_facts(program: str | None, env: Mapping[str, str]) -> dict[str, object]:
    """For a program that failed: which file it is, and the version of what runs it, where that is known to tell it."""
    path = {**os.environ, **env}.get("PATH", os.defpath)
    found = None if program is None else find_program(program, ".", path)
    if found is None:
        return {}
    facts: dict[str, object] = {"program": found}
    words = shebang_of(found)
    runner = words[1] if len(words) > 1 and Path(words[0]).name == "env" else next(iter(words), found)
    where = find_program(runner, ".", path)
    if where is None:
        facts["missing_interpreter"] = runner
    elif _VERSIONED.fullmatch(Path(where).name):
        facts["interpreter"] = f"{where} {await _version(where)}".strip()
    return facts


async def _version(program: str) -> str:
    """Ask an interpreter for its version; it is told nothing of our environment."""
    with trio.move_on_after(VERSION_S):
        try:
            done = await trio.run_process(
                [program, "--version"],
                stdin=DEVNULL,
                capture_stdout=True,
                stderr=STDOUT,
                check=False,
                env=environment(),
            )
        except OSError:
            return ""
        return done.stdout.decode(errors="replace").strip().partition("\n")[0][:80]
    return ""
