"""How many calls, and how much of their answers, an agent may still have: in all, and in one turn of its model. Pure.

A call is taken before it runs, and given back where it never ran. An answer is spent only where there is room for all
of it, so that nothing is ever overdrawn, however many calls end together.
"""

import math
from collections.abc import Hashable, Iterator
from typing import Final

from tooldispatchd.calls.outputs import TOKEN_BYTES, tokens_in
from tooldispatchd.catalog.policyspec import BudgetSpec

# A runtime that goes back and forth between turns has some at once; the oldest begins anew.
MAX_TURNS: Final = 64
# From its first call on; a session that lasts longer keeps what it has.
WINDOW_S: Final = 3_600.0
# As many sessions as one user may have; the oldest is forgotten for a new one.
MAX_IDLE: Final = 1_000

TurnName = str | int | float


class Purse:
    """What is left of one budget."""

    __slots__ = ("_calls", "bytes", "calls", "tokens")

    def __init__(self, spec: BudgetSpec) -> None:
        self.calls: float = math.inf if spec.calls is None else spec.calls
        self._calls = self.calls
        self.bytes: float = math.inf if spec.bytes is None else spec.bytes
        self.tokens: float = math.inf if spec.tokens is None else spec.tokens

    @property
    def room(self) -> float:
        """How many bytes of answers it still has."""
        return min(self.bytes, self.tokens * TOKEN_BYTES)

    @property
    def lacks(self) -> str | None:
        """What is used up."""
        return next((name for name in ("calls", "bytes", "tokens") if getattr(self, name) < 1), None)

    def give_back_call(self) -> None:
        """One that was counted has not run."""
        # Its turn may have been forgotten, and have begun anew.
        self.calls = min(self.calls + 1, self._calls)

    def spend(self, size: int) -> None:
        """Take so many bytes of an answer, for which there must be room."""
        if size > self.room:
            raise RuntimeError(f"an answer of {size} bytes is more than the {self.room} that are left")
        self.bytes -= size
        self.tokens -= tokens_in(size)


class IdleBudgets:
    """What ended sessions have left: whoever opens the same profile again within the window goes on with that.

    So a user has as many budgets of a profile in an hour as it had sessions of it at once.
    """

    __slots__ = ("_idle",)

    def __init__(self) -> None:
        self._idle: dict[Hashable, list[tuple[str | None, AgentBudget]]] = {}

    def take(self, owner: Hashable, agent: str | None, fresh: "AgentBudget", now: float) -> "AgentBudget":
        """Take the idle budget of the agent of that name, else another of the owner's, else `fresh`."""
        left = [each for each in self._idle.pop((owner, fresh.specs), ()) if now < each[1].began_at + WINDOW_S]
        found = next((each for each in left if each[0] == agent), left[0] if left else None)
        if len(left) > 1:
            self._idle[owner, fresh.specs] = [each for each in left if each is not found]
        if found is None:
            fresh.began_at = now
            return fresh
        return found[1]

    def give_back(self, owner: Hashable, agent: str | None, budget: "AgentBudget") -> None:
        """Keep what a session that ends has left."""
        idle = self._idle.setdefault((owner, budget.specs), [])
        idle.append((agent, budget))
        del idle[:-MAX_IDLE]


class AgentBudget:
    """The budget of one session, and of each of its turns."""

    __slots__ = ("_turn_spec", "_turns", "_whole", "began_at", "specs")

    def __init__(self, whole: BudgetSpec | None, turn: BudgetSpec | None) -> None:
        self.specs: Final = (whole, turn)
        self.began_at = 0.0
        self._whole = None if whole is None else Purse(whole)
        self._turn_spec = turn
        self._turns: dict[TurnName, Purse] = {}

    def room(self, turn: TurnName | None) -> float:
        """How many bytes an answer may have."""
        return min((purse.room for purse in self._purses(turn)), default=math.inf)

    def take_call(self, turn: TurnName | None) -> tuple[str, bool] | None:
        """Count a call that is about to run; where it may not, what is used up, and whether of its turn alone."""
        purses = list(self._purses(turn))
        for purse in purses:
            if purse.lacks is not None:
                return purse.lacks, purse is not self._whole
        for purse in purses:
            purse.calls -= 1
        return None

    def give_back_call(self, turn: TurnName | None) -> None:
        """One that was taken has not run."""
        for purse in self._purses(turn):
            purse.give_back_call()

    def spend(self, turn: TurnName | None, size: int) -> None:
        """Count an answer, for which there must be room."""
        for purse in self._purses(turn):
            purse.spend(size)

    def _purses(self, turn: TurnName | None) -> Iterator[Purse]:
        if self._whole is not None:
            yield self._whole
        if self._turn_spec is not None and turn is not None:
            if turn not in self._turns:
                while len(self._turns) >= MAX_TURNS:
                    del self._turns[next(iter(self._turns))]
                self._turns[turn] = Purse(self._turn_spec)
            yield self._turns[turn]
