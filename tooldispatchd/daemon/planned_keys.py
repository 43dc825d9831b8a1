"""Keys and values of the configuration that are fixed already and that this version cannot act on yet.

Each is refused by its name: neither silently ignored nor reported as a slip of the hand. A value that means what
happens anyway is accepted and taken out.
"""

from typing import Final

from tooldispatchd.catalog.problems import Problem
from tooldispatchd.daemon.key_patterns import Pattern, Table, places

NOT_YET: Final = "not yet available"

_SANDBOX: Final = (
    "cpu_s",
    "memory",
    "processes",
    "files",
    "file_size",
    "output_bytes",
    "nice",
    "user",
    "group",
    "network",
    "read",
    "write",
    "sandbox",
)
_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "limits": ("agent_depth",),
    "mcp.*": _SANDBOX,
    "tools.*": (
        "python",
        "builtin",
        "rest",
        "input_mode",
        "output_mode",
        "venv",
        "max_forks",
        "max_rss",
        "prefork",
        "resident",
        "reuse",
        *_SANDBOX,
    ),
    "processes.*": ("input_mode", "output_mode", "reuse", *_SANDBOX),
    "agents.*": _SANDBOX,
}
# A server's table may also stand where the server is used.
_SERVERS: Final = ("mcp.*", "tools.*.mcp", "processes.*.mcp.#")
PLANNED: Final[tuple[Pattern, ...]] = tuple(
    (*place.split("."), key)
    for table, keys in _KEYS.items()
    for place in (_SERVERS if table == "mcp.*" else (table,))
    for key in keys
)

# What happens anyway may be said aloud.
_TODAY: Final[dict[Pattern, object]] = {
    ("tools", "*", "input_mode"): "json",
    ("tools", "*", "output_mode"): "json",
    ("tools", "*", "resident"): False,
    ("tools", "*", "prefork"): 0,
    ("processes", "*", "input_mode"): "json",
    ("processes", "*", "output_mode"): "json",
}


def take_planned(table: Table) -> list[Problem]:
    """Take every planned key out of `table`, in place; a problem for each whose value asks for more than happens."""
    problems: list[Problem] = []
    for pattern in PLANNED:
        for place in list(places(table, pattern)):
            if not _means_today(pattern, place.value):
                allowed = _today_words(pattern)
                problems.append(Problem(place.path, NOT_YET, value=place.value, allowed=allowed))
            if isinstance(place.holder, dict):
                del place.holder[str(place.path[-1])]
    return problems


def _means_today(pattern: Pattern, value: object) -> bool:
    today = _TODAY.get(pattern)
    # A type of its own, since True is 1 and False is 0.
    return today is not None and type(value) is type(today) and value == today


def _today_words(pattern: Pattern) -> str | None:
    today = _TODAY.get(pattern)
    if today is None:
        return None
    return f'"{today}"' if isinstance(today, str) else str(today).lower()
