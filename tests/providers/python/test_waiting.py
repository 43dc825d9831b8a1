"""Workers that live on from call to call."""

import os
import signal
from pathlib import Path

import trio

from tests.processes import is_running, until_gone
from tests.providers.python.runs import Runs, sample, until_written
from tooldispatchd.calls.outcome import Update
from tooldispatchd.children.endings import Limits
from tooldispatchd.forked.policy import Policy
from tooldispatchd.providers.python.warm import open_warm
from tooldispatchd.wire.faults import Code


async def test_a_worker_serves_one_call_after_the_other(runs: Runs) -> None:
    tool = sample("count", resident=True)
    assert [await runs.value(tool) for _ in range(3)] == [1, 2, 3]


async def test_a_worker_makes_its_files_where_it_did_before_a_call_had_a_directory(runs: Runs, tmp_path: Path) -> None:
    tool = sample("temporary", resident=True)
    for number, private in enumerate((False, True, False, True)):
        scratch = tmp_path / str(number)
        assert await runs.value(tool, scratch=str(scratch), private=private) is private
        if private:
            (scratch / "note").unlink()
            scratch.rmdir()


async def test_workers_are_as_many_as_have_run_at_once(runs: Runs, tmp_path: Path) -> None:
    tool = sample("wait_for", resident=True)

    async def call(begun: Path) -> None:
        await runs.value(tool, begun=str(begun), go=str(tmp_path / "go"))

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(call, tmp_path / f"begun{number}")
        for number in range(10):
            await until_written(tmp_path / f"begun{number}")
        (tmp_path / "go").touch()
    assert len(runs.warm.waiting(tool)) == 10


async def test_a_worker_that_was_long_not_needed_ends_with_the_next_call(runs: Runs, tmp_path: Path) -> None:
    tool = sample("wait_for", resident=True)
    (tmp_path / "go").touch()

    async with open_warm(runs.family, spare_s=0.05) as warm:
        several = Runs(runs.family, warm)

        async def call(begun: Path) -> None:
            await several.value(tool, begun=str(begun), go=str(tmp_path / "go"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, tmp_path / "first")
            nursery.start_soon(call, tmp_path / "second")
        first, second = warm.waiting(tool)
        await trio.sleep(0.06)
        await call(tmp_path / "third")
        assert warm.waiting(tool) == [second]
        await until_gone(first)


async def test_what_a_worker_raises_ends_nothing(runs: Runs) -> None:
    tool = sample("fail", resident=True)
    first = await runs.failure(tool, message="one")
    waiting = runs.warm.waiting(tool)
    assert "printed before" in str(first.extras["stderr_tail"])
    assert (await runs.failure(tool, message="two")).extras["exception"] == "ValueError: two"
    assert runs.warm.waiting(tool) == waiting


async def test_what_a_worker_said_before_is_no_part_of_the_next_fault(runs: Runs) -> None:
    tool = sample("fail", resident=True)
    await runs.failure(tool, message="zebra")
    assert "zebra" not in str((await runs.failure(tool, message="two")).extras["stderr_tail"])


async def test_a_worker_refuses_what_the_types_refuse(runs: Runs) -> None:
    tool = sample("add", resident=True)
    assert (await runs.fault(tool, a="one")).code is Code.INVALID_INPUT
    assert await runs.value(tool, a=1) == 2


async def test_a_worker_that_died_is_replaced(runs: Runs) -> None:
    tool = sample("pids", resident=True)
    first = (await runs.value(tool))[0]
    os.kill(first, signal.SIGKILL)
    assert (await runs.value(tool))[0] != first


async def test_a_worker_that_dies_in_a_call_fails_that_call(runs: Runs) -> None:
    tool = sample("die", resident=True)
    assert (await runs.failure(tool, signum=9)).extras["signal"] == 9
    assert runs.warm.waiting(tool) == []


async def test_a_worker_is_replaced_after_its_calls(runs: Runs) -> None:
    tool = sample("count", resident=True, max_forks=2)
    assert [await runs.value(tool) for _ in range(5)] == [1, 2, 1, 2, 1]


async def test_a_worker_is_replaced_over_its_memory(runs: Runs) -> None:
    tool = sample("count", resident=True, max_rss=1 << 20)
    assert [await runs.value(tool) for _ in range(65)][-2:] == [64, 1]


async def test_a_worker_whose_call_is_cancelled_is_killed(runs: Runs, tmp_path: Path) -> None:
    tool = sample("hang_deaf", resident=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: runs.outcome(tool, path=str(tmp_path / "pid")))
        pid = await until_written(tmp_path / "pid")
        nursery.cancel_scope.cancel()
    assert not is_running(pid)
    assert runs.warm.waiting(tool) == []


async def test_a_worker_that_leaves_a_thread_ends_after_its_answer(runs: Runs) -> None:
    tool = sample("start_thread", resident=True)
    assert await runs.value(tool) == "started"
    assert runs.warm.waiting(tool) == []


async def test_a_worker_tells_its_progress(runs: Runs) -> None:
    tool = sample("progress", resident=True)
    for _ in range(2):
        updates: list[Update] = []
        assert await runs.value(tool, steps=2, update=updates.append) == "done"
        assert updates[-1].progress == 2


async def test_the_processor_time_of_a_worker_is_counted_for_each_call(runs: Runs) -> None:
    policy = Policy(cpu_s=1)
    tool = sample("spin_for", resident=True, policy=policy, limits=Limits(cpu_s=1))
    # One second is what a child would have in all.
    assert await runs.value(tool, cpu_s=0.7) is None
    assert await runs.value(tool, cpu_s=0.7) is None


async def test_a_worker_that_is_confined_has_its_limits_in_each_call(runs: Runs) -> None:
    tool = sample("open_many", resident=True, policy=Policy(files=32), limits=Limits(files=32))
    for _ in range(2):
        assert (await runs.failure(tool, count=100)).extras["limit"] == "files"
        assert await runs.value(tool, count=3) == 3


async def test_a_workers_results_are_bounded(runs: Runs) -> None:
    tool = sample("large", resident=True, max_output_bytes=102)
    assert (await runs.failure(tool, size=1000)).extras["limit"] == "output_bytes"
    assert await runs.value(tool, size=100) == "x" * 100
