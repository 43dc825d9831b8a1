"""One call that does not end at once, as a state machine: it ends once. Pure.

    NEW ─▶ LINED ─▶ HELD ─▶ WAITING ⇄ RUNNING ─▶ STOPPING ─▶ ENDED
                             ↑↓
                            ASKING

A call may skip any state before RUNNING, and any state may go to ENDED. It is LINED up until those before it have
ended, where its agent's calls have an order; HELD until its server has answered, WAITING for a checker that reads its
input, for hooks, for its turn at one gate after the other, and again before it is tried again; ASKING while somebody is
asked whether it may run. The caller does what `apply` returns.
"""

import math
from enum import Enum, IntEnum, StrEnum
from typing import Final

import msgspec

from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.wire.faults import Code, Fault


class CallState(Enum):
    """Where a call is."""

    NEW = "new"
    LINED = "lined"
    HELD = "held"
    ASKING = "asking"
    WAITING = "waiting"
    RUNNING = "running"
    STOPPING = "stopping"  # it was told to end, and something of it is still left
    ENDED = "ended"

    # A call asks for it a dozen times, and the one of `Enum` is written in Python.
    __hash__ = object.__hash__


class CallEvent(Enum):
    """What moves a call on."""

    LINE_UP = "line_up"
    HOLD = "hold"
    ASK = "ask"
    WAIT = "wait"
    START = "start"
    STOP = "stop"  # cancelled, or a limit has passed
    FINISH = "finish"  # nothing of it is left

    __hash__ = object.__hash__


class CallStage(StrEnum):
    """Where a call is, as `timeout` faults name it."""

    OPENING = "opening"
    QUEUE = "queue"
    APPROVAL = "approval"
    RUN = "run"


class Reason(Enum):
    """Why a running call is ended early."""

    CANCELLED = "cancelled"  # by the agent, by its end, or by its own deadline
    LIMIT = "limit"  # the tool's own limit has passed


class ToDo(Enum):
    """What a step asks of the caller."""

    NOTHING = "nothing"
    HALT = "halt"
    """Tell the tool to end it; FINISH comes when nothing of it is left."""
    END = "end"
    """Give back what it has, and answer it with the machine's `outcome`."""


class StepOrder(IntEnum):
    """The steps of a call, in the order in which it takes them; what it gives back comes in the other direction.

    Each call comes to gates in this order, and holds those that it has passed: so of two calls none ever waits for what
    the other holds. An agent process keeps its place while its calls wait in queues, so that place comes before them.
    """

    TRACE = 0  # its span begins, which ends with it
    AFTER_HOOK = 1  # on the way back alone: the last that looks at an answer
    BEFORE_HOOK = 2  # by their order in the file, as hooks after the call in the opposite one
    READ = 3  # the input is decoded and checked
    WHEN = 4  # the rules of the tables let it through
    APPROVAL = 5  # somebody is asked
    SIZE = 6  # on the way back alone: how much of the answer a model gets
    REDACT = 7  # on the way back alone: of what is stored of it too, known secrets are masked
    CACHE = 8  # the answer to an equal call, from before or of one under way
    RETRY = 9  # what comes after it is done anew where it could not be done
    REST = 10  # refused at once where a breaker is open
    OWN_PLACE = 11  # among the calls of its agent
    STATE = 12  # that its tool keeps in its session
    AGENT_PLACE = 13  # among agent processes
    QUEUE = 14  # by their order in the file
    EXCLUSIVE = 15  # by their names
    PROGRAM_PLACE = 16  # among programs
    BUDGET = 17  # one of the calls that its agent has left
    BREAKER = 18


class Waits(Enum):
    """What a step says that the call waits for."""

    WAITS = "its turn, with which `run` comes"
    ASIDE = "a task of the step's own, or an answer, with its own limit: its tool's does not count meanwhile"


WAITS: Final = Waits.WAITS
ASIDE: Final = Waits.ASIDE


