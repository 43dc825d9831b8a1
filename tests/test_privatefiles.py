"""Files that their owner alone may read."""

import os
import stat
from pathlib import Path

import pytest

from tooldispatchd.privatefiles import create_private, open_private, replace_private


def mode_of(path: Path) -> int:
    """Its permissions."""
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_made_only_where_nothing_was(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.close(create_private(tmp_path / "new"))
    assert mode_of(tmp_path / "new") == 0o600
    for name in ("new", "link"):
        with pytest.raises(FileExistsError):
            create_private(tmp_path / name)
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_that_others_could_read_is_its_owners_alone_once_opened(tmp_path: Path) -> None:
    path = tmp_path / "open"
    path.touch(0o644)
    os.close(open_private(path))
    assert mode_of(path) == 0o600


def test_a_link_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "real").touch(0o644)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(OSError, match="symbolic links"):
        open_private(tmp_path / "link")
    assert mode_of(tmp_path / "real") == 0o644


def test_a_file_is_replaced_whole_and_nothing_is_left_where_it_cannot_be(tmp_path: Path) -> None:
    replace_private(tmp_path / "kept", (b"one\n", b"two\n"))
    assert (tmp_path / "kept").read_bytes() == b"one\ntwo\n"
    (tmp_path / "directory").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_private(tmp_path / "directory", (b"one\n",))
    assert sorted(os.listdir(tmp_path)) == ["directory", "kept"]  # noqa: PTH208  # names are wanted
