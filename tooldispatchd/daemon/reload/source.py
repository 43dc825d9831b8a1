"""Where a daemon's configuration comes from, and one reading of it: whole and right, or not at all."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.enforcement import Enforceable, programs
from tooldispatchd.catalog.problems import Path as KeyPath
from tooldispatchd.config.configuration import ConfigError, Loaded, load
from tooldispatchd.config.http_places import http_problems, http_warnings
from tooldispatchd.config.listen_values import ListenAddress, in_a_line, parse_places
from tooldispatchd.config.stamps import Noted, noting, stamp_of


class Origins:
    """Says in which file and line what stands at a path was written; None where it was not, or once it is forgotten."""

    __slots__ = ("_where", "_written")

    def __init__(self, loaded: Loaded) -> None:
        # Without its catalog, which goes when its generation does.
        self._written = loaded.written
        self._where: Callable[[KeyPath], str] | None = loaded.where

    def __call__(self, path: KeyPath) -> str | None:
        return self._where(path) if self._where is not None and _is_written(self._written, path) else None

    def forget(self) -> None:
        """Let go of all that was written."""
        self._where, self._written = None, {}


class Reading(msgspec.Struct, frozen=True):
    """What one reading of the configuration gave. `loaded_at` is in Unix seconds, `sha256` that of the file's bytes."""

    catalog: Catalog
    places: tuple[ListenAddress, ...]
    warnings: tuple[str, ...]
    sha256: str
    loaded_at: float
    path: Path
    origin_of: Origins


class ConfigurationSource:
    """The file of a configuration, and what the command line says in its place.

    `listen` are the places of the command line, `standing` the one where nobody names any. What the machine can enforce
    is tried once: it stays as it is, and the daemon has moved to another cgroup since. `for_author` takes
    each change of its files at once, for open sessions too.
    """

    def __init__(self, path: Path, *, listen: Sequence[str], standing: str, for_author: bool = False) -> None:
        # The directory of the process stays what it is, and a name in a log should be whole.
        self.path: Final = path.absolute()
        self._listen = listen
        self._standing = standing
        self.for_author: Final = for_author
        self._enforceable: Enforceable | None = None
        # What the last reading looked at, right or wrong.
        self.noted = Noted()

    @property
    def has_own_places(self) -> bool:
        """Whether the command line says where it listens."""
        return bool(self._listen)

    def read(self) -> Reading:
        """Read it; raises `ConfigError` with all that is wrong. It takes its time, and may wait for `${command:…}`."""
        before = {path: stamp for path in self.noted.stamps if (stamp := stamp_of(path)) is not None}
        with noting() as noted:
            try:
                return self._read()
            except ConfigError:
                # What was not come to may be what has to be mended.
                noted.stamps.update({**before, **noted.stamps})
                raise
            finally:
                # When all are there: a watch in another thread looks through those of the reading before.
                self.noted = noted

    def _read(self) -> Reading:
        loaded_at = time.time()
        loaded = load(self.path, os.environ, enforceable=self._enforceable)
        catalog = loaded.catalog
        if self.for_author:
            daemon = msgspec.structs.replace(catalog.config.daemon, watch=True)
            config = msgspec.structs.replace(catalog.config, daemon=daemon)
            catalog = msgspec.structs.replace(catalog, config=config)
        if any(programs(catalog.config, catalog.profiles, catalog.servers)):
            self._enforceable = catalog.enforceable
        found = self._listen or catalog.config.daemon.listen or [self._standing]
        places, problems = parse_places(found, catalog.openable)
        if problems := problems or [*http_problems(places, catalog)]:
            raise ConfigError("\n".join(f"tooldispatchd: --listen {in_a_line(problem)}" for problem in problems))
        warnings = (*catalog.warnings, *(http_warnings(places) if self._listen else ()))
        return Reading(catalog, tuple(places), warnings, loaded.sha256, loaded_at, self.path, Origins(loaded))


def _is_written(table: object, path: KeyPath) -> bool:
    for key in path:
        if not isinstance(table, dict) or key not in table:
            return False
        table = table[key]
    return True
