"""The code of a tool's author, which is loaded as it is now: each module that is not installed.

Python takes a compiled file for that of a source whose size and second of change are the same: two changes within one
second look alike. So of what is followed a compiled file counts only if it is younger than any change of its source.
Stdlib only.
"""

import os
import sys
import time
from contextlib import suppress
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from importlib.util import cache_from_source
from typing import Any

# What is written within so long of its source's last change may be of what was there before.
SETTLED_S = 1.0
_INSTALLED = frozenset({"site-packages", "dist-packages"})
# The standard library, and this package.
_OTHERS = (os.__file__.rpartition("/")[0], "/".join(os.path.realpath(__file__).split("/")[:-3]))


def is_followed(path: str) -> bool:
    """Whether a file, or a directory of modules, is not installed, but its author's."""
    if any(f"{path}/".startswith(f"{other}/") for other in _OTHERS):
        return False
    real = os.path.realpath(path)
    return _INSTALLED.isdisjoint(real.split("/")) and not any(f"{real}/".startswith(f"{other}/") for other in _OTHERS)


class FollowedLoader(SourceFileLoader):
    """Loads a module from its source, or from a compiled file that was surely made of that."""

    def path_stats(self, path: str) -> Any:
        """Tell what a compiled file must say to be taken; raises OSError where none is to be taken, or made."""
        settled = os.stat(path).st_ctime + SETTLED_S  # noqa: PTH116  # in the way of imports: pathlib costs more
        if time.time() < settled:
            raise OSError
        compiled = cache_from_source(path)
        with suppress(FileNotFoundError):
            if os.stat(compiled).st_mtime < settled:  # noqa: PTH116  # as above
                # Another one is made.
                os.unlink(compiled)  # noqa: PTH108  # as above
        return super().path_stats(path)


def follow(loader: type[FollowedLoader] = FollowedLoader) -> None:
    """Have each module that is followed loaded by `loader` from now on."""

    def finder_of(directory: str) -> FileFinder:
        if not os.path.isdir(directory) or not is_followed(directory):  # noqa: PTH112  # as above
            raise ImportError(directory)
        return FileFinder(
            directory,
            (ExtensionFileLoader, EXTENSION_SUFFIXES),
            (loader, SOURCE_SUFFIXES),
            (SourcelessFileLoader, BYTECODE_SUFFIXES),
        )

    sys.path_hooks.insert(0, finder_of)
    sys.path_importer_cache.clear()
