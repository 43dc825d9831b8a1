"""Cgroups of calls: on the real file system where the tests may make some, on files that look alike where not."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing

from tests.processes import PATIENCE_S, until_gone
from tooldispatchd.children import leaves as leaves_module
from tooldispatchd.children.leaves import PREFIX, TRIED_AGAIN, Leaves, LeavesError, bound_memory, delegated, open_leaves
from tooldispatchd.children.sweep import kill_listed, processes_of, remove_cgroup


def found() -> Path | None:
    try:
        return delegated()
    except LeavesError:
        return None


OWN: Final = found()
REAL_WITHOUT_CONTROLLERS: Final = OWN is not None and not leaves_module.CONTROLLERS & set(
    (OWN / "cgroup.controllers").read_text().split()
)
REAL: Final = pytest.mark.skipif(OWN is None, reason="no cgroup of version 2 is the tests' to divide")


@pytest.fixture
def own() -> Iterator[Path]:
    """A cgroup of the test's own, without processes."""
    assert OWN is not None
    own = OWN / f"tests-{os.getpid()}"
    own.mkdir()
    yield own
    assert list(own.glob(f"{PREFIX}*")) == []
    own.rmdir()


@pytest.fixture
async def leaves(own: Path, nothing_left: None) -> AsyncIterator[Leaves]:
    async with open_leaves(own) as leaves:
        yield leaves


def enter(path: str, program: str) -> subprocess.Popen[bytes]:
    """A shell that runs `program` in a cgroup, and is there when this returns."""
    words = ["sh", "-c", f"echo 0 > {path}/cgroup.procs; echo; {program}"]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, process_group=0)
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    return child


def reap(child: subprocess.Popen[bytes]) -> int:
    return child.wait(PATIENCE_S)


async def until_in(path: str, count: int) -> list[int]:
    with trio.fail_after(PATIENCE_S):
        while len(found := processes_of(path)) < count:  # noqa: ASYNC110  # no event tells it
            await trio.sleep(0.005)
    return found


@REAL
async def test_an_empty_leaf_is_removed_at_once(leaves: Leaves) -> None:
    leaf = leaves.make()
    assert processes_of(leaf.path) == []
    with trio.testing.assert_no_checkpoints():
        await leaf.remove()
    assert not Path(leaf.path).exists()


@REAL
async def test_a_leaf_is_killed_with_those_who_left_their_group_and_their_environment(leaves: Leaves) -> None:
    leaf, other = leaves.make(), leaves.make()
    child = enter(leaf.path, "(setsid env -i sleep 1000 &); sleep 1000 & exec sleep 1000")
    bystander = enter(other.path, "exec sleep 1000")
    inside = await until_in(leaf.path, 3)
    leaf.kill()
    await until_gone(*inside[1:])
    assert reap(child) == -signal.SIGKILL
    await leaf.remove()
    assert not Path(leaf.path).exists()
    assert bystander.poll() is None
    await other.remove()
    assert reap(bystander) == -signal.SIGKILL


@REAL
async def test_removing_a_leaf_ends_what_is_left_in_it_however_it_forks(leaves: Leaves) -> None:
    leaf = leaves.make()
    child = enter(leaf.path, "while :; do (setsid sleep 1000 &); done")
    inside = await until_in(leaf.path, 10)
    with trio.fail_after(PATIENCE_S):
        await leaf.remove()
    assert not Path(leaf.path).exists()
    assert reap(child) == -signal.SIGKILL
    await until_gone(*inside)


@REAL
async def test_one_that_was_frozen_by_its_program_is_ended(leaves: Leaves) -> None:
    leaf = leaves.make()
    child = enter(leaf.path, f"echo 1 > {leaf.path}/cgroup.freeze; sleep 1000")
    with trio.fail_after(PATIENCE_S):
        await leaf.remove()
    assert not Path(leaf.path).exists()
    assert reap(child) == -signal.SIGKILL


@REAL
async def test_a_program_cannot_divide_its_leaf_and_where_it_does_all_the_same_nothing_is_left(leaves: Leaves) -> None:
    leaf = leaves.make()
    with pytest.raises(BlockingIOError):
        Path(leaf.path, "below").mkdir()
    Path(leaf.path, "cgroup.max.descendants").write_text("max")
    below = Path(leaf.path, "a", "b")
    below.mkdir(parents=True)
    child = enter(str(below), "exec sleep 1000")
    assert not leaves.remove_now(leaf.path)
    await leaf.remove()
    assert not Path(leaf.path).exists()
    assert reap(child) == -signal.SIGKILL


