"""Nothing that a program can leave keeps a directory from being removed, and nothing beside it goes with it."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tests.children.trees import AS_ROOT, deep, flagged, mounted_on
from tooldispatchd.children import removal
from tooldispatchd.children.removal import remove_tree

# Any user but root; it need not exist.
SOMEBODY: Final = 4321


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    return tree


def test_what_is_not_there_is_removed(tmp_path: Path) -> None:
    assert remove_tree(str(tmp_path / "none"))
    assert remove_tree(str(tmp_path / "none" / "below"))


def test_a_file_and_a_link_are_removed_and_what_the_link_means_is_not(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    assert remove_tree(str(tmp_path / "file"))
    assert remove_tree(str(tmp_path / "link"))
    assert list(tmp_path.iterdir()) == [tmp_path / "kept"]


def test_every_kind_of_entry_is_removed_and_no_link_followed(tree: Path) -> None:
    outside = tree.parent / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    below = tree / "a" / "b"
    below.mkdir(parents=True)
    (below / "link").symlink_to(outside)
    (tree / "nowhere").symlink_to("none")
    (tree / "hard").hardlink_to(outside / "kept")
    (below / os.fsdecode(b"\xff\n")).touch()
    (tree / ("n" * 255)).touch()
    os.mkfifo(below / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tree / "socket"))
    assert remove_tree(str(tree))
    assert list(tree.parent.iterdir()) == [outside]
    assert list(outside.iterdir()) == [outside / "kept"]


def test_depth_costs_neither_recursion_nor_descriptors(tree: Path, nothing_left: None) -> None:
    deep(tree, 1_100)
    assert remove_tree(str(tree))
    assert not tree.exists()


def test_a_directory_with_a_name_that_is_already_taken_is_removed(tree: Path) -> None:
    for path in ("a/a/a", "a/b/a", "b/a/a", "b/b/.lock"):
        (tree / path).mkdir(parents=True)
    assert remove_tree(str(tree))


def test_what_takes_too_long_is_given_up_and_the_next_removes_the_rest(tree: Path) -> None:
    (tree / ".lock").touch()
    for number in range(600):
        (tree / str(number)).touch()
    assert not remove_tree(str(tree), until=time.monotonic())
    left = set(tree.iterdir())
    assert 0 < len(left) < 600
    assert tree / ".lock" in left
    assert remove_tree(str(tree))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_one_who_is_not_root_removes_what_he_has_shut_himself_out_of(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    os.chown(place, SOMEBODY, SOMEBODY)
    shut = "mkdir -p tree/a/b/c tree/d && touch tree/a/b/f tree/d/g && chmod 0 tree/a/b tree/a tree/d && chmod 0 tree"
    subprocess.run(["sh", "-c", shut], cwd=place, user=SOMEBODY, group=SOMEBODY, extra_groups=[], check=True)
    # Interpreter, module and place may lie where only root can go: who is there already becomes somebody.
    become = f"os.setgroups([]); os.setgid({SOMEBODY}); os.setuid({SOMEBODY})"
    code = f"import os; from tooldispatchd.children.removal import remove_tree; os.chdir({str(place)!r}); {become}; "
    code += "raise SystemExit(not remove_tree('tree'))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0
    assert list(place.iterdir()) == []


@AS_ROOT
def test_nothing_that_is_mounted_there_is_removed_and_it_is_unmounted(tree: Path) -> None:
    outside = tree.parent / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "file").touch()
    with mounted_on(outside, tree / "a" / "b"), mounted_on(outside, tree / "a"), mounted_on(outside, tree):
        assert remove_tree(str(tree))
        assert str(tree) not in Path("/proc/self/mountinfo").read_text()
    assert list(tree.parent.iterdir()) == [outside]
    assert list(outside.iterdir()) == [outside / "kept"]


@AS_ROOT
def test_a_file_that_something_is_mounted_on_is_removed(tree: Path) -> None:
    outside = tree.parent / "outside"
    outside.touch()
    (tree / "file").touch()
    with mounted_on(outside, tree / "file"):
        assert remove_tree(str(tree))
    assert list(tree.parent.iterdir()) == [outside]


@AS_ROOT
def test_what_was_made_unchangeable_is_removed(tree: Path) -> None:
    (tree / "a").mkdir()
    (tree / "a" / "file").touch()
    (tree / "log").touch()
    with flagged("+i", tree / "a" / "file"), flagged("+a", tree / "log"), flagged("+i", tree / "a"):
        assert remove_tree(str(tree))
    assert not tree.exists()


def test_as_a_program_it_tells_whether_nothing_is_left(tree: Path) -> None:
    (tree / "a").mkdir()
    words = [sys.executable, "-I", "-S", removal.__file__, str(tree), str(tree.parent / "none")]
    assert subprocess.run(words, check=False, timeout=30).returncode == 0
    assert not tree.exists()
    assert subprocess.run([*words, "/proc/self"], check=False, timeout=30).returncode == 1
