"""The files in which agents that `agent_command` runs are told what they are; they are there as long as the daemon."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.daemon.private_directories import open_private_directory

_PREFIX: Final = "tooldispatchd-agents-"


class AgentSpecsError(Exception):
    """The files cannot be written; the message says where and why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write what agents are told to {error.filename}: {error.strerror}")


@contextmanager
def open_agent_specs(catalog: Catalog, environ: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The path of each spec by its process's name, in a directory that nobody else may read.

    No directory is made where there is no spec. Raises `AgentSpecsError`.
    """
    specs = catalog.agent_specs
    if not specs:
        yield {}
        return
    with ExitStack() as stack:
        try:
            directory = stack.enter_context(open_private_directory(_PREFIX, environ))
            paths = {name: str(_write(directory / f"{name}.json", spec)) for name, spec in specs.items()}
        except OSError as error:
            raise AgentSpecsError(error) from error
        yield paths


def _write(path: Path, spec: bytes) -> Path:
    # Who runs as the daemon's user may read it, as its agents do; nobody can change it by accident.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
    with os.fdopen(descriptor, "wb") as file:
        file.write(spec)
    return path
