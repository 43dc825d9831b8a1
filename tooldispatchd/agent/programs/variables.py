"""The variables in which a program finds what it may want to know of its call."""

import time
from typing import Final

import trio

from tooldispatchd.agent.calls.call import Call

# The trace that its call is a part of (OpenTelemetry, "Environment Variables as Context Propagation Carriers").
TRACEPARENT: Final = "TRACEPARENT"
PREFIX: Final = "TOOLDISPATCHD_"


def variables_of(call: Call) -> dict[str, str]:
    """Those of a child that serves this call alone; what there is none of is left out.

    The id is that of the agent's own call, the tool that which the program is: within a chain it is a stage.
    """
    context = call.context
    left_s = call.until - trio.current_time()
    said = {
        "CALL_ID": call.id,
        "TOOL": call.name if call.plan is None else call.plan.name,
        "AGENT": context.agent,
        "SESSION": str(context.lineage.number),
        "PROFILE": context.profile,
        "DEADLINE": f"{time.time() + left_s:.3f}",
        "WORKSPACE": context.workspace,
    }
    # What holds a NUL, as an agent's id may, can be in no variable.
    env = {PREFIX + name: value for name, value in said.items() if value is not None and "\0" not in value}
    if call.traceparent is not None:
        env[TRACEPARENT] = call.traceparent
    return env
