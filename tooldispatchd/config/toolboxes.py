"""Make `python` tools of the toolboxes of a configuration, and of its `builtin` tools, in its table.

From here on they are tools like any other: each has the keys that its author could have written. It is remembered which
table each was made of, so that whatever is wrong with one is told of that.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path as FilePath
from typing import Final, cast

import msgspec

from tooldispatchd.catalog.confinement import KEYS
from tooldispatchd.catalog.globs import NameList, is_glob
from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.policyspec import CACHE_KEYS, POLICY_KEYS
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.servers import TOKENS
from tooldispatchd.catalog.toolboxspecs import ToolboxSpec
from tooldispatchd.catalog.tools import WAYS
from tooldispatchd.config.key_patterns import Table, profile_tables
from tooldispatchd.config.made_tools import MadeTools
from tooldispatchd.toolbox.sets import SETS, WORKSPACE, Builtin, ToolSet, doc_of, keeps_state

# A tool of a toolbox that needs one, and how to have it.
SEARCH: Final = "search"
HOW_TO_SEARCH: Final = 'search = { engine = "brave", token_env = "BRAVE_KEY" }'
_PACKAGE: Final = "tooldispatchd.toolbox"
_TYPES: Final = {field.name: field.type for field in msgspec.structs.fields(ToolboxSpec)}
# What each of its tools has as the toolbox has it.
_STATED: Final = (*KEYS, *POLICY_KEYS, "call_s", "tags")
_ANY_SET: Final = frozenset({"set", "tools", "deny", "prefix", "workspace", "env", *_STATED})


class _Toolbox:
    """One toolbox of the configuration: its table, and what that makes of its set."""

    def __init__(self, name: str, table: Table, secrets: Mapping[tuple[str, str], str]) -> None:
        self.name = name
        self.path: Path = ("toolbox", name)
        self.table = table
        self.set_name = str(table.get("set", name))
        self._secrets = secrets

    @property
    def set(self) -> ToolSet:
        return SETS[self.set_name]

    def problems(self) -> Iterator[Problem]:
        """What is wrong with its table by itself."""
        if self.set_name not in SETS:
            yield Problem(self.path, "this is no set of tools, and its table names none", allowed=_named(SETS))
            return
        known = _ANY_SET | set(self.set.options)
        for key in self.table:
            if key not in known:
                yield Problem((*self.path, key), f"means nothing for the set {self.set_name}", value=self.table[key])
        for key in ("tools", "deny"):
            for entry in NameList(self._list(key)).missing(self.set.tools):
                place = self._list(key).index(entry)
                meant = None if is_glob(entry) else nearest(entry, self.set.tools)
                yield Problem((*self.path, key, place), "the set has no such tool", value=entry, nearest=meant)
        stated = [key for key in CACHE_KEYS if key in self.table]
        if stated and not any(self.set.tools[name].read_only for name in self._offered()):
            yield Problem((*self.path, stated[0]), "each of its tools changes something, and has to be called")
        engine = self.table.get(SEARCH)
        if isinstance(engine, dict):
            if len(engine.keys() & set(TOKENS)) > 1:
                yield Problem((*self.path, SEARCH), "names its key twice", allowed=f"one of {_named(TOKENS)}")
            if engine.get("engine") == "searxng" and "url" not in engine:
                yield Problem((*self.path, SEARCH), "SearXNG is wherever you run it: its url is missing")
            if engine.get("engine") != "searxng" and not engine.keys() & set(TOKENS):
                yield Problem((*self.path, SEARCH), "its engine needs a key", allowed=f"one of {_named(TOKENS)}")
        elif SEARCH in self._list("tools"):
            place = self._list("tools").index(SEARCH)
            yield Problem((*self.path, "tools", place), "it needs an engine", allowed=HOW_TO_SEARCH)

    def tools(self) -> dict[str, Table]:
        """The tables of its tools, by name."""
        prefix = f"{self.table['prefix']}_" if "prefix" in self.table else ""
        return {f"{prefix}{name}": self._tool(name, self.set.tools[name]) for name in self._offered()}

    def warnings(self) -> Iterator[str]:
        """What is not offered, and could be."""
        is_wanted = SEARCH in self.set.tools and "tools" not in self.table
        if is_wanted and SEARCH not in self.table and not NameList(self._list("deny")).admits(SEARCH):
            yield f'toolbox.{self.name}: "search" is not offered: it needs an engine, as in {HOW_TO_SEARCH}'

    def _list(self, key: str) -> list[str]:
        return cast("list[str]", self.table.get(key, []))

    def _offered(self) -> list[str]:
        names = NameList(self._list("tools")).of(self.set.tools) if "tools" in self.table else list(self.set.tools)
        denied = NameList(self._list("deny"))
        has_engine = SEARCH in self.table
        return [name for name in names if not denied.admits(name) and (name != SEARCH or has_engine)]

    def _tool(self, name: str, builtin: Builtin) -> Table:
        stated = {key: self.table[key] for key in _STATED if key in self.table}
        env = cast("Table", self.table.get("env", {}))
        options = {key: self.table[key] for key in self.set.options if key in self.table}
        if SEARCH in options:
            options[SEARCH] = self._engine(cast("Table", options[SEARCH]))
        made = _written_out(name, builtin, self.set_name, options)
        workspace = str(self.table.get("workspace", WORKSPACE))
        if workspace != WORKSPACE:
            made |= {key: _moved(made[key], workspace) for key in ("cwd", "read", "write") if key in made}
        if self.name != self.set_name:
            # The hints of a set are in the prompt already, and speak of its names.
            del made["hint"]
            if "state" in made:
                made["state"] = f"{self.name}.{made['state']}"
        if not _is_cacheable(made):
            stated = {key: value for key, value in stated.items() if key not in CACHE_KEYS}
        return {**made, **stated, "env": {**cast("Table", made["env"]), **env}}

    def _engine(self, engine: Table) -> Table:
        """What the tool is told of its engine, with the key itself."""
        key = next((self._secrets.get((key, str(engine[key]))) for key in TOKENS if key in engine), None)
        told = {"engine": engine["engine"], "url": engine.get("url"), "key": key}
        return {name: value for name, value in told.items() if value is not None}


def _is_cacheable(made: Table) -> bool:
    """Whether answers of a tool may be given again: it changes nothing, keeps nothing, and runs in no job."""
    return "read_only" in made and not {"state", "mode"} & made.keys()


def take_toolboxes(table: Table, secrets: Mapping[tuple[str, str], str]) -> MadeTools:
    """Write out the toolboxes and `builtin` tools of a table that is well formed, in place.

    `secrets` are what was read for the keys of search engines.
    """
    boxes = [_Toolbox(name, box, secrets) for name, box in _tables(table, "toolbox")]
    problems = [problem for box in boxes for problem in box.problems()]
    if problems:
        return MadeTools(problems=tuple(problems))
    tools = cast("Table", table.setdefault("tools", {}))
    made: dict[str, list[str]] = {}
    places: dict[Path, Path] = {}
    for box in boxes:
        offered = box.tools()
        made[box.name] = list(offered)
        if taken := [name for name in offered if name in tools]:
            why = f"of its tools these are declared already: {', '.join(taken)}"
            problems.append(Problem(box.path, why, allowed='a prefix: prefix = "…"'))
            continue
        for name, tool in offered.items():
            tools[name], places["tools", name] = tool, box.path
            if "workspace" in box.table:
                places["tools", name, "cwd"] = (*box.path, "workspace")
    table.pop("toolbox", None)
    problems += _builtin_tools(tools)
    problems += _offer(table, made)
    warnings = tuple(warning for box in boxes for warning in box.warnings())
    return MadeTools(places, tuple(problems), warnings)


def _builtin_tools(tools: Table) -> Iterator[Problem]:
    """Write each tool with `builtin` out, in place."""
    known = {name: set_name for set_name, tool_set in SETS.items() for name in tool_set.tools}
    for name, tool in ((name, cast("Table", tool)) for name, tool in tools.items()):
        wanted = tool.pop("builtin", None)
        if wanted is None:
            continue
        path: Path = ("tools", name, "builtin")
        other = next((way for way in WAYS if way in tool), None)
        set_name = known.get(str(wanted))
        options = cast("Table", tool.get("options", {}))
        if set_name is None:
            yield Problem(path, "there is no such tool", value=wanted, nearest=nearest(str(wanted), known))
        elif other is not None:
            yield Problem(("tools", name, other), 'it has "builtin" already', value=tool[other])
        elif wanted == SEARCH:
            yield Problem(
                path, "it needs an engine, which a toolbox has", allowed=f"[toolbox.web] with {HOW_TO_SEARCH}"
            )
        elif found := list(_option_problems(str(wanted), SETS[set_name], options)):
            yield from (Problem(("tools", name, "options", key), why, allowed=allowed) for key, why, allowed in found)
        else:
            made = _written_out(str(wanted), SETS[set_name].tools[str(wanted)], set_name, options)
            env = {**cast("Table", made["env"]), **cast("Table", tool.get("env", {}))}
            tools[name] = {**made, **tool, "env": env}


def _option_problems(tool: str, tool_set: ToolSet, options: Table) -> Iterator[tuple[str, str, str | None]]:
    """Each option that is none of the set's, or no value of it: the key, why, and what would be right."""
    for key, value in options.items():
        if key not in tool_set.options:
            yield key, f"means nothing for {tool}", _named(tool_set.options) or "none"
            continue
        try:
            msgspec.convert(value, _TYPES[key])
        except msgspec.ValidationError as error:
            yield key, str(error).replace("`", ""), None


