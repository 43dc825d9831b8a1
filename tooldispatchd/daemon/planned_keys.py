"""Keys of the configuration that are fixed already and that this version cannot act on yet.

Each is refused by its name: neither silently ignored nor reported as a slip of the hand.
"""

from typing import Final

from tooldispatchd.catalog.confinement import KEYS
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.daemon.key_patterns import Pattern, Table, places

NOT_YET: Final = "not yet available"

_KEYS: Final[dict[str, tuple[str, ...]]] = {
    # What bounds a program; servers' programs are not started with bounds yet.
    "mcp.*": KEYS,
    "tools.*": ("builtin", "rest"),
}
# A server's table may also stand where the server is used.
_SERVERS: Final = ("mcp.*", "tools.*.mcp", "processes.*.mcp.#")
PLANNED: Final[tuple[Pattern, ...]] = tuple(
    (*place.split("."), key)
    for table, keys in _KEYS.items()
    for place in (_SERVERS if table == "mcp.*" else (table,))
    for key in keys
)


def take_planned(table: Table) -> list[Problem]:
    """Take every planned key out of `table`, in place; a problem for each."""
    problems: list[Problem] = []
    for pattern in PLANNED:
        for place in list(places(table, pattern)):
            problems.append(Problem(place.path, NOT_YET, value=place.value))
            if isinstance(place.holder, dict):
                del place.holder[str(place.path[-1])]
    return problems
