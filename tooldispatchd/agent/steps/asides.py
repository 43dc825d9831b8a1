"""Answers that wait for a step's task on their way back, booked on their channel for as long as they do."""

import math
from collections.abc import Awaitable, Callable

from tooldispatchd.agent.calls.call import Call
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.calls.stages import ASIDE, Waits
from tooldispatchd.wire.faults import Fault


def aside_with(call: Call, answer: Answer, run: Callable[[], Awaitable[Outcome]], *, room: int = 0) -> Fault | Waits:
    """Have the task done; or why there is no memory to hold the answer meanwhile. `room` is what was freed for it."""
    channel, size = call.context.channel, answer.size
    crowding = channel.crowding(max(0, size - room))
    if crowding is not None:
        return crowding.ran(may_have=True)

    async def run_booked() -> Outcome:
        try:
            return await run()
        finally:
            channel.share.add(-size)

    given = call.aside(run_booked, given=answer, limit_s=math.inf if call.plan is None else call.plan.limit_s)
    if given is ASIDE:
        channel.share.add(size)
    return given
