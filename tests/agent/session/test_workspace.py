"""The links of a workspace: followed as the kernel does, which takes a bounded number of them."""

import errno
import os
from pathlib import Path

import pytest

from tooldispatchd.agent.session.workspace import resolve
from tooldispatchd.catalog.workspaces import Workspace

# path_resolution(7).
KERNEL_LINKS = 40


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path.resolve()
    (home / "a/b").mkdir(parents=True)
    (home / "file").touch()
    return home


def chain(home: Path, links: int, steps: str = "") -> str:
    """The first of so many links, each of which leads to the next; the last to a directory."""
    (home / "0").symlink_to(home / "a")
    for number in range(1, links):
        (home / str(number)).symlink_to(f"{steps}{number - 1}")
    return f"{home}/{links - 1}"


@pytest.mark.parametrize("asked", ["", "/", "a", "a//b/./..", "up/b", "a/../../{name}/a/b/", "round/a/b/c", "self/a/b"])
def test_a_path_leads_where_the_kernel_leads(home: Path, asked: str) -> None:
    (home / "up").symlink_to("a")
    (home / "a/b/c").symlink_to("../../a/b/..")
    (home / "round").symlink_to(home / "a/../a/..")
    (home / "self").symlink_to(f"/proc/self/root{home}")
    real = Path(f"{home}/{asked.format(name=home.name)}").resolve(strict=True)
    assert resolve(f"{home}/{asked.format(name=home.name)}") == Workspace(
        str(real), (real.stat().st_dev, real.stat().st_ino)
    )


@pytest.mark.parametrize(
    ("asked", "number"),
    [("none", errno.ENOENT), ("file", errno.ENOTDIR), ("file/..", errno.ENOTDIR), ("loop", errno.ELOOP)],
)
def test_what_is_no_directory_is_an_error(home: Path, asked: str, number: int) -> None:
    (home / "loop").symlink_to("loop")
    with pytest.raises(OSError, match=os.strerror(number)):
        resolve(f"{home}/{asked}")


def test_as_many_links_are_followed_as_the_kernel_follows(home: Path) -> None:
    assert resolve(chain(home, KERNEL_LINKS)).path == f"{home}/a"
    (home / "more").symlink_to(str(KERNEL_LINKS - 1))
    with pytest.raises(OSError, match="symbolic links"):
        resolve(f"{home}/more")


def test_a_directory_without_a_path_of_text_is_an_error(home: Path) -> None:
    os.mkdir(os.fsencode(home) + b"/\xff")  # noqa: PTH102  # Path takes no bytes
    (home / "plain").symlink_to(os.fsdecode(b"\xff"))
    with pytest.raises(OSError, match="not UTF-8"):
        resolve(f"{home}/plain")


def test_a_directory_that_was_removed_is_an_error(home: Path) -> None:
    fd = os.open(home / "a/b", os.O_PATH)
    (home / "a/b").rmdir()
    try:
        with pytest.raises(OSError, match=os.strerror(errno.ENOENT)):
            resolve(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
