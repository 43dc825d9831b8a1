"""Whatever happens to a keeper, in whatever order: each call ends once or was given up, and nothing is left."""

import random

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.examples import examples
from tests.providers.mcp.keeping import SERVER, Session
from tests.providers.mcp.scripted import ScriptedServer
from tooldispatchd.providers.mcp.answers import PendingCall
from tooldispatchd.providers.mcp.keeper import Restart
from tooldispatchd.providers.mcp.link import LinkError
from tooldispatchd.providers.mcp.remembered import ToolLists
from tooldispatchd.wire.faults import Code, Fault

STEPS = st.sampled_from(
    [
        "call",
        "call",
        "call",
        "answer",
        "cancel",
        "expire",
        "die",
        "change",
        "refuse",
        "turn",
        "turn",
        "moment",
        "minute",
    ]
)
ENDED = {Code.CONNECTION_DEAD, Code.SERVER_UNAVAILABLE}


class Story:
    """One run of the steps."""

    def __init__(self, way: ScriptedServer, session: Session) -> None:
        self._way = way
        self._session = session
        self._made: dict[str, PendingCall] = {}
        self._given_up: set[str] = set()

    async def tell(self, steps: list[str]) -> None:
        for step in steps:
            await self._take(step)
        self._session.keeper.close()
        await self._session.ended.wait()
        told = self._session.outcomes.keys()
        assert told | self._given_up == self._made.keys()
        assert not told & self._given_up
        for outcome in self._session.outcomes.values():
            assert not isinstance(outcome, Fault) or outcome.code in ENDED
        assert self._session.settled == 1
        assert all(link.is_closed for link in self._way.links)

    async def _take(self, step: str) -> None:
        keeper, link = self._session.keeper, self._way.links[-1] if self._way.links else None
        waiting = [name for name in self._made if name not in self._session.outcomes and name not in self._given_up]
        if step == "call":
            name = str(len(self._made))
            made = self._session.call(name)
            if isinstance(made, Fault):
                assert made.code in ENDED
            else:
                self._made[name] = made
        elif step in {"cancel", "expire"} and waiting:
            name = random.choice(waiting)
            self._given_up.add(name)
            if step == "cancel":
                keeper.cancel(self._made[name], "cancelled")
            else:
                keeper.expire(self._made[name])
        elif step == "answer" and link is not None and link.calls:
            link.answer("text", random.randrange(len(link.calls)))
        elif step == "die" and link is not None:
            link.die()
        elif step == "change" and link is not None:
            link.change_tools("echo", random.choice(["a", "b"]))
        elif step == "refuse":
            self._way.refusals.append(LinkError("refused"))
        elif step == "turn":
            await trio.lowlevel.checkpoint()
        elif step in {"moment", "minute"}:
            await trio.sleep(0.4 if step == "moment" else 61)


@settings(max_examples=examples(150), deadline=None)
@given(
    steps=st.lists(STEPS, max_size=30),
    is_lazy=st.booleans(),
    restart=st.sampled_from(["never", "backoff"]),
    takes_s=st.sampled_from([0.0, 0.3]),
    schedule=st.random_module(),
)
def test_each_call_ends_once_and_nothing_is_left(
    steps: list[str], *, is_lazy: bool, restart: Restart, takes_s: float, schedule: object
) -> None:
    async def main() -> None:
        lists = ToolLists()
        if is_lazy:
            before = Session(ScriptedServer("echo"), lists)
            before.keeper = before.make(SERVER, lazy=True, restart="never")
            with trio.move_on_after(1):
                await before.own()
        way = ScriptedServer("echo")
        way.takes_s = takes_s
        session = Session(way, lists)
        session.keeper = session.make(SERVER, lazy=is_lazy, restart=restart)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.own)
            await Story(way, session).tell(steps)

    trio.run(main, clock=MockClock(autojump_threshold=0))
