"""Descriptor 3 of a child: there exactly where it was asked for, and nothing of it left whatever happens."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.children.test_spawn import few_descriptors, read_all
from tooldispatchd.children.family import Family
from tooldispatchd.children.spawn import Child, Exit, SpawnError

HERE = pytest.mark.parametrize("cwd", [None, "/"])


async def read(fd: int) -> bytes:
    """The first bytes that come."""
    with trio.fail_after(10):
        await trio.lowlevel.wait_readable(fd)
        return os.read(fd, 65536)


async def end(child: Child) -> Exit:
    with trio.fail_after(10):
        await child.exited()
    return child.reap()


@HERE
async def test_each_of_four_pipes_is_where_it_belongs(family: Family, cwd: str | None) -> None:
    child = family.spawn(["sh", "-c", "cat; echo err >&2; echo upd >&3"], cwd=cwd, with_updates=True)
    os.write(child.stdin, b"out")
    child.close_stdin()
    assert await read(child.updates) == b"upd\n"
    assert await read(child.stdout) == b"out"
    assert await read(child.stderr) == b"err\n"
    assert await end(child) == Exit(code=0)


@HERE
# The last is that of the listing.
@pytest.mark.parametrize(("with_updates", "seen"), [(False, b"0\n1\n2\n3\n\n"), (True, b"0\n1\n2\n3\n4\n3\n")])
async def test_a_child_has_its_pipes_and_no_other_descriptor(
    family: Family, cwd: str | None, with_updates: bool, seen: bytes
) -> None:
    script = "ls /proc/self/fd; echo $TOOLDISPATCHD_UPDATES_FD"
    child = family.spawn(
        ["sh", "-c", script], env={"TOOLDISPATCHD_UPDATES_FD": "7"}, cwd=cwd, with_updates=with_updates
    )
    assert (child.updates >= 0) == with_updates
    assert await read_all(child) == seen
    assert await end(child) == Exit(code=0)


@HERE
async def test_the_updates_are_at_their_end_when_nobody_can_write_them_any_more(
    family: Family, cwd: str | None
) -> None:
    child = family.spawn(["sh", "-c", "exec 3>&-; cat"], cwd=cwd, with_updates=True)
    assert await read(child.updates) == b""
    child.close_pipe(child.updates)
    child.close_pipe(child.updates)
    child.close_stdin()
    assert await end(child) == Exit(code=0)


async def test_a_killed_childs_updates_are_closed_with_its_other_pipes(family: Family) -> None:
    child = family.spawn(["sleep", "1000"], with_updates=True)
    assert await child.kill() == Exit(signal=signal.SIGKILL)
    assert child.updates == -1


@HERE
# Four pipes take eight, the pidfd is the ninth.
@pytest.mark.parametrize("room", range(9))
async def test_running_out_of_descriptors_leaves_none(family: Family, room: int, cwd: str | None) -> None:
    await family.spawn(["true"]).kill()
    before = {entry.name for entry in Path("/proc/self/fd").iterdir()}
    with few_descriptors(room), pytest.raises(SpawnError, match=r"^cannot start 'true': Too many open files$"):
        family.spawn(["true"], cwd=cwd, with_updates=True)
    assert {entry.name for entry in Path("/proc/self/fd").iterdir()} == before
    assert len(family) == 0


@HERE
@pytest.mark.parametrize("argv", [["no-such"], ["/no/such"], ["/"], ["a\0b"], ["true", "\ud800"]])
async def test_a_child_that_cannot_be_started_leaves_nothing(family: Family, argv: list[str], cwd: str | None) -> None:
    await family.spawn(["true"]).kill()
    before = {entry.name for entry in Path("/proc/self/fd").iterdir()}
    with pytest.raises(SpawnError, match=r"^cannot start "):
        family.spawn(argv, cwd=cwd, with_updates=True)
    assert {entry.name for entry in Path("/proc/self/fd").iterdir()} == before
    assert len(family) == 0


# In a process of its own, where descriptor 3 is free: the first pipe then gets the number that the fourth is to have.
NARROW = """
import os, sys
from tooldispatchd.children.spawn import spawn

class Owner:
    def release(self, child): pass
    def take_over(self, child): pass

script = "read x; echo $x; echo err >&2; echo upd >&3"
child = spawn(["sh", "-c", script], env=dict(os.environ), cwd=sys.argv[1] or None, owner=Owner(), with_updates=True)
assert child.stdin == 4, child.stdin
os.write(child.stdin, b"out\\n")
os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED | os.WNOWAIT)
print([os.read(fd, 100) for fd in (child.stdout, child.stderr, child.updates)], child.reap().code)
"""


@pytest.mark.parametrize("cwd", ["", "/"])
def test_pipes_that_lie_where_the_fourth_is_to_be_do_not_clash(cwd: str, nothing_left: None) -> None:
    done = subprocess.run([sys.executable, "-c", NARROW, cwd], capture_output=True, text=True, timeout=20, check=False)
    assert (done.stdout, done.stderr) == ("[b'out\\n', b'err\\n', b'upd\\n'] 0\n", "")
