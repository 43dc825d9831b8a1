"""Patterns of places in a configuration: `("mcp", "*", "args", "#")`, where `*` is any key and `#` any index."""

from collections.abc import Iterable, Iterator
from typing import cast

import msgspec

from tooldispatchd.catalog.problems import Path

Pattern = tuple[str, ...]
Table = dict[str, object]


class KeyLocation(msgspec.Struct, frozen=True):
    """One value of a parsed file: where it stands, and what holds it, a table or a list."""

    path: Path
    holder: dict[str | int, object]

    @property
    def value(self) -> object:
        """What stands there now."""
        return self.holder[self.path[-1]]

    def put(self, value: object) -> None:
        """Set another value."""
        self.holder[self.path[-1]] = value


def entries(holder: object) -> list[tuple[str | int, object]]:
    """The keys and values of a table, or the indices and items of a list; none of anything else."""
    if isinstance(holder, dict):
        return list(cast("Table", holder).items())
    return list(enumerate(cast("list[object]", holder))) if isinstance(holder, list) else []


def depth_of(table: Table) -> int:
    """Measure how deep tables and arrays are nested, without recursion: dotted keys nest deeper than any reaches."""
    depth, level = 0, [cast("object", table)]
    while level:
        depth += 1
        level = [inner for holder in level for _, inner in entries(holder) if isinstance(inner, (dict, list))]
    return depth


def leaves(holder: object, path: Path = ()) -> Iterator[KeyLocation]:
    """Every value within a table or a list that is neither itself, however deep; `path` leads to the holder."""
    for key, value in entries(holder):
        if isinstance(value, (dict, list)):
            yield from leaves(value, (*path, key))
        else:
            yield KeyLocation((*path, key), cast("dict[str | int, object]", holder))


def places(holder: object, pattern: Pattern, path: Path = ()) -> Iterator[KeyLocation]:
    """Every value of a table whose place is of `pattern`; what is of another shape has none. `path` leads to it."""
    want, rest = pattern[0], pattern[1:]
    found: Iterable[str | int] = ()
    if isinstance(holder, dict):
        found = list(holder) if want == "*" else [want] if want in holder else ()
    elif isinstance(holder, list) and want == "#":
        found = range(len(holder))
    for key in found:
        place = KeyLocation((*path, key), cast("dict[str | int, object]", holder))
        if rest:
            yield from places(place.value, rest, place.path)
        else:
            yield place


def profile_tables(table: Table) -> list[tuple[str, str, Table]]:
    """List the tables that may be profiles, each with its section and its name."""
    sections = (("agents", table.get("agents")), ("processes", table.get("processes")))
    return [(section, str(name), cast("Table", one)) for section, named in sections for name, one in entries(named)]
