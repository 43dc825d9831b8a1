"""A call within a call: what a stage of a chain asks for, or a hook of a call.

It has the limit, the end and the place among the children that it would have if an agent had made it. It takes no place
among its agent's calls: whatever it is a part of has one at a time.
"""

from typing import Self

import trio

from tooldispatchd.agent.calls.call import Call, Plan
from tooldispatchd.agent.faults import CANCELLED
from tooldispatchd.agent.session.tasktree import Task
from tooldispatchd.calls.outcome import Outcome, Update
from tooldispatchd.calls.stages import CallState, Reason


class InnerCall(Call, eq=False, kw_only=True):
    """A call within a call: what a stage of a chain asks for. Its task is a part of the outer call's."""

    outer: Call
    task: Task | None = None
    has_turn: bool = True
    news: trio.Event
    """Its turn has come, it has something to do, or it has ended."""

    @classmethod
    def of(cls, outer: Call, plan: Plan, line: bytes) -> Self:
        """Make the call of `plan` with the input of `line`."""
        return cls(
            trio.current_time(),
            context=outer.context,
            id=outer.id,
            name=plan.name,
            above=outer,
            traceparent=outer.traceparent,
            plan=plan,
            line=line,
            grace=outer.grace,
            outer=outer,
            news=trio.Event(),
        )

    async def result(self) -> Outcome:
        """How it ended; cancelled with the task that waits for it."""
        self.queued_at = trio.current_time()
        try:
            while not self.has_ended:
                if self.has_turn:
                    self.has_turn = False
                    self.advance()
                    # Send the request now: the next flush may be far off.
                    self.context.channel.flush()
                elif self.task is not None:
                    task, self.task = self.task, None
                    await task()
                else:
                    await self.news.wait()
                    self.news = trio.Event()
        finally:
            # Where the chain is ended before it.
            self.stop(CANCELLED, Reason.CANCELLED)
            if not self.has_ended:
                self.finish(CANCELLED)
        assert self.outcome is not None
        return self.outcome

    @property
    def request(self) -> Call:
        return self.outer.request

    @property
    def until(self) -> float:
        return min(self.ends_at, self.outer.until)

    @property
    def wants_updates(self) -> bool:
        return self.outer.wants_updates

    def update(self, update: Update) -> None:
        if self.state is CallState.RUNNING:
            self.outer.update(update)

    def run(self) -> None:
        self.has_turn = True
        self.news.set()

    def started(self) -> None:
        """Nobody is told of a stage."""

    def spawn(self, task: Task) -> None:
        self.task = task
        self.news.set()

    def ended(self) -> None:
        assert self.outcome is not None
        self.news.set()
        self.leave_steps(self.outcome)
