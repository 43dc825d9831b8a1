import pickle

import pytest
from msgspec import Raw

from tooldispatchd.client.errors import FaultError, fault_of
from tooldispatchd.wire.faults import CATEGORY, LATER, Code, Fault
from tooldispatchd.wire.messages import ContentKind, ToolResp


@pytest.mark.parametrize("code", Code)
def test_a_fault_is_retryable_exactly_when_its_code_says_later(code: Code) -> None:
    content = Fault(code, "why", {"extra": 1}).content()
    fault = fault_of(ToolResp("1", content, is_error=True, fault=True))
    assert (fault.code, fault.category, fault.detail, fault.fields["extra"]) == (code, CATEGORY[code], "why", 1)
    assert fault.retryable is (code in LATER)


@pytest.mark.parametrize(("category", "retryable"), [("unavailable", True), ("internal", False)])
def test_a_code_of_a_later_version_is_judged_by_its_category(category: str, *, retryable: bool) -> None:
    assert FaultError({"error": "brand_new", "category": category, "detail": "d"}).retryable is retryable


@pytest.mark.parametrize(
    ("told", "ran", "retryable"),
    [("no", "no", True), ("maybe", "maybe", False), ("later", "later", False), (5, None, True)],
)
def test_a_call_that_may_have_run_is_not_to_be_made_again_blindly(
    told: object, ran: str | None, *, retryable: bool
) -> None:
    fault = FaultError({"error": "draining", "category": "unavailable", "detail": "d", "ran": told})
    assert (fault.ran, fault.retryable) == (ran, retryable)


@pytest.mark.parametrize("told", [None, "soon", -1])
def test_a_time_to_wait_that_is_none_is_not_told(told: object) -> None:
    fault = FaultError({"error": "e", "category": "unavailable", "detail": "d", "retry_after_ms": told})
    assert fault.retry_after_ms is None


@pytest.mark.parametrize("content", ["", "[]", "1", '"x"', "[" * 5000])
def test_a_fault_that_cannot_be_read_is_an_internal_error(content: str) -> None:
    fault = fault_of(ToolResp("1", content, is_error=True, fault=True))
    assert (fault.code, fault.category, fault.detail, fault.retryable) == ("internal_error", "internal", content, False)


def test_a_fault_that_is_told_as_a_text_is_read_from_its_value() -> None:
    told = Fault(Code.QUEUE_FULL, "busy", {"retry_after_ms": 20})
    answer = ToolResp(
        "1", told.text(), is_error=True, fault=True, kind=ContentKind.TEXT, value=Raw(told.content().encode())
    )
    fault = fault_of(answer)
    assert (str(fault), fault.retry_after_ms, fault.retryable) == ("queue_full: busy", 20, True)


def test_a_fault_can_be_passed_between_processes() -> None:
    fault = FaultError({"error": "draining", "category": "unavailable", "detail": "d"})
    again = pickle.loads(pickle.dumps(fault))
    assert (str(again), again.retryable) == ("draining: d", True)
