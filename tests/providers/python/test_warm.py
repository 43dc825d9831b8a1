import os
from pathlib import Path

import pytest
import trio

from tests.processes import until_gone
from tests.providers.python.runs import Runs, sample
from tooldispatchd.calls.outcome import Update
from tooldispatchd.providers.python.tool import ReturnedValue
from tooldispatchd.wire.faults import Code, Fault


async def test_what_the_function_returns_is_the_value(runs: Runs) -> None:
    assert await runs.outcome("add", a=1, b=2) == ReturnedValue(3)


async def test_an_argument_that_is_left_out_has_its_default(runs: Runs) -> None:
    assert await runs.value("add", a=1) == 2


async def test_any_json_goes_in_and_out(runs: Runs) -> None:
    value = [None, 1.5, "ä\n", [1, {"a": []}], {"": None}]
    assert await runs.value("echo", value=value) == value


async def test_ten_megabytes_go_in_and_out(runs: Runs) -> None:
    tool = sample("echo", max_output_bytes=11 << 20)
    assert len(await runs.value(tool, value="x" * (10 << 20))) == 10 << 20


async def test_each_call_has_a_child_of_its_own(runs: Runs) -> None:
    first, second = await runs.value("pids"), await runs.value("pids")
    assert first[0] != second[0]
    assert first[1] == second[1]
    assert first[2] == first[0]


async def test_a_call_leaves_nothing_for_the_next(runs: Runs) -> None:
    assert [await runs.value("count"), await runs.value("count")] == [1, 1]


async def test_a_child_has_its_own_descriptors_alone(runs: Runs) -> None:
    assert await runs.value("descriptors") == [0, 1, 2, 100]


async def test_what_is_printed_is_no_part_of_the_answer(runs: Runs) -> None:
    assert await runs.value("chatter", lines=500) == "done"


async def test_a_module_may_say_much_when_it_is_imported(runs: Runs) -> None:
    assert await runs.value("loud_tools:add", a=1) == 2


async def test_a_module_that_has_its_children_reaped_hides_no_end_of_a_call(runs: Runs) -> None:
    fault = await runs.failure("reaping_tools:leave", code=3)
    assert fault.extras["exit_code"] == 3


async def test_tools_of_one_environment_share_a_parent(runs: Runs) -> None:
    assert await runs.value("trio_tools:under_trio", wait_s=0) == "trio.lowlevel"
    parent = await runs.parent()
    assert await runs.value("trio_tools:under_trio", wait_s=0) == "trio.lowlevel"
    assert (await runs.value("pids"))[1] == parent


async def test_another_environment_has_another_parent(runs: Runs) -> None:
    other = sample("pids", env=(("OTHER", "1"),))
    assert (await runs.value("pids"))[1] != (await runs.value(other))[1]


async def test_an_asynchronous_function_runs_under_asyncio(runs: Runs) -> None:
    assert (await runs.value("asyncio_tools:under_asyncio", wait_s=0.01)).endswith("EventLoop")


async def test_what_an_asynchronous_function_raises_is_told(runs: Runs) -> None:
    fault = await runs.failure("asyncio_tools:fail_under_asyncio")
    assert fault.extras["exception"] == "KeyError: 'lost'"


async def test_a_function_is_told_of_its_call(runs: Runs) -> None:
    said = await runs.value("tell", id="c7", agent="writer", deadline_s=5.0)
    assert (said["id"], said["agent"]) == ("c7", "writer")
    assert 4.0 < said["on"] <= said["left_s"] <= 5.0


async def test_progress_comes_as_updates(runs: Runs) -> None:
    updates: list[Update] = []
    assert await runs.value("progress", steps=3, update=updates.append) == "done"
    assert updates[-1] == Update(3, 3, "step 3")


async def test_a_thousand_reports_of_progress_are_few_updates(runs: Runs) -> None:
    updates: list[Update] = []
    assert await runs.value("progress", steps=1000, update=updates.append) == "done"
    assert updates[-1].progress == 1000
    assert len(updates) < 200


async def test_progress_that_nobody_wants_is_no_harm(runs: Runs) -> None:
    assert await runs.value("progress", steps=3) == "done"


async def test_progress_comes_while_the_function_runs(runs: Runs, tmp_path: Path) -> None:
    told = trio.Event()
    async with trio.open_nursery() as nursery:

        async def call() -> None:
            await runs.outcome("progress_and_wait", path=str(tmp_path / "pid"), update=lambda _update: told.set())

        nursery.start_soon(call)
        with trio.fail_after(10):
            await told.wait()
        nursery.cancel_scope.cancel()


async def test_progress_that_is_no_number_is_the_functions_mistake(runs: Runs) -> None:
    fault = await runs.failure("progress_wrongly")
    assert fault.detail.startswith("'sample_tools:progress_wrongly' raised TypeError: progress takes numbers")


async def test_a_call_has_its_scratch_directory_everywhere(runs: Runs, tmp_path: Path) -> None:
    path = str(tmp_path / "scratch")
    assert await runs.value("scratch", scratch=path) == [path] * 4
    assert (tmp_path / "scratch" / "note").exists()


async def test_a_call_without_a_scratch_directory_is_told(runs: Runs) -> None:
    assert "this call has no scratch directory" in (await runs.failure("scratch")).detail


async def test_fifty_calls_at_once_have_their_own_answers(runs: Runs) -> None:
    answers: dict[int, object] = {}

    async def call(number: int) -> None:
        answers[number] = await runs.value("echo", value=number)

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(call, number)
    assert answers == {number: number for number in range(50)}


async def test_an_input_that_the_types_refuse_is_invalid(runs: Runs) -> None:
    fault = await runs.fault("add", a="one")
    assert fault.code is Code.INVALID_INPUT
    assert "Expected `int`, got `str`" in fault.detail


async def test_tools_that_are_no_longer_kept_have_no_parent(runs: Runs) -> None:
    parent = await runs.parent()
    runs.warm.keep([])
    await until_gone(parent)
    assert (await runs.value("pids"))[1] != parent


async def test_an_interpreter_that_is_not_there_is_told(runs: Runs) -> None:
    tool = sample("add")
    fault = await runs.failure(type(tool)(function="a:b", interpreter="/no/python", max_output_bytes=1000), a=1)
    assert fault.detail == "cannot run 'a:b': cannot start '/no/python': No such file or directory"


async def test_the_daemon_can_be_out_of_descriptors(runs: Runs) -> None:
    await runs.value("add", a=1)
    taken: list[int] = []
    with pytest.raises(OSError, match="Too many open files"):
        taken.extend(os.dup(0) for _ in range(100_000))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            await runs.outcome("add", a=1)
    finally:
        for fd in taken:
            os.close(fd)
    assert await runs.value("add", a=1) == 2


async def test_a_fault_and_a_value_are_told_apart(runs: Runs) -> None:
    assert isinstance(await runs.outcome("fail", message="x"), Fault)
