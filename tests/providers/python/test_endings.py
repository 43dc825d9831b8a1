"""How calls end that have no value; of none is anything left but the answer."""

import os
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.processes import until_gone
from tests.providers.python.runs import SAMPLES, Runs, limited, sample, until_written
from tooldispatchd.children.spawn import Exit
from tooldispatchd.providers.python.endings import Ending, Remains, judge
from tooldispatchd.wire.faults import Code, Fault


async def test_what_a_function_raises_is_told_with_its_traceback(runs: Runs) -> None:
    fault = await runs.failure("fail", message="no such city")
    assert fault.detail == "'sample_tools:fail' raised ValueError: no such city"
    assert fault.extras["exception"] == "ValueError: no such city"
    tail = str(fault.extras["stderr_tail"])
    assert tail.startswith("printed before\nTraceback (most recent call last):\n")
    assert tail.endswith("ValueError: no such city\n")
    assert "forked/python/calling.py" not in tail


async def test_nothing_that_a_function_raises_is_lost(runs: Runs) -> None:
    runs.warm.keep([sample("fail_oddly"), sample("leave_politely")])
    assert (await runs.failure("fail_oddly")).extras["exception"] == "OddError"
    assert (await runs.failure("leave_politely", code=3)).extras["exception"] == "SystemExit: 3"


async def test_what_a_function_raises_is_cut_where_it_is_long(runs: Runs) -> None:
    fault = await runs.failure("fail", message="ä" * 100_000)
    assert len(fault.detail) < 2_100
    assert len(str(fault.extras["stderr_tail"]).encode()) <= 8_192


async def test_an_exit_of_its_own_is_told_with_its_code_and_never_a_success(runs: Runs) -> None:
    fault = await runs.failure("leave", code=3)
    assert fault.detail == "'sample_tools:leave' ended with exit code 3 instead of returning"
    assert fault.extras["exit_code"] == 3
    assert (await runs.failure("leave", code=0)).extras["exit_code"] == 0


async def test_a_signal_is_told_with_what_was_printed(runs: Runs) -> None:
    fault = await runs.failure("die", signum=int(signal.SIGTERM))
    assert fault.detail == "'sample_tools:die' was ended by SIGTERM"
    assert fault.extras == {"signal": 15, "stderr_tail": "about to die\n"}


async def test_a_crash_is_told(runs: Runs) -> None:
    assert (await runs.failure("crash")).extras["signal"] == signal.SIGSEGV


async def test_a_result_that_is_not_of_the_type_is_invalid(runs: Runs) -> None:
    runs.warm.keep([sample("unencodable"), sample("wrong_type")])
    for name in ("unencodable", "wrong_type"):
        fault = await runs.fault(name)
        assert fault.code is Code.INVALID_OUTPUT
        assert "the result" in fault.detail


async def test_a_result_over_its_bound_is_told(runs: Runs) -> None:
    tool = sample("large", max_output_bytes=102)
    assert await runs.value(tool, size=100) == "x" * 100
    for size in (101, 10_000_000):
        fault = await runs.failure(tool, size=size)
        assert fault.detail == "'sample_tools:large' returned more than 102 bytes of JSON"
        assert fault.extras["limit"] == "output_bytes"


async def test_nonsense_in_the_channel_is_no_answer(runs: Runs) -> None:
    fault = await runs.failure("write_nonsense")
    assert fault.detail == "what came of 'sample_tools:write_nonsense' is no answer: no frame begins with 123"


async def test_half_an_answer_is_none(runs: Runs) -> None:
    fault = await runs.failure("write_half")
    assert fault.detail == "'sample_tools:write_half' ended with exit code 0 in the midst of its answer"


async def test_a_function_that_closes_its_channel_has_no_answer(runs: Runs) -> None:
    fault = await runs.failure("close_channel")
    assert fault.extras["exit_code"] == 70
    assert "Bad file descriptor" in str(fault.extras["stderr_tail"])


async def test_a_copy_that_the_function_forked_cannot_answer(runs: Runs) -> None:
    pid = await runs.value("fork_and_return")
    await until_gone(pid)


async def test_what_a_function_leaves_in_its_group_is_killed(runs: Runs, tmp_path: Path) -> None:
    assert await runs.value("leave_grandchild", path=str(tmp_path / "pid")) == "left"
    await until_gone(await until_written(tmp_path / "pid"))


