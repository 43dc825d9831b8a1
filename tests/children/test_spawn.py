import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.children.tended import whole
from tests.processes import until_gone
from tooldispatchd.children.family import Family
from tooldispatchd.children.spawn import Child, Exit, SpawnError

JOIN = """
import errno, os, sys
print(os.getpid() == os.getpgrp(), os.getpid() == os.getsid(0), flush=True)
if os.fork() == 0:
    try:
        os.setpgid(0, int(sys.argv[1]))
    except OSError as error:
        print(errno.errorcode[error.errno])
"""
DEAF = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1000; done"]


async def read(child: Child) -> bytes:
    """The first bytes of the child's stdout."""
    with trio.fail_after(10):
        await trio.lowlevel.wait_readable(child.stdout)
        return os.read(child.stdout, 65536)


async def read_all(child: Child) -> bytes:
    """The child's stdout up to its end."""
    whole = b""
    while chunk := await read(child):
        whole += chunk
    return whole


async def test_a_child_reads_writes_and_ends(family: Family) -> None:
    child = family.spawn(["cat"])
    os.write(child.stdin, b"hello")
    child.close_stdin()
    assert await read_all(child) == b"hello"
    await child.exited()
    assert child.reap() == Exit(code=0)


async def test_an_exit_code_is_told(family: Family) -> None:
    child = family.spawn(["sh", "-c", "exit 7"])
    await child.exited()
    assert child.reap() == Exit(code=7)


async def test_a_signal_is_told(family: Family) -> None:
    child = family.spawn(["sh", "-c", "kill -SEGV $$"])
    await child.exited()
    assert child.reap() == Exit(signal=signal.SIGSEGV)


async def test_reaping_twice_tells_the_same(family: Family) -> None:
    child = family.spawn(["sh", "-c", "exit 7"])
    await child.exited()
    child.reap()
    assert child.reap() == Exit(code=7)


async def test_a_running_child_cannot_be_reaped(family: Family) -> None:
    child = family.spawn(["sleep", "1000"])
    with pytest.raises(RuntimeError, match="it still runs"):
        child.reap()


async def test_a_reaped_child_has_no_descriptors_and_gets_no_signals(family: Family) -> None:
    child = family.spawn(["true"])
    await child.exited()
    child.reap()
    child.signal_group(signal.SIGTERM)
    child.close_stdin()
    assert (child.stdin, child.stdout, child.stderr, child.pidfd) == (-1, -1, -1, -1)
    assert child.has_exited()


async def test_reaping_kills_what_the_leader_left_in_its_group(family: Family) -> None:
    child = family.spawn(["sh", "-c", "sleep 1000 & echo $!"])
    left = int(await read(child))
    await child.exited()
    child.reap()
    await until_gone(left)


@pytest.mark.parametrize("cwd", [None, "/"])
async def test_a_child_leads_a_session_and_can_join_no_other_group(family: Family, cwd: str | None) -> None:
    child = family.spawn([sys.executable, "-I", "-S", "-c", JOIN, str(os.getpgrp())], cwd=cwd)
    assert await read_all(child) == b"True True\nEPERM\n"


async def test_any_number_of_tasks_wait_for_the_end(family: Family) -> None:
    child = family.spawn(["cat"])
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(child.exited)
            await wait_all_tasks_blocked()
            child.close_stdin()
    assert child.reap() == Exit(code=0)


async def test_when_the_waiting_task_is_cancelled_another_takes_its_place(family: Family) -> None:
    child = family.spawn(["cat"])
    first = trio.CancelScope()

    async def wait_first() -> None:
        with first:
            await child.exited()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_first)
            await wait_all_tasks_blocked()
            nursery.start_soon(child.exited)
            await wait_all_tasks_blocked()
            first.cancel()
            await wait_all_tasks_blocked()
            child.close_stdin()
    assert child.reap() == Exit(code=0)


async def test_reaping_wakes_those_who_wait_for_the_end(family: Family) -> None:
    child = family.spawn(["cat"])
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child.exited)
            nursery.start_soon(child.exited)
            await wait_all_tasks_blocked()
            child.signal_group(signal.SIGKILL)
            # Not through trio: it would wake them before us.
            os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED | os.WNOWAIT)
            child.reap()


async def test_killing_ends_a_child_that_has_stopped_itself(family: Family) -> None:
    child = family.spawn(["sh", "-c", "kill -STOP $$"])
    with trio.fail_after(10):
        assert await child.kill() == Exit(signal=signal.SIGKILL)


async def test_stopping_a_polite_child_closes_its_input(family: Family) -> None:
    child = family.spawn(["cat"])
    assert await child.stop(polite_s=10) == Exit(code=0)


