import os
import random
import resource
import select
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

from tests.conftest import open_descriptors
from tests.processes import is_running, until_gone
from tests.providers.process.direct import directly
from tests.providers.process.turned import COUNT, Bench, failed, open_bench, program, until_there
from tooldispatchd.children.family import Family
from tooldispatchd.children.launchers import open_launchers
from tooldispatchd.children.spawn import Child
from tooldispatchd.forked.policy import Policy
from tooldispatchd.providers.process.reused import MAX_IDLE_EACH, Flaw, IdleChildren, Reused, ReusedChild
from tooldispatchd.providers.process.running import Command, ProgramValue
from tooldispatchd.wire.faults import Code, Fault


@pytest.fixture
async def bench(family: Family) -> AsyncIterator[Bench]:
    async with open_bench(family) as bench:
        yield bench


async def test_calls_in_turn_are_served_by_one_child(bench: Bench) -> None:
    outcomes = [await bench.call(COUNT, b'"bee"') for _ in range(3)]
    [pid] = bench.pids
    assert outcomes == [ProgramValue([pid, 0, "bee"]), ProgramValue([pid, 1, "bee"]), ProgramValue([pid, 2, "bee"])]


async def test_a_child_that_has_served_its_calls_is_ended_and_the_next_call_starts_another(family: Family) -> None:
    async with open_bench(family, calls=2) as bench:
        outcomes = [await bench.call(COUNT) for _ in range(3)]
        await bench.until_gone(1)
        first, second = bench.pids
        assert outcomes == [ProgramValue([first, 0, 1]), ProgramValue([first, 1, 1]), ProgramValue([second, 0, 1])]
        assert bench.gone == [first]


async def test_a_child_that_has_served_its_calls_sees_the_end_of_its_input(family: Family, tmp_path: Path) -> None:
    said = tmp_path / "said"
    async with open_bench(family, calls=1) as bench:
        await bench.call(f"{COUNT}\nopen({str(said)!r}, 'w').write('bye')")
        await bench.until_gone(1)
    assert said.read_text() == "bye"


