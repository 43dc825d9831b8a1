import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tooldispatchd.children.family import Family, open_family
from tooldispatchd.children.spawn import Child, Exit, SpawnError


async def test_a_family_counts_its_children_until_they_are_reaped(family: Family) -> None:
    first, second = family.spawn(["cat"]), family.spawn(["cat"])
    assert len(family) == 2
    await first.kill()
    await second.kill()
    assert len(family) == 0


async def test_a_family_without_children_starts_no_process(nothing_left: None) -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text()
    async with open_family():
        assert children.read_text() == before


async def test_the_end_of_a_family_is_the_end_of_its_children(nothing_left: None) -> None:
    with trio.fail_after(20):
        async with open_family() as family:
            child = family.spawn(["sh", "-c", "trap '' TERM; sleep 1000"])
    assert child.reap() == Exit(signal=signal.SIGKILL)


async def test_the_end_of_a_family_cannot_be_cancelled(nothing_left: None) -> None:
    with trio.CancelScope() as scope:
        async with open_family() as family:
            family.spawn(["sleep", "1000"])
            scope.cancel()
    assert len(family) == 0


async def test_killing_all_ends_every_group_at_once(family: Family) -> None:
    children = [family.spawn(["sleep", "1000"]) for _ in range(3)]
    family.kill_all()
    with trio.fail_after(10):
        for child in children:
            await child.exited()
    assert [child.reap() for child in children] == [Exit(signal=signal.SIGKILL)] * 3


async def test_killing_all_of_none_is_nothing(family: Family) -> None:
    family.kill_all()
    assert len(family) == 0


async def test_a_closed_family_has_no_more_children(nothing_left: None) -> None:
    async with open_family() as family:
        pass
    with pytest.raises(SpawnError, match=r"^cannot start 'true': the daemon is ending$"):
        family.spawn(["true"])


# Giving back so much memory takes the kernel milliseconds, in which the killed process is still there.
HEAVY = [sys.executable, "-I", "-S", "-c", "import time; x = b'x' * (100 << 20); print(flush=True); time.sleep(1000)"]


async def kill_without_waiting(family: Family) -> Child:
    child = family.spawn(HEAVY)
    with trio.fail_after(20):
        await trio.lowlevel.wait_readable(child.stdout)
    assert await child.kill(within_s=0) == Exit(signal=signal.SIGKILL)
    assert not child.has_exited()
    assert (child.stdin, child.stdout, child.stderr) == (-1, -1, -1)
    return child


async def test_a_killed_child_that_does_not_end_in_time_is_reaped_when_the_next_one_starts(family: Family) -> None:
    child = await kill_without_waiting(family)
    assert len(family) == 1
    with trio.fail_after(20):
        await child.exited()
    await family.spawn(["true"]).kill()
    assert len(family) == 0
    assert child.pidfd == -1


async def test_a_killed_child_that_does_not_end_in_time_is_reaped_at_the_end(nothing_left: None) -> None:
    async with open_family() as family:
        await kill_without_waiting(family)
    assert len(family) == 0


async def test_a_failed_start_takes_no_place(family: Family) -> None:
    for _ in range(3):
        with pytest.raises(SpawnError):
            family.spawn(["no-such"])
    assert len(family) == 0


async def test_a_child_that_is_abandoned_is_reaped_though_no_other_starts(nothing_left: None) -> None:
    async with open_family() as family, trio.open_nursery() as services:
        services.start_soon(family.end_orphans)
        child = family.spawn(["sleep", "1000"])
        assert child.abandon() == Exit(signal=signal.SIGKILL)
        assert (child.stdin, child.stdout, child.stderr) == (-1, -1, -1)
        with trio.fail_after(20):
            while len(family):
                await trio.sleep(0.005)
        assert child.abandon() == Exit(signal=signal.SIGKILL)
        services.cancel_scope.cancel()


async def test_a_child_that_is_expected_and_not_born_takes_no_place(family: Family) -> None:
    slots = set()
    for _ in range(3):
        reserved = family.reserve("true", env={"A": "1"})
        assert reserved.env["A"] == "1"
        slots.add(reserved.slot)
        family.cancel(reserved)
    assert len(slots) == 1
    assert len(family) == 0


async def test_what_a_thread_has_started_ends_where_nobody_waits_for_it_any_more(family: Family) -> None:
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as known:
        with trio.CancelScope() as scope, family.strangers():
            started = subprocess.Popen(["sh", "-c", "sleep 1000; true"], start_new_session=True)
            scope.cancel()
            await trio.lowlevel.checkpoint()
        assert await trio.to_thread.run_sync(started.wait) == -signal.SIGKILL
        # It was there before.
        assert known.poll() is None
        known.kill()


async def test_a_program_starts_in_a_directory_and_not_where_a_link_in_its_place_leads(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    held = real.stat().st_dev, real.stat().st_ino
    async with open_family() as family:
        with pytest.raises(SpawnError, match="symbolic links"):
            family.spawn(["pwd"], cwd=str(link), held=held)
        with pytest.raises(SpawnError, match="another directory"):
            family.spawn(["pwd"], cwd=str(tmp_path), held=held)
        child = family.spawn(["touch", "here"], cwd=str(real), held=held)
        await child.exited()
        child.reap()
    assert (real / "here").exists()