_S, _E = CallState, CallEvent
# Which events take a state on to which other one; what waits is not ended by the steps between.
_STEPS: Final[dict[CallState, dict[CallEvent, CallState]]] = {
    _S.NEW: {
        _E.LINE_UP: _S.LINED,
        _E.HOLD: _S.HELD,
        _E.ASK: _S.ASKING,
        _E.WAIT: _S.WAITING,
        _E.START: _S.RUNNING,
    },
    _S.LINED: {_E.HOLD: _S.HELD, _E.ASK: _S.ASKING, _E.WAIT: _S.WAITING, _E.START: _S.RUNNING},
    _S.HELD: {_E.ASK: _S.ASKING, _E.WAIT: _S.WAITING, _E.START: _S.RUNNING},
    _S.ASKING: {_E.ASK: _S.ASKING, _E.WAIT: _S.WAITING, _E.START: _S.RUNNING},
    _S.WAITING: {_E.ASK: _S.ASKING, _E.WAIT: _S.WAITING, _E.START: _S.RUNNING},
    _S.RUNNING: {_E.WAIT: _S.WAITING},
}
_ENDING: Final = frozenset(CallState) - {_S.ENDED}
TRANSITIONS: Final[dict[tuple[CallState, CallEvent], tuple[CallState, ToDo]]] = {
    **{(state, event): (to, ToDo.NOTHING) for state, steps in _STEPS.items() for event, to in steps.items()},
    **{(state, event): (_S.ENDED, ToDo.END) for state in _ENDING for event in (_E.STOP, _E.FINISH)},
    # Only its tool ends a running call, and the first reason to end it counts.
    (_S.RUNNING, _E.STOP): (_S.STOPPING, ToDo.HALT),
    (_S.STOPPING, _E.STOP): (_S.STOPPING, ToDo.NOTHING),
    (_S.ENDED, _E.STOP): (_S.ENDED, ToDo.NOTHING),
}
STAGES: Final[dict[CallState, CallStage]] = dict.fromkeys(CallState, CallStage.QUEUE) | {
    _S.NEW: CallStage.OPENING,
    _S.HELD: CallStage.OPENING,
    _S.ASKING: CallStage.APPROVAL,
    _S.RUNNING: CallStage.RUN,
    _S.STOPPING: CallStage.RUN,
}


class CallMachine(msgspec.Struct, eq=False):
    """One call, which came at `started_at`. `outcome` is how it ends: what stopped it, else what finished it.

    It has one deadline at a time, `ends_at` in seconds of the caller's clock: while it waits, the limit of that from
    when it began to; while it runs, its tool's from its start; and always what its agent allows, `allowed_s`. It
    `is_limit` where that comes no sooner.
    """

    started_at: float
    allowed_s: float = math.inf
    state: CallState = CallState.NEW
    outcome: Outcome | None = None
    ran_at: float | None = None
    """Not set before its turn has come: what ends earlier has waited all its life."""
    ends_at: float = math.inf
    """Set by the first limit; until then nothing waits for it."""
    limit_s: float = math.inf
    is_limit: bool = False

    def apply(self, event: CallEvent, outcome: Outcome | None = None) -> ToDo:
        """Move on; STOP and FINISH bring an outcome. Raises `RuntimeError`, naming both, for an event out of place."""
        found = TRANSITIONS.get((self.state, event))
        if found is None:
            raise RuntimeError(f"call is {self.state.value} and cannot take {event.value}")
        self.state, todo = found
        if self.outcome is None:
            self.outcome = outcome
        return todo

    def hear(self, said: dict[str, object]) -> None:
        """Let the fault that stopped it tell what its tool has said since."""
        if said and isinstance(self.outcome, Fault):
            self.outcome = Fault(self.outcome.code, self.outcome.detail, {**self.outcome.extras, **said})

    def allow(self, limit_s: float, since: float) -> float:
        """The call may stay in its state for `limit_s` seconds from `since` on; when it is over."""
        if self.state is CallState.RUNNING:
            self.ran_at = since
        self.limit_s = limit_s
        limit_at, deadline = since + limit_s, self.started_at + self.allowed_s
        self.is_limit = limit_at <= deadline
        self.ends_at = limit_at if self.is_limit else deadline
        return self.ends_at

    def extend(self, limit_s: float, now: float, *, most_s: float) -> None:
        """Begin its limit anew while it runs, up to `most_s` from its start in all; `allow` has said when it ran."""
        assert self.ran_at is not None
        # Whole milliseconds, as a fault tells them.
        extended_s = math.ceil((now + limit_s - self.ran_at) * 1000) / 1000
        self.allow(min(extended_s, max(limit_s, most_s)), self.ran_at)

    @property
    def deadline(self) -> float:
        """What its agent allows."""
        return self.started_at + self.allowed_s

    def timeout(self, name: str, doing: str | None = None) -> tuple[Fault, Reason]:
        """The fault of a call of the tool `name` at `ends_at`, and its reason; `doing` is what a chain waited for."""
        limit_ms = (self.limit_s if self.is_limit else self.allowed_s) * 1000
        stage = STAGES[self.state]
        # Seconds and back: 15 digits are a double's own, 12 are free of the error of that.
        limit_ms = float(f"{limit_ms:.12g}")
        shown = int(limit_ms) if limit_ms.is_integer() else limit_ms
        detail = f"{name} was not done within {shown} ms (stage {stage})"
        extras: dict[str, object] = {"limit_ms": shown, "stage": stage.value}
        if doing is not None:
            detail = f"{detail}: it waited for {doing}"
            extras["process"] = doing
        return Fault(Code.TIMEOUT, detail, extras), Reason.LIMIT if self.is_limit else Reason.CANCELLED
