"""Make a tool, which nobody is offered, of each thing that a hook runs, in the table of a configuration."""

import re
from typing import Final, cast

from tooldispatchd.catalog.confinement import KEYS
from tooldispatchd.catalog.hookspec import HookKind, tool_of
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.speckinds import PYTHON_PATTERN
from tooldispatchd.config.key_patterns import Table
from tooldispatchd.config.made_tools import MadeTools

_SHARED: Final = (*KEYS, "env", "cwd")
# Keys of functions alone, which a hook with a program beside them may have for these.
_OF_FUNCTIONS: Final = ("venv", "resident", "options")
# As of `HookSpec`, which the table becomes later.
_CALL_S: Final = 10.0


def take_hooks(table: Table) -> MadeTools:
    """Write out the tools of the hooks of a table that is well formed, in place; the hooks stay."""
    tools = cast("Table", table.setdefault("tools", {}))
    places: dict[Path, Path] = {}
    problems: list[Problem] = []
    for name, hook in cast("dict[str, Table]", table["hooks"]).items():
        for kind in (kind for kind in HookKind if kind.value in hook):
            tool, run = tool_of(name, kind), hook[kind.value]
            way = "python" if isinstance(run, str) else "command"
            if (why := _misshaped(run)) is not None:
                problems.append(Problem(("hooks", name, kind.value), why, allowed='"MODULE:FUNCTION", ["PROGRAM", …]'))
                continue
            if tool in tools:
                problems.append(Problem(("tools", tool), f"this is the name of what hooks.{name} runs"))
                continue
            keys = (*_SHARED, *_OF_FUNCTIONS) if way == "python" else _SHARED
            own = {key: hook[key] for key in keys if key in hook}
            tools[tool] = {way: run, "expose": False, "call_s": hook.get("call_s", _CALL_S), **own}
            places["tools", tool] = ("hooks", name)
            places["tools", tool, way] = ("hooks", name, kind.value)
    return MadeTools(places, tuple(problems))


def _misshaped(run: object) -> str | None:
    """Why this is nothing that can be run."""
    if isinstance(run, str):
        return None if re.search(PYTHON_PATTERN, run) else "this is no function"
    words = cast("list[str]", run)
    return None if words and words[0] and not any("\0" in word for word in words) else "this is no program"