async def test_a_process_that_holds_the_pipes_holds_up_nothing(runs: Runs, tmp_path: Path) -> None:
    assert await runs.value("hold_pipes", path=str(tmp_path / "pid")) == "held"
    await until_gone(await until_written(tmp_path / "pid"))


async def test_a_copy_in_a_session_of_its_own_ends_soon(runs: Runs, tmp_path: Path) -> None:
    assert await runs.value("escape", path=str(tmp_path / "pid")) == "escaped"
    await until_gone(await until_written(tmp_path / "pid"))


async def test_a_module_that_is_not_there_is_told(runs: Runs) -> None:
    fault = await runs.failure("no_such_tools:add", a=1)
    assert fault.detail == "cannot load 'no_such_tools:add': FunctionError: there is no module no_such_tools"


async def test_a_module_with_threads_is_told_and_the_daemon_does_not_hang(runs: Runs) -> None:
    fault = await runs.failure("threaded_tools:add", a=1)
    assert "importing 'threaded_tools' started a thread" in fault.detail


async def test_a_module_that_ends_the_parent_is_told_with_its_words(runs: Runs) -> None:
    fault = await runs.failure("leaving_tools:add", a=1)
    assert fault.detail.startswith("cannot run 'leaving_tools:add': its warm parent did not start: ")
    assert "no licence found" in fault.detail


async def test_an_import_that_failed_is_tried_again(runs: Runs, tmp_path: Path) -> None:
    tool = sample("broken_tools:add", env=(("REPAIRED", str(tmp_path / "repaired")),))
    fault = await runs.failure(tool, a=1)
    assert fault.detail.endswith("RuntimeError: not yet repaired")
    assert "broken_tools.py" in str(fault.extras["stderr_tail"])
    (tmp_path / "repaired").touch()
    assert await runs.value(tool, a=1) == 2


async def test_a_broken_module_is_no_harm_to_the_others(runs: Runs, tmp_path: Path) -> None:
    env = (("REPAIRED", str(tmp_path / "repaired")),)
    runs.warm.keep(tools := [sample("broken_tools:add", env=env), sample("add", env=env)])
    assert (await runs.failure(tools[0], a=1)).detail.startswith("cannot load")
    assert await runs.value(tools[1], a=1) == 2


@pytest.mark.parametrize(
    ("name", "limit", "amount", "arguments"),
    [
        ("allocate", "memory", 200 << 20, {"size": 1 << 30}),
        ("open_many", "files", 32, {"count": 100}),
        ("spin", "cpu_s", 1, {}),
    ],
)
async def test_the_limit_that_was_passed_is_named(
    runs: Runs, name: str, limit: str, amount: int, arguments: dict[str, object]
) -> None:
    fault = await runs.failure(limited(name, **{limit: amount}), **arguments)
    assert fault.extras["limit"] == limit


async def test_a_child_that_will_not_hear_of_its_time_is_named_too(runs: Runs) -> None:
    fault = await runs.failure(limited("spin_deaf", cpu_s=1))
    assert (fault.extras["limit"], fault.extras["signal"]) == ("cpu_s", signal.SIGKILL)


async def test_a_file_over_its_limit_is_named(runs: Runs, tmp_path: Path) -> None:
    fault = await runs.failure(limited("write_file", file_size=4096), path=str(tmp_path / "file"), size=5000)
    assert fault.extras["limit"] == "file_size"


async def test_a_limit_that_the_tool_has_not_is_never_named(runs: Runs) -> None:
    fault = await runs.failure(limited("cannot_fork", files=64))
    assert "limit" not in fault.extras


async def test_a_crash_for_want_of_memory_is_named(runs: Runs) -> None:
    fault = await runs.failure(limited("crash_for_memory", memory=1 << 30))
    assert (fault.extras["limit"], fault.extras["signal"]) == ("memory", signal.SIGABRT)


async def test_a_memory_error_in_a_nursery_is_named(runs: Runs) -> None:
    fault = await runs.failure(limited("trio_tools:fail_in_a_nursery", memory=1 << 30))
    assert fault.extras["limit"] == "memory"


async def test_a_policy_that_cannot_be_enforced_is_told(runs: Runs) -> None:
    fault = await runs.failure(limited("add", write=("/no/such/place",)), a=1)
    assert fault.detail.startswith("cannot confine 'sample_tools:add': ")


