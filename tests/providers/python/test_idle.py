"""Workers that wait, and what keeps those of one session from all others."""

import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from tests.processes import is_running, until_gone
from tests.providers.python.runs import Runs, sample, until_written
from tooldispatchd.children.scratch import open_scratches
from tooldispatchd.forked.policy import Policy
from tooldispatchd.providers.python.idle import MAX_OF_SESSIONS, IdleWorkers, WorkerKey
from tooldispatchd.providers.python.peer import WorkerPipes
from tooldispatchd.providers.python.tool import PythonTool
from tooldispatchd.providers.python.warm import open_warm


def of_session(name: str, **fields: object) -> PythonTool:
    """A sample's function whose workers serve one session alone."""
    return sample(name, resident=True, keeps_state=True, **fields)


def in_workspace(name: str) -> PythonTool:
    """One that is shut in to the session's workspace."""
    return of_session(name, policy=Policy(read=("workspace",), write=("workspace",), network=False))


@pytest.fixture
async def several(runs: Runs, tmp_path: Path) -> AsyncIterator[Runs]:
    """The same family with scratch directories, and sessions 1 and 2 open."""
    (tmp_path / "scratch").mkdir()
    async with (
        open_scratches(tmp_path / "scratch", runs.family) as scratches,
        open_warm(runs.family, scratches, spare_s=0.3) as warm,
    ):
        for session in (1, 2):
            warm.workers.open(session)
        yield Runs(runs.family, warm)


async def test_a_worker_of_a_session_serves_no_other_session(several: Runs) -> None:
    tool = of_session("count")
    assert [await several.value(tool, session=number) for number in (1, 1, 2, 1, 2)] == [1, 2, 1, 3, 2]


async def test_a_worker_serves_all_functions_under_one_policy(several: Runs) -> None:
    one, other, bounded = of_session("pids"), of_session("add"), of_session("pids", policy=Policy(files=32))
    several.warm.keep([one, other, bounded])
    first = (await several.value(one, session=1))[0]
    assert await several.value(other, session=1, a=1) == 2
    assert (await several.value(one, session=1))[0] == first
    assert (await several.value(bounded, session=1))[0] != first


async def test_where_no_session_is_open_no_worker_waits(several: Runs) -> None:
    tool = of_session("pids")
    pid = (await several.value(tool, session=3))[0]
    assert several.warm.waiting(tool) == []
    await until_gone(pid)


async def test_two_workers_of_a_session_wait_at_most(several: Runs, tmp_path: Path) -> None:
    tool = of_session("wait_for")

    async def call(begun: Path) -> None:
        await several.value(tool, session=1, begun=str(begun), go=str(tmp_path / "go"))

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(call, tmp_path / f"begun{number}")
        for number in range(4):
            # None of them waits for a slow one.
            await until_written(tmp_path / f"begun{number}")
        (tmp_path / "go").touch()
    assert len(several.warm.waiting(tool)) == 2


async def test_a_session_that_ends_leaves_no_worker(several: Runs) -> None:
    tool = of_session("pids")
    one, other = [(await several.value(tool, session=number))[0] for number in (1, 2)]
    await several.warm.end_session(1)
    assert not is_running(one)
    assert several.warm.waiting(tool) == [other]


async def test_a_worker_that_waits_too_long_ends(several: Runs) -> None:
    tool = of_session("pids")
    await until_gone((await several.value(tool, session=1))[0])
    assert several.warm.waiting(tool) == []


async def test_a_worker_that_died_while_it_waited_loses_no_call(several: Runs) -> None:
    tool = of_session("pids")
    first = (await several.value(tool, session=1))[0]
    os.kill(first, signal.SIGKILL)
    assert (await several.value(tool, session=1))[0] != first


async def test_a_worker_whose_workspace_was_replaced_serves_no_more(several: Runs, tmp_path: Path) -> None:
    place = tmp_path / "place"
    at = {"session": 1, "workspace": str(place), "path": str(place / "file")}
    for _ in range(2):
        place.mkdir()
        assert await several.value(in_workspace("write_file"), **at, size=1) == 1
        shutil.rmtree(place)


async def test_a_worker_is_shut_in_to_the_workspace_of_its_session(several: Runs, tmp_path: Path) -> None:
    tool = in_workspace("write_file")
    places = [tmp_path / name for name in ("one", "other")]
    for place in places:
        place.mkdir()
    for session, own, foreign in ((1, places[0], places[1]), (2, places[1], places[0]), (1, places[0], places[1])):
        at = {"session": session, "workspace": str(own)}
        assert await several.value(tool, **at, path=str(own / "file"), size=1) == 1
        fault = await several.failure(tool, **at, path=str(foreign / "new"), size=1)
        assert "Error: [Errno" in str(fault.extras["exception"])
    # Nor where a session were to be told another's workspace.
    assert await several.value(tool, session=1, workspace=str(places[1]), path=str(places[1] / "file"), size=1) == 1
    fault = await several.failure(tool, session=1, workspace=str(places[0]), path=str(places[1] / "file"), size=1)
    assert "Error: [Errno" in str(fault.extras["exception"])


async def test_a_worker_has_a_directory_that_each_call_finds_empty(several: Runs, tmp_path: Path) -> None:
    tool = of_session("scratch", policy=Policy(write=(), network=False))
    first = await several.value(tool, session=1)
    assert len(set(first)) == 1
    assert Path(first[0]).parent == tmp_path / "scratch"
    # It has left a file, and so another one serves the next call.
    assert await several.value(tool, session=1) != first
    assert list((tmp_path / "scratch").iterdir()) == []
    await several.value(of_session("pids", policy=tool.policy), session=1)
    assert len(list((tmp_path / "scratch").iterdir())) == 1
    await several.warm.end_session(1)
    assert list((tmp_path / "scratch").iterdir()) == []


async def test_calls_that_are_cancelled_at_any_time_leave_nothing(several: Runs, tmp_path: Path) -> None:
    tool = of_session("pids", policy=Policy(write=(), network=False))
    for tenth in range(20):
        with trio.move_on_after(tenth * tenth / 10_000):
            for _ in range(5):
                await several.value(tool, session=1)
    await several.warm.end_session(1)
    await several.settled()
    assert list((tmp_path / "scratch").iterdir()) == []


async def test_of_all_sessions_a_bounded_number_waits(nothing_left: None) -> None:
    ended: list[WorkerPipes] = []

    async def end(worker: WorkerPipes) -> None:
        ended.append(worker)
        await worker.end()

    async with trio.open_nursery() as nursery:
        idle = IdleWorkers(nursery, end)
        workers = [WorkerPipes(1) for _ in range(MAX_OF_SESSIONS + 2)]
        for session, worker in enumerate(workers):
            idle.open(session)
            idle.put(WorkerKey.of(of_session("add"))._replace(session=session), worker)
            await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked()
        assert ended == workers[:2]
        for worker in idle.drop(()):
            await end(worker)
        nursery.cancel_scope.cancel()