async def test_stopping_a_child_that_ignores_its_input_sends_term(family: Family) -> None:
    child = family.spawn(["sleep", "1000"])
    assert await child.stop(polite_s=0.01, term_s=10) == Exit(signal=signal.SIGTERM)


async def test_stopping_a_child_that_ignores_term_kills_it(family: Family) -> None:
    child = family.spawn(DEAF)
    await read(child)
    assert await child.stop(polite_s=0.01, term_s=0.01) == Exit(signal=signal.SIGKILL)


async def test_stopping_kills_the_whole_group_of_a_polite_leader(family: Family) -> None:
    child = family.spawn(["sh", "-c", "sleep 1000 & echo $!; cat"])
    left = int(await read(child))
    assert await child.stop(polite_s=10) == Exit(code=0)
    await until_gone(left)


async def test_stopping_under_cancellation_still_reaps(family: Family) -> None:
    child = family.spawn(DEAF)
    await read(child)
    with trio.CancelScope() as scope:
        scope.cancel()
        assert await child.stop(polite_s=0.01, term_s=0.01) == Exit(signal=signal.SIGKILL)


async def test_two_tasks_may_stop_one_child(family: Family) -> None:
    child = family.spawn(["cat"])
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child.stop)
            nursery.start_soon(child.stop)
    assert child.reap() == Exit(code=0)


async def test_a_missing_program_is_told(family: Family) -> None:
    with pytest.raises(SpawnError, match=r"^cannot start 'no-such': No such file or directory$") as caught:
        family.spawn(["no-such"])
    assert (caught.value.argv0, caught.value.why) == ("no-such", "No such file or directory")


async def test_a_missing_program_in_a_directory_is_told(family: Family) -> None:
    with pytest.raises(SpawnError, match=r"^cannot start 'no-such': No such file or directory$"):
        family.spawn(["no-such"], cwd="/")


async def test_a_missing_directory_is_told(family: Family) -> None:
    with pytest.raises(SpawnError, match=r"^cannot start 'true': directory '/no/such': No such file or directory$"):
        family.spawn(["true"], cwd="/no/such")


async def test_a_file_that_is_no_program_is_told(family: Family, tmp_path: Path) -> None:
    (tmp_path / "plain").touch(mode=0o644)
    with pytest.raises(SpawnError, match="Permission denied"):
        family.spawn([str(tmp_path / "plain")])


@pytest.mark.parametrize("cwd", [None, "/"])
@pytest.mark.parametrize("word", ["a\0b", "\ud800"])
async def test_a_word_that_no_program_can_get_is_told(family: Family, word: str, cwd: str | None) -> None:
    with pytest.raises(SpawnError, match=r"^cannot start 'echo': "):
        family.spawn(["echo", word], cwd=cwd)


async def test_a_child_runs_in_its_directory(family: Family, tmp_path: Path) -> None:
    child = family.spawn(["pwd"], cwd=str(tmp_path))
    assert await read(child) == f"{tmp_path}\n".encode()
    await child.exited()
    assert child.reap() == Exit(code=0)


@pytest.mark.parametrize("cwd", ["{}/true", "a\0b"])
async def test_what_is_no_directory_is_told(family: Family, tmp_path: Path, cwd: str) -> None:
    (tmp_path / "true").touch()
    with pytest.raises(
        SpawnError, match=r"^cannot start 'true': (directory '.*': Not a directory|embedded null byte)$"
    ):
        family.spawn(["true"], cwd=cwd.format(tmp_path))


@pytest.mark.parametrize("cwd", [None, "/"])
async def test_a_name_that_no_variable_can_have_is_told(family: Family, cwd: str | None) -> None:
    with pytest.raises(SpawnError, match=r"^cannot start 'true': illegal environment variable name$"):
        family.spawn(["true"], env={"A=B": "1"}, cwd=cwd)


@pytest.mark.parametrize(("argv0", "path"), [("./here", "/bin"), ("here", "."), ("here", ""), ("sub/here", "/bin")])
async def test_a_relative_program_or_path_starts_in_the_directory(
    family: Family, tmp_path: Path, argv0: str, path: str
) -> None:
    for program in (tmp_path / "here", tmp_path / "sub" / "here"):
        program.parent.mkdir(exist_ok=True)
        program.write_text('#!/bin/sh\necho "$0"\n')
        program.chmod(0o755)
    child = family.spawn([argv0], env={"PATH": path}, cwd=str(tmp_path))
    assert (await read(child)).strip().endswith(b"here")
    assert await child.stop(polite_s=10) == Exit(code=0)


