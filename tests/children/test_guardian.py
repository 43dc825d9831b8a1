import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing

from tests.daemon.spawned import children_of
from tests.processes import PATIENCE_S, is_running, until_gone
from tooldispatchd.children import guardian as guardian_module
from tooldispatchd.children.family import Family, open_family
from tooldispatchd.children.guardian import Guardians
from tooldispatchd.children.sweep import DIRECTORY

# It starts a child, one in the child's group, one that left it, and one in the group that dropped its environment;
# it prints their numbers.
DAEMON: Final = """
import os, trio
from tooldispatchd.children.family import open_family

TREE = '''
echo $$
sleep 1000 & echo $!
env -i sleep 1000 & echo $!
(setsid sh -c 'echo $$; exec sleep 1000' &)
wait
'''

async def main():
    async with open_family() as family:
        child = family.spawn(["sh", "-c", TREE])
        seen = b""
        while seen.count(b"\\n") < 4:
            await trio.lowlevel.wait_readable(child.stdout)
            seen += os.read(child.stdout, 4096)
        print(seen.decode().replace("\\n", " "), flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


def guardians_of(pid: int) -> list[int]:
    """The guardians among the children of `pid`."""
    return [child for child in sorted(children_of(pid)) if b"sweep.py" in words_of(child)]


def words_of(pid: int) -> bytes:
    """The command line; a process has none in the moment of its exec, which its parent does not wait for to the end."""
    while True:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        if words or not is_running(pid):
            return words


@contextmanager
def running(
    program: str, *, stdin: int | None = None, start_new_session: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon that runs `program`, killed at the end: also where the test fails, which would else wait for it."""
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, stdin=stdin, stdout=subprocess.PIPE, start_new_session=start_new_session) as daemon:
        try:
            yield daemon
        finally:
            daemon.kill()


@pytest.fixture
def daemon(nothing_left: None) -> Iterator[subprocess.Popen[bytes]]:
    with running(DAEMON) as daemon:
        yield daemon


def family_of(daemon: subprocess.Popen[bytes]) -> list[int]:
    assert daemon.stdout is not None
    return [int(pid) for pid in daemon.stdout.readline().split()]


async def test_a_killed_daemon_leaves_no_child_and_no_grandchild(daemon: subprocess.Popen[bytes]) -> None:
    family = family_of(daemon)
    guardians = guardians_of(daemon.pid)
    assert len(family) == 4
    assert len(guardians) == 2
    daemon.kill()
    await until_gone(*family, *guardians)


async def test_a_guardian_that_was_told_to_end_still_does_its_work(daemon: subprocess.Popen[bytes]) -> None:
    family = family_of(daemon)
    guardians = guardians_of(daemon.pid)
    for guardian in guardians:
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(guardian, signum)
    daemon.kill()
    await until_gone(*family, *guardians)


async def test_a_guardian_that_is_killed_while_it_sweeps_is_followed_by_the_other(
    nothing_left: None, tmp_path: Path
) -> None:
    with with_scratch(tmp_path / "one") as daemon:
        family, guardians = family_of(daemon), guardians_of(daemon.pid)
        for guardian in guardians:
            # It ends the daemon's children when it goes on, and has the lock as soon as the other one is gone.
            os.kill(guardian, signal.SIGSTOP)
        daemon.kill()
        os.kill(guardians[0], signal.SIGKILL)
        os.kill(guardians[1], signal.SIGCONT)
        await until_missing(tmp_path / "one")
    await until_gone(*family, *guardians)


# It takes orphans in, so that what left its child's group is a child of its own.
ADOPTING: Final = DAEMON.replace(
    "async with open_family() as family:",
    """async with open_family() as family, trio.open_nursery() as services:
        services.start_soon(family.end_orphans)
        await trio.testing.wait_all_tasks_blocked()""",
).replace("import os, trio", "import os, trio, trio.testing")


