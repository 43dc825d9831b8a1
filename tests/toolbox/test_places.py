import errno
import os
import socket
import stat
from pathlib import Path

import msgspec
import pytest

from tooldispatchd.toolbox.places import PathText, cannot, kind_of, near_names


@pytest.fixture(autouse=True)
def _in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(path: str, number: int, verb: str = "read") -> str:
    return str(cannot(verb, path, OSError(number, os.strerror(number))))


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOENT, "cannot read x: it does not exist"),
        (errno.EISDIR, "cannot read x: it is a directory; list shows what is in it"),
        (errno.ELOOP, "cannot read x: its links lead in a circle"),
        (errno.ENAMETOOLONG, "cannot read x: its name is too long"),
        (errno.EACCES, "cannot read x: it lies outside of what this tool may use"),
        (errno.EPERM, "cannot read x: it lies outside of what this tool may use"),
        (errno.EAGAIN, "cannot read x: nothing can be read from it now"),
        (errno.EIO, "cannot read x: input/output error"),
    ],
)
def test_an_error_of_the_kernel_is_one_sentence(number: int, sentence: str) -> None:
    assert said("x", number) == sentence


def test_an_error_without_a_number_is_told_in_its_own_words() -> None:
    assert str(cannot("write", "x", OSError("Something else"))) == "cannot write x: something else"


def test_a_missing_file_is_told_with_names_that_resemble_it() -> None:
    Path("README.md").touch()
    Path("unlike").touch()
    assert said("readme.txt", errno.ENOENT).endswith("it does not exist; near names in its directory: README.md")


def test_a_missing_directory_is_named_itself() -> None:
    Path("a").mkdir()
    assert said("a/b/c/d", errno.ENOENT) == "cannot read a/b/c/d: there is no directory a/b"


def test_a_file_that_is_used_as_a_directory_is_named_itself() -> None:
    Path("a").touch()
    assert said("a/b/c", errno.ENOTDIR) == "cannot read a/b/c: a is not a directory"


def test_a_link_to_nothing_is_told_with_where_it_leads() -> None:
    Path("x").symlink_to("/nowhere")
    assert said("x", errno.ENOENT) == "cannot read x: it is a link to /nowhere, which does not exist"


def test_a_socket_is_told_as_one() -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("x")
        assert said("x", errno.ENXIO) == "cannot read x: it is a socket"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything that modes forbid")
@pytest.mark.parametrize("verb", ["read", "write"])
def test_a_mode_that_forbids_it_is_told_as_one(verb: str) -> None:
    Path("x").touch(0o000)
    assert said("x", errno.EACCES, verb) == f"cannot {verb} x: its owner and mode do not let this user"


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        (stat.S_IFREG | 0o644, "a file"),
        (stat.S_IFDIR | 0o755, "a directory"),
        (stat.S_IFIFO, "a FIFO"),
        (stat.S_IFSOCK, "a socket"),
        (stat.S_IFCHR, "a device"),
        (stat.S_IFBLK, "a device"),
        (stat.S_IFLNK, "a link"),
        (0, "neither a file nor a directory"),
    ],
)
def test_what_a_file_is_has_one_word(mode: int, kind: str) -> None:
    assert kind_of(mode) == kind


def test_at_most_three_near_names_are_told() -> None:
    for number in range(9):
        Path(f"report{number}.txt").touch()
    assert len(near_names(Path("report.txt"))) == 3


def test_a_name_that_would_break_the_line_is_not_told() -> None:
    Path("report\n.txt").touch()
    assert near_names(Path("report.txt")) == []


def test_a_directory_that_is_not_there_has_no_near_names() -> None:
    assert near_names(Path("nowhere/x")) == []


@pytest.mark.parametrize("text", ["", "a\0b", "x" * 4096])
def test_what_no_path_can_be_is_refused_before_the_call(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(text, PathText)


@pytest.mark.parametrize("text", ["x", "a b", "/", "ä\n"])
def test_what_a_path_can_be_is_taken(text: str) -> None:
    assert msgspec.convert(text, PathText) == text
