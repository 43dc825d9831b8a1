import fcntl
import os
import stat
from pathlib import Path

import pytest

from tooldispatchd.toolbox import atomic


def names(place: Path = Path()) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def put(path: Path, content: bytes, *, mode: int | None = None, overwrite: bool = True) -> None:
    with (
        atomic.locked(path.parent) as directory,
        atomic.new_file(directory, path.name, mode=mode, overwrite=overwrite) as descriptor,
    ):
        atomic.write_all(descriptor, content)


def test_a_new_file_has_the_usual_mode(tmp_path: Path, nothing_left: None) -> None:
    before = os.umask(0o027)
    put(tmp_path / "x", b"new")
    os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640
    assert (tmp_path / "x").read_bytes() == b"new"


def test_a_file_in_place_of_another_keeps_its_mode_and_owner(tmp_path: Path, nothing_left: None) -> None:
    (tmp_path / "x").write_bytes(b"old")
    (tmp_path / "x").chmod(0o4751)
    os.chown(tmp_path / "x", os.getuid(), 12 if os.getuid() == 0 else -1)
    owner = (tmp_path / "x").stat().st_gid
    put(tmp_path / "x", b"new")
    after = (tmp_path / "x").stat()
    assert (stat.S_IMODE(after.st_mode), after.st_gid) == (0o751, owner)
    assert names(tmp_path) == ["x"]


def test_what_is_there_is_not_replaced_unless_that_is_wanted(tmp_path: Path) -> None:
    put(tmp_path / "x", b"old")
    with pytest.raises(FileExistsError):
        put(tmp_path / "x", b"new", overwrite=False)
    assert (tmp_path / "x").read_bytes() == b"old"


def test_a_block_that_raises_leaves_the_old_file_alone(tmp_path: Path, nothing_left: None) -> None:
    put(tmp_path / "x", b"old")
    with pytest.raises(TypeError):
        put(tmp_path / "x", "no bytes")  # type: ignore[arg-type]  # that is how it is made to raise
    assert (tmp_path / "x").read_bytes() == b"old"
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("is_directory", [False, True])
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path, is_directory: bool) -> None:
    left = tmp_path / atomic.TEMPORARY
    if is_directory:
        (left / "a/b").mkdir(parents=True)
    else:
        left.write_bytes(b"half")
    put(tmp_path / "x", b"new")
    assert names(tmp_path) == ["x"]


def test_one_process_at_a_time_writes_in_a_directory(tmp_path: Path) -> None:
    # Another open file of the same process is locked out as another process is.
    with atomic.locked(tmp_path):
        directory = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(directory)


def test_a_rename_takes_nothing_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    with atomic.locked(tmp_path) as directory, pytest.raises(FileExistsError):
        atomic.rename(directory, "a", "b", overwrite=False)
    assert (tmp_path / "b").read_text() == "b"
