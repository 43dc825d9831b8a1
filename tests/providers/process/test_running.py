import json
import os
import random
import signal
import sys
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.processes import until_gone
from tests.providers.process.direct import directly
from tests.providers.process.runs import LINE, PYTHON, command, nothing_held, run, sh, until_written
from tooldispatchd.calls.outcome import Unread
from tooldispatchd.children.family import Family
from tooldispatchd.children.tail import STDERR_TAIL_BYTES
from tooldispatchd.providers.process.running import Command, ProgramValue, run_command
from tooldispatchd.wire.faults import Code, Fault


@pytest.mark.parametrize("cwd", [None, "/"])
async def test_the_value_on_stdout_is_the_answer(family: Family, cwd: str | None) -> None:
    assert await run(family, command("cat", cwd=cwd)) == ProgramValue({"n": 1})


async def test_white_space_around_the_value_is_no_harm(family: Family) -> None:
    assert await run(family, sh("printf ' \\n\\t[1, 2] \\r\\n\\n'")) == ProgramValue([1, 2])


async def test_null_is_a_value(family: Family) -> None:
    assert await run(family, sh("echo null")) == ProgramValue(None)


async def test_a_program_that_cannot_be_started_is_told(family: Family) -> None:
    assert await run(family, command("no-such")) == Fault(
        Code.TOOL_FAILED, "cannot start 'no-such': No such file or directory", {"ran": "no"}
    )


async def test_an_exit_code_other_than_0_is_told_even_with_a_value(family: Family) -> None:
    assert await run(family, sh("echo 1; exit 3")) == Fault(
        Code.TOOL_FAILED, "'sh' exited with code 3", {"exit_code": 3, "stdout_tail": "1\n"}
    )


async def test_an_end_by_a_signal_is_told(family: Family) -> None:
    assert await run(family, sh("echo 1; kill -SEGV $$")) == Fault(
        Code.TOOL_FAILED, "'sh' was ended by SIGSEGV", {"signal": 11, "stdout_tail": "1\n"}
    )


async def test_a_signal_without_a_name_is_told_by_its_number(family: Family) -> None:
    assert await run(family, sh("kill -40 $$")) == Fault(
        Code.TOOL_FAILED, "'sh' was ended by signal 40", {"signal": 40}
    )


@pytest.mark.parametrize(("script", "extras"), [("true", {}), ("echo", {"stdout_tail": "\n"})])
async def test_no_value_is_told(family: Family, script: str, extras: dict[str, object]) -> None:
    assert await run(family, sh(script)) == Fault(
        Code.TOOL_FAILED, "'sh' wrote no answer: one JSON value on stdout is expected", extras
    )


@pytest.mark.parametrize("printed", ["1 2", "1\n2", "{}{}", "[1]x"])
async def test_more_than_one_value_is_told(family: Family, printed: str) -> None:
    assert await run(family, sh(f"echo '{printed}'")) == Fault(
        Code.TOOL_FAILED, "'sh' wrote an answer that is more than one JSON value", {"stdout_tail": f"{printed}\n"}
    )


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo hello", "hello\n"),
        ("echo '{'", "{\n"),
        ("echo NaN", "NaN\n"),
        ("printf '\\377'", "\N{REPLACEMENT CHARACTER}"),
    ],
)
async def test_what_is_not_json_is_told(family: Family, script: str, told: str) -> None:
    fault = await run(family, sh(script))
    assert isinstance(fault, Fault)
    assert fault.code is Code.TOOL_FAILED
    assert fault.detail.startswith("'sh' wrote an answer that is not JSON: ")
    assert fault.extras == {"stdout_tail": told}


async def test_a_string_that_is_not_utf8_is_told(family: Family) -> None:
    assert await run(family, sh("printf '\"\\377\"'")) == Fault(
        Code.TOOL_FAILED,
        "'sh' wrote an answer that is not UTF-8",
        {"stdout_tail": '"\N{REPLACEMENT CHARACTER}"'},
    )


async def test_a_value_nested_too_deep_is_told(family: Family) -> None:
    assert await run(family, command(*PYTHON, "print('[' * 100_000 + ']' * 100_000)")) == Fault(
        Code.TOOL_FAILED,
        f"'{sys.executable}' wrote an answer that is nested too deep",
        {"stdout_tail": f"{']' * (STDERR_TAIL_BYTES - 1)}\n"},
    )


async def test_a_value_as_large_as_its_bound_is_an_answer(family: Family) -> None:
    assert await run(family, sh("printf 12345678", max_output_bytes=8)) == ProgramValue(12345678)


