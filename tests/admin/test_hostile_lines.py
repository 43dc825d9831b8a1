"""Lines of administrators with anything in them; and of agents that only say that they are administrators."""

import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.admin.running import administered
from tests.agent.fakes import Agent, HeldPlan, open_runtime, small_catalog
from tooldispatchd.agent.session.administration import LEVELS
from tooldispatchd.wire.faults import Code

CHANGES = ("end", "restart", "drain", "level", "reload", "take_over")
ASKS = ("status", "sessions", "calls", "servers", "tools", "config", "metrics", "log", "stop", *CHANGES)
FIELDS = ("of", "session", "agent", "tool", "server", "call", "job", "level", "apply")
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["1", "ada", "held", "default", "log", *LEVELS]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.none(), max_size=2),
)
lines = st.builds(
    lambda ask, fields: {"__port": "admin_req", "ask": ask, **fields},
    st.sampled_from(ASKS) | values,
    st.dictionaries(st.sampled_from(FIELDS), values, max_size=4),
)
SOON_S = 20.0


async def answers_to(agent: Agent, said: list[dict[str, object]]) -> list[object]:
    """All lines that the daemon says to these, each with its place as its id, beside what it logs to a reader."""
    await agent.say(*({**line, "id": str(place)} for place, line in enumerate(said)))
    await agent.end_input()
    heard = await agent.hear_all()
    return [line for line in heard if isinstance(line, dict) and line["__port"] not in {"admin_event", "bye"}]


@given(st.lists(lines, max_size=12))
def test_each_line_of_an_administrator_has_one_answer_and_is_no_defect(said: list[dict[str, object]]) -> None:
    async def main() -> None:
        held = HeldPlan()
        with trio.fail_after(SOON_S):
            async with administered(None, held) as (runtime, agent):
                heard = await answers_to(agent, said)
                assert runtime.state.opened == {}
        ids = sorted(line["id"] for line in heard if isinstance(line, dict))
        assert ids == sorted(str(place) for place in range(len(said)))
        faults = {line["error"] for line in heard if isinstance(line, dict) and line["__port"] == "fault"}
        assert Code.INTERNAL_ERROR not in faults

    trio.run(main)


@given(st.lists(lines, min_size=1, max_size=6))
def test_who_is_no_administrator_is_told_the_same_whatever_it_asks(said: list[dict[str, object]]) -> None:
    async def main() -> None:
        with trio.fail_after(SOON_S):
            async with open_runtime(small_catalog()) as runtime:
                agent = Agent(runtime, visitor=Agent.stranger())
                heard = await answers_to(agent, said)
        told = {line["error"]: line.get("detail") for line in heard if isinstance(line, dict)}
        assert told.keys() <= {Code.NOT_ALLOWED, Code.INVALID_REQUEST}
        assert len(heard) == len(said)

    trio.run(main)
