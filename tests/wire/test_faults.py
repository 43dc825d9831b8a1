"""Faults as an agent is told them."""

import msgspec
import pytest

from tooldispatchd.wire.faults import CATEGORY, RESERVED, Code, Fault
from tooldispatchd.wire.session import fault_line


def test_every_code_has_a_category() -> None:
    assert set(CATEGORY) == set(Code)


def test_a_fault_begins_with_its_three_fields_and_goes_on_with_its_extras() -> None:
    fault = Fault(Code.UNKNOWN_TOOL, "no such tool", {"source": "ecko", "did_you_mean": "echo"})
    assert fault.content() == (
        '{"error":"unknown_tool","category":"not_found","detail":"no such tool","source":"ecko","did_you_mean":"echo"}'
    )


def test_whether_a_tool_may_have_run_stands_last_and_is_what_was_said_first() -> None:
    fault = Fault(Code.TOOL_FAILED, "it failed", {"exit_code": 3})
    assert list(fault.ran(may_have=True).fields()) == ["error", "category", "detail", "exit_code", "ran"]
    assert fault.ran(may_have=False).ran(may_have=True).extras["ran"] == "no"


def test_as_a_text_a_fault_is_its_code_and_sentence_and_the_lines_that_belong_to_it() -> None:
    assert (
        Fault(Code.UNKNOWN_TOOL, "no such tool", {"source": "ecko", "ran": "no"}).text() == "unknown_tool: no such tool"
    )
    failed = Fault(Code.TOOL_FAILED, "it failed", {"exit_code": 3, "stdout_tail": "", "stderr_tail": "a\nb"})
    assert failed.text() == "tool_failed: it failed\na\nb"
    kept = Fault(Code.BUDGET_EXCEEDED, "too long", {"handle": "out-1", "bytes": 9})
    assert kept.text() == "budget_exceeded: too long\nhandle: out-1"


def test_a_fault_line_without_a_line_says_so() -> None:
    assert fault_line(Fault(Code.TOO_MANY, "full"), line=0)["line"] == 0


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_an_extra_never_stands_in_the_place_of_a_field_that_every_fault_has(name: str) -> None:
    fault = Fault(Code.DRAINING, "it ends", {name: "mine", "other": 1})
    expected = {"error": "draining", "category": "unavailable", "detail": "it ends", "other": 1}
    assert msgspec.json.decode(fault.content()) == expected
    assert fault_line(fault, line=7, line_id="1", agent="a") == {
        "__port": "fault",
        **expected,
        "line": 7,
        "id": "1",
        "agent": "a",
    }
