"""Tools without a world behind them, in the three ways in which a call can wait: a slot, a connection, a task."""

from functools import partial

import msgspec
import trio
from msgspec import Raw, UnsetType

from tooldispatchd.agent.calls.call import Call, Plan
from tooldispatchd.agent.calls.checking import Reader
from tooldispatchd.agent.faults import CANCELLED
from tooldispatchd.agent.steps.gates import GateStep
from tooldispatchd.calls.gate import Gate
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.calls.stages import Reason, StepOrder
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.schemas import ACCEPT
from tooldispatchd.wire.faults import Code, Fault

DEAD = Fault(Code.CONNECTION_DEAD, "the connection is dead", {"server": "fake", "reason": "it was killed"})


class _ReadAnything(Reader):
    def __call__(self, raw: Raw | UnsetType, _dropped: list[str] | None = None, /) -> object:
        """Any input, as a tool's schema step would give it; the word `refuse me` is invalid."""
        if isinstance(raw, UnsetType):
            return None
        try:
            value = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Fault(Code.MALFORMED_LINE, "the input is not JSON that can be read")
        return Fault(Code.INVALID_INPUT, "refused", {"violations": []}) if value == "refuse me" else value


READ_ANYTHING = _ReadAnything(ACCEPT, missing=None, wrapped=False)


class WaitingPlan(Plan):
    """A tool whose calls run until a test ends them: `running` holds them in the order of their start.

    `owners` are the sessions' in-flight tables, for who wants to see that nothing stays in them.
    """

    __slots__ = ("lingers", "owners", "running", "started")

    def __init__(self, name: str, *, limit_s: float = 60.0, gate: Gate[Call] | None = None, lingers: bool = False):
        super().__init__(Offered(name=name, input_schema={}), kind="fake", limit_s=limit_s, read=READ_ANYTHING)
        if gate is not None:
            self.add(GateStep(StepOrder.PROGRAM_PLACE, "fake", lambda _context: gate))
        self.lingers = lingers
        self.running: list[Call] = []
        self.started = 0
        self.owners: set[object] = set()

    def start(self, call: Call) -> None:
        """As `Plan.start`."""
        twins = [other for other in self.running if other.request is call.request]
        assert not twins, f"{call.id!r} runs twice"
        self.started += 1
        self.owners.add(call.context.calls)
        self.running.append(call)
        self.begin(call)

    def begin(self, call: Call) -> None:
        """A slot: a call that is halted ends at once, or lingers until the test ends it."""

        def halt(reason: Reason) -> None:
            if not self.lingers:
                self.finish(call, CANCELLED)

        call.halt = halt

    def finish(self, call: Call, outcome: Outcome) -> None:
        """End a running call, as a provider does."""
        self.running.remove(call)
        call.finish(outcome)
        call.context.channel.flush()


class ConnectionPlan(WaitingPlan):
    """A tool behind one connection that all its calls share: an expired limit, or `die`, is the end of them all."""

    __slots__ = ("is_dead",)

    def __init__(self, name: str, *, limit_s: float = 60.0) -> None:
        super().__init__(name, limit_s=limit_s)
        self.is_dead = False

    def begin(self, call: Call) -> None:
        """As `WaitingPlan.begin`; on a dead connection the call has ended before it was sent."""
        if self.is_dead:
            self.running.remove(call)
            call.finish(DEAD)
            return

        def halt(reason: Reason) -> None:
            self.running.remove(call)
            if reason is Reason.LIMIT:
                self.die()
            call.finish(CANCELLED)

        call.halt = halt

    def die(self) -> None:
        """Every call in flight ends, of whichever agent."""
        self.is_dead = True
        dying, self.running = self.running, []
        for call in dying:
            # The end of one may have brought another's.
            if call.is_running:
                call.finish(DEAD)
                call.context.channel.flush()

    def revive(self) -> None:
        """Calls from now on have a connection again."""
        self.is_dead = False


class TaskPlan(WaitingPlan):
    """A tool that is a task, as a child process is: it is cancelled through its scope and takes a while to be gone."""

    __slots__ = ("_ends", "_outcomes", "teardown_s")

    def __init__(self, name: str, *, limit_s: float = 60.0, gate: Gate[Call] | None = None, teardown_s: float = 0):
        super().__init__(name, limit_s=limit_s, gate=gate)
        self.teardown_s = teardown_s
        self._ends: dict[Call, trio.Event] = {}
        self._outcomes: dict[Call, Outcome] = {}

    def begin(self, call: Call) -> None:
        """As `WaitingPlan.begin`."""
        scope = trio.CancelScope()
        self._ends[call] = trio.Event()
        call.halt = lambda _reason: scope.cancel()
        call.spawn(partial(self._work, call, scope))

    def finish(self, call: Call, outcome: Outcome) -> None:
        """Let the task end with `outcome`; unless it has been cancelled meanwhile."""
        self._outcomes.setdefault(call, outcome)
        self._ends[call].set()

    async def _work(self, call: Call, scope: trio.CancelScope) -> None:
        outcome: Outcome = CANCELLED
        try:
            with scope:
                await self._ends[call].wait()
                outcome = self._outcomes[call]
            if self.teardown_s:
                with trio.CancelScope(shield=True):
                    await trio.sleep(self.teardown_s)
        finally:
            self.running.remove(call)
            del self._ends[call]
            self._outcomes.pop(call, None)
        call.finish(outcome)


DONE = Answer("done")
