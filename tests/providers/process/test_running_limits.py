"""Programs that pass a limit, under limits that they set themselves: the kernel does not ask who did."""

from pathlib import Path

import msgspec
import pytest

from tests.providers.process.runs import PYTHON, command, run, sh
from tooldispatchd.children.endings import Limits
from tooldispatchd.children.family import Family
from tooldispatchd.providers.process.running import ProgramValue
from tooldispatchd.wire.faults import Code, Fault

BUSY = "while :; do :; done"


async def test_a_program_that_its_processor_time_ends_is_told(family: Family) -> None:
    fault = await run(family, sh(f"ulimit -St 1; {BUSY}", limits=Limits(cpu_s=1)))
    assert fault == Fault(
        Code.TOOL_FAILED,
        "'sh' was ended by SIGXCPU: it passed its limit of 1 s of processor time",
        {"signal": 24, "limit": "cpu_s"},
    )


async def test_a_child_that_the_kernel_kills_for_its_time_is_told(family: Family) -> None:
    script = f"(trap '' XCPU; ulimit -t 1; exec sh -c '{BUSY}'); exit $?"
    fault = await run(family, sh(script, limits=Limits(cpu_s=1)))
    assert fault == Fault(
        Code.TOOL_FAILED,
        "'sh' exited with code 137: it passed its limit of 1 s of processor time",
        {"exit_code": 137, "limit": "cpu_s", "stderr_tail": "Killed\n"},
    )


async def test_a_program_that_writes_too_large_a_file_is_told(family: Family, tmp_path: Path) -> None:
    script = 'ulimit -f 1; exec head -c 100000 /dev/zero > "$0"'
    fault = await run(family, command("sh", "-c", script, str(tmp_path / "large"), limits=Limits(file_size=512)))
    assert fault == Fault(
        Code.TOOL_FAILED,
        "'sh' was ended by SIGXFSZ: it passed its limit of 512 bytes in one file",
        {"signal": 25, "limit": "file_size"},
    )


@pytest.mark.parametrize(
    ("script", "limits", "limit"),
    [
        (
            "setrlimit(RLIMIT_FSIZE, (9, 9)); open(sys.argv[1], 'w', 1).write('much too long\\n\\n')",
            Limits(file_size=9),
            "file_size",
        ),
        ("setrlimit(RLIMIT_NOFILE, (9, 9)); kept = [open('/dev/null') for _ in range(9)]", Limits(files=9), "files"),
        ("setrlimit(RLIMIT_DATA, (1 << 26, 1 << 26)); bytearray(1 << 27)", Limits(memory=1 << 26), "memory"),
    ],
)
async def test_a_program_that_is_refused_more_and_says_so_is_told(
    family: Family, tmp_path: Path, script: str, limits: Limits, limit: str
) -> None:
    python = command(*PYTHON, f"import sys\nfrom resource import *\n{script}", str(tmp_path / "x"), limits=limits)
    fault = await run(family, python)
    assert isinstance(fault, Fault)
    assert (fault.extras["exit_code"], fault.extras["limit"]) == (1, limit)


async def test_a_program_that_could_do_without_has_passed_nothing(family: Family) -> None:
    answer = await run(family, sh("echo 'Too many open files' >&2; echo 1", limits=Limits(files=9)))
    assert answer == ProgramValue(1, stderr="Too many open files\n")


async def test_what_the_kernel_says_of_the_whole_call_counts_more_than_words(family: Family) -> None:
    tool = sh("echo 'Too many open files' >&2; kill -KILL $$", limits=Limits(files=9, memory=1 << 20))
    fault = await run(family, tool, passed=lambda: "memory")
    assert isinstance(fault, Fault)
    assert fault.detail == "'sh' was ended by SIGKILL: it passed its limit of 1048576 bytes of memory"


async def test_the_kernel_is_asked_once_the_program_is_dead_and_only_of_a_failure(family: Family) -> None:
    asked: list[int] = []

    def passed() -> str | None:
        asked.append(len(family))
        return None

    assert await run(family, sh("echo 1"), passed=passed) == ProgramValue(1)
    assert asked == []
    await run(family, sh("exit 1"), passed=passed)
    assert asked == [0]


async def test_the_end_of_what_is_wrapped_is_told_as_its_own(family: Family) -> None:
    tool = msgspec.structs.replace(sh("sh -c 'kill -SEGV $$'; exit 139"), is_wrapped=True)
    fault = await run(family, tool)
    assert isinstance(fault, Fault)
    assert (fault.detail, fault.extras["signal"]) == ("'sh' was ended by SIGSEGV", 11)
    assert "exit_code" not in fault.extras
