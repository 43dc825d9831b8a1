"""The files of followed modules, with their content: imported ones, and those that functions import when they run.

Functions of one module have one digest; a module that no source names belongs to every function. Stdlib only.
"""

import ast
import os
import sys
from collections.abc import Iterable, Iterator
from hashlib import sha256

from tooldispatchd.forked.python.followed import follow, is_followed

# Of one process: the daemon looks at the time of each, which takes some microseconds.
MAX_FILES = 1_000
# Of a library's; no source is longer.
MAX_FILE_BYTES = 64 << 20
# So much source is parsed in half a second.
MAX_PARSED_BYTES = 2 << 20

Stamp = tuple[int, int, int]


class CodeFiles:
    """The files of one process, as they were before they were read; made before its modules are imported."""

    def __init__(self) -> None:
        # When it last changed, its inode and its size; None for one that is not there, and would be imported.
        self.stamps: dict[str, Stamp | None] = {}
        self.is_cut = False
        self._digests: dict[str, bytes] = {}
        self._imports: dict[str, list[str]] = {}
        self._directories: list[str] = []
        self._parsed_bytes = 0
        follow(self.note)

    def note(self, path: str) -> None:
        """Note a file before it is imported; leave out one that cannot be read, which its import tells."""
        if path in self.stamps:
            return
        if len(self.stamps) >= MAX_FILES:
            self.is_cut = True
            return
        try:
            status = os.stat(path)  # noqa: PTH116  # of each module: pathlib costs more
            with open(path, "rb") as file:  # noqa: PTH123  # as above
                self._digests[path] = sha256(file.read(MAX_FILE_BYTES)).digest()
        except OSError:
            return
        self.stamps[path] = status.st_ctime_ns, status.st_ino, status.st_size

    def note_absent(self, module: str) -> None:
        """Note the paths at which a missing module may appear."""
        self._look_up_path()
        self.stamps |= dict.fromkeys(self._candidates(module))

    def digests(self, modules: Iterable[str]) -> dict[str, str]:
        """Digest each of these modules with all that it imports."""
        self._look_up_path()
        for module in list(sys.modules.values()):
            # What was loaded in another way, such as libraries.
            path = getattr(module, "__file__", None)
            if isinstance(path, str) and path not in self.stamps and is_followed(path):
                self.note(path)
        reached = {module: self._reached(module) for module in dict.fromkeys(modules)}
        others = self._digests.keys() - {path for paths in reached.values() for path in paths}
        return {module: self._digest(paths | others) for module, paths in reached.items()}

    def _look_up_path(self) -> None:
        """Imports may have changed it."""
        self._directories = [path for path in sys.path if os.path.isdir(path) and is_followed(path)]  # noqa: PTH112

    def _digest(self, paths: Iterable[str]) -> str:
        whole = sha256()
        for path in sorted(paths):
            whole.update(sha256(os.fsencode(path)).digest() + self._digests[path])
        return whole.hexdigest()

    def _reached(self, module: str) -> set[str]:
        """Find the files of a module, of the packages above it, and of all that these import."""
        found: set[str] = set()
        seen: set[str] = set()
        waiting = [module]
        while waiting:
            name = waiting.pop()
            if not name or name in seen:
                continue
            seen.add(name)
            waiting.append(name.rpartition(".")[0])
            path = self._file_of(name)
            if path is not None:
                found.add(path)
                waiting += self._imports_of(name, path)
        return found

    def _file_of(self, name: str) -> str | None:
        """Find the file of a module, imported or not, and note it."""
        if name in sys.modules:
            path = getattr(sys.modules[name], "__file__", None)
        else:
            path = next((path for path in self._candidates(name) if os.path.isfile(path)), None)  # noqa: PTH113
            if path is not None:
                self.note(path)
        return path if path in self._digests else None

    def _candidates(self, name: str) -> Iterator[str]:
        for directory in self._directories:
            stem = f"{directory}/{name.replace('.', '/')}"
            yield from (f"{stem}.py", f"{stem}/__init__.py")

    def _imports_of(self, name: str, path: str) -> list[str]:
        """Name the modules that a file imports, and what it takes of them, which may be modules too."""
        if path not in self._imports:
            is_package = path.endswith("/__init__.py")
            self._imports[path] = list(_imported(self._parsed(path), name if is_package else name.rpartition(".")[0]))
        return self._imports[path]

    def _parsed(self, path: str) -> ast.AST:
        try:
            self._parsed_bytes += os.stat(path).st_size  # noqa: PTH116  # as above
            if path.endswith(".py") and self._parsed_bytes <= MAX_PARSED_BYTES:
                with open(path, "rb") as file:  # noqa: PTH123  # as above
                    return ast.parse(file.read())
        # One that cannot be parsed is imported when its function runs, which is told so then.
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            pass
        return ast.Module([], [])


def _imported(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")
            above = above[: len(above) - node.level + 1] if node.level else []
            base = ".".join(filter(None, (*above, node.module)))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
