"""The programs of systemd that the tests use, installed where the machine has none of them."""

import shutil
import subprocess
from typing import Final

import pytest

PROGRAMS: Final = ("systemd-analyze", "systemd-socket-activate", "systemd-sysusers")
INSTALL: Final = (("apt-get", "update"), ("apt-get", "install", "--yes", "--no-install-recommends", "systemd"))


def install_systemd_tools() -> None:
    """Make sure that the programs are there; fails the test, with a reason, where they cannot be installed."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if not missing:
        return
    for words in INSTALL:
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            pytest.fail(f"cannot install {', '.join(missing)} (package systemd): {error}")
        if done.returncode != 0:
            pytest.fail(f"cannot install {', '.join(missing)} (package systemd): {done.stderr.strip()[-500:]}")
