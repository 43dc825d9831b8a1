"""What children leave behind in groups of its own ends soon after each of them, and nothing else does."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trio

from tests.children.tended import tended_family
from tests.processes import PATIENCE_S, is_running, until_gone
from tooldispatchd.children.family import Family
from tooldispatchd.children.spawn import Child

# A helper that left the group, as a daemon does: its parent has ended before its number is known.
LEAVE = "(setsid sh -c 'echo $$; exec sleep 1000' &)"
# One whose parent and grandparent have ended.
LEAVE_TWICE = "(setsid sh -c '(sh -c \"echo \\$\\$; exec sleep 1000\" &)' &)"
# Three generations, of which only the first has lost its parent.
LEAVE_A_TREE = """(setsid sh -c 'echo $$; sh -c "echo \\$\\$; setsid sleep 1000 & echo \\$!; wait; exit"; exit' &)"""
# Tests look more often than the daemon does.
OFTEN_S = 0.05


@pytest.fixture
async def family(nothing_left: None) -> AsyncIterator[Family]:
    async with tended_family() as family:
        yield family


@pytest.fixture
async def watched(nothing_left: None) -> AsyncIterator[Family]:
    """A family whose orphans are looked at often, though no child ends."""
    async with tended_family(OFTEN_S) as family:
        yield family


async def numbers(child: Child, count: int) -> list[int]:
    """So many lines of the child's stdout, each a number."""
    seen = b""
    with trio.fail_after(PATIENCE_S):
        while seen.count(b"\n") < count:
            await trio.lowlevel.wait_readable(child.stdout)
            chunk = os.read(child.stdout, 4096)
            assert chunk
            seen += chunk
    return [int(word) for word in seen.split()]


async def until(is_so: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE_S):
        while not is_so():
            await trio.sleep(0.005)


def ours() -> set[int]:
    """Our children, ended or not."""
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def is_there(pid: int) -> bool:
    """Whether the process is, be it a zombie."""
    return Path(f"/proc/{pid}").exists()


async def until_reaped(*pids: int) -> None:
    await until(lambda: not any(is_there(pid) for pid in pids))


@pytest.mark.parametrize("script", [LEAVE, LEAVE_TWICE])
async def test_a_process_that_left_the_group_ends_after_its_child(family: Family, script: str) -> None:
    child = family.spawn(["sh", "-c", script])
    (left,) = await numbers(child, 1)
    await child.kill()
    await until_reaped(left)


async def test_what_an_orphan_leaves_ends_too(family: Family) -> None:
    child = family.spawn(["sh", "-c", LEAVE_A_TREE])
    left = await numbers(child, 3)
    await child.kill()
    await until_reaped(*left)


async def test_what_a_child_that_ended_by_itself_left_ends(family: Family) -> None:
    child = family.spawn(["sh", "-c", LEAVE])
    (left,) = await numbers(child, 1)
    with trio.fail_after(PATIENCE_S):
        await child.exited()
    assert child.reap().code == 0
    await until_reaped(left)


async def test_what_the_group_kill_ended_is_reaped(family: Family) -> None:
    child = family.spawn(["sh", "-c", "sleep 1000 & echo $!"])
    (left,) = await numbers(child, 1)
    with trio.fail_after(PATIENCE_S):
        await child.exited()
    child.reap()
    await until_reaped(left)


async def test_a_helper_of_a_child_that_lives_is_left_alone_until_that_ends(family: Family) -> None:
    keeper = family.spawn(["sh", "-c", f"{LEAVE}; cat"])
    (helper,) = await numbers(keeper, 1)
    other = family.spawn(["sh", "-c", LEAVE])
    (left,) = await numbers(other, 1)
    await other.kill()
    # The same look that ended the one has seen the other.
    await until_reaped(left)
    assert is_running(helper)
    await keeper.kill()
    await until_reaped(helper)


async def test_an_ended_helper_of_a_child_that_lives_is_reaped_when_another_child_ends(family: Family) -> None:
    keeper = family.spawn(["sh", "-c", "(setsid sh -c 'echo $$' &); cat"])
    (helper,) = await numbers(keeper, 1)
    await until_gone(helper)
    await family.spawn(["true"]).kill()
    await until_reaped(helper)
    assert not keeper.has_exited()
    await keeper.kill()


async def test_an_ended_helper_of_a_child_that_lives_is_reaped_though_no_child_ends(watched: Family) -> None:
    keeper = watched.spawn(["sh", "-c", "(setsid sh -c 'echo $$' &); cat"])
    (helper,) = await numbers(keeper, 1)
    await until_reaped(helper)
    assert not keeper.has_exited()


