import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked.python.test_context import context
from tooldispatchd.forked.python.context import ToolContext, ToolFailedError
from tooldispatchd.toolbox import copying
from tooldispatchd.toolbox.guard import note_read
from tooldispatchd.toolbox.moving import copy, delete, move
from tooldispatchd.toolbox.writing import write

MEMORY = Path("/dev/shm")


def names(place: Path = Path()) -> list[str]:
    return sorted(path.name for path in place.iterdir())


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tree/inner").mkdir(parents=True)
    Path("tree/inner/x").write_text("in it")
    Path("tree/link").symlink_to("/etc/passwd")
    Path("x").write_text("old")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    if not MEMORY.is_dir() or MEMORY.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("this machine has no second file system to write to")
    path = Path(tempfile.mkdtemp(dir=MEMORY))
    yield path
    shutil.rmtree(path)


def free() -> ToolContext:
    return context(state={})


def test_a_file_and_a_link_are_deleted_and_not_what_the_link_leads_to() -> None:
    Path("link").symlink_to("x")
    assert delete(free(), "link") == "Deleted link, a link."
    assert delete(free(), "x") == "Deleted x, a file."
    assert names() == ["tree"]


def test_a_directory_with_something_in_it_is_deleted_if_that_is_said() -> None:
    with pytest.raises(ToolFailedError, match=r"^cannot delete tree: it is not empty; recursive"):
        delete(free(), "tree")
    assert delete(free(), "tree", recursive=True) == "Deleted tree, a directory."
    assert names() == ["x"]
    assert Path("/etc/passwd").exists()


def test_what_is_missing_is_told_with_near_names() -> None:
    why = r"it does not exist; near names in its directory: tree"
    with pytest.raises(ToolFailedError, match=why):
        delete(free(), "tre")
    with pytest.raises(ToolFailedError, match=why):
        move(free(), "tre", "y")
    with pytest.raises(ToolFailedError, match=why):
        copy(free(), "tre", "y")


@pytest.mark.parametrize("path", [".", "..", "tree/..", "tree/inner/../..", "/"])
def test_the_workspace_is_neither_deleted_nor_moved(path: str) -> None:
    with pytest.raises(ToolFailedError, match=r"the workspace$"):
        delete(free(), path, recursive=True)
    with pytest.raises(ToolFailedError, match=r"(the workspace|lies in it)$"):
        move(free(), path, "/tmp/elsewhere")
    assert Path("x").exists()


def test_a_file_that_was_modified_since_it_was_read_is_not_deleted() -> None:
    ctx = free()
    note_read(ctx, Path("x"))
    Path("x").write_text("changed")
    with pytest.raises(ToolFailedError, match=r"modified since"):
        delete(ctx, "x")
    with pytest.raises(ToolFailedError, match=r"modified since"):
        move(ctx, "x", "y")


def test_a_move_takes_the_directories_that_it_needs() -> None:
    assert move(free(), "tree", "a/b") == "Moved tree to a/b; made the directory a."
    assert Path("a/b/inner/x").read_text() == "in it"
    assert not Path("tree").exists()


@pytest.mark.parametrize("call", [move, copy])
def test_what_is_in_the_way_is_told(call: object) -> None:
    tool = move if call is move else copy
    Path("y").write_text("theirs")
    for target, overwrite, why in (
        ("y", False, "it exists already; overwrite = true replaces it"),
        ("y", True, "Read it first"),
        ("tree", True, "it is a directory; give the whole new path"),
        ("x", True, "is the same file"),
        ("y/z", False, "is not a directory"),
    ):
        with pytest.raises(ToolFailedError, match=why):
            tool(free(), "x", target, overwrite=overwrite)
    with pytest.raises(ToolFailedError, match=r"tree/inner/new lies in it"):
        tool(free(), "tree", "tree/inner/new")
    assert (Path("x").read_text(), Path("y").read_text()) == ("old", "theirs")


@pytest.mark.parametrize("call", [move, copy])
def test_a_file_that_was_read_may_be_replaced_and_is_known_under_its_new_name(call: object) -> None:
    tool, ctx = move if call is move else copy, free()
    Path("y").write_text("theirs")
    note_read(ctx, Path("x"))
    note_read(ctx, Path("y"))
    tool(ctx, "x", "y", overwrite=True)
    assert Path("y").read_text() == "old"
    assert write(ctx, "y", "new").startswith("Wrote")


def test_a_copy_that_was_never_read_is_not_known() -> None:
    ctx = free()
    copy(ctx, "x", "y")
    with pytest.raises(ToolFailedError, match=r"Read it first"):
        write(ctx, "y", "new")


def test_a_copy_of_a_directory_has_its_links_as_links() -> None:
    Path("tree/inner/x").chmod(0o741)
    assert copy(free(), "tree", "other") == "Copied tree to other: 1 file (5 bytes), 2 directories, 1 link."
    assert Path("other/link").readlink() == Path("/etc/passwd")
    copied, source = Path("other/inner/x").stat(), Path("tree/inner/x").stat()
    assert (copied.st_mode, copied.st_mtime_ns) == (source.st_mode, source.st_mtime_ns)
    assert names() == ["other", "tree", "x"]


def test_a_copy_that_cannot_be_whole_leaves_nothing() -> None:
    os.mkfifo("tree/inner/pipe")
    with pytest.raises(ToolFailedError, match=r"^cannot copy tree: .*/tree/inner/pipe is a FIFO$"):
        copy(free(), "tree", "other")
    assert names() == ["tree", "x"]


def test_a_file_that_is_larger_than_a_copy_may_be_is_refused() -> None:
    os.truncate("tree/inner/x", copying.MAX_BYTES + 1)
    with pytest.raises(ToolFailedError, match=r"^cannot copy tree: it has more than"):
        copy(free(), "tree", "other")
    assert names() == ["tree", "x"]


def test_a_move_to_another_file_system_is_refused_and_a_copy_is_made(elsewhere: Path) -> None:
    with pytest.raises(ToolFailedError, match=r"it is on another file system; copy it, then delete it$"):
        move(free(), "tree", f"{elsewhere}/tree")
    assert copy(free(), "tree", f"{elsewhere}/tree").endswith(": 1 file (5 bytes), 2 directories, 1 link.")
    assert ((elsewhere / "tree/inner/x").read_text(), names()) == ("in it", ["tree", "x"])