def _written_out(name: str, builtin: Builtin, set_name: str, options: dict[str, object]) -> Table:
    """The table of a tool, as its author would have written it."""
    made: Table = {
        "python": f"{_PACKAGE}.{builtin.function}",
        "title": builtin.title,
        "hint": builtin.hint,
        "options": options,
        "stop_s": builtin.stop_s,
        "resident": builtin.resident,
        "tags": [set_name],
        # Of the daemon's own variables TERM alone may say that somebody sits at a terminal.
        "env": {"TOOLDISPATCHD_TOOLBOX": SETS[set_name].parent, "TERM": "dumb"},
        **SETS[set_name].bounds,
    }
    if (part := SETS[set_name].memory_part) is not None:
        made["memory"] = memory_of_machine() // part
    if "shared" in options:
        made["write"] = [options["shared"]]
    optional = {"call_s": builtin.call_s, "mode": builtin.mode, "doc": doc_of(name)}
    made |= {key: value for key, value in optional.items() if value is not None}
    if builtin.read_only:
        made["read_only"] = True
    if builtin.state is not None and keeps_state(set_name, options):
        made["state"] = builtin.state
    return made


def memory_of_machine() -> int:
    """Measure the memory, in bytes, of the machine or of the container around this process."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # As a container shows its own bound, in the two versions of cgroups.
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            whole = min(whole, int(FilePath(path).read_bytes()))
    return whole


def _offer(table: Table, made: Mapping[str, list[str]]) -> Iterator[Problem]:
    """Name the tools of its toolboxes in each profile, in place."""
    for section, name, profile in profile_tables(table):
        boxes = cast("list[str]", profile.pop("toolboxes", []))
        tools = cast("list[str]", profile.get("tools", []))
        for place, box in enumerate(boxes):
            if box not in made:
                path: Path = (section, name, "toolboxes", place)
                yield Problem(path, "there is no such toolbox", value=box, nearest=nearest(box, made))
            tools = [*tools, *made.get(box, ())]
        if boxes:
            profile["tools"] = tools


def _moved(value: object, workspace: str) -> object:
    """A directory, or a list of them, with that of the toolbox in the place of the session's."""
    if isinstance(value, list):
        return [_moved(one, workspace) for one in value]
    return workspace if value == WORKSPACE else value


def _tables(table: Table, section: str) -> list[tuple[str, Table]]:
    return list(cast("dict[str, Table]", table.get(section, {})).items())


def _named(names: object) -> str:
    return ", ".join(cast("Mapping[str, object]", names))