@REAL
async def test_what_is_frozen_and_listed_is_killed_where_the_kernel_kills_no_cgroup_as_a_whole(leaves: Leaves) -> None:
    leaf = leaves.make()
    child = enter(leaf.path, "sleep 1000 & exec sleep 1000")
    inside = await until_in(leaf.path, 2)
    Path(leaf.path, "cgroup.freeze").write_text("1")
    kill_listed(leaf.path)
    Path(leaf.path, "cgroup.freeze").write_text("0")
    assert reap(child) == -signal.SIGKILL
    await until_gone(*inside[1:])
    await leaf.remove()


@REAL
async def test_a_leaf_that_outlives_its_call_is_removed_when_another_is_made(leaves: Leaves) -> None:
    leaf = leaves.make()
    child = enter(leaf.path, "exec sleep 1000")
    assert not leaves.remove_now(leaf.path)
    child.kill()
    reap(child)
    other = leaves.make()
    assert not Path(leaf.path).exists()
    await other.remove()


@REAL
async def test_leaves_that_do_not_go_keep_none_of_the_others_from_being_tried_again(leaves: Leaves) -> None:
    lingering = [leaves.make() for _ in range(TRIED_AGAIN + 1)]
    children = [enter(leaf.path, "exec sleep 1000") for leaf in lingering]
    assert not any(leaves.remove_now(leaf.path) for leaf in lingering)
    children[-1].kill()
    reap(children[-1])
    for _ in range(2):
        await leaves.make().remove()
    assert not Path(lingering[-1].path).exists()
    for leaf, child in zip(lingering, children[:-1], strict=False):
        await leaf.remove()
        reap(child)


@REAL
async def test_who_is_cancelled_does_not_wait_and_what_is_left_goes_at_the_end(own: Path) -> None:
    with trio.CancelScope() as scope:
        async with open_leaves(own) as leaves:
            leaf = leaves.make()
            child = enter(leaf.path, "exec sleep 1000")
            scope.cancel()
            await leaf.remove()
    assert scope.cancelled_caught
    assert reap(child) == -signal.SIGKILL
    assert list(own.glob(f"{PREFIX}*")) == []


@REAL
async def test_two_trees_beside_each_other_do_not_touch_each_other(own: Path) -> None:
    async with open_leaves(own) as one:
        child = enter(one.make().path, "exec sleep 1000")
        async with open_leaves(own) as other:
            assert other.tree != one.tree
            other.make()
        assert child.poll() is None
        assert Path(one.tree).exists()
    assert reap(child) == -signal.SIGKILL


@REAL
async def test_what_was_left_by_a_daemon_that_was_killed_with_its_guardian_is_ended_by_the_next(own: Path) -> None:
    left = own / f"{PREFIX}left"
    (left / "calls" / "1").mkdir(parents=True)
    child = enter(f"{left}/calls/1", "exec sleep 1000")
    async with open_leaves(own):
        assert not left.exists()
    assert reap(child) == -signal.SIGKILL


@pytest.mark.skipif(not REAL_WITHOUT_CONTROLLERS, reason="there are controllers, or no cgroups")
async def test_a_bound_that_nothing_here_can_hold_is_refused_and_no_leaf_made(leaves: Leaves) -> None:
    assert leaves.controllers == frozenset()
    with pytest.raises(OSError, match="no controller 'memory'"):
        leaves.make(memory=1 << 20)
    with pytest.raises(OSError, match="no controller 'pids'"):
        leaves.make(processes=1)
    assert [entry for entry in await trio.Path(leaves.tree, "calls").iterdir() if await entry.is_dir()] == []


