"""The table of a negotiation."""

import pytest

from tooldispatchd.providers.mcp.stages import (
    DISCOVERING,
    ENDS,
    OVER_SSE,
    REMEMBERING,
    TRANSITIONS,
    NegotiationStage,
    Sign,
)

STAGES = set(NegotiationStage) - {NegotiationStage.AFRESH}


def test_every_stage_has_its_row() -> None:
    assert set(TRANSITIONS) == STAGES


def test_nothing_follows_an_end() -> None:
    assert [TRANSITIONS[stage] for stage in ENDS] == [{}, {}]


@pytest.mark.parametrize("stage", sorted(STAGES - ENDS))
def test_every_stage_can_still_lead_to_an_agreement(stage: NegotiationStage) -> None:
    reached, waiting = set(), [stage]
    while waiting:
        each = waiting.pop()
        if each not in reached:
            reached.add(each)
            waiting += [
                NegotiationStage.PROBING if next_ is NegotiationStage.AFRESH else next_
                for next_ in TRANSITIONS[each].values()
            ]
    assert NegotiationStage.AGREED in reached


@pytest.mark.parametrize("stage", sorted(STAGES - ENDS))
def test_an_outage_is_the_end_at_every_stage(stage: NegotiationStage) -> None:
    assert Sign.OUTAGE not in TRANSITIONS[stage]
    assert Sign.FOREIGN not in TRANSITIONS[stage]


def test_a_stage_waits_for_an_answer_or_for_a_link() -> None:
    linking = {stage for stage in STAGES if Sign.LINKED in TRANSITIONS[stage]}
    answered = {stage for stage in STAGES if Sign.GREETED in TRANSITIONS[stage]}
    assert linking | answered == STAGES - ENDS
    assert not linking & answered
    assert answered >= DISCOVERING | OVER_SSE | REMEMBERING
