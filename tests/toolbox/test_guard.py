import os
from pathlib import Path

import msgspec
import pytest

from tests.forked.python.test_context import context
from tooldispatchd.forked.python.context import ToolContext, ToolFailedError
from tooldispatchd.toolbox.guard import check_unchanged, check_unmodified, note_read


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("x.txt").write_text("one\n")
    return Path("x.txt")


def guarded(guard: str = "block") -> ToolContext:
    return context(state={}, options={"guard": guard})


def test_a_file_that_was_not_read_is_not_overwritten(file: Path) -> None:
    with pytest.raises(ToolFailedError, match=r"^x\.txt was not read in this session\. Read it first\.$"):
        check_unchanged(guarded(), file)


def test_a_file_as_it_was_read_may_be_overwritten(file: Path) -> None:
    ctx = guarded()
    note_read(ctx, file)
    assert check_unchanged(ctx, file) is None


def test_a_file_that_somebody_else_changed_is_to_be_read_again(file: Path) -> None:
    ctx = guarded()
    note_read(ctx, file)
    file.write_text("another length\n")
    with pytest.raises(ToolFailedError, match=r"^x\.txt was modified since it was read\. Read it again\.$"):
        check_unchanged(ctx, file)


def test_a_file_that_was_replaced_by_one_of_the_same_time_and_size_was_modified(file: Path, tmp_path: Path) -> None:
    ctx = guarded()
    note_read(ctx, file)
    before, other = file.stat(), tmp_path / "other"
    other.write_text("two\n")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(file)
    with pytest.raises(ToolFailedError, match="modified"):
        check_unchanged(ctx, file)


def test_what_is_written_while_a_file_is_read_counts_as_modified(file: Path) -> None:
    ctx, before = guarded(), file.stat()
    file.write_text("another length\n")
    note_read(ctx, file, before)
    with pytest.raises(ToolFailedError, match="modified"):
        check_unchanged(ctx, file)


def test_a_new_file_may_be_written(file: Path) -> None:
    assert check_unchanged(guarded(), Path("new.txt")) is None


def test_a_file_is_the_same_by_every_path(file: Path, tmp_path: Path) -> None:
    ctx = guarded()
    Path("link").symlink_to("x.txt")
    note_read(ctx, Path("./link"))
    assert check_unchanged(ctx, tmp_path / "x.txt") is None


def test_a_file_that_is_gone_is_forgotten(file: Path) -> None:
    ctx = guarded()
    note_read(ctx, file)
    file.unlink()
    note_read(ctx, file)
    file.write_text("one\n")
    with pytest.raises(ToolFailedError, match="not read"):
        check_unchanged(ctx, file)


def test_a_file_that_was_never_read_may_be_deleted(file: Path) -> None:
    assert check_unmodified(guarded(), file) is None


def test_a_file_that_was_modified_since_it_was_read_is_not_deleted(file: Path) -> None:
    ctx = guarded()
    note_read(ctx, file)
    file.write_text("another length\n")
    with pytest.raises(ToolFailedError, match="modified"):
        check_unmodified(ctx, file)


def test_the_guard_can_warn(file: Path) -> None:
    assert check_unchanged(guarded("warn"), file) == "x.txt was not read in this session. Read it first."


def test_without_a_guard_nothing_is_kept_and_nothing_said(file: Path) -> None:
    ctx = context(options={"guard": "off"})
    note_read(ctx, file)
    assert check_unchanged(ctx, file) is None


def test_the_files_read_longest_ago_are_dropped_and_the_state_stays_small(file: Path) -> None:
    ctx, status = guarded(), os.stat_result([0o100644, 2**64 - 1, 0, 1, 0, 0, 2**63 - 1, 0, 0, 0])
    note_read(ctx, file)
    for number in range(500):
        note_read(ctx, Path(f"{number:0>200}"), status)
    assert len(msgspec.json.encode(ctx.state)) < 64 * 1024
    with pytest.raises(ToolFailedError, match="not read"):
        check_unchanged(ctx, file)


def test_reading_a_file_again_keeps_it_longer(file: Path) -> None:
    ctx, status = guarded(), os.stat_result([0o100644, 2, 0, 1, 0, 0, 3, 0, 0, 0])
    note_read(ctx, file)
    for number in range(499):
        note_read(ctx, Path(f"{number}"), status)
    note_read(ctx, file)
    note_read(ctx, Path("one more"), status)
    assert check_unchanged(ctx, file) is None


def test_a_name_that_is_no_text_is_kept_too(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.txt")
    path.write_text("x")
    ctx = guarded()
    note_read(ctx, path)
    assert check_unchanged(ctx, path) is None
    assert msgspec.json.encode(ctx.state)
