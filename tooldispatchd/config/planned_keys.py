"""Keys of the configuration that are fixed already and that this version cannot act on yet.

Each is refused by its name: neither silently ignored nor reported as a slip of the hand.
"""

from typing import Final

from tooldispatchd.catalog.problems import Problem
from tooldispatchd.config.key_patterns import Pattern, Table, places

NOT_YET: Final = "not yet available"

PLANNED: Final[tuple[Pattern, ...]] = (("tools", "*", "builtin"), ("tools", "*", "rest"))


def take_planned(table: Table) -> list[Problem]:
    """Take every planned key out of `table`, in place; a problem for each."""
    problems: list[Problem] = []
    for pattern in PLANNED:
        for place in list(places(table, pattern)):
            problems.append(Problem(place.path, NOT_YET, value=place.value))
            if isinstance(place.holder, dict):
                del place.holder[str(place.path[-1])]
    return problems
