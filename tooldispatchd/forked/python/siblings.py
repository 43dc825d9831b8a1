"""Modules beside a configuration: a function that is shut in may import them, and read nothing else that lies there.

    names and paths noted in the parent ──▶ child confined: the code may be read, its directory neither read nor listed

Python lists a directory to find a module in it, and so what was noted takes the place of its finder. Stdlib only.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location

# In the order in which Python itself looks for them.
_SUFFIXES = (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES)


class Siblings:
    """The top-level modules and packages of one directory, as they were when this was made; finds them for `import`."""

    def __init__(self, directory: str, own: Iterable[str], beneath: Sequence[str]) -> None:
        """`own` names the tools' top-level modules: a directory of such a name is code, whatever it holds.

        `beneath` are real paths of such directories as this one: what holds one of them is left out.
        """
        self._found: dict[str, str] = {}
        own = frozenset(own)
        try:
            entries = sorted(os.listdir(directory))  # noqa: PTH208  # names are wanted
        except OSError:
            # Not there, or not for this user: nothing can be imported from it either.
            entries = []
        ranks: dict[str, int] = {}
        for entry in entries:
            path = f"{directory}/{entry}"
            if any(lies_in(one, os.path.realpath(path)) for one in beneath):
                continue
            name, dot, rest = entry.partition(".")
            if entry.isidentifier() and _is_directory(path) and _start_of(path) is not None:
                # Before a module of the same name, as Python has it, but a directory without a start behind it.
                rank = -1
            elif entry.isidentifier() and _is_directory(path) and entry in own:
                rank = len(_SUFFIXES)
            elif dot + rest in _SUFFIXES and os.path.isfile(path):  # noqa: PTH113  # text, as paths here are
                rank = _SUFFIXES.index(dot + rest)
            else:
                continue
            if rank <= ranks.get(name, rank):
                self._found[name], ranks[name] = path, rank

    @property
    def paths(self) -> list[str]:
        """The real paths that may be read, once each."""
        return list(dict.fromkeys(os.path.realpath(path) for path in self._found.values()))

    def find_spec(self, name: str, _: object = None) -> ModuleSpec | None:
        """As `importlib.abc.PathEntryFinder` has it."""
        path = self._found.get(name.rpartition(".")[2])
        if path is None:
            return None
        if not _is_directory(path):
            return spec_from_file_location(name, path)
        start = _start_of(path)
        if start is not None:
            return spec_from_file_location(name, start, submodule_search_locations=[path])
        spec = ModuleSpec(name, None)
        spec.submodule_search_locations = [path]
        return spec


def around(load_path: Sequence[str], own_path: Sequence[str], functions: Iterable[str]) -> dict[str, Siblings]:
    """The siblings by directory: each one of `sys.path` that is, or holds, one of `load_path`.

    `own_path` is the interpreter's own, of which none counts. `functions` are those of the tools.
    """
    own = {function.partition(":")[0].partition(".")[0] for function in functions}
    beneath = [os.path.realpath(path) for path in load_path]
    return {
        path: Siblings(path, own, beneath)
        for path in dict.fromkeys(sys.path)
        if path not in own_path and any(lies_in(one, os.path.realpath(path)) for one in beneath)
    }


def lies_in(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or beneath it; both are real paths."""
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")


def _is_directory(path: str) -> bool:
    return os.path.isdir(path)  # noqa: PTH112  # this may run in a call, where pathlib costs more


def _start_of(package: str) -> str | None:
    """The file that is run when the package is imported; None where it has none."""
    for suffix in _SUFFIXES:
        start = f"{package}/__init__{suffix}"
        if os.path.isfile(start):  # noqa: PTH113  # as above
            return start
    return None
