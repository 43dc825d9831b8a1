"""The code of a tool's author, which is loaded as it is now: each module that is not installed.

Python takes a compiled file for that of a source whose size and second of change are the same: two changes within one
second look alike. So of what is followed a compiled file counts only if it is younger than any change of its source.
Stdlib only.
"""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from importlib.util import cache_from_source
from typing import Any

# A compiled file written so soon after its source changed may be of the content before.
SETTLED_S = 1.0
_INSTALLED = frozenset({"site-packages", "dist-packages"})
# The standard library, and this package.
_OTHERS = (os.__file__.rpartition("/")[0], "/".join(os.path.realpath(__file__).split("/")[:-3]))


def is_followed(path: str) -> bool:
    """Tell whether a file, or a directory of modules, is not installed, but its author's."""
    return _is_own(path) and _is_own(os.path.realpath(path))


def _is_own(path: str) -> bool:
    is_others = any(f"{path}/".startswith(f"{other}/") for other in _OTHERS)
    return not is_others and _INSTALLED.isdisjoint(path.split("/"))


def follow(note: Callable[[str], object] = str) -> None:
    """Have stale compiled files of followed sources passed over, after a call of `note` with each path."""
    usual = SourceFileLoader.path_stats

    # Of whatever finder's loader: projects that are installed as editable have finders of their own.
    def path_stats(loader: SourceFileLoader, path: Any) -> Mapping[str, Any]:
        if is_followed(path):
            note(path)
            _check_compiled(path)
        return usual(loader, path)

    SourceFileLoader.path_stats = path_stats  # type: ignore[assignment,method-assign]


def _check_compiled(path: str) -> None:
    """Remove a compiled file that may be older than its source; raises OSError where none is to be taken, or made."""
    settled = os.stat(path).st_ctime + SETTLED_S  # noqa: PTH116  # in the way of imports: pathlib costs more
    if time.time() < settled:
        raise OSError
    compiled = cache_from_source(path)
    with suppress(FileNotFoundError):
        if os.stat(compiled).st_mtime < settled:  # noqa: PTH116  # as above
            os.unlink(compiled)  # noqa: PTH108  # as above
