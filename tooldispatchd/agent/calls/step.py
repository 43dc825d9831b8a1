"""What happens to a call around its tool: the form of each step, and the two that every call takes."""

from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Raw

from tooldispatchd.agent.calls.checking import Reader
from tooldispatchd.agent.faults import queue_full
from tooldispatchd.calls.gate import GateVerdict
from tooldispatchd.calls.outcome import Outcome, Update
from tooldispatchd.calls.stages import WAITS, StepOrder, Waits
from tooldispatchd.wire.faults import Fault

if TYPE_CHECKING:
    from tooldispatchd.agent.calls.call import Call


class Step:
    """One thing that happens to a call around its tool. It belongs to a plan, and so to many calls."""

    __slots__ = ("order",)
    name = ""  # of what a call waits for in it, where there are several

    def __init__(self, order: StepOrder) -> None:
        self.order: Final = order

    def take(self, call: "Call") -> Outcome | Waits | None:
        """On the way to the tool: None where the call goes on; an outcome, which stands in the tool's place."""

    def give(self, call: "Call", outcome: Outcome) -> Outcome | Waits | None:
        """On the way back, unless the call is ended early: None where the outcome stays as it is; another one."""

    def leave(self, call: "Call", outcome: Outcome) -> None:
        """The call has ended so, or takes the step anew; called once for each time that it took it, or waited in it."""

    def update(self, update: Update) -> Update:
        """What its agent is told of how far the call is."""
        return update


class _OwnPlace(Step):
    """A place among the calls of its agent; a stage of a chain has that of its chain."""

    __slots__ = ()

    def take(self, call: "Call") -> Fault | Literal[Waits.WAITS] | None:
        if call.request is not call:
            return None
        verdict = call.context.places.enter(call)
        if verdict is GateVerdict.IN:
            return None
        return WAITS if verdict is GateVerdict.WAIT else queue_full("agent")

    def leave(self, call: "Call", _outcome: Outcome) -> None:
        if call.request is call:
            following = call.context.places.leave(call)
            if following is not None:
                call.context.starter.start(following)


class _Read(Step):
    """The input is decoded and checked: here where it is light, else by a checker."""

    __slots__ = ()

    def take(self, call: "Call") -> Fault | Waits | None:
        raw, plan = call.input, call.plan
        assert plan is not None
        if raw is not None and not plan.read.is_light(raw):
            assert isinstance(raw, Raw)
            return call.aside(partial(self._check, call, plan.read, raw), limit_s=plan.limit_s)
        return self.read_light(call) or (call.was_read() if plan.may_ask_for_job else None)

    @staticmethod
    def read_light(call: "Call") -> Fault | None:
        """Read an input that is light, unless it was read; why it is refused."""
        if call.input is None:
            return None
        assert call.plan is not None
        line = call.plan.read.line(call.input, call.dropped)
        if isinstance(line, Fault):
            return line
        call.line, call.input = line, None
        return None

    @staticmethod
    async def _check(call: "Call", read: Reader, raw: Raw) -> Fault | None:
        line = await call.context.checking.read(read, raw, call.dropped, turns=call.context.turns)
        if isinstance(line, Fault):
            return line
        call.line, call.input = line, None
        return call.was_read()


READ: Final = _Read(StepOrder.READ)
OWN_PLACE: Final = _OwnPlace(StepOrder.OWN_PLACE)
