import signal

import pytest

from tests.providers.process.runs import PYTHON
from tooldispatchd.children.endings import NO_LIMITS, Limits, ended, passed_limit, unwrapped
from tooldispatchd.children.family import Family
from tooldispatchd.children.procstat import ProcessorTime, processor_time
from tooldispatchd.children.spawn import Exit
from tooldispatchd.wire.faults import Code, Fault

BOUNDS = Limits(cpu_s=2, memory=1024, processes=4, files=16, file_size=512)
ALL = Limits(cpu_s=2, memory=1 << 20, processes=4, files=16, file_size=1024)
FAILED = Exit(code=1)
IDLE = ProcessorTime(0.01, 0.01)


def passed(
    how: Exit, stderr: str = "", *, limits: Limits = ALL, cpu: ProcessorTime | None = IDLE, is_wrapped: bool = False
) -> str | None:
    return passed_limit(limits, how, stderr, cpu=cpu, is_wrapped=is_wrapped)


@pytest.mark.parametrize(
    ("how", "limit"),
    [
        (Exit(signal=signal.SIGXCPU), "cpu_s"),
        (Exit(code=128 + signal.SIGXCPU), "cpu_s"),
        (Exit(signal=signal.SIGXFSZ), "file_size"),
        (Exit(code=128 + signal.SIGXFSZ), "file_size"),
        (Exit(signal=signal.SIGKILL), None),
        (Exit(signal=signal.SIGSEGV), None),
        (Exit(code=1), None),
        (Exit(code=255), None),
    ],
)
def test_a_signal_of_its_own_says_which(how: Exit, limit: str | None) -> None:
    assert passed(how) == limit


@pytest.mark.parametrize("how", [Exit(signal=signal.SIGXCPU), Exit(signal=signal.SIGXFSZ)])
def test_a_limit_that_the_tool_does_not_have_is_never_named(how: Exit) -> None:
    assert passed(how, "MemoryError: Too many open files", limits=Limits(processes=1)) is None


@pytest.mark.parametrize("how", [Exit(signal=signal.SIGKILL), Exit(code=1), Exit(signal=signal.SIGTERM)])
def test_who_fails_after_that_much_time_has_passed_it(how: Exit) -> None:
    assert passed(how, cpu=ProcessorTime(1.9, 1.9)) == "cpu_s"


def test_who_fails_well_before_it_has_not() -> None:
    assert passed(FAILED, cpu=ProcessorTime(1.6, 1.6)) is None
    assert passed(FAILED, limits=Limits(cpu_s=60), cpu=ProcessorTime(58.0, 58.0)) is None


def test_the_time_of_children_says_nothing_of_who_merely_fails() -> None:
    assert passed(FAILED, cpu=ProcessorTime(0.5, 7.0)) is None


@pytest.mark.parametrize("how", [Exit(signal=signal.SIGKILL), Exit(code=128 + signal.SIGKILL)])
def test_a_kill_is_told_of_a_child_that_used_it_up(how: Exit) -> None:
    assert passed(how, cpu=ProcessorTime(0.5, 2.0)) == "cpu_s"


def test_the_time_of_what_is_wrapped_is_that_of_a_child() -> None:
    assert passed(FAILED, cpu=ProcessorTime(0.0, 2.0), is_wrapped=True) == "cpu_s"


def test_where_the_time_is_not_known_nothing_is_said() -> None:
    assert passed(FAILED, cpu=None) is None


@pytest.mark.parametrize(
    ("stderr", "limit"),
    [
        ("Traceback (most recent call last):\nMemoryError\n", "memory"),
        ("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n", "memory"),
        ("FATAL ERROR: Reached heap limit - JavaScript heap out of memory\n----- Native stack trace -----\n", "memory"),
        ("sort: memory exhausted\n", "memory"),
        ("make: fork: Cannot allocate memory\n", "memory"),
        ("OSError: [Errno 27] File too large\n", "file_size"),
        ("OSError: [Errno 24] Too many open files: 'x'\n", "files"),
        ("sh: 1: Cannot fork\n", "processes"),
        ("bash: fork: retry: Resource temporarily unavailable\n", "processes"),
        ("RuntimeError: can't start new thread\n", "processes"),
        ("java.lang.OutOfMemoryError: unable to create native thread\n", "processes"),
        ("no such city\n", None),
        ("", None),
    ],
)
def test_its_own_words_say_which(stderr: str, limit: str | None) -> None:
    assert passed(FAILED, stderr) == limit


