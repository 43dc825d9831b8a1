"""Scratch directories: what programs leave in one, and what becomes of it."""

import os
import resource
import signal
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing

from tests.children.trees import AS_ROOT, deep, flagged, mount, mounted_on
from tests.processes import PATIENCE_S
from tooldispatchd.children.family import Family
from tooldispatchd.children.scratch import PAUSES_S, Scratches, has_mounts, open_scratches


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    parent = tmp_path / "scratch"
    parent.mkdir()
    return parent


@pytest.fixture
async def scratches(parent: Path, family: Family) -> AsyncIterator[Scratches]:
    async with open_scratches(parent, family) as scratches:
        yield scratches
    assert list(parent.iterdir()) == []


async def run(family: Family, program: str, cwd: str) -> None:
    """Run a shell's program to its end, as a call does."""
    child = family.spawn(["sh", "-c", program], cwd=cwd)
    with trio.fail_after(PATIENCE_S):
        await child.exited()
    await child.kill()


def test_only_its_user_may_enter_one(parent: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            scratches = Scratches(parent, Family(), nursery, print)
            path = scratches.make()
            assert Path(path).parent == parent
            assert stat.S_IMODE(Path(path).stat().st_mode) == 0o700
            assert scratches.make() != path

    trio.run(main)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
async def test_one_belongs_to_the_user_who_runs_the_tool(scratches: Scratches) -> None:
    path = scratches.make(uid=4321, gid=1234)
    assert (Path(path).stat().st_uid, Path(path).stat().st_gid) == (4321, 1234)
    await scratches.remove(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else for a while")
async def test_one_that_cannot_be_given_away_is_not_left(family: Family) -> None:
    with tempfile.TemporaryDirectory() as parent:
        os.chown(parent, 4321, 4321)
        async with open_scratches(Path(parent), family) as scratches:
            os.seteuid(4321)
            try:
                with pytest.raises(PermissionError):
                    scratches.make(uid=0)
                assert list(Path(parent).iterdir()) == []
            finally:
                os.seteuid(0)


async def test_an_empty_one_and_one_that_was_never_made_are_removed_at_once(
    scratches: Scratches, family: Family
) -> None:
    path, named = scratches.make(), scratches.name()
    with trio.testing.assert_no_checkpoints():
        await scratches.remove(path)
        await scratches.remove(named)
    assert not Path(path).exists()
    assert len(family) == 0


@contextmanager
def no_descriptors() -> Iterator[None]:
    """No process can be started, which takes descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


HOSTILE: Final = {
    "files": "for i in 1 2 3; do mkdir $i; echo x > $i/f; done",
    "shut": "mkdir -p a/b; touch a/b/f; chmod 0 a/b; chmod 0 a; chmod 0 .",
    "odd names": "touch -- '-rf' '--' ' ' '*'; mkdir -p .lock/.lock; touch .lock/.lock/.lock",
    "links": "ln -s / root; ln -s . self; mkdir a; ln -s ../.. a/up; ln -s none nowhere; mkfifo a/fifo",
    "itself": 'rm -r "$PWD"; touch "$PWD"',
    "itself a link": 'rm -r "$PWD"; ln -s .. "$PWD"',
}


@pytest.mark.parametrize("program", HOSTILE.values(), ids=HOSTILE)
async def test_whatever_a_program_leaves_is_gone_when_its_call_is_over(
    scratches: Scratches, family: Family, parent: Path, program: str
) -> None:
    (parent.parent / "kept").touch()
    path = scratches.make()
    await run(family, program, path)
    with trio.fail_after(PATIENCE_S):
        await scratches.remove(path)
    assert list(parent.iterdir()) == []
    assert (parent.parent / "kept").exists()
    assert len(family) == 0


async def test_one_deeper_than_any_path_is_removed(scratches: Scratches) -> None:
    path = scratches.make()
    deep(Path(path), 1_100)
    with trio.fail_after(PATIENCE_S):
        await scratches.remove(path)
    assert not Path(path).exists()


@AS_ROOT
async def test_what_is_mounted_in_one_is_left_as_it_is_and_unmounted(scratches: Scratches, tmp_path: Path) -> None:
    outside = tmp_path / "outside of it"
    outside.mkdir()
    (outside / "kept").touch()
    path = Path(scratches.make())
    (path / "a b").mkdir()
    with mounted_on(outside, path / "a b"):
        assert has_mounts(str(path))
        assert has_mounts(str(path / "a b"))
        await scratches.remove(str(path))
    assert not path.exists()
    assert list(outside.iterdir()) == [outside / "kept"]


@AS_ROOT
async def test_unchangeable_files_are_removed(scratches: Scratches) -> None:
    path = Path(scratches.make())
    (path / "file").touch()
    with flagged("+i", path / "file"), flagged("+i", path):
        await scratches.remove(str(path))
    assert not path.exists()


@AS_ROOT
async def test_one_that_a_file_system_is_mounted_on_is_removed(scratches: Scratches) -> None:
    path = scratches.make()
    mount("-t", "proc", "proc", path)
    with trio.fail_after(PATIENCE_S):
        await scratches.remove(path)
    assert not Path(path).exists()


@AS_ROOT
async def test_one_that_cannot_be_removed_is_told_of_once(parent: Path, family: Family) -> None:
    left: list[str] = []
    async with open_scratches(parent, family, left=left.append) as scratches:
        path = scratches.make()
        (Path(path) / "file").touch()
        with mounted_on(parent, parent):
            mount("-o", "remount,bind,ro", str(parent))
            with trio.fail_after(PATIENCE_S):
                await scratches.remove(path)
        assert left == [path]
        await scratches.remove(path)
    assert left == [path]
    assert list(parent.iterdir()) == []


# It goes on making files when its call is over, for as long as an orphan may.
LATE: Final = "(setsid sh -c 'while mkdir -p a/b/c; do touch a/$$; done' &)"


async def test_what_is_still_made_when_the_call_is_over_is_removed_too(scratches: Scratches, family: Family) -> None:
    path = scratches.make()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(family.end_orphans)
        await trio.testing.wait_all_tasks_blocked()
        await run(family, f"{LATE}; sleep 0.1", path)
        with trio.fail_after(PATIENCE_S):
            await scratches.remove(path)
        nursery.cancel_scope.cancel()
    assert not Path(path).exists()


async def test_who_is_cancelled_waits_no_longer_and_the_removal_goes_on(scratches: Scratches) -> None:
    path = scratches.make()
    (Path(path) / "file").touch()
    # So that it has not happened yet, however long this process waits for its turn.
    with no_descriptors(), trio.CancelScope() as scope:
        scope.cancel()
        await scratches.remove(path)
        await trio.lowlevel.cancel_shielded_checkpoint()
    assert scope.cancelled_caught
    assert Path(path).exists()
    await scratches.remove(path)
    assert not Path(path).exists()


async def test_a_removal_that_could_not_be_started_is_tried_until_it_can_be(parent: Path, family: Family) -> None:
    left: list[str] = []
    async with open_scratches(parent, family, left=left.append) as scratches:
        path = scratches.make()
        (Path(path) / "file").touch()
        async with trio.open_nursery() as nursery:
            with no_descriptors():
                nursery.start_soon(scratches.remove, path)
                # All passes together take less.
                await trio.sleep(sum(PAUSES_S) + 0.1)
                assert Path(path).exists()
        assert not Path(path).exists()
    assert left == []


async def test_a_removal_that_cannot_be_started_does_not_hold_the_end(parent: Path, family: Family) -> None:
    async with open_scratches(parent, family) as scratches:
        path = scratches.make()
        (Path(path) / "file").touch()
        with no_descriptors():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(scratches.remove, path)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
            with trio.fail_after(PATIENCE_S):
                await scratches.close()
    assert Path(path).exists()


async def test_two_who_remove_the_same_wait_for_the_same(scratches: Scratches, family: Family) -> None:
    path = scratches.make()
    (Path(path) / "file").touch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scratches.remove, path)
        nursery.start_soon(scratches.remove, path)
        await trio.testing.wait_all_tasks_blocked()
        assert len(family) <= 1
    assert not Path(path).exists()


async def test_few_are_removed_at_once_and_none_is_forgotten(scratches: Scratches, family: Family) -> None:
    paths = [scratches.make() for _ in range(20)]
    async with trio.open_nursery() as nursery:
        for path in paths:
            (Path(path) / "file").touch()
            nursery.start_soon(scratches.remove, path)
        await trio.testing.wait_all_tasks_blocked()
        assert len(family) <= 4


async def test_the_end_waits_for_what_is_being_removed(parent: Path, family: Family) -> None:
    with trio.CancelScope() as scope:
        async with open_scratches(parent, family) as scratches:
            path = scratches.make()
            (Path(path) / "file").touch()
            scope.cancel()
            await scratches.remove(path)
    assert list(parent.iterdir()) == []
    assert len(family) == 0


async def test_the_end_does_not_wait_for_ever(parent: Path, family: Family) -> None:
    async with open_scratches(parent, family) as scratches:
        path = scratches.make()
        for number in range(2_000):
            (Path(path) / str(number)).touch()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scratches.remove, path)
            await trio.testing.wait_all_tasks_blocked()
            # As if the file system did not answer.
            for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
                if b"--one-file-system" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(int(pid), signal.SIGSTOP)
            nursery.cancel_scope.cancel()
    assert len(family) == 0