async def test_a_restricted_function_can_do_no_more_than_it_may(runs: Runs, tmp_path: Path) -> None:
    allowed, denied = tmp_path / "allowed", tmp_path / "denied"
    allowed.mkdir()
    tool = limited("write_file", write=(str(allowed),), network=False)
    assert await runs.value(tool, path=str(allowed / "file"), size=3) == 3
    fault = await runs.failure(tool, path=str(denied), size=3)
    assert "Error: [Errno" in str(fault.extras["exception"])
    assert not denied.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another one")
async def test_a_parent_has_become_who_its_tools_run_as(runs: Runs) -> None:
    # Another user may not be able to read this interpreter; another group of root's can.
    assert await runs.value(limited("who", gid=65534)) == [0, 65534, []]


def test_a_value_that_is_no_json_is_a_fault() -> None:
    outcome = judge(sample("add"), Ending(value=b"{"), Remains(Exit(code=0)))
    assert isinstance(outcome, Fault)
    assert outcome.code is Code.TOOL_FAILED


def test_a_signal_without_a_name_is_told_by_its_number() -> None:
    outcome = judge(sample("add"), Ending(), Remains(Exit(signal=40)))
    assert isinstance(outcome, Fault)
    assert outcome.detail == "'sample_tools:add' was ended by signal 40"


def test_a_file_limit_is_named_by_its_signal() -> None:
    outcome = judge(limited("add", file_size=1), Ending(), Remains(Exit(signal=signal.SIGXFSZ)))
    assert isinstance(outcome, Fault)
    assert outcome.extras["limit"] == "file_size"


async def test_two_tools_of_one_parent_have_their_own_policies(runs: Runs, tmp_path: Path) -> None:
    tools = [limited("write_file", write=(str(tmp_path / name),)) for name in ("a", "b")]
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    runs.warm.keep(tools)
    assert await runs.value(tools[0], path=str(tmp_path / "a" / "file"), size=1) == 1
    assert await runs.value(tools[1], path=str(tmp_path / "b" / "file"), size=1) == 1
    assert "Error: [Errno" in str((await runs.failure(tools[0], path=str(tmp_path / "b" / "x"), size=1)).extras)


async def test_a_restricted_function_can_still_import_and_use_its_scratch(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    tool = limited("import_late", read=(), network=False)
    assert await runs.value(tool, scratch=str(tmp_path / "scratch"), module="wave") == str(tmp_path / "scratch")


@pytest.mark.parametrize("resident", [False, True])
async def test_what_lies_beside_the_module_of_a_restricted_function_is_code_to_it_alone(
    runs: Runs, tmp_path: Path, *, resident: bool
) -> None:
    source = Path(SAMPLES, "sample_tools.py").read_text()
    (tmp_path / "late").mkdir()
    files = {"shut_tools.py": source, "sibling.py": "", "late/__init__.py": "from late import part", "late/part.py": ""}
    for name, text in {**files, "daemon.toml": "token", "gone.py": ""}.items():
        (tmp_path / name).write_text(text)
    tool = replace(limited("shut_tools:load_late", read=(), network=False), path=(str(tmp_path),), resident=resident)
    reader = replace(tool, function="shut_tools:read_file")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    runs.warm.keep([tool, reader])
    for module in ("sibling", "late.part"):
        assert await runs.value(tool, scratch=str(scratch), module=module) == module
    # What has been taken away meanwhile, and a directory that has changed, end no call.
    (tmp_path / "gone.py").unlink()
    assert await runs.value(reader, scratch=str(scratch), path=str(tmp_path / "sibling.py")) == ""
    for secret in ("daemon.toml", "."):
        fault = await runs.failure(reader, scratch=str(scratch), path=str(tmp_path / secret))
        assert str(fault.extras["exception"]).startswith("PermissionError")


async def test_a_call_enters_its_cgroup(runs: Runs, tmp_path: Path) -> None:
    # A file stands in for the kernel's: what is written there is who is to be moved, and 0 means the writer.
    (tmp_path / "cgroup.procs").touch()
    assert await runs.value("add", leaf=str(tmp_path), a=1) == 2
    assert (tmp_path / "cgroup.procs").read_text() == "0"