def test_its_last_words_count() -> None:
    assert passed(FAILED, "Too many open files, trying again\nFile too large\n") == "file_size"
    assert passed(FAILED, "Too many open files\nFile too large\nToo many open files\n") == "files"
    assert passed(FAILED, "File too large, trying again\nToo many open files\n") == "files"


async def test_the_time_of_a_process_is_told_until_it_is_reaped(family: Family) -> None:
    script = "import time\nwhile time.process_time() < 0.2: pass"
    child = family.spawn([*PYTHON, script])
    await child.exited()
    used = processor_time(child.pid)
    await child.kill()
    assert used is not None
    assert 0.15 < used.own_s < 2
    assert processor_time(child.pid) is None


async def test_the_time_of_its_children_is_told_beside_its_own(family: Family) -> None:
    script = (
        "import os, time\nif os.fork() == 0:\n    while time.process_time() < 0.2: pass\n    os._exit(0)\nos.wait()"
    )
    child = family.spawn([*PYTHON, script])
    await child.exited()
    used = processor_time(child.pid)
    await child.kill()
    assert used is not None
    assert used.whole_s - used.own_s > 0.15


def test_what_node_says_of_memory_is_understood() -> None:
    stderr = "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap"
    assert passed_limit(Limits(memory=1), Exit(code=1), stderr, cpu=None, is_wrapped=False) == "memory"


def ended_in(how: Exit, limit: str | None) -> Fault:
    return ended("cat", how, "", limits=BOUNDS, limit=limit)


def test_a_code_is_told() -> None:
    assert ended_in(Exit(code=3), None) == Fault(Code.TOOL_FAILED, "'cat' exited with code 3", {"exit_code": 3})


def test_a_signal_is_told() -> None:
    assert ended_in(Exit(signal=11), None) == Fault(Code.TOOL_FAILED, "'cat' was ended by SIGSEGV", {"signal": 11})


@pytest.mark.parametrize(
    ("limit", "bound"),
    [
        ("cpu_s", "2 s of processor time"),
        ("memory", "1024 bytes of memory"),
        ("processes", "4 processes"),
        ("files", "16 open files"),
        ("file_size", "512 bytes in one file"),
    ],
)
def test_each_limit_has_its_words(limit: str, bound: str) -> None:
    assert ended_in(Exit(code=1), limit) == Fault(
        Code.TOOL_FAILED,
        f"'cat' exited with code 1: it passed its limit of {bound}",
        {"exit_code": 1, "limit": limit},
    )


def test_a_limit_whose_bound_is_not_known_is_named() -> None:
    fault = ended("cat", Exit(signal=9), "", limits=NO_LIMITS, limit="memory")
    assert fault.detail == "'cat' was ended by SIGKILL: it passed its limit memory"


def test_the_end_of_stderr_is_told() -> None:
    fault = ended("cat", Exit(code=1), "hm\n", limits=BOUNDS, limit=None)
    assert fault.extras == {"exit_code": 1, "stderr_tail": "hm\n"}


@pytest.mark.parametrize("name", ["no_limit", "__class__", None])
def test_what_is_no_limit_is_none(name: str | None) -> None:
    assert not BOUNDS.has(name)


@pytest.mark.parametrize(
    ("how", "within"),
    [
        (Exit(code=137), Exit(signal=9)),
        (Exit(code=192), Exit(signal=64)),
        (Exit(code=1), Exit(code=1)),
        (Exit(code=128), Exit(code=128)),
        (Exit(code=193), Exit(code=193)),
        (Exit(code=255), Exit(code=255)),
        (Exit(signal=9), Exit(signal=9)),
    ],
)
def test_a_wrapped_end_is_seen_through(how: Exit, within: Exit) -> None:
    assert unwrapped(how) == within