async def test_a_killed_daemon_leaves_no_orphan_that_it_took_in(nothing_left: None) -> None:
    with running(ADOPTING) as daemon:
        family = family_of(daemon)
        children = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children")
        with trio.fail_after(PATIENCE_S):
            while len(set(map(int, children.read_text().split())) & set(family)) < 2:
                await trio.sleep(0.005)
        daemon.kill()
    await until_gone(*family)


async def test_a_daemon_killed_with_its_own_group_leaves_nothing(nothing_left: None) -> None:
    with running(DAEMON, start_new_session=True) as daemon:
        family = family_of(daemon)
        os.killpg(daemon.pid, signal.SIGKILL)
    await until_gone(*family)


async def test_a_daemon_killed_while_it_starts_children_leaves_nothing(nothing_left: None) -> None:
    program = DAEMON.replace("await trio.sleep_forever()", "while True: family.spawn(['sleep', '1000'])")
    with running(program) as daemon:
        family_of(daemon)
        guardians = guardians_of(daemon.pid)
        run_id = Path(f"/proc/{guardians[0]}/cmdline").read_bytes().split(b"\0")[-2]
        daemon.kill()
    await until_gone(*guardians)
    assert [process for process in Path("/proc").glob("[0-9]*") if carries(process, run_id)] == []


def carries(process: Path, run_id: bytes) -> bool:
    try:
        return run_id in (process / "environ").read_bytes()
    except OSError:
        return False


async def test_the_end_of_a_family_finds_a_grandchild_that_left_its_group(nothing_left: None) -> None:
    async with open_family() as family:
        child = family.spawn(["sh", "-c", "(setsid sh -c 'echo $$; exec sleep 1000' &)"])
        with trio.fail_after(10):
            await trio.lowlevel.wait_readable(child.stdout)
        left = int(os.read(child.stdout, 100))
        await child.kill()
        assert is_running(left)
    await until_gone(left)


async def test_a_family_has_two_guardians(family: Family) -> None:
    for _ in range(3):
        await family.spawn(["true"]).kill()
    assert len(guardians_of(os.getpid())) == 2


# When told to, the daemon starts another child.
ONE_MORE: Final = """
        await trio.lowlevel.wait_readable(0)
        await family.spawn(["true"]).kill()
        print("started", flush=True)
        await trio.sleep_forever()
"""


async def test_guardians_that_died_are_replaced_and_know_the_older_children(nothing_left: None) -> None:
    program = DAEMON.replace("        await trio.sleep_forever()", ONE_MORE)
    with running(program, stdin=subprocess.PIPE) as daemon:
        family = family_of(daemon)
        first = guardians_of(daemon.pid)
        for guardian in first:
            os.kill(guardian, signal.SIGKILL)
        await until_gone(*first)
        assert daemon.stdin is not None
        daemon.stdin.close()
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == b"started\n"
        second = guardians_of(daemon.pid)
        assert len(second) == 2
        daemon.kill()
    await until_gone(*family, *second)


async def test_a_guardian_that_dies_is_replaced_at_once(family: Family) -> None:
    await family.spawn(["true"]).kill()
    first, other = guardians_of(os.getpid())
    replaced = trio.Event()
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(family.keep_guarded, replaced.set)
            await trio.testing.wait_all_tasks_blocked()
            os.kill(first, signal.SIGKILL)
            await replaced.wait()
            nursery.cancel_scope.cancel()
    assert len(guardians_of(os.getpid())) == 2
    assert other in guardians_of(os.getpid())
    assert first not in guardians_of(os.getpid())


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
async def test_the_end_of_a_family_sweeps_whatever_became_of_its_guardians(nothing_left: None, signum: int) -> None:
    async with open_family() as family:
        child = family.spawn(["sh", "-c", "(setsid sh -c 'echo $$; exec sleep 1000' &)"])
        with trio.fail_after(10):
            await trio.lowlevel.wait_readable(child.stdout)
        left = int(os.read(child.stdout, 100))
        await child.kill()
        guardians = guardians_of(os.getpid())
        for guardian in guardians:
            os.kill(guardian, signum)
        if signum == signal.SIGKILL:
            await until_gone(*guardians)
    await until_gone(left)