# It starts a program in a leaf, and one that it does not know; their number is the leaf's and is not told.
DAEMON: Final = """
import pathlib, sys, trio
from tooldispatchd.children.family import open_family
from tooldispatchd.children.leaves import open_leaves

PROGRAM = "echo 0 > $0/cgroup.procs; (setsid env -i sleep 1000 &); echo; exec sleep 1000"

async def main():
    async with open_family() as family, open_leaves(pathlib.Path(sys.argv[1])) as leaves:
        family.also_dissolve(leaves.tree)
        for _ in range(3):
            child = family.spawn(["sh", "-c", PROGRAM, leaves.make().path])
            await trio.lowlevel.wait_readable(child.stdout)
        print(leaves.tree, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


def started(own: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", DAEMON, own], stdout=subprocess.PIPE)


@REAL
async def test_a_killed_daemon_leaves_no_process_in_a_leaf_and_no_cgroup(own: Path, nothing_left: None) -> None:
    with started(own) as daemon:
        assert daemon.stdout is not None
        tree = Path(daemon.stdout.readline().decode().rstrip())
        inside = [pid for leaf in (tree / "calls").glob("[0-9]*") for pid in await until_in(str(leaf), 2)]
        daemon.kill()
        with trio.fail_after(PATIENCE_S):
            while tree.exists():  # noqa: ASYNC110  # as above
                await trio.sleep(0.005)
    await until_gone(*inside)


def test_events_tell_which_bound_was_met(tmp_path: Path) -> None:
    leaf = leaves_module.Leaf(
        str(tmp_path), frozenset({"memory", "processes"}), Leaves(str(tmp_path), leaves_module.CONTROLLERS)
    )
    assert leaf.passed() is None
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n")
    (tmp_path / "pids.events").write_text("max 0\n")
    assert leaf.passed() is None
    (tmp_path / "pids.events").write_text("max 3\n")
    assert leaf.passed() == "processes"
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\n")
    assert leaf.passed() == "memory"


def test_a_bound_that_the_call_does_not_have_is_never_named(tmp_path: Path) -> None:
    leaf = leaves_module.Leaf(str(tmp_path), frozenset(), Leaves(str(tmp_path), leaves_module.CONTROLLERS))
    (tmp_path / "memory.events").write_text("oom_kill 1\n")
    (tmp_path / "pids.events").write_text("max 1\n")
    assert leaf.passed() is None


def test_memory_is_bounded_without_swap_and_where_there_can_be_none(tmp_path: Path) -> None:
    for name in ("memory.max", "memory.oom.group"):
        (tmp_path / name).touch()
    bound_memory(str(tmp_path), 5_000_000)
    assert (tmp_path / "memory.max").read_text() == "5000000"
    (tmp_path / "memory.swap.max").touch()
    bound_memory(str(tmp_path), 5_000_000)
    assert (tmp_path / "memory.swap.max").read_text() == "0"
    assert (tmp_path / "memory.oom.group").read_text() == "1"


def shown(proc: Path, cgroup: str, mountinfo: str) -> Path:
    proc.mkdir()
    (proc / "cgroup").write_text(cgroup)
    (proc / "mountinfo").write_text(mountinfo)
    return proc


def escaped(path: str) -> str:
    return path.replace(" ", "\\040")


@pytest.mark.parametrize("root", ["/", "/docker/x y"])
def test_the_daemon_s_cgroup_is_found_where_it_is_mounted(tmp_path: Path, root: str) -> None:
    own = tmp_path / "cgroup v2" / "a.service"
    own.mkdir(parents=True)
    (own / "cgroup.procs").touch()
    mounts = (
        "30 1 0:1 / / rw - ext4 /dev/vda rw\n"
        f"31 30 0:2 {escaped(root)} {escaped(str(own.parent))} rw shared:1 - cgroup2 cgroup2 rw\n"
    )
    proc = shown(tmp_path / "proc", f"4:memory:/other\n0::{root.rstrip('/')}/a.service\n", mounts)
    if os.geteuid() == 0:
        # Root may write there, but that says nothing.
        with pytest.raises(LeavesError, match=r"it is not delegated to the daemon$"):
            delegated(proc)
        try:
            os.setxattr(own, "user.delegate", b"1")
        except OSError:
            pytest.skip("this file system keeps no attributes")
    assert delegated(proc) == own


@pytest.mark.parametrize("cgroup", ["4:memory:/\n", "0::/gone\n", ""])
def test_where_no_cgroup_of_version_2_is_shown_there_is_none(tmp_path: Path, cgroup: str) -> None:
    proc = shown(tmp_path / "proc", cgroup, f"31 30 0:2 / {tmp_path} rw - cgroup2 cgroup2 rw\n")
    with pytest.raises(LeavesError, match=r"no file system of cgroup v2 shows it$"):
        delegated(proc)


def test_where_the_kernel_does_not_say_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(LeavesError, match=r"^cannot find the daemon's cgroup: No such file or directory$"):
        delegated(tmp_path)


async def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(LeavesError, match=r"No such file or directory$"):
        async with open_leaves(tmp_path / "none"):
            pass


def test_a_cgroup_that_is_not_there_is_removed(tmp_path: Path) -> None:
    assert remove_cgroup(str(tmp_path / "none"))
