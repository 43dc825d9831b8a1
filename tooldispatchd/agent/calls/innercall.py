"""A call within a call: what a stage of a chain asks for, or a hook of a call.

It has the limit, the end and the place among the children that it would have if an agent had made it. It takes no place
among its agent's calls: whatever it is a part of has one at a time.
"""

import trio

from tooldispatchd.agent.calls.call import Call, Plan
from tooldispatchd.agent.faults import CANCELLED
from tooldispatchd.agent.session.tasktree import Task
from tooldispatchd.calls.outcome import Outcome, Update
from tooldispatchd.calls.stages import CallState, Reason


class InnerCall(Call):
    """A call within a call: what a stage of a chain asks for. Its task is a part of the outer call's."""

    __slots__ = ("_has_turn", "_news", "_outer", "_task")

    def __init__(self, outer: Call, plan: Plan, line: bytes) -> None:
        super().__init__(outer.context, outer.id, plan.name, traceparent=outer.traceparent, above=outer)
        self.plan = plan
        self.line = line
        self.grace = outer.grace
        self._outer = outer
        self._task: Task | None = None
        self._has_turn = True
        # Its turn has come, it has something to do, or it has ended.
        self._news = trio.Event()

    async def outcome(self) -> Outcome:
        """How it ended; cancelled with the task that waits for it."""
        self.queued_at = trio.current_time()
        try:
            while not self.has_ended:
                if self._has_turn:
                    self._has_turn = False
                    self.advance()
                    # Send the request now: the next flush may be far off.
                    self.context.channel.flush()
                elif self._task is not None:
                    task, self._task = self._task, None
                    await task()
                else:
                    await self._news.wait()
                    self._news = trio.Event()
        finally:
            # Where the chain is ended before it.
            self.stop(CANCELLED, Reason.CANCELLED)
            if not self.has_ended:
                self.finish(CANCELLED)
        assert self.machine.outcome is not None
        return self.machine.outcome

    @property
    def request(self) -> Call:
        return self._outer.request

    @property
    def until(self) -> float:
        return min(self.machine.ends_at, self._outer.until)

    @property
    def wants_updates(self) -> bool:
        return self._outer.wants_updates

    def update(self, update: Update) -> None:
        if self.machine.state is CallState.RUNNING:
            self._outer.update(update)

    def run(self) -> None:
        self._has_turn = True
        self._news.set()

    def started(self) -> None:
        """Nobody is told of a stage."""

    def spawn(self, task: Task) -> None:
        self._task = task
        self._news.set()

    def ended(self) -> None:
        assert self.machine.outcome is not None
        self._news.set()
        self.leave_steps(self.machine.outcome)
