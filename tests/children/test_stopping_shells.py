"""A program behind a shell is ended by its input and its group, whichever shell that is."""

import shutil
from pathlib import Path
from typing import Final

import pytest
from trio.lowlevel import wait_readable

from tests.children.tended import tended_family

SHELLS: Final = [shell for shell in ("dash", "bash") if shutil.which(shell)]
# The last command keeps a shell from becoming the program.
READS: Final = "sh -c 'cat; echo input > told'; true"
HEEDS: Final = "sh -c 'trap \"sleep 0.3; echo term > told; exit\" TERM; echo up; while :; do sleep 0.01; done'; true"


@pytest.mark.parametrize("shell", SHELLS)
async def test_it_ends_with_its_input(shell: str, tmp_path: Path, nothing_left: None) -> None:
    async with tended_family() as family:
        child = family.spawn([shell, "-c", READS], cwd=str(tmp_path))
        await child.stop(polite_s=10, term_s=0)
    assert (tmp_path / "told").read_text() == "input\n"


@pytest.mark.parametrize("shell", SHELLS)
async def test_it_ends_by_term_also_where_its_shell_is_gone_before(
    shell: str, tmp_path: Path, nothing_left: None
) -> None:
    async with tended_family() as family:
        child = family.spawn([shell, "-c", HEEDS], cwd=str(tmp_path))
        await wait_readable(child.stdout)
        await child.stop(polite_s=0, term_s=10)
    assert (tmp_path / "told").read_text() == "term\n"
