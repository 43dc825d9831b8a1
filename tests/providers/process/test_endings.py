import pytest

from tooldispatchd.calls.outcome import UnreadableError
from tooldispatchd.children.spawn import Exit
from tooldispatchd.children.tail import Tail
from tooldispatchd.providers.process.endings import failed, no_answer, too_much, unwrapped
from tooldispatchd.providers.process.limits import NO_LIMITS, Limits
from tooldispatchd.wire.faults import Code, Fault

ALL = Limits(cpu_s=2, memory=1024, processes=4, files=16, file_size=512)


def tail(stderr: bytes = b"", max_bytes: int = 100) -> Tail:
    kept = Tail(max_bytes)
    kept.add(stderr)
    return kept


def ended_in(ended: Exit, limit: str | None) -> Fault:
    return failed("cat", ended, tail(), limits=ALL, limit=limit)


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
    fault = failed("cat", Exit(signal=9), tail(), limits=NO_LIMITS, limit="memory")
    assert fault.detail == "'cat' was ended by SIGKILL: it passed its limit memory"


def test_the_end_of_stderr_is_told_with_everything() -> None:
    said = tail(b"hm\n")
    faults = [
        too_much("cat", said, max_output_bytes=8),
        failed("cat", Exit(code=1), said, limits=ALL, limit=None),
        no_answer("cat", said, UnreadableError("wrote lines", "content_bytes")),
    ]
    assert [fault.extras["stderr_tail"] for fault in faults] == ["hm\n", "hm\n", "hm\n"]
    assert [fault.extras.get("limit") for fault in faults] == ["output_bytes", None, "content_bytes"]


@pytest.mark.parametrize(
    ("stderr", "text"),
    [
        ("né".encode(), "né"),
        ("né".encode()[:-1], "n"),
        ("n😀".encode()[:-1], "n"),
        ("n😀".encode()[:-3], "n"),
        ("ééé€".encode(), "é€"),
        ("ééé€".encode() + b"\xe2\x82", "€"),
        (b"\xff ok", "\N{REPLACEMENT CHARACTER} ok"),
    ],
)
def test_stderr_is_cut_on_characters_at_both_ends(stderr: bytes, text: str) -> None:
    fault = failed("cat", Exit(code=1), tail(stderr, max_bytes=6), limits=ALL, limit=None)
    assert fault.extras["stderr_tail"] == text


@pytest.mark.parametrize(
    ("ended", "within"),
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
def test_a_wrapped_end_is_seen_through(ended: Exit, within: Exit) -> None:
    assert unwrapped(ended) == within