async def test_one_byte_more_is_too_much(family: Family) -> None:
    fault = await run(family, sh("printf 123456789", max_output_bytes=8))
    assert fault == Fault(
        Code.TOOL_FAILED,
        "'sh' was killed because it wrote more than 8 bytes to stdout",
        {"limit": "output_bytes", "stdout_tail": "123456789"},
    )


async def test_a_program_that_writes_for_ever_is_killed_at_its_bound(family: Family) -> None:
    fault = await run(family, command("yes", max_output_bytes=100_000))
    assert isinstance(fault, Fault)
    assert fault.extras == {"limit": "output_bytes", "stdout_tail": "y\n" * (STDERR_TAIL_BYTES // 2)}


async def test_an_answer_much_larger_than_a_pipe_arrives_whole(family: Family) -> None:
    line = json.dumps("x" * (10 << 20)).encode() + b"\n"
    assert await run(family, command("cat", max_output_bytes=11 << 20), line) == ProgramValue("x" * (10 << 20))


async def test_stderr_is_told_with_a_failure(family: Family) -> None:
    assert await run(family, sh("echo 'no such city' >&2; exit 1")) == Fault(
        Code.TOOL_FAILED, "'sh' exited with code 1", {"exit_code": 1, "stderr_tail": "no such city\n"}
    )


async def test_stderr_is_no_part_of_an_answer(family: Family) -> None:
    assert await run(family, sh("echo warning >&2; echo 1")) == ProgramValue(1, stderr="warning\n")


async def test_a_megabyte_on_stderr_blocks_nothing_and_its_end_is_told(family: Family) -> None:
    script = "import sys; sys.stderr.write('x' * (1 << 20) + 'the end'); sys.exit(1)"
    fault = await run(family, command(*PYTHON, script))
    assert isinstance(fault, Fault)
    assert fault.extras == {"exit_code": 1, "stderr_tail": "x" * (4096 - 7) + "the end"}


@pytest.mark.parametrize("script", ["echo 1", "exec <&-; echo 1", "sleep 0.05; echo 1"])
async def test_a_program_need_not_read_its_input(family: Family, script: str) -> None:
    line = b'"' + b"x" * (10 << 20) + b'"\n'
    assert await run(family, sh(script), line) == ProgramValue(1)


async def test_a_program_may_read_part_of_its_input(family: Family) -> None:
    line = b"7\n" + b" " * (10 << 20)
    assert await run(family, command("head", "-n", "1"), line) == ProgramValue(7)


async def test_a_program_that_closes_its_output_is_waited_for(family: Family) -> None:
    script = "echo 1; exec >&- 2>&-; sleep 0.05; exit 4"
    assert await run(family, sh(script)) == Fault(
        Code.TOOL_FAILED, "'sh' exited with code 4", {"exit_code": 4, "stdout_tail": "1\n"}
    )


async def test_what_a_program_leaves_in_its_group_is_killed(family: Family) -> None:
    answer = await run(family, sh("sleep 1000 & echo $!"))
    assert isinstance(answer, ProgramValue)
    assert isinstance(answer.value, int)
    await until_gone(answer.value)


@pytest.mark.parametrize(
    "leave",
    [
        """sh -c 'trap "" TERM INT HUP QUIT; echo $$ > "$0"; exec sleep 1000' "$0" &""",
        """(sh -c 'echo $$ > "$0"; exec sleep 1000' "$0" &)""",
        """(setsid sh -c '(sh -c "echo \\$\\$ > $0; exec sleep 1000" &)' "$0" &)""",
    ],
    ids=["ignores signals", "has lost its parent", "forked twice and left the group"],
)
async def test_what_a_program_leaves_behind_ends_soon_after_it(family: Family, tmp_path: Path, leave: str) -> None:
    async with trio.open_nursery() as services:
        services.start_soon(family.end_orphans)
        await wait_all_tasks_blocked()
        tool = command("sh", "-c", leave + '\nuntil [ -s "$0" ]; do :; done; cat "$0"', str(tmp_path / "pid"))
        with trio.fail_after(20):
            answer = await run_command(directly(family), tool, LINE)
        assert isinstance(answer, ProgramValue)
        assert isinstance(answer.value, int)
        await until_gone(answer.value)
        services.cancel_scope.cancel()


async def test_a_process_that_left_the_group_with_stdout_holds_nobody_up(family: Family) -> None:
    # `fail_after` in `run` is far under the thousand seconds for which stdout stays open.
    answer = await run(family, sh("(setsid sleep 1000 &); echo 1"))
    assert answer == ProgramValue(1)


async def test_a_process_that_left_the_group_and_writes_for_ever_holds_nobody_up(family: Family) -> None:
    answer = await run(family, sh("(setsid yes >&2 &); sleep 0.05; echo 1"))
    assert isinstance(answer, ProgramValue)
    assert answer.value == 1


@pytest.mark.parametrize(
    "script",
    [
        "echo $$ > $0; sleep 1000",
        "trap '' TERM INT HUP; echo $$ > $0; while :; do sleep 1000; done",
        "echo $$ > $0; kill -STOP $$; sleep 1000",
        "exec >&- 2>&- <&-; echo $$ > $0; sleep 1000",
        "echo $$ > $0; yes >&2",
        "sleep 1000 & echo $! > $0; wait",
    ],
    ids=["sleeps", "ignores TERM", "stops itself", "closes its pipes", "writes for ever", "has a child"],
)
async def test_a_cancelled_program_is_killed_and_reaped(family: Family, tmp_path: Path, script: str) -> None:
    started = tmp_path / "pid"
    with nothing_held(family), trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            line = b"x" * (1 << 20)
            nursery.start_soon(run_command, directly(family), command("sh", "-c", script, str(started)), line)
            await until_written(started)
            nursery.cancel_scope.cancel()
    await until_gone(int(started.read_text()))


async def test_a_call_cancelled_before_it_starts_leaves_nothing(family: Family) -> None:
    with nothing_held(family), trio.CancelScope() as scope:
        scope.cancel()
        await run_command(directly(family), command("sleep", "1000"), LINE)
    assert scope.cancelled_caught


async def test_a_call_cancelled_at_any_moment_answers_or_leaves_nothing(family: Family) -> None:
    # The moments lie over the two milliseconds or so that such a call takes; the seed makes them the same each time.
    moments = random.Random(7)
    for _ in range(60):
        with nothing_held(family), trio.move_on_after(moments.uniform(0, 0.004)):
            assert await run_command(directly(family), sh("cat; echo >&2"), LINE) == ProgramValue({"n": 1}, stderr="\n")


async def test_a_copy_of_our_descriptors_in_another_process_confuses_nobody(family: Family, tmp_path: Path) -> None:
    # As a child that is just being started holds them: closing one of ours then does not take it out of an epoll set.
    started, go_on = tmp_path / "pid", tmp_path / "go"
    script = "echo $$ > $0; until [ -e $1 ]; do sleep 0.01; done; echo 1; exec >&- 2>&-; sleep 0.05"
    answers = []

    async def call() -> None:
        argv = ("sh", "-c", script, str(started), str(go_on))
        answers.append(await run_command(directly(family), command(*argv), b'"' + b"x" * (1 << 20) + b'"\n'))

    with nothing_held(family), trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await until_written(started)
            holder = os.fork()
            if holder == 0:
                signal.pause()
                os._exit(0)
            go_on.touch()
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
    assert answers == [ProgramValue(1)]


async def test_calls_at_once_do_not_mix(family: Family) -> None:
    answers: dict[int, ProgramValue | Unread | Fault] = {}

    async def call(number: int) -> None:
        answers[number] = await run_command(directly(family), command("cat"), b"%d\n" % number)

    with nothing_held(family), trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(call, number)
    assert answers == {number: ProgramValue(number) for number in range(20)}


async def test_a_variable_given_to_the_tool_is_seen_and_the_daemons_are_not(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "secret")
    given = Command(("sh", "-c", 'echo "[\\"$GIVEN\\", \\"$API_TOKEN\\"]"'), {"GIVEN": "yes"}, None, 1000)
    assert await run(family, given) == ProgramValue(["yes", ""])


async def test_killing_all_children_ends_a_call_with_a_fault(family: Family, tmp_path: Path) -> None:
    started = tmp_path / "pid"
    results = []

    async def call() -> None:
        script = "echo $$ > $0; sleep 1000"
        results.append(await run_command(directly(family), command("sh", "-c", script, str(started)), LINE))

    with nothing_held(family), trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await until_written(started)
            family.kill_all()
    assert results == [Fault(Code.TOOL_FAILED, "'sh' was ended by SIGKILL", {"signal": signal.SIGKILL})]


async def test_output_that_comes_in_pieces_is_put_together(family: Family) -> None:
    script = "import os, time\nfor piece in (b'[1', b',2', b',3]'): os.write(1, piece); time.sleep(0.05)"
    with nothing_held(family):
        assert await run_command(directly(family), command(*PYTHON, script), LINE) == ProgramValue([1, 2, 3])