async def test_children_that_ended_are_left_to_their_owners(watched: Family) -> None:
    children = [watched.spawn(["sh", "-c", "exit 7"]) for _ in range(20)]
    other = watched.spawn(["sh", "-c", f"{LEAVE}"])
    (left,) = await numbers(other, 1)
    for child in children:
        await child.exited()
    await other.kill()
    await until_reaped(left)
    assert [child.reap().code for child in children] == [7] * 20


async def test_two_hundred_children_that_end_at_once_leave_nothing(family: Family) -> None:
    children = [family.spawn(["sh", "-c", LEAVE]) for _ in range(200)]
    left = [(await numbers(child, 1))[0] for child in children]
    family.kill_all()
    for child in children:
        await child.kill()
    assert len(family) == 0
    await until_reaped(*left)


async def test_what_a_cancelled_task_leaves_ends(family: Family) -> None:
    left = 0

    async def work() -> None:
        nonlocal left
        child = family.spawn(["sh", "-c", f"{LEAVE}; cat"])
        try:
            (left,) = await numbers(child, 1)
            scope.cancel()
            await trio.sleep_forever()
        finally:
            await child.kill()  # noqa: ASYNC102  # it shields and bounds itself

    with trio.CancelScope() as scope:
        await work()
    await until_reaped(left)


@pytest.mark.parametrize("number", ["", "one", "9" * 30, "-1"])
async def test_an_orphan_whose_number_says_nothing_ends(family: Family, number: str) -> None:
    child = family.spawn(["sh", "-c", f"(TOOLDISPATCHD_CHILD={number} setsid sh -c 'echo $$; exec sleep 1000' &); cat"])
    (left,) = await numbers(child, 1)
    await family.spawn(["true"]).kill()
    await until_reaped(left)
    assert not child.has_exited()
    await child.kill()


async def test_an_orphan_without_our_run_id_is_left_alone_and_reaped(watched: Family) -> None:
    child = watched.spawn(["sh", "-c", "(env -u TOOLDISPATCHD_RUN_ID setsid sh -c 'echo $$; exec sleep 1000' &)"])
    (hidden,) = await numbers(child, 1)
    other = watched.spawn(["sh", "-c", LEAVE])
    (left,) = await numbers(other, 1)
    await child.kill()
    await other.kill()
    await until_reaped(left)
    assert is_running(hidden)
    os.kill(hidden, signal.SIGKILL)
    await until_reaped(hidden)


async def test_an_orphan_in_our_own_group_without_our_run_id_is_reaped(watched: Family) -> None:
    # What is started here is in our group, as a child of the family can never be.
    said = subprocess.run(["sh", "-c", "sleep 0.2 >&- & echo $!"], env={}, stdout=subprocess.PIPE, check=True)
    orphan = int(said.stdout)
    assert os.getpgid(orphan) == os.getpgrp()
    await until_reaped(orphan)


async def test_the_guardians_are_left_to_the_family(watched: Family) -> None:
    await watched.spawn(["true"]).kill()
    for guardian in [pid for pid in ours() if b"sweep.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]:
        os.kill(guardian, signal.SIGKILL)
    await trio.sleep(5 * OFTEN_S)
    await watched.spawn(["true"]).kill()


async def test_the_end_of_a_family_reaps_the_orphans_that_it_took_in(nothing_left: None) -> None:
    before = ours()
    async with tended_family() as family:
        child = family.spawn(["sh", "-c", f"{LEAVE}; cat"])
        (helper,) = await numbers(child, 1)
        await until(lambda: helper in ours())
    assert not is_there(helper)
    assert ours() == before


# What forks again and again in new groups, faster than one look follows the other.
FORKS = """
import os, time
for _ in range(60):
    if os.fork():
        time.sleep(0.01)
        os._exit(0)
    os.setsid()
    print(os.getpid(), flush=True)
time.sleep(1000)
"""


async def test_a_program_that_runs_away_by_forking_is_caught(family: Family) -> None:
    child = family.spawn([sys.executable, "-I", "-S", "-c", FORKS])
    await numbers(child, 20)
    child.close_pipe(child.stdout)
    await child.kill()
    mark = f"TOOLDISPATCHD_RUN_ID={family.run_id}".encode()

    def bears_it(process: Path) -> bool:
        try:
            return mark in (process / "environ").read_bytes()
        except OSError:
            return False

    await until(lambda: not any(bears_it(process) for process in Path("/proc").glob("[0-9]*")))
