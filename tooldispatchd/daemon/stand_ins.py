"""Tables that have a mistake, made fit to build a catalog of, so that all the others are checked too.

The key that is wrong is taken away, and what a table cannot do without is put in its place: a program that is never
run, a type that meets every other. What is reported of the rest and only follows from that is left out again.
"""

import re
from collections.abc import Iterable
from typing import Final, cast

from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.specs import BINDING_PATTERN, NAME_PATTERN
from tooldispatchd.catalog.tools import WAYS
from tooldispatchd.catalog.wiring import LIFT
from tooldispatchd.daemon.key_patterns import Table

_PROGRAM: Final = "-"
# RFC 2606, 2: a host that nobody has.
_URL: Final = "https://server.invalid/"
# What a server has only beside another key.
_BESIDE: Final = {"auth": "oauth", "cert": "key"}
_NAMES: Final = {
    "mcp": re.compile(BINDING_PATTERN),
    "tools": re.compile(NAME_PATTERN),
    "processes": re.compile(NAME_PATTERN),
    "agents": re.compile(NAME_PATTERN),
}
_MAX_NAME: Final = 128
_HAS_DEFAULTS: Final = frozenset({"daemon", "limits"})
_TOKENS: Final = ("token", "token_env", "token_file")
# What a process of such a kind cannot do without; the others need nothing.
_NEEDED: Final = {"map": "map", "filter": "filter", "project": "project", "plumb": "chain"}
_OTHERS: Final = frozenset({"id", "copy", "discard", "merge", "barrier", *_NEEDED})
# `A -> B` and `!A -> !B` of single streams; a product of streams is nothing for an agent.
_SINGLE: Final = re.compile(r"(?![^>]*->\s*\()(?!\s*\()[^\n]*")


class StandIns:
    """What has been put in the place of something: `lacking` tables, and names that no table can have."""

    def __init__(self, lacking: Iterable[Path] = ()) -> None:
        self._told = frozenset(lacking)
        self._lacking: set[Path] = set(lacking)
        self._refused: set[Path] = set()

    def put(self, table: Table, problems: Iterable[Problem]) -> None:
        """Mend each part of `table` that has one of `problems` or is lacking, in place."""
        for path in [*(problem.path for problem in problems), *self._told]:
            section = str(path[0])
            entries = table.get(section)
            if section in _HAS_DEFAULTS and len(path) == 1:
                table[section] = {}
            elif section in _HAS_DEFAULTS and isinstance(entries, dict):
                entries.pop(path[1], None)
            elif section == "agent_command" and len(path) > 1:
                table[section] = [_PROGRAM]
            elif isinstance(entries, dict) and len(path) > 1 and path[1] in entries:
                self._mend(section, cast("Table", entries), path)

    def _mend(self, section: str, entries: Table, path: Path) -> None:
        name = str(path[1])
        self._lacking.add((section, name))
        if section in _NAMES and not (_NAMES[section].search(name) and len(name) <= _MAX_NAME):
            # No table of this name can be built; who names it is not to be told that there is none.
            self._refused.add((section, name))
            del entries[name]
        elif section == "types":
            entries[name] = entries[name] if isinstance(entries[name], str) and len(path) == 2 else "json"
        elif section in _NAMES:
            old = entries[name] if isinstance(entries[name], dict) else {}
            kept = {key: value for key, value in cast("Table", old).items() if key != (path[2:3] or (None,))[0]}
            entries[name] = _MENDED[section](kept, cast("Table", old))

    def is_follow_up(self, problem: Problem, table: Table) -> bool:
        """Whether a problem of the catalog that was built follows from what stands in for something."""
        path = problem.path
        # Where the notation has told of a name in a type, the type means less than it says.
        if path in self._lacking or (path[:2] in self._told and path[2:] == ("type",)):
            return True
        value: object = table
        trail: list[object] = []
        for key in path:
            if isinstance(value, dict):
                value = value.get(key)
            else:
                value = value[key] if isinstance(value, list) and isinstance(key, int) else None
            trail.append(value)
        if isinstance(value, str) and self._is_refused(value):
            return True
        if path[:1] == ("tools",) and path[2:] in {("process",), ("type",)} and isinstance(trail[1], dict):
            return ("processes", str(trail[1].get("process"))) in self._lacking
        if path[2:3] != ("chain",) or len(path) <= 3:
            return False
        # That there is no such process, or tool, follows from nothing.
        return _is_there(trail[-1], table) and self._is_beside(trail[2], path[3])

    def _is_refused(self, value: str) -> bool:
        lifted = LIFT.fullmatch(value)
        name = value if lifted is None else lifted["tool"]
        return any(
            name == refused or (section == "mcp" and value.startswith(f"{refused}:"))
            for section, refused in self._refused
        )

    def _is_beside(self, chain: object, index: str | int) -> bool:
        """Whether an entry of a chain, or the one before it, gives and takes what it was not meant to."""
        entries = chain if isinstance(chain, list) and isinstance(index, int) else []
        for entry in cast("list[object]", entries)[max(int(index) - 1, 0) : int(index) + 1] if entries else ():
            lifted = LIFT.fullmatch(str(entry))
            found = ("processes", str(entry)) if lifted is None else ("tools", lifted["tool"])
            if found in self._lacking:
                return True
        return False


def _is_there(entry: object, table: Table) -> bool:
    """Whether what an entry of a chain names is in the table."""
    lifted = LIFT.fullmatch(str(entry))
    entries = table.get("processes" if lifted is None else "tools")
    return isinstance(entries, dict) and (str(entry) if lifted is None else lifted["tool"]) in entries


def _server(kept: Table, old: Table) -> Table:
    # What belongs to a key that is wrong says nothing without it.
    orphans = {orphan for key, orphan in _BESIDE.items() if key in old and key not in kept}
    kept = {key: value for key, value in kept.items() if key not in orphans}
    if "url" in kept or "command" in kept:
        return kept
    return {**kept, "url": _URL} if "url" in old and "command" not in old else {**kept, "command": _PROGRAM}


def _tool(kept: Table, old: Table) -> Table:
    is_typed = kept.get("type") == old.get("type")
    if kept.keys() & set(WAYS) and is_typed:
        return kept
    # `name` means something to a server's tool only.
    kept = {key: value for key, value in kept.items() if key not in {*WAYS, "name"}}
    return {**kept, "command": [_PROGRAM]}


def _process(kept: Table, old: Table) -> Table:
    kind = kept.get("kind")
    is_typed = kept.get("type") == old.get("type")
    needed = _NEEDED.get(str(kind))
    if is_typed and str(kind) in _OTHERS and (needed is None or needed in kept):
        return kept
    type_ = kept.get("type")
    is_single = isinstance(type_, str) and is_typed and _SINGLE.fullmatch(type_)
    made: Table = {**kept} if kind == "agent" else {}
    made |= {"kind": "agent", "type": type_ if is_single else "!json -> !json"}
    # An agent that names what it may call is a profile, and is named as one elsewhere.
    if old.keys() & {"tools", "mcp"} and not made.keys() & {"tools", "mcp"}:
        made["tools"] = []
    return made if "command" in made else {**made, "command": [_PROGRAM]}


def _agent(kept: Table, _old: Table) -> Table:
    return {key: value for key, value in kept.items() if key not in _TOKENS}


_MENDED: Final = {"mcp": _server, "tools": _tool, "processes": _process, "agents": _agent}
