"""Patterns of places in a configuration: `("mcp", "*", "args", "#")`, where `*` is any key and `#` any index."""

from collections.abc import Iterator
from typing import cast

import msgspec

from tooldispatchd.catalog.problems import Path

Pattern = tuple[str, ...]
Table = dict[str, object]


class KeyLocation(msgspec.Struct, frozen=True):
    """One value of a parsed file: where it stands, and what holds it."""

    path: Path
    holder: Table | list[object]

    @property
    def value(self) -> object:
        """What stands there now."""
        if isinstance(self.holder, list):
            return self.holder[cast("int", self.path[-1])]
        return self.holder[cast("str", self.path[-1])]

    def put(self, value: object) -> None:
        """Set another value."""
        if isinstance(self.holder, list):
            self.holder[cast("int", self.path[-1])] = value
        else:
            self.holder[cast("str", self.path[-1])] = value


def places(table: Table, pattern: Pattern) -> Iterator[KeyLocation]:
    """Every value of `table` whose place is of `pattern`; what is of another shape has none."""
    return _places(table, pattern, ())


def is_of(path: Path, pattern: Pattern) -> bool:
    """Whether `path` is exactly of `pattern`."""
    return len(path) == len(pattern) and all(map(_is_key_of, path, pattern))


def _is_key_of(key: str | int, want: str) -> bool:
    return want == "#" if isinstance(key, int) else want in ("*", key)


def _places(holder: object, pattern: Pattern, path: Path) -> Iterator[KeyLocation]:
    key, rest = pattern[0], pattern[1:]
    for found in _keys(holder, key):
        place = KeyLocation((*path, found), cast("Table | list[object]", holder))
        if rest:
            yield from _places(place.value, rest, place.path)
        else:
            yield place


def _keys(holder: object, want: str) -> list[str | int]:
    keys: list[str | int] = []
    if isinstance(holder, dict):
        keys = list(holder) if want == "*" else [want]
        return [key for key in keys if key in holder]
    if isinstance(holder, list) and want == "#":
        keys = list(range(len(holder)))
    return keys
