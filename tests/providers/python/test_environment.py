"""Parents that die, fail, age and are replaced; no call is lost that had not begun."""

import os
import signal
from pathlib import Path

import trio
import trio.testing

from tests.processes import is_running, until_gone
from tests.providers.python.runs import Runs, held, sample, until_written
from tooldispatchd.children.procstat import resident_bytes
from tooldispatchd.providers.python.tool import ReturnedValue
from tooldispatchd.wire.faults import Fault


async def test_a_parent_that_was_killed_is_replaced(runs: Runs) -> None:
    parent = await runs.parent()
    os.kill(parent, signal.SIGKILL)
    await until_gone(parent)
    assert await runs.parent() != parent


async def test_calls_whose_parent_is_killed_before_they_are_born_are_not_lost(runs: Runs) -> None:
    runs.warm.keep([sample("echo"), sample("pids")])
    parent = await runs.parent()
    os.kill(parent, signal.SIGSTOP)
    values: list[object] = []

    async def call(number: int) -> None:
        values.append(await runs.value("echo", value=number))

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(call, number)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert values == []
        os.kill(parent, signal.SIGKILL)
    assert sorted(map(str, values)) == [str(number) for number in range(8)]


async def test_a_call_goes_on_when_its_parent_is_killed(runs: Runs, tmp_path: Path) -> None:
    runs.warm.keep([sample("wait_for"), sample("pids")])
    parent = await runs.parent()
    outcomes: list[ReturnedValue | Fault] = []

    async def call() -> None:
        outcomes.append(await runs.outcome("wait_for", begun=str(tmp_path / "begun"), go=str(tmp_path / "go")))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await until_written(tmp_path / "begun")
        os.kill(parent, signal.SIGKILL)
        await until_gone(parent)
        (tmp_path / "go").touch()
    assert outcomes == [ReturnedValue("went")]


async def test_killing_parents_at_random_loses_no_call_and_begins_none_twice(runs: Runs, tmp_path: Path) -> None:
    runs.warm.keep([sample("append"), sample("pids")])
    parent = await runs.parent()
    outcomes: list[ReturnedValue | Fault] = []

    async def call(number: int) -> None:
        outcomes.append(await runs.outcome("append", path=str(tmp_path / f"{number}")))

    async with trio.open_nursery() as nursery:
        for number in range(24):
            nursery.start_soon(call, number)
            await trio.sleep(0.003)
            if number % 8 == 4:
                os.kill(parent, signal.SIGKILL)
                parent = await runs.parent()
    begun = [(tmp_path / str(number)).read_text() for number in range(24) if (tmp_path / str(number)).exists()]
    assert set(begun) == {"x"}
    assert len(outcomes) == 24
    assert outcomes.count(ReturnedValue("appended")) >= 21


async def test_a_parent_is_replaced_after_its_forks(runs: Runs) -> None:
    tool = sample("pids", max_forks=3)
    parents = [(await runs.value(tool))[1] for _ in range(4)]
    assert len(set(parents[:3])) == 1
    with trio.fail_after(10):
        while (await runs.value(tool))[1] == parents[0]:
            pass
    await until_gone(parents[0])


async def test_a_parent_is_replaced_over_its_memory(runs: Runs) -> None:
    tool = sample("pids", max_rss=1)
    parent = (await runs.value(tool))[1]
    with trio.fail_after(10):
        while (await runs.value(tool))[1] == parent:
            pass


async def test_a_parent_that_has_aged_waits_for_its_children(runs: Runs, tmp_path: Path) -> None:
    tool = sample("wait_for", max_forks=1)
    outcomes: list[ReturnedValue | Fault] = []

    async def call() -> None:
        outcomes.append(await runs.outcome(tool, begun=str(tmp_path / "begun"), go=str(tmp_path / "go")))

    runs.warm.keep([tool, sample("pids", max_forks=1)])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        first = await until_written(tmp_path / "begun")
        with trio.fail_after(10):
            while (await runs.value(sample("pids", max_forks=1)))[1] == first:
                pass
        assert is_running(first)
        (tmp_path / "go").touch()
    assert outcomes == [ReturnedValue("went")]
    await until_gone(first)


async def test_a_call_that_is_cancelled_is_killed(runs: Runs, tmp_path: Path) -> None:
    runs.warm.keep([sample("hang_deaf"), sample("pids")])
    await runs.parent()
    await runs.settled()
    before = held()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: runs.outcome("hang_deaf", path=str(tmp_path / "pid")))
        pid = await until_written(tmp_path / "pid")
        nursery.cancel_scope.cancel()
    assert not is_running(pid)
    assert held() == before


async def test_a_call_can_be_cancelled_at_any_stage(runs: Runs) -> None:
    runs.warm.keep([sample("echo"), sample("pids")])
    await runs.parent()
    await runs.settled()
    before = held()
    for microseconds in range(0, 4000, 200):
        with trio.move_on_after(microseconds / 1e6):
            await runs.outcome("echo", value="x" * 300_000)
    await runs.settled()
    assert held() == before


async def test_a_call_that_gives_up_while_the_parent_loads_does_not_stop_it(runs: Runs) -> None:
    with trio.move_on_after(0.01) as scope:
        await runs.outcome("add", a=1)
    assert scope.cancelled_caught
    assert await runs.value("add", a=1) == 2


async def test_what_calls_leave_does_not_add_up(runs: Runs) -> None:
    runs.warm.keep([sample("add"), sample("fail")])
    await runs.value("add", a=1)
    await runs.settled()
    before = held()
    for _ in range(30):
        await runs.value("add", a=1)
        await runs.failure("fail", message="x")
    await runs.settled()
    assert held() == before


def test_the_memory_of_who_is_gone_is_none() -> None:
    assert resident_bytes(2**22 + 1) == 0
    assert resident_bytes(os.getpid()) > 1 << 20


async def test_a_parent_that_nobody_wants_any_more_does_not_stay(runs: Runs) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: runs.outcome("add", a=1))
        await trio.testing.wait_all_tasks_blocked()
        runs.warm.keep([])
        nursery.cancel_scope.cancel()
    with trio.fail_after(10):
        while len(runs.family):  # noqa: ASYNC110  # nobody tells it
            await trio.sleep(0.01)


async def test_other_code_has_a_parent_of_its_own_which_is_started_where_the_one_before_was_called(runs: Runs) -> None:
    before, after, uncalled = (
        sample("pids", code="1"),
        sample("pids", code="2"),
        sample("pids", code="3", env=(("A", "1"),)),
    )
    runs.warm.keep([before])
    first = (await runs.value(before))[1]
    runs.warm.keep([before, after, uncalled])
    with trio.fail_after(10):
        while len(runs.family) < 2:  # noqa: ASYNC110  # nobody tells it
            await trio.sleep(0.002)
    second = (await runs.value(after))[1]
    # Whoever has the old configuration has the old code.
    assert (await runs.value(before))[1] == first
    assert second != first
    runs.warm.keep([after])
    await until_gone(first)
    assert (await runs.value(after))[1] == second
    await runs.settled()
