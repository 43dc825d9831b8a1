"""What a program writes to its descriptor 3 while it runs."""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

from tests.conftest import children, open_descriptors
from tests.processes import until_gone
from tests.providers.process.direct import directly
from tests.unread import settled
from tooldispatchd.calls.outcome import Update
from tooldispatchd.children.family import Family, open_family
from tooldispatchd.providers.process.running import Command, ProgramValue, run_command
from tooldispatchd.providers.updates import INTERVAL_S, UpdateLines
from tooldispatchd.wire.faults import Code, Fault

LINE: Final = b'{"n":1}\n'
PYTHON: Final = (sys.executable, "-I", "-S", "-c")
SAY: Final = 'say() { printf \'{"__port":"tool_update",%s}\\n\' "$1" >&3; }; '


@pytest.fixture
async def family(nothing_left: None) -> AsyncIterator[Family]:
    async with open_family() as family:
        # The guardians start with the first child and their descriptors stay.
        await family.spawn(["true"]).kill()
        yield family


@contextmanager
def nothing_held(family: Family) -> Iterator[None]:
    before = open_descriptors(), children()
    yield
    assert (open_descriptors(), children()) == before
    assert len(family) == 0


class Told:
    """The updates of one call, and the first of them as an event."""

    def __init__(self) -> None:
        self.updates: list[Update] = []
        self.first = trio.Event()
        self.lines = UpdateLines(self.add)

    def add(self, update: Update) -> None:
        self.updates.append(update)
        self.first.set()

    def content(self) -> str:
        return "".join(update.content or "" for update in self.updates)


def sh(script: str, *words: str, cwd: str | None = None, max_output_bytes: int = 1 << 20) -> Command:
    return Command(("sh", "-c", SAY + script, *words), {}, cwd, max_output_bytes)


def python(script: str) -> Command:
    return Command((*PYTHON, script), {}, None, 1 << 20)


async def run(family: Family, command: Command, told: Told) -> ProgramValue | Fault:
    with nothing_held(family), trio.fail_after(20):
        return settled(
            await run_command(directly(family, command.cwd), command, LINE, updates=told.lines), ProgramValue
        )


@pytest.mark.parametrize("cwd", [None, "/"])
async def test_an_update_is_told_while_the_program_runs(family: Family, tmp_path: Path, cwd: str | None) -> None:
    told, go_on, answers = Told(), tmp_path / "go", []
    script = 'say \'"progress":2,"total":5,"message":"indexing"\'; until [ -e "$0" ]; do sleep 0.01; done; cat'

    async def call() -> None:
        answers.append(await run(family, sh(script, str(go_on), cwd=cwd), told))

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await told.first.wait()
            assert answers == []
            go_on.touch()
    assert told.updates == [Update(2.0, 5.0, "indexing")]
    assert answers == [ProgramValue({"n": 1})]


async def test_an_update_within_the_interval_is_told_when_it_is_over_though_nothing_follows(
    family: Family, tmp_path: Path
) -> None:
    told, go_on = Told(), tmp_path / "go"
    script = 'say \'"progress":1\'; sleep 0.01; say \'"progress":2\'; until [ -e "$0" ]; do sleep 0.01; done; echo 1'
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, family, sh(script, str(go_on)), told)
            while Update(2.0) not in told.updates:
                await trio.sleep(0.005)
            go_on.touch()


async def test_updates_that_lie_in_the_pipe_at_the_end_are_told(family: Family) -> None:
    told = Told()
    assert await run(
        family, sh('say \'"progress":1,"content":"a"\'; say \'"content":"b"\'; echo 7'), told
    ) == ProgramValue(7)
    assert told.content() == "ab"


async def test_a_failure_is_told_after_its_updates(family: Family) -> None:
    told = Told()
    fault = await run(family, sh("say '\"progress\":1'; exit 3"), told)
    assert fault == Fault(Code.TOOL_FAILED, "'sh' exited with code 3", {"exit_code": 3})
    assert told.updates == [Update(1.0)]


async def test_a_killed_program_leaves_nothing_but_its_updates(family: Family) -> None:
    told = Told()
    fault = await run(family, sh("say '\"progress\":1'; kill -KILL $$"), told)
    assert fault == Fault(Code.TOOL_FAILED, "'sh' was ended by SIGKILL", {"signal": 9})
    assert told.updates == [Update(1.0)]


async def test_a_program_that_writes_too_much_to_stdout_still_has_its_updates_told(family: Family) -> None:
    told = Told()
    script = 'import os; os.write(3, b\'{"__port":"tool_update","progress":1}\\n\'); os.write(1, b\'x\' * 1001)'
    command = Command((*PYTHON, script + "; os.read(3, 1)"), {}, None, 1000)
    with nothing_held(family), trio.fail_after(20):
        fault = await run_command(directly(family, command.cwd), command, LINE, updates=told.lines)
    assert isinstance(fault, Fault)
    assert fault.extras["limit"] == "output_bytes"
    assert told.updates == [Update(1.0)]


async def test_wrong_lines_are_passed_over(family: Family) -> None:
    told = Told()
    answer = await run(family, sh('echo working >&3; say \'"progress":"x"\'; say \'"progress":4\'; echo 1'), told)
    assert answer == ProgramValue(1)
    assert told.updates == [Update(4.0)]


async def test_a_line_without_end_is_passed_over(family: Family) -> None:
    told = Told()
    script = "import os; os.write(3, b'x' * (1 << 20)); print(1)"
    assert await run(family, python(script), told) == ProgramValue(1)
    assert told.updates == []


