from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.calls.decisions import MAX_REMEMBERED, Approval, Decisions, not_approved
from tooldispatchd.wire.faults import Fault

KEYS = st.tuples(st.sampled_from("ab"), st.sampled_from("12"))


@given(st.lists(st.tuples(KEYS, st.booleans())))
def test_the_last_verdict_on_an_input_of_a_tool_is_the_one_that_is_found(
    verdicts: list[tuple[tuple[str, str], bool]],
) -> None:
    decisions, last = Decisions(), dict(verdicts)
    for (tool, digest), allows in verdicts:
        decisions.remember(tool, digest, Approval("boss", digest) if allows else not_approved(tool, "no"))
    for tool, digest in ((tool, digest) for tool in "ab" for digest in "12"):
        found = decisions.find(tool, digest)
        if (tool, digest) not in last:
            assert found is None
        elif last[tool, digest]:
            assert found == Approval("boss", digest, remembered=True)
        else:
            assert isinstance(found, Fault)


def test_a_verdict_on_all_of_a_tool_holds_where_none_is_on_the_input() -> None:
    decisions = Decisions()
    decisions.remember("t", "1", not_approved("t", "no"))
    decisions.remember("t", None, Approval("boss", "2"))
    assert isinstance(decisions.find("t", "1"), Fault)
    assert decisions.find("t", "3") == Approval("boss", "3", remembered=True)
    assert decisions.find("u", "3") is None


def test_the_oldest_is_forgotten() -> None:
    decisions = Decisions()
    for number in range(MAX_REMEMBERED + 1):
        decisions.remember("t", str(number), Approval("boss", str(number)))
    assert decisions.find("t", "0") is None
    assert decisions.find("t", "1") is not None