async def test_a_child_that_does_not_heed_the_end_of_its_input_is_killed(family: Family) -> None:
    async with open_bench(family, calls=1) as bench:
        await bench.call(f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{COUNT}\nwhile True: time.sleep(60)")
        await bench.until_gone(1)
        assert not is_running(bench.pids[0])


async def test_the_answer_does_not_wait_for_the_end_of_the_child(family: Family) -> None:
    async with open_bench(family, calls=1) as bench:
        await bench.call(f"{COUNT}\nwhile True: time.sleep(60)")
        assert bench.gone == []


async def test_calls_at_once_have_a_child_each(bench: Bench) -> None:
    values: list[ProgramValue | Fault] = []

    async def call() -> None:
        values.append(await bench.call(COUNT))

    for _ in range(2):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(call)
    assert len(bench.pids) == 3
    assert {str(value) for value in values} == {str(ProgramValue([pid, n, 1])) for pid in bench.pids for n in (0, 1)}


async def test_few_children_stay_idle_after_many_calls_at_once(bench: Bench) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(MAX_IDLE_EACH + 2):
            nursery.start_soon(bench.call, COUNT)
    await bench.until_gone(2)
    assert len(bench.idle) == MAX_IDLE_EACH


async def test_of_too_many_idle_children_in_all_sessions_the_oldest_is_ended(family: Family) -> None:
    async with open_bench(family, most=1) as bench:
        other = Bench(family, bench.idle, calls=100)
        await bench.call(COUNT)
        assert isinstance(await other.call(COUNT), ProgramValue)
        await bench.until_gone(1)
        assert other.gone == []
        outcome = await bench.call(COUNT)
        assert outcome == ProgramValue([bench.pids[1], 0, 1])
        await other.reused.close()


async def test_sessions_share_no_child(family: Family) -> None:
    async with open_bench(family) as bench:
        other = Bench(family, bench.idle, calls=100)
        await bench.call(COUNT)
        assert await other.call(COUNT) == ProgramValue([other.pids[0], 0, 1])
        await other.reused.close()


async def test_a_child_that_dies_idle_is_reaped_at_once_and_replaced(bench: Bench) -> None:
    await bench.call(COUNT)
    os.kill(bench.pids[0], signal.SIGKILL)
    await bench.until_gone(1)
    assert not Path(f"/proc/{bench.pids[0]}").exists()
    assert await bench.call(COUNT) == ProgramValue([bench.pids[1], 0, 1])


async def test_a_child_that_died_a_moment_before_a_call_is_replaced_without_harm(bench: Bench) -> None:
    await bench.call(COUNT)
    pidfd = bench.started[0].pidfd
    os.kill(bench.pids[0], signal.SIGKILL)
    # Nobody is told before the call, for nothing is awaited.
    select.select([pidfd], [], [])
    assert await bench.call(COUNT) == ProgramValue([bench.pids[1], 0, 1])


async def test_a_child_that_closed_its_stdin_is_replaced_without_harm(bench: Bench, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    script = f"say(json.loads(os.read(0, 99)))\nos.close(0)\nopen({str(closed)!r}, 'w')\nwhile True: time.sleep(60)"
    assert await bench.call(script) == ProgramValue(1)
    await until_there(closed)
    assert await bench.call(script) == ProgramValue(1)
    await bench.until_gone(1)
    assert len(bench.pids) == 2


def late(go: Path) -> str:
    """A program that writes once more when it is told to by the file `go`."""
    wait = f"while not os.path.exists({str(go)!r}): time.sleep(0.002)"
    return f"for n, each in lines():\n  say(n)\n  {wait}\n  say('late')"


async def test_output_while_idle_is_the_next_calls_fault_and_no_more(bench: Bench, tmp_path: Path) -> None:
    go = tmp_path / "go"
    await bench.call(late(go))
    go.touch()
    await bench.until_gone(1)
    fault = failed(await bench.call(COUNT))
    assert fault.detail == f"'{sys.executable}' wrote to stdout while no call was running"
    assert isinstance(await bench.call(COUNT), ProgramValue)


async def test_output_a_moment_before_a_call_is_its_fault(bench: Bench, tmp_path: Path) -> None:
    go = tmp_path / "go"
    await bench.call(late(go))
    go.touch()
    # Nobody is told before the call, for nothing is awaited.
    select.select([bench.started[0].stdout], [], [])
    fault = failed(await bench.call(COUNT))
    assert fault.detail == f"'{sys.executable}' wrote to stdout while no call was running"
    await bench.until_gone(1)


# It writes to its own stdout and takes that back, so that who is told of it finds nothing there half of the time.
TAKES_BACK: Final = """
taken = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
while True:
    os.write(1, b"x")
    try: os.read(taken, 1)
    except BlockingIOError: pass
"""


async def test_what_an_idle_child_takes_back_it_has_written_all_the_same(family: Family) -> None:
    async with trio.open_nursery() as nursery:
        owner = Reused(IdleChildren(nursery), calls=1)
        kept = ReusedChild(family.spawn(program(TAKES_BACK).argv), owner, calls=1)
        kept.rest()
        select.select([kept.child.stdout], [], [])
        seen = {kept.look() for _ in range(100_000)}
        await kept.kill()
    assert seen <= {None, Flaw.UNASKED}


async def test_a_cancelled_call_ends_its_child(bench: Bench, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.call, f"next(lines()); open({str(asked)!r}, 'w'); time.sleep(60)")
        await until_there(asked)
        nursery.cancel_scope.cancel()
    assert bench.gone == bench.pids


async def test_a_childs_group_ends_with_it(bench: Bench) -> None:
    outcome = await bench.call("for n, each in lines(): say(os.fork() or time.sleep(60))")
    assert isinstance(outcome, ProgramValue)
    assert isinstance(outcome.value, int)
    os.kill(bench.pids[0], signal.SIGKILL)
    await until_gone(outcome.value)


async def test_a_program_that_cannot_be_started_is_told(bench: Bench) -> None:
    command = Command(argv=("no-such",), env={}, cwd=None, max_output_bytes=1 << 20)
    outcome = await bench.reused.run(bench.launch, command, b"1\n")
    assert outcome == Fault(Code.TOOL_FAILED, "cannot start 'no-such': No such file or directory", {"ran": "no"})


async def test_what_accompanies_a_child_is_told_of_each_call(bench: Bench) -> None:
    told: list[tuple[str, int]] = []

    @asynccontextmanager
    async def during(child: Child) -> AsyncIterator[None]:
        told.append(("taken", child.pid))
        try:
            yield
        finally:
            told.append(("given back", child.pid))

    async def call(script: str) -> None:
        await bench.reused.run(bench.launch, program(script), b"1\n", during=during)

    for _ in range(2):
        await call(COUNT)
    [pid] = bench.pids
    assert told == [("taken", pid), ("given back", pid)] * 2
    os.kill(pid, signal.SIGKILL)
    await bench.until_gone(1)
    assert bench.gone == [pid]
    await call("sys.exit(1)")
    assert told[4:] == [("taken", bench.pids[1]), ("given back", bench.pids[1])]


async def test_closing_ends_idle_children_and_those_that_do_not_listen(family: Family) -> None:
    async with open_bench(family) as bench:
        await bench.call("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + COUNT + "\nwhile True: time.sleep(60)")
        async with trio.open_nursery() as nursery:
            for script in (COUNT, COUNT):
                nursery.start_soon(bench.call, script)
        await bench.reused.close()
        assert sorted(bench.gone) == sorted(bench.pids)


async def test_closing_while_a_call_runs_ends_it(bench: Bench, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    outcomes: list[ProgramValue | Fault] = []

    async def call() -> None:
        outcomes.append(await bench.call(f"next(lines()); open({str(asked)!r}, 'w'); time.sleep(60)"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await until_there(asked)
        await bench.reused.close()
        assert bench.gone == bench.pids
    assert failed(outcomes[0]).extras == {"signal": 9}


async def test_a_call_after_closing_is_refused(bench: Bench) -> None:
    await bench.reused.close()
    assert failed(await bench.call(COUNT)).detail == f"cannot start '{sys.executable}': its session has ended"
    assert bench.gone == bench.pids


async def test_closing_cannot_be_cancelled(family: Family) -> None:
    async with open_bench(family) as bench:
        await bench.call(COUNT)
        with trio.CancelScope() as scope:
            scope.cancel()
            await bench.reused.close()
        assert bench.gone == bench.pids


# Four pipes, a pidfd and an epoll set.
DESCRIPTORS: Final = 6


async def test_an_idle_child_costs_descriptors_and_no_task(bench: Bench) -> None:
    await bench.call(COUNT)
    before = open_descriptors()
    tasks = trio.lowlevel.current_statistics().tasks_living
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(bench.call, COUNT)
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    assert len(open_descriptors() - before) == 2 * DESCRIPTORS


async def test_a_child_that_leaves_is_not_killed_because_its_session_ends(family: Family, tmp_path: Path) -> None:
    said = tmp_path / "said"
    async with open_bench(family, calls=1) as bench:
        await bench.call(f"{COUNT}\ntime.sleep(0.1); open({str(said)!r}, 'w')")
    assert said.exists()


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_dies_no_answer_is_another_calls(family: Family, seed: int) -> None:
    chance = random.Random(seed)
    mistaken: list[ProgramValue | Fault] = []

    async def agent(bench: Bench, name: str) -> None:
        for number in range(15):
            asked = f"{name} {number}"
            outcome = await bench.call("for n, each in lines(): say(each)", f'"{asked}"'.encode())
            if isinstance(outcome, ProgramValue) and outcome.value != asked:
                mistaken.append(outcome)

    async def kill_some(bench: Bench) -> None:
        while True:
            await trio.sleep(chance.uniform(0.001, 0.02))
            living = [child for child in bench.started if child.pidfd >= 0]
            if living:
                chance.choice(living).signal_group(signal.SIGKILL)

    async with open_bench(family, calls=10, most=3) as bench, trio.open_nursery() as killers:
        killers.start_soon(kill_some, bench)
        async with trio.open_nursery() as agents:
            for name in "abc":
                agents.start_soon(agent, bench, name)
        killers.cancel_scope.cancel()
    assert mistaken == []


async def test_a_child_of_a_launcher_is_served_and_reaped_as_any_other(family: Family) -> None:
    async with open_launchers(family) as launchers, trio.open_nursery() as home:
        # As in a daemon: who is killed late is reaped at its looks.
        home.start_soon(family.end_orphans)

        async def launch(argv: Sequence[str], /, *, env: Mapping[str, str], with_updates: bool) -> Child:
            policy = Policy(files=64, cpu_s=10)
            return await launchers.launch(policy, argv, env=env, with_updates=with_updates)

        bench = Bench(family, IdleChildren(home), calls=100, launch=launch)
        assert [await bench.call(COUNT) for _ in range(2)] == [ProgramValue([bench.pids[0], n, 1]) for n in range(2)]
        os.kill(bench.pids[0], signal.SIGKILL)
        await bench.until_gone(1)
        # Its launcher is told to reap it, and nobody waits for that.
        with trio.fail_after(20):
            while Path(f"/proc/{bench.pids[0]}").exists():  # noqa: ASYNC110  # another process does it
                await trio.sleep(0.002)
        fault = failed(await bench.call("next(lines()); sys.exit(3)"))
        assert fault.extras == {"exit_code": 3}
        await bench.call(COUNT)
        await bench.reused.close()
        assert bench.gone == bench.pids
        home.cancel_scope.cancel()


async def test_a_child_that_cannot_be_watched_does_not_live(family: Family) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    start = directly(family)

    async def launch(argv: Sequence[str], /, *, env: Mapping[str, str], with_updates: bool) -> Child:
        child = await start(argv, env=env, with_updates=with_updates)
        # Out of descriptors, from now on.
        resource.setrlimit(resource.RLIMIT_NOFILE, (os.dup(0), hard))
        return child

    before = open_descriptors()
    async with trio.open_nursery() as home:
        bench = Bench(family, IdleChildren(home), calls=100, launch=launch)
        try:
            fault = failed(await bench.call(COUNT))
        finally:
            spare, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            os.close(spare)
        assert fault.detail == f"cannot start '{sys.executable}': it cannot be watched: Too many open files"
        # What was made for it is removed, as for any other.
        assert bench.gone == bench.pids
        await bench.reused.close()
        home.cancel_scope.cancel()
    assert len(family) == 0
    assert open_descriptors() == before