@pytest.mark.parametrize("cwd", [None, "/"])
async def test_a_child_does_not_ignore_what_python_does(family: Family, cwd: str | None) -> None:
    child = family.spawn(["sed", "-n", "s/^SigIgn:\t//p", "/proc/self/status"], cwd=cwd)
    ignored = int(await read_all(child), 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1))
    assert await child.stop(polite_s=10) == Exit(code=0)


@pytest.mark.parametrize("cwd", [None, "/"])
async def test_a_program_is_looked_for_in_the_path_that_the_child_gets(
    family: Family, tmp_path: Path, cwd: str | None
) -> None:
    program = tmp_path / "only-here"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    child = family.spawn(["only-here"], env={"PATH": str(tmp_path)}, cwd=cwd)
    assert await read(child) == b"found\n"
    await child.kill()


@pytest.mark.parametrize("cwd", [None, "/"])
async def test_a_program_that_is_only_in_the_daemons_path_is_missing(
    family: Family, tmp_path: Path, cwd: str | None
) -> None:
    with pytest.raises(SpawnError, match=r"^cannot start 'true': No such file or directory$"):
        family.spawn(["true"], env={"PATH": str(tmp_path)}, cwd=cwd)


@pytest.mark.parametrize("cwd", [None, "/"])
@pytest.mark.parametrize("with_updates", [False, True])
async def test_a_child_has_further_descriptors_by_their_numbers(
    family: Family, with_updates: bool, cwd: str | None
) -> None:
    pipes = [os.pipe() for _ in range(2)]
    # Crosswise: the number of each may be that of the other's source.
    extra = {5: pipes[0][1], 4: pipes[1][1]}
    child = family.spawn(
        ["sh", "-c", "ls /proc/$$/fd; echo five >&5; echo four >&4"], cwd=cwd, with_updates=with_updates, extra=extra
    )
    for _, writing in pipes:
        os.close(writing)
    assert (await read_all(child)).split() == [b"0", b"1", b"2", *[b"3"] * with_updates, b"4", b"5"]
    for (reading, _), said in zip(pipes, (b"five\n", b"four\n"), strict=True):
        assert whole(reading) == said
    await child.kill()


async def test_a_further_descriptor_may_be_the_fourth_where_there_are_no_updates(family: Family) -> None:
    reading, writing = os.pipe()
    child = family.spawn(["sh", "-c", "echo three >&3"], extra={3: writing})
    os.close(writing)
    assert whole(reading) == b"three\n"
    await child.kill()


async def test_a_further_descriptor_that_is_none_is_told_and_leaves_nothing(family: Family) -> None:
    await family.spawn(["true"]).kill()
    before = {entry.name for entry in Path("/proc/self/fd").iterdir()}
    for number in (1, 999):
        with pytest.raises(SpawnError, match=r"^cannot start 'true': Bad file descriptor$"):
            family.spawn(["true"], extra={4: 990 + number})
    assert {entry.name for entry in Path("/proc/self/fd").iterdir()} == before
    assert len(family) == 0


# The guardian's pipe and its pidfd are the first that are opened.
@pytest.mark.parametrize("room", range(3))
async def test_a_guardian_that_cannot_start_is_told_and_tried_again(family: Family, room: int) -> None:
    before = {entry.name for entry in Path("/proc/self/fd").iterdir()}
    with few_descriptors(room), pytest.raises(SpawnError, match=r"^cannot start 'true': Too many open files$"):
        family.spawn(["true"])
    assert {entry.name for entry in Path("/proc/self/fd").iterdir()} == before
    await family.spawn(["true"]).kill()


@pytest.mark.parametrize("cwd", [None, "/"])
# Each place where the kernel may refuse: three pipes take six, the pidfd is the seventh.
@pytest.mark.parametrize("room", range(7))
async def test_running_out_of_descriptors_is_told_and_leaves_none(family: Family, room: int, cwd: str | None) -> None:
    await family.spawn(["true"]).kill()
    before = {entry.name for entry in Path("/proc/self/fd").iterdir()}
    with few_descriptors(room), pytest.raises(SpawnError, match=r"^cannot start 'true': Too many open files$"):
        family.spawn(["true"], cwd=cwd)
    assert {entry.name for entry in Path("/proc/self/fd").iterdir()} == before
    assert len(family) == 0


@contextmanager
def few_descriptors(room: int) -> Iterator[None]:
    """Let this process open exactly `room` more descriptors."""
    limit = 0
    while room or os.path.lexists(f"/proc/self/fd/{limit}"):
        room -= not os.path.lexists(f"/proc/self/fd/{limit}")
        limit += 1
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
