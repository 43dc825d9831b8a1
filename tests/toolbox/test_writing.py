import os
from pathlib import Path

import pytest

from tests.forked.python.test_context import context
from tooldispatchd.forked.python.context import InvalidInputError, ToolContext, ToolFailedError
from tooldispatchd.toolbox.writing import write


def names(place: Path = Path()) -> list[str]:
    return sorted(path.name for path in place.iterdir())


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def free() -> ToolContext:
    return context(state={}, options={"guard": "off"})


def test_a_new_file_comes_with_its_directories() -> None:
    assert write(free(), "a/b/x", "é\n") == "Wrote 3 bytes to a/b/x, a new file; made 2 directories above it."
    assert Path("a/b/x").read_bytes() == "é\n".encode()


def test_a_file_is_replaced_once_it_was_written_by_the_same_session() -> None:
    ctx = context(state={})
    write(ctx, "x", "one")
    assert write(ctx, "x", "two") == "Wrote 3 bytes to x, in place of 3."


def test_a_file_that_was_not_read_is_not_replaced() -> None:
    Path("x").write_text("theirs")
    with pytest.raises(ToolFailedError, match=r"Read it first"):
        write(context(state={}), "x", "ours")
    assert Path("x").read_text() == "theirs"


def test_what_another_session_changed_is_not_replaced() -> None:
    first, second = context(state={}), context(state={}, options={"guard": "warn"})
    write(first, "x", "one")
    write(second, "x", "another")
    with pytest.raises(ToolFailedError, match=r"was modified since it was read"):
        write(first, "x", "two")


def test_a_link_is_written_through() -> None:
    Path("real").write_text("old")
    Path("link").symlink_to("real")
    write(free(), "link", "new")
    assert Path("link").is_symlink()
    assert Path("real").read_text() == "new"


def test_other_names_of_a_file_keep_the_old_content() -> None:
    Path("x").write_text("old")
    os.link("x", "y")
    assert write(free(), "x", "new").endswith("; its 1 other names (hard links) keep the old content.")
    assert Path("y").read_text() == "old"


def test_what_is_no_file_is_not_written_to() -> None:
    os.mkfifo("pipe")
    Path("directory").mkdir()
    with pytest.raises(ToolFailedError, match=r"^cannot write pipe: it is a FIFO$"):
        write(free(), "pipe", "")
    with pytest.raises(ToolFailedError, match=r"^cannot write directory: it is a directory$"):
        write(free(), "directory", "")
    with pytest.raises(ToolFailedError, match=r"^cannot write /dev/null: it is a device$"):
        write(free(), "/dev/null", "")


@pytest.mark.parametrize("path", ["x/y", "circle", "n" * 256, "x/y/z"])
def test_a_path_that_leads_nowhere_is_told_in_a_sentence(path: str) -> None:
    Path("x").write_text("")
    Path("circle").symlink_to("circle")
    with pytest.raises(ToolFailedError, match=r"^cannot write"):
        write(free(), path, "")
    assert names() == ["circle", "x"]


def test_half_a_character_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"character 2 is half"):
        write(free(), "x", "a\ud800")