async def test_many_updates_are_told_at_the_rate_and_the_last_of_them_always(family: Family) -> None:
    told, began = Told(), trio.current_time()
    script = 'for n in range(20000): f.write(\'{"__port":"tool_update","progress":%d}\\n\' % n)'
    answer = await run(family, python(f"f = open(3, 'w')\n{script}\nf.close()\nprint(1)"), told)
    assert answer == ProgramValue(1)
    # One at the start, one at the end, and between them one in each interval.
    assert len(told.updates) <= 2 + (trio.current_time() - began) / INTERVAL_S
    assert told.updates[-1] == Update(19999.0)


async def test_content_within_its_bound_arrives_whole_and_in_order(family: Family) -> None:
    told = Told()
    script = 'f = open(3, \'w\')\nfor n in range(1000): f.write(\'{"__port":"tool_update","content":"%d,"}\\n\' % n)'
    assert await run(family, python(f"{script}\nf.close()\nprint(1)"), told) == ProgramValue(1)
    assert told.content() == "".join(f"{n}," for n in range(1000))


async def test_a_program_that_closes_its_updates_is_waited_for(family: Family) -> None:
    told = Told()
    assert await run(family, sh("say '\"progress\":1'; exec 3>&-; sleep 0.05; echo 1"), told) == ProgramValue(1)
    assert told.updates == [Update(1.0)]


async def test_a_process_that_left_the_group_with_the_pipe_holds_nobody_up(family: Family) -> None:
    told = Told()
    # `fail_after` in `run` is far under the thousand seconds for which the pipe stays open.
    script = "say '\"progress\":1'; (setsid sleep 1000 >/dev/null 2>&1 &); echo 1"
    assert await run(family, sh(script), told) == ProgramValue(1)
    assert told.updates == [Update(1.0)]


async def test_a_process_that_left_the_group_and_writes_for_ever_is_not_heard_after_the_end(family: Family) -> None:
    told = Told()
    line = '\'{"__port":"tool_update","progress":1}\''
    script = f"setsid yes {line} >&3 2>/dev/null </dev/null & echo $!"
    answer = await run(family, sh(script), told)
    count = len(told.updates)
    assert isinstance(answer, ProgramValue)
    assert isinstance(answer.value, int)
    # Nobody reads what it writes any more, which ends it.
    await until_gone(answer.value)
    assert len(told.updates) == count


@pytest.mark.parametrize(
    "script",
    ["say '\"progress\":1'; sleep 1000", "while :; do say '\"progress\":1'; done"],
    ids=["sleeps", "writes for ever"],
)
async def test_a_cancelled_program_with_updates_is_killed_and_reaped(family: Family, script: str) -> None:
    told = Told()
    with nothing_held(family), trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: run_command(directly(family), sh(script), LINE, updates=told.lines))
            await told.first.wait()
            nursery.cancel_scope.cancel()


async def test_who_fails_to_take_an_update_leaves_no_child(family: Family) -> None:
    def refuse(update: Update) -> None:
        raise ZeroDivisionError

    with nothing_held(family), pytest.raises(ZeroDivisionError), trio.fail_after(20):
        await run_command(directly(family), sh("say '\"progress\":1'; sleep 1000"), LINE, updates=UpdateLines(refuse))


async def test_a_program_that_cannot_be_started_has_no_updates(family: Family) -> None:
    told = Told()
    fault = await run(family, Command(("no-such",), {}, None, 1000), told)
    assert fault == Fault(Code.TOOL_FAILED, "cannot start 'no-such': No such file or directory", {"ran": "no"})


@pytest.mark.parametrize("cwd", [None, "/"])
async def test_the_variable_says_where_updates_go(family: Family, cwd: str | None) -> None:
    assert await run(family, sh("echo $TOOLDISPATCHD_UPDATES_FD", cwd=cwd), Told()) == ProgramValue(3)


@pytest.mark.parametrize("cwd", [None, "/"])
async def test_without_updates_there_is_neither_the_variable_nor_the_descriptor(
    family: Family, cwd: str | None
) -> None:
    script = "[ -e /proc/self/fd/3 ] && echo 1; echo ${TOOLDISPATCHD_UPDATES_FD-2}"
    with nothing_held(family), trio.fail_after(20):
        assert await run_command(directly(family, cwd), sh(script, cwd=cwd), LINE) == ProgramValue(2)


async def test_a_calls_own_variables_come_on_top_of_the_tools(family: Family) -> None:
    command = Command(("sh", "-c", 'echo "[\\"$A\\",\\"$B\\",\\"$TRACEPARENT\\"]"'), {"A": "1", "B": "2"}, None, 1000)
    with nothing_held(family), trio.fail_after(20):
        answer = await run_command(directly(family, command.cwd), command, LINE, env={"B": "3", "TRACEPARENT": "00-1"})
    assert answer == ProgramValue(["1", "3", "00-1"])
    assert command.env == {"A": "1", "B": "2"}


async def test_calls_at_once_are_told_their_own_updates(family: Family) -> None:
    told = [Told() for _ in range(8)]

    async def call(number: int) -> None:
        command = sh(f"say '\"progress\":{number}'; echo {number}")
        assert await run_command(
            directly(family, command.cwd), command, LINE, updates=told[number].lines
        ) == ProgramValue(number)

    with nothing_held(family), trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(call, number)
    assert [each.updates for each in told] == [[Update(float(number))] for number in range(8)]


async def test_a_call_with_updates_cancelled_at_any_moment_leaves_nothing(family: Family) -> None:
    told = Told()
    for step in range(40):
        with nothing_held(family), trio.move_on_after(step * 0.0001):
            await run_command(directly(family), sh("say '\"progress\":1'; echo 1"), LINE, updates=told.lines)
