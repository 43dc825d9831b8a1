"""The time zones of an expression: each stands in it as one text, of a form that opens no file but a zone's own.

The engine looks a zone up by opening a file of its name, wherever an absolute name or one with dots leads, and keeps
every name that it was ever asked for. So a zone is never taken from an input: which there are is known when the
expression is loaded, and each is asked for then.
"""

import re
from collections.abc import Iterator
from typing import Final

from tooldispatchd.catalog.celtree import Node

GETTERS: Final = frozenset({
    "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear",
    "getHours", "getMinutes", "getSeconds", "getMilliseconds",
})  # fmt: skip
"""The functions that look at a time by the calendar; with an argument, in the zone of that name."""

# The longest name that the zone database has is America/Argentina/ComodRivadavia, which has 32 characters.
MAX_ZONE: Final = 64
_OFFSET: Final = re.compile(r"[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]")
_NAMED: Final = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){1,2}")


def zones_in(root: Node) -> Iterator[tuple[Node, str | None]]:
    """Every zone that a tree asks for: the node that says which, and its text, None where it is no constant."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting.extend(node.parts)
        if node.kind == "call" and node.text in GETTERS:
            # The first part is the time; a function of no zone has no more.
            yield from ((zone, zone.text if zone.kind == "constant" else None) for zone in node.parts[1:])


def refuse_zone(zone: str | None) -> str | None:
    """Why a zone cannot be asked for; None of one whose form is right, which need not exist."""
    if zone is None:
        return 'a time zone must stand in the expression as one text, such as "Europe/Paris"'
    is_right = zone == "UTC" or _OFFSET.fullmatch(zone) or (len(zone) <= MAX_ZONE and _NAMED.fullmatch(zone))
    return None if is_right else f'"{zone[:MAX_ZONE]}" is no time zone: write UTC, +hh:mm, -hh:mm or Area/City'
