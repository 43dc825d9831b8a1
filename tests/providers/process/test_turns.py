import sys
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.providers.process.turned import Bench, failed, open_bench, program, until_there
from tests.unread import settled
from tooldispatchd.calls.outcome import Update
from tooldispatchd.children.endings import Limits
from tooldispatchd.children.family import Family, open_family
from tooldispatchd.children.spawn import Child
from tooldispatchd.providers.process.running import ProgramValue
from tooldispatchd.providers.updates import UpdateLines
from tooldispatchd.wire.faults import Code, Fault


@pytest.fixture
async def bench(family: Family) -> AsyncIterator[Bench]:
    async with open_bench(family) as bench:
        yield bench


async def test_an_answer_before_the_end_is_an_answer(bench: Bench) -> None:
    script = "n, each = next(lines()); say(each)"
    assert [await bench.call(script) for _ in range(2)] == [ProgramValue(1), ProgramValue(1)]
    assert len(bench.pids) == 2


async def test_an_exit_during_a_call_is_told(bench: Bench) -> None:
    fault = failed(await bench.call("next(lines()); print('no bees', file=sys.stderr); sys.exit(3)"))
    assert fault.detail == f"'{sys.executable}' exited with code 3"
    assert fault.extras == {"exit_code": 3, "stderr_tail": "no bees\n"}
    assert bench.gone == bench.pids


async def test_a_signal_during_a_call_is_told(bench: Bench) -> None:
    fault = failed(await bench.call("next(lines()); os.kill(os.getpid(), signal.SIGSEGV)"))
    assert fault.detail == f"'{sys.executable}' was ended by SIGSEGV"
    assert fault.extras == {"signal": 11}


async def test_an_exit_with_half_an_answer_is_no_answer(bench: Bench) -> None:
    fault = failed(await bench.call("next(lines()); os.write(1, b'12')"))
    why = f"'{sys.executable}' exited before it had answered"
    assert fault == Fault(Code.TOOL_FAILED, why, {"stdout_tail": "12"})


async def test_the_end_of_stdout_without_an_answer_is_told(bench: Bench) -> None:
    fault = failed(await bench.call("next(lines()); os.close(1)\nwhile True: time.sleep(60)"))
    assert fault.detail == f"'{sys.executable}' closed its stdout before it had answered"
    assert bench.gone == bench.pids


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (r"os.write(1, b'1\n2\n')", "wrote more than one line for one call"),
        (r"os.write(1, b'1\n ')", "wrote more than one line for one call"),
        (r"os.write(1, b'1' * 99 + b'\n')", "was killed because it wrote more than 64 bytes to stdout"),
        (r"os.write(1, b'1' * 99)", "was killed because it wrote more than 64 bytes to stdout"),
        (r"""os.write(1, b'"\xff"\n')""", "wrote an answer that is not UTF-8"),
    ],
)
async def test_an_answer_that_cannot_be_trusted_ends_the_child(bench: Bench, script: str, why: str) -> None:
    outcome = await bench.call(f"for n, each in lines(): {script}", max_output_bytes=64)
    assert failed(outcome).detail == f"'{sys.executable}' {why}"
    assert bench.gone == bench.pids


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("'bees'", "an answer that is not JSON: "),
        ("'{'", "an answer that is not JSON: "),
        ("''", "no answer: one JSON value on stdout is expected"),
        ("'1 2'", "an answer that is more than one JSON value"),
        ("'[' * 10_000 + ']' * 10_000", "an answer that is nested too deep"),
    ],
)
async def test_a_line_that_is_no_json_value_ends_the_child(bench: Bench, answer: str, why: str) -> None:
    fault = failed(await bench.call(f"for n, each in lines(): print({answer})"))
    assert fault.detail.startswith(f"'{sys.executable}' wrote {why}")
    assert bench.gone == bench.pids


async def test_too_long_an_answer_names_the_limit(bench: Bench) -> None:
    fault = failed(await bench.call("next(lines()); os.write(1, b'1' * 65)", max_output_bytes=64))
    assert fault.extras == {"limit": "output_bytes", "stdout_tail": "1" * 65}


async def test_an_answer_as_long_as_its_bound_is_one(bench: Bench) -> None:
    outcome = await bench.call(r"for n, each in lines(): os.write(1, b'12345678\n')", max_output_bytes=8)
    assert outcome == ProgramValue(12345678)


async def test_an_answer_before_the_input_was_read_is_told(bench: Bench) -> None:
    fault = failed(await bench.call("say(1); time.sleep(60)", b'"' + b"x" * (1 << 20) + b'"'))
    assert fault.detail == f"'{sys.executable}' answered before it had read its input"


async def test_a_limit_that_the_program_speaks_of_is_named(bench: Bench) -> None:
    script = "next(lines()); sys.exit('MemoryError')"
    command = msgspec.structs.replace(program(script), limits=Limits(memory=1 << 30))
    fault = failed(settled(await bench.reused.run(bench.launch, command, b"1\n"), ProgramValue))
    assert fault.extras == {"exit_code": 1, "limit": "memory", "stderr_tail": "MemoryError\n"}


