"""What hostile programs leave in a directory."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest


def _can_mount_and_flag() -> bool:
    # CAP_SYS_ADMIN and CAP_LINUX_IMMUTABLE, which root of a container may lack.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    capabilities = int(status.partition("CapEff:\t")[2].partition("\n")[0], 16)
    return bool(capabilities >> 21 & 1) and bool(capabilities >> 9 & 1) and shutil.which("chattr") is not None


AS_ROOT: Final = pytest.mark.skipif(not _can_mount_and_flag(), reason="only root mounts and makes files immutable")


def deep(directory: Path, levels: int) -> None:
    """Directories in one another, deeper than any path can name, with a file in the last."""
    name = "deep"
    at = os.open(directory, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)


def mount(*words: str) -> None:
    """Run mount(8)."""
    subprocess.run(["mount", *words], check=True)


@contextmanager
def mounted_on(what: Path, where: Path) -> Iterator[None]:
    """A bind mount, undone at the end where nobody has done so."""
    mount("--bind", str(what), str(where))
    try:
        yield
    finally:
        subprocess.run(["umount", "--quiet", "--lazy", where], check=False, stderr=subprocess.DEVNULL)


@contextmanager
def flagged(flag: str, path: Path) -> Iterator[None]:
    """A file or directory with an attribute of chattr(1), which is taken off at the end where it is still there."""
    if subprocess.run(["chattr", flag, path], check=False).returncode != 0:
        pytest.skip("this file system has no such attributes")
    try:
        yield
    finally:
        subprocess.run(["chattr", flag.replace("+", "-"), path], check=False, stderr=subprocess.DEVNULL)
