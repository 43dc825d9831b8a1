"""The effective configuration, key by key: each value, masked where it may hold a secret, and where it was written."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

import msgspec

from tooldispatchd.agent.session.administration import ReadConfiguration
from tooldispatchd.catalog.problems import Path
from tooldispatchd.catalog.secrecy import MASK, Spec, is_shown_as
from tooldispatchd.catalog.specs import Config

DEFAULT: Final = "default"


class SourceShown(msgspec.Struct, frozen=True):
    """The file that the configuration was read from."""

    path: str
    sha256: str
    loaded_at: float
    generation: int


class KeyShown(msgspec.Struct, frozen=True):
    """One key: `origin` is `FILE:LINE`, or `default`."""

    key: str
    value: object
    origin: str


def shown_source(read: ReadConfiguration) -> SourceShown:
    """The file, without what only this process can use."""
    return SourceShown(read.path, read.sha256, round(read.loaded_at, 3), read.generation)


def prepare(origin_of: Callable[[Path], str | None]) -> None:
    """Look through the file for its lines, and the types, as the first `key_view` would: 150 ms for 3,000 tools."""
    for name in Config.__struct_fields__:
        origin_of((name,))
    _may_be_shown((), None)


@cache
def _fields(table: type[Spec]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(table)


def keys_of(config: Config) -> Iterator[tuple[Path, object]]:
    """Each key that has a value, with it: of tables that stand once all, of others those that say something."""
    return _keys(config, (), is_whole=True)


def _keys(table: object, path: Path, *, is_whole: bool) -> Iterator[tuple[Path, object]]:
    if isinstance(table, Spec):
        for field in _fields(type(table)):
            value = getattr(table, field.name)
            if value is not None and (is_whole or value != field.default):
                yield from _keys(value, (*path, field.encode_name), is_whole=is_whole)
    elif isinstance(table, dict):
        for name, value in table.items():
            yield from _keys(value, (*path, name), is_whole=False)
    else:
        yield path, table


def key_view(path: Path, value: object, origin_of: Callable[[Path], str | None]) -> KeyShown:
    """One key, as it may be shown."""
    shown = msgspec.to_builtins(value, str_keys=True) if _may_be_shown(path, value) else MASK
    return KeyShown(".".join(map(str, path)), shown, origin_of(path) or DEFAULT)


def _may_be_shown(path: Path, value: object) -> bool:
    """Tell whether all of it may be shown; of a list, each item."""
    if isinstance(value, tuple | list):
        return all(_may_be_shown((*path, at), item) for at, item in enumerate(value))
    return is_shown_as(Config, path, value)


def nowhere(_path: Path) -> None:
    """For a configuration that was not read from a file."""
