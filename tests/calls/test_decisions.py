from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.calls.decisions import MAX_REMEMBERED, Approval, Decisions, not_approved
from tooldispatchd.wire.faults import Fault

KEYS = st.tuples(st.sampled_from("ab"), st.sampled_from(["1", "2", None]))


@given(st.lists(st.tuples(KEYS, st.booleans())))
def test_the_last_verdict_on_an_input_holds_and_where_there_is_none_that_on_all_of_the_tool(
    verdicts: list[tuple[tuple[str, str | None], bool]],
) -> None:
    decisions, last = Decisions(), dict(verdicts)
    for (tool, digest), allows in verdicts:
        decided = Approval("boss", digest or "another") if allows else not_approved(tool, "no")
        decisions.remember(tool, digest, decided)
    for tool, digest in ((tool, digest) for tool in "ab" for digest in "12"):
        found, allows_it = decisions.find(tool, digest), last.get((tool, digest), last.get((tool, None)))
        if allows_it is None:
            assert found is None
        elif allows_it:
            assert found == Approval("boss", digest, remembered=True)
        else:
            assert isinstance(found, Fault)


def test_the_oldest_is_forgotten() -> None:
    decisions = Decisions()
    for number in range(MAX_REMEMBERED + 1):
        decisions.remember("t", str(number), Approval("boss", str(number)))
    assert decisions.find("t", "0") is None
    assert decisions.find("t", "1") is not None
