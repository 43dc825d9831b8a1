"""Programs that get their input and give their answer in each mode."""

import pytest

from tests.providers.process.direct import directly
from tests.providers.process.runs import LINE, PYTHON, args, command, fed, nothing_held, run, sh
from tooldispatchd.catalog.arguments import Feed
from tooldispatchd.catalog.outputs import Output
from tooldispatchd.children.family import Family
from tooldispatchd.providers.process.running import Command, ProgramValue, run_command
from tooldispatchd.wire.faults import Code, Fault

TEXT = Feed("text")
WORDS = "import sys, json; json.dump(sys.argv[1:], sys.stdout)"
VARIABLES = (
    'import os, json; json.dump({k: v for k, v in os.environ.items() if k in ("city", "days", "A")}, open(1, "w"))'
)
STDIN = "import sys; print(len(sys.stdin.buffer.read()))"


async def test_text_goes_in_as_it_is(family: Family) -> None:
    assert await run(family, fed(command("wc", "-w"), TEXT), b"one two\nthree") == ProgramValue(3)


async def test_no_text_goes_in(family: Family) -> None:
    assert await run(family, fed(command("wc", "-c"), TEXT), b"") == ProgramValue(0)


async def test_text_comes_out_as_it_is(family: Family) -> None:
    assert await run(family, command("cat", output=Output.TEXT)) == ProgramValue('{"n":1}')


async def test_ten_megabytes_of_text_go_in_and_out(family: Family) -> None:
    cat = fed(command("cat", max_output_bytes=11 << 20, output=Output.TEXT), TEXT)
    assert await run(family, cat, b"x" * (10 << 20)) == ProgramValue("x" * (10 << 20))


async def test_no_output_is_an_empty_text_and_no_lines(family: Family) -> None:
    assert await run(family, command("true", output=Output.TEXT)) == ProgramValue("")
    assert await run(family, command("true", output=Output.LINES)) == ProgramValue([])
    assert await run(family, command("true", output=Output.JSON_LINES)) == ProgramValue([])


async def test_a_program_whose_answer_says_nothing_need_not_write_it(family: Family) -> None:
    assert await run(family, command("true", output=Output.NULL)) == ProgramValue(None)
    assert await run(family, sh("echo null", output=Output.NULL)) == ProgramValue(None)


async def test_lines_come_out_as_a_list(family: Family) -> None:
    assert await run(family, command("seq", "3", output=Output.LINES)) == ProgramValue(["1", "2", "3"])
    assert await run(family, command("seq", "3", output=Output.JSON_LINES)) == ProgramValue([1, 2, 3])


@pytest.mark.parametrize("output", [Output.TEXT, Output.LINES, Output.JSON_LINES])
async def test_what_was_written_before_a_failure_is_no_answer(family: Family, output: Output) -> None:
    assert await run(family, sh("echo 1; exit 3", output=output)) == Fault(
        Code.TOOL_FAILED, "'sh' exited with code 3", {"exit_code": 3, "stdout_tail": "1\n"}
    )


async def test_a_line_that_is_no_value_is_told_with_what_the_program_said(family: Family) -> None:
    fault = await run(family, sh("echo 1; echo hello; echo oops >&2", output=Output.JSON_LINES))
    assert fault == Fault(
        Code.TOOL_FAILED,
        "'sh' wrote a line, number 2, that is not JSON: JSON is malformed: invalid character (byte 0)",
        {"stdout_tail": "1\nhello\n", "stderr_tail": "oops\n"},
    )


async def test_fields_are_arguments_and_no_shell_sees_them(family: Family) -> None:
    python = fed(command(*PYTHON, WORDS), args("--days=${days}", "--to=${to}", "--", "${city}"))
    answer = await run(family, python, b'{"city":"$(id) `id` *\\n\\"x\\"","days":3}\n')
    assert answer == ProgramValue(["--days=3", "--", '$(id) `id` *\n"x"'])


async def test_what_takes_arguments_reads_nothing(family: Family) -> None:
    assert await run(family, fed(command(*PYTHON, STDIN), args("${n}"))) == ProgramValue(0)


async def test_fields_are_variables_and_what_takes_them_reads_nothing(family: Family) -> None:
    feed = Feed("env", variables=("city", "days"), is_record=True)
    python = Command((*PYTHON, VARIABLES), {"A": "1"}, None, 1 << 20, feed=feed)
    assert await run(family, python, b'{"city":"Rome"}\n') == ProgramValue({"city": "Rome", "A": "1"})
    assert await run(family, fed(command(*PYTHON, STDIN), feed), b'{"city":"Rome"}\n') == ProgramValue(0)


async def test_what_the_daemon_says_comes_on_top_of_fields(family: Family) -> None:
    echo = fed(sh('echo "\\"$A\\""'), Feed("env", variables=("A",), is_record=True))
    with nothing_held(family):
        assert await run_command(directly(family), echo, b'{"A":"field"}\n', env={"A": "daemon"}) == ProgramValue(
            "daemon"
        )


async def test_a_nul_starts_no_program(family: Family) -> None:
    fault = await run(family, fed(command("no-such"), args("${a}")), b'{"a":"\\u0000"}\n')
    assert isinstance(fault, Fault)
    assert fault.code is Code.INVALID_INPUT


@pytest.mark.parametrize("cwd", [None, "/"])
@pytest.mark.parametrize("feed", [args("${b}", "${a}"), Feed("env", variables=("b", "a"), is_record=True)])
async def test_what_is_too_long_for_the_kernel_is_told(family: Family, feed: Feed, cwd: str | None) -> None:
    # 32 pages are the bound on one of them (execve(2)).
    fault = await run(family, fed(command("true", cwd=cwd), feed), b'{"b":"x","a":"' + b"y" * (32 << 16) + b'"}\n')
    message = f"{32 << 16} bytes are too many for the arguments or variables of a program"
    extras: dict[str, object] = {"violations": [{"path": "/a", "message": message}], "ran": "no"}
    assert fault == Fault(Code.INVALID_INPUT, f"/a: {message}", extras)


async def test_arguments_that_are_too_long_together_are_told(family: Family) -> None:
    feed = args(*["${a}"] * 100)
    fault = await run(family, fed(command("true"), feed), b'{"a":"' + b"y" * 100_000 + b'"}\n')
    assert isinstance(fault, Fault)
    assert fault.code is Code.INVALID_INPUT
    assert fault.detail.startswith("/a: 100000 bytes are too many")


async def test_as_much_as_the_kernel_takes_arrives(family: Family) -> None:
    feed = args("${a}")
    count = 'printf "%s" "$0" | wc -c'
    assert await run(family, fed(sh(count), feed), b'{"a":"' + b"y" * 131_000 + b'"}\n') == ProgramValue(131_000)


async def test_a_program_gets_the_same_line_as_ever_in_json(family: Family) -> None:
    assert await run(family, command("cat", output=Output.TEXT), LINE) == ProgramValue('{"n":1}')
