"""The links of a workspace: followed as the kernel does, in a bounded number of steps."""

import errno
import os
from pathlib import Path

import pytest

from tooldispatchd.agent.session.workspace import MAX_LINKS, MAX_SEGMENTS, resolve


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
    path = f"{home}/{asked.format(name=home.name)}"
    assert resolve(path) == os.path.realpath(path, strict=True)


@pytest.mark.parametrize(
    ("asked", "number"),
    [("none", errno.ENOENT), ("file", errno.EINVAL), ("file/..", errno.EINVAL), ("loop", errno.ELOOP)],
)
def test_what_is_no_directory_is_an_error(home: Path, asked: str, number: int) -> None:
    (home / "loop").symlink_to("loop")
    with pytest.raises(OSError, match=os.strerror(number)):
        resolve(f"{home}/{asked}")


def test_as_many_links_are_followed_as_the_kernel_follows(home: Path) -> None:
    assert resolve(chain(home, MAX_LINKS)) == f"{home}/a"
    (home / "more").symlink_to(str(MAX_LINKS - 1))
    with pytest.raises(OSError, match="symbolic links"):
        resolve(f"{home}/more")


@pytest.mark.parametrize("path", ["/.." * (MAX_SEGMENTS + 1), "/" * 4000, "/." * 2000])
def test_a_path_of_too_many_segments_is_not_walked(path: str) -> None:
    with pytest.raises(OSError, match="symbolic links"):
        resolve(path)


def test_links_of_many_steps_each_are_not_walked(home: Path) -> None:
    with pytest.raises(OSError, match="symbolic links"):
        resolve(chain(home, 3, "a/../" * 100))