async def test_a_full_table_refuses_and_a_freed_place_is_used_again(nothing_left: None) -> None:
    guardians = Guardians("run")
    slots = [guardians.reserve() for _ in range(guardian_module.MAX_GROUPS)]
    with pytest.raises(OSError, match="65536 children run already"):
        guardians.reserve()
    guardians.free(slots[7])
    assert guardians.reserve() == slots[7]
    await guardians.end()


async def test_guardians_that_never_started_end_twice(nothing_left: None) -> None:
    guardians = Guardians("run")
    await guardians.end()
    await guardians.end()


# It starts a child that writes into the directory that it is given, and one that stays there when its group is killed.
WITH_SCRATCH: Final = """
import os, pathlib, sys, trio
from tooldispatchd.children.family import open_family
from tooldispatchd.children.scratch import open_scratches

PROGRAM = '''
mkdir -p a/b; touch a/b/f; ln -s / a/root
(setsid sh -c 'touch c; exec sleep 1000' &)
while test ! -e c; do sleep 0.01; done; echo; exec sleep 1000
'''

async def main():
    parent = pathlib.Path(sys.argv[1])
    async with open_family() as family, open_scratches(parent, family) as scratches:
        family.also_remove(str(parent))
        children = [family.spawn(["sh", "-c", PROGRAM], cwd=scratches.make()) for _ in range(3)]
        for child in children:
            await trio.lowlevel.wait_readable(child.stdout)
        print(*[child.pid for child in children], flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


@contextmanager
def with_scratch(parent: Path) -> Iterator[subprocess.Popen[bytes]]:
    parent.mkdir()
    with subprocess.Popen([sys.executable, "-c", WITH_SCRATCH, parent], stdout=subprocess.PIPE) as daemon:
        try:
            yield daemon
        finally:
            daemon.kill()


async def until_missing(path: Path) -> None:
    with trio.fail_after(PATIENCE_S):
        while path.exists():  # noqa: ASYNC110  # no event tells it
            await trio.sleep(0.005)


async def test_a_killed_daemon_leaves_no_scratch_directory_and_another_s_stays(
    nothing_left: None, tmp_path: Path
) -> None:
    with with_scratch(tmp_path / "one") as daemon, with_scratch(tmp_path / "other") as other:
        family, others = family_of(daemon), family_of(other)
        guardians = guardians_of(daemon.pid)
        daemon.kill()
        await until_missing(tmp_path / "one")
        await until_gone(*family, *guardians)
        assert all(is_running(pid) for pid in others)
        assert len(list((tmp_path / "other").iterdir())) == 3
        assert (tmp_path / "other" / "1" / "a" / "b" / "f").exists()
        other.kill()
        await until_missing(tmp_path / "other")
    await until_gone(*others)


async def test_what_is_to_go_away_is_told_to_each_guardian(nothing_left: None, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second, with a blank"
    for directory in (first, second):
        (directory / "below").mkdir(parents=True)
    guardians = Guardians("run")
    guardians.tell(DIRECTORY, str(first))
    guardians.ensure()
    died = guardians.pids
    for pid in died:
        os.kill(pid, signal.SIGKILL)
    await until_gone(*died)
    # Those that died are told in vain.
    guardians.tell(DIRECTORY, str(second))
    guardians.ensure()
    await guardians.end()
    assert list(tmp_path.iterdir()) == []


async def test_guardians_that_were_stopped_are_told_without_waiting(nothing_left: None, tmp_path: Path) -> None:
    guardians = Guardians("run")
    guardians.ensure()
    for pid in guardians.pids:
        os.kill(pid, signal.SIGSTOP)
    for number in range(100):
        guardians.tell(DIRECTORY, str(tmp_path / f"{number:0100}"))
    with pytest.raises(ValueError, match="too many paths"):
        guardians.tell(DIRECTORY, "x" * guardian_module.MAX_TOLD_BYTES)
    (tmp_path / f"{99:0100}").mkdir()
    await guardians.end()
    assert list(tmp_path.iterdir()) == []
