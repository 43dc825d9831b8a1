"""A daemon's private directories: whose they are, when they go, and that no living daemon's is ever taken."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.children.trees import deep
from tooldispatchd.daemon.equipment import open_private_directory

PREFIX: Final = "tooldispatchd-test-"

# It holds a directory until it is killed, and says which.
HOLDER: Final = """
import os, sys, time
from tooldispatchd.daemon.equipment import open_private_directory
with open_private_directory("tooldispatchd-test-", {"RUNTIME_DIRECTORY": sys.argv[1]}) as directory:
    print(directory, flush=True)
    time.sleep(1000)
"""


@contextmanager
def holder(parent: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    words = [sys.executable, "-c", HOLDER, str(parent)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        try:
            yield daemon, Path(daemon.stdout.readline().rstrip("\n"))
        finally:
            daemon.kill()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"RUNTIME_DIRECTORY": f"{tmp_path}:elsewhere"}


def test_it_is_the_daemon_s_alone_and_goes_with_all_that_is_in_it(
    tmp_path: Path, environ: dict[str, str], nothing_left: None
) -> None:
    with open_private_directory(PREFIX, environ) as directory:
        assert directory.parent == tmp_path
        assert directory.name.startswith(PREFIX)
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        (directory / "a").mkdir()
        (directory / "a" / "file").touch()
    assert list(tmp_path.iterdir()) == []


def test_others_may_pass_through_one_that_is_made_so(environ: dict[str, str]) -> None:
    with open_private_directory(PREFIX, environ, mode=0o711) as directory:
        assert stat.S_IMODE(directory.stat().st_mode) == 0o711


def test_its_path_has_no_symbolic_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with open_private_directory(PREFIX, {"RUNTIME_DIRECTORY": str(tmp_path / "link")}) as directory:
        assert directory.parent == tmp_path / "real"


def test_without_a_runtime_directory_it_is_where_temporary_files_are() -> None:
    with open_private_directory(PREFIX, {}) as directory:
        assert directory.parent == Path("/tmp").resolve() or "TMPDIR" in os.environ
    assert not directory.exists()


def test_one_that_is_gone_already_is_no_mistake(tmp_path: Path, environ: dict[str, str]) -> None:
    with open_private_directory(PREFIX, environ) as directory:
        (directory / ".lock").unlink()
        directory.rmdir()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_daemon_left_is_removed_and_what_a_living_one_has_is_not(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    with holder(tmp_path) as (daemon, left), holder(tmp_path) as (_, used):
        (left / "a" / "b").mkdir(parents=True)
        deep(left / "a" / "b", 50)
        daemon.kill()
        daemon.wait()
        assert left.exists()
        with open_private_directory(PREFIX, environ) as directory:
            assert sorted(tmp_path.iterdir()) == sorted([used, directory])


def test_another_s_and_what_only_looks_like_one_stay(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / f"{PREFIX}just-made").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / ".lock").touch()
    (tmp_path / f"{PREFIX}link").symlink_to("elsewhere")
    (tmp_path / f"{PREFIX}file").touch()
    (tmp_path / "tooldispatchd-other-1").mkdir()
    (tmp_path / "tooldispatchd-other-1" / ".lock").touch()
    before = sorted(tmp_path.rglob("*"))
    with open_private_directory(PREFIX, environ):
        pass
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has others' directories to see")
def test_another_user_s_stays(tmp_path: Path, environ: dict[str, str]) -> None:
    other = tmp_path / f"{PREFIX}other"
    other.mkdir()
    (other / ".lock").touch()
    os.chown(other, 4321, 4321)
    with open_private_directory(PREFIX, environ):
        assert other.exists()


def test_a_place_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError),
        open_private_directory(PREFIX, {"RUNTIME_DIRECTORY": str(tmp_path / "none")}),
    ):
        pass