async def test_what_the_kernel_says_of_a_limit_is_asked_while_the_child_is_not_gone(bench: Bench) -> None:
    asked: list[tuple[int, list[int]]] = []

    def passed(child: Child) -> str:
        asked.append((child.pid, list(bench.gone)))
        return "processes"

    fault = failed(
        settled(await bench.reused.run(bench.launch, program("sys.exit(1)"), b"1\n", passed=passed), ProgramValue)
    )
    assert fault.extras == {"exit_code": 1, "limit": "processes"}
    assert asked == [(bench.pids[0], [])]


async def test_input_and_output_larger_than_the_pipes_pass(bench: Bench) -> None:
    text = "x" * (1 << 20)
    for _ in range(2):
        outcome = await bench.call("for n, each in lines(): say(each)", f'"{text}"'.encode(), max_output_bytes=2 << 20)
        assert outcome == ProgramValue(text)
    assert len(bench.pids) == 1


async def test_stderr_is_told_of_this_call_only(bench: Bench) -> None:
    script = "for n, each in lines(): print('call', n, file=sys.stderr); n or say(n); n and sys.exit(1)"
    assert await bench.call(script) == ProgramValue(0)
    assert failed(await bench.call(script)).extras == {"exit_code": 1, "stderr_tail": "call 1\n"}


async def test_a_child_that_floods_its_stderr_serves_on(bench: Bench) -> None:
    script = "for n, each in lines():\n  say(n)\n  for _ in range(8): os.write(2, b'x' * 65536)"
    assert [await bench.call(script) for _ in range(4)] == [
        ProgramValue(0),
        ProgramValue(1),
        ProgramValue(2),
        ProgramValue(3),
    ]


async def test_a_child_that_closes_its_stderr_serves_on(bench: Bench) -> None:
    script = "os.close(2)\nfor n, each in lines(): say(n)"
    assert [await bench.call(script) for _ in range(3)] == [ProgramValue(0), ProgramValue(1), ProgramValue(2)]


async def test_updates_belong_to_the_call_that_runs(bench: Bench, tmp_path: Path) -> None:
    script = f"""
for n, each in lines():
    os.write(3, b'{{"__port":"tool_update","content":"during %d "}}\\n' % n)
    say(n)
    os.write(3, b'{{"__port":"tool_update","content":"after %d "}}\\n' % n)
    open({str(tmp_path)!r} + '/%d' % n, 'w')
"""
    told: list[list[str]] = [[], []]
    for n, contents in enumerate(told):
        assert await bench.call(script, updates=_told_to(contents)) == ProgramValue(n)
        await until_there(tmp_path / str(n))
    # What it says after its answer may still be told, but never as the next call's.
    assert "".join(told[1]).split()[:2] == ["during", "1"]


async def test_updates_are_told_while_the_call_runs(bench: Bench, tmp_path: Path) -> None:
    script = f"""
for n, each in lines():
    for update in "ab":
        os.write(3, b'{{"__port":"tool_update","content":"%s"}}\\n' % update.encode())
        while not os.path.exists(os.path.join({str(tmp_path)!r}, update)): time.sleep(0.002)
    say(n)
"""

    def tell(update: Update) -> None:
        assert update.content is not None
        (tmp_path / update.content).touch()

    assert await bench.call(script, updates=UpdateLines(tell)) == ProgramValue(0)


def _told_to(contents: list[str]) -> UpdateLines:
    return UpdateLines(lambda update: contents.append(update.content or ""))


async def test_updates_that_nobody_wants_hold_nobody_up(bench: Bench) -> None:
    script = "for n, each in lines():\n  for _ in range(8): os.write(3, b'x' * 65536)\n  say(n)"
    assert [await bench.call(script) for _ in range(2)] == [ProgramValue(0), ProgramValue(1)]


async def test_lines_that_are_no_updates_harm_nothing(bench: Bench) -> None:
    outcome = await bench.call("for n, each in lines(): os.write(3, b'no\\n'); say(n)", updates=_told_to([]))
    assert outcome == ProgramValue(0)


@given(answer=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200), max_size=4))
@settings(max_examples=12)
async def test_a_value_is_always_the_first_line(answer: bytes, cuts: list[int]) -> None:
    pieces = [list(answer[start:end]) for start, end in pairwise([0, *sorted(cuts), len(answer)])]
    script = "for n, each in lines():\n  for piece in each: os.write(1, bytes(piece))\n  sys.exit(0)"
    # Examples would share fixtures.
    async with open_family() as family:
        await family.spawn(["true"]).kill()
        async with open_bench(family) as bench:
            outcome = await bench.call(script, msgspec.json.encode(pieces))
    assert isinstance(outcome, Fault) or outcome.value == msgspec.json.decode(answer.partition(b"\n")[0])
