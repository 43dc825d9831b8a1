"""The files in which agents that `agent_command` runs are told what they are; they are there as long as the daemon."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, TextIO

from tooldispatchd.catalog.catalog import Catalog

_PREFIX: Final = "tooldispatchd-agents-"
_LOCK: Final = ".lock"


class AgentSpecsError(Exception):
    """The files cannot be written; the message says where and why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write what agents are told to {error.filename}: {error.strerror}")


@contextmanager
def open_agent_specs(catalog: Catalog, environ: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The path of each spec by its process's name, in a directory that nobody else may read.

    It is made in `$RUNTIME_DIRECTORY`, else where temporary files are; no directory is made where there is no spec.
    Raises `AgentSpecsError`.
    """
    specs = catalog.agent_specs
    if not specs:
        yield {}
        return
    parent = environ.get("RUNTIME_DIRECTORY", "").partition(":")[0] or None
    with ExitStack() as stack:
        try:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent))
            stack.enter_context(_lock(Path(directory)))
            _sweep(Path(directory).parent)
            paths = {name: str(_write(Path(directory) / f"{name}.json", spec)) for name, spec in specs.items()}
        except OSError as error:
            raise AgentSpecsError(error) from error
        yield paths


def _lock(directory: Path) -> TextIO:
    """The lock of a directory, held as long as the file is open: the kernel lets it go however the daemon ends."""
    file = (directory / _LOCK).open("w", encoding="ascii")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def _sweep(parent: Path) -> None:
    """Remove what daemons of this user have left that were killed."""
    for left in parent.glob(f"{_PREFIX}*"):
        # Another user's, one in use, and one that is just being made or removed, are nobody else's business.
        with suppress(OSError):
            if left.lstat().st_uid == os.geteuid() and not left.is_symlink():
                with (left / _LOCK).open("r", encoding="ascii") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(left)


def _write(path: Path, spec: bytes) -> Path:
    # Who runs as the daemon's user may read it, as its agents do; nobody can change it by accident.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
    with os.fdopen(descriptor, "wb") as file:
        file.write(spec)
    return path
