"""What fails again and again rests, and is then tried by one call."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.examples import examples
from tooldispatchd.calls.breaker import SOON_S, Breaker, BreakerState


def failing(breaker: Breaker[str], *times: float) -> list[BreakerState | None]:
    """What comes of calls that fail at these times."""
    assert all(breaker.enter(f"at {now}", now) for now in times)
    return [breaker.leave(f"at {now}", now, has_failed=True) for now in times]


def test_as_many_failures_as_it_takes_within_their_time_open_it() -> None:
    breaker: Breaker[str] = Breaker(3, 10.0, 5.0)
    assert failing(breaker, 0.0, 1.0, 10.5, 11.0) == [None, None, None, BreakerState.OPEN]
    assert not breaker.enter("a", 11.0)
    assert breaker.refuses_for_s(12.0) == 4.0


def test_a_good_call_does_not_open_it_and_says_nothing_of_the_others() -> None:
    breaker: Breaker[str] = Breaker(2, 10.0, 5.0)
    failing(breaker, 0.0)
    assert breaker.enter("a", 1.0)
    assert breaker.leave("a", 1.0, has_failed=False) is None
    assert failing(breaker, 2.0) == [BreakerState.OPEN]


def test_after_its_rest_one_call_tries_and_the_others_are_refused_until_it_has_ended() -> None:
    breaker: Breaker[str] = Breaker(1, 10.0, 5.0)
    failing(breaker, 0.0)
    assert breaker.enter("a", 5.0)
    assert not breaker.enter("b", 5.0)
    assert breaker.refuses_for_s(6.0) == SOON_S
    assert breaker.leave("a", 7.0, has_failed=False) is BreakerState.CLOSED
    assert breaker.enter("b", 7.0)


def test_where_that_one_fails_it_rests_again() -> None:
    breaker: Breaker[str] = Breaker(1, 10.0, 5.0)
    failing(breaker, 0.0)
    assert breaker.enter("a", 6.0)
    assert breaker.leave("a", 7.0, has_failed=True) is BreakerState.OPEN
    assert breaker.refuses_for_s(7.0) == 5.0


def test_where_that_one_says_nothing_the_next_one_tries() -> None:
    breaker: Breaker[str] = Breaker(1, 10.0, 5.0)
    failing(breaker, 0.0)
    assert breaker.enter("a", 6.0)
    assert breaker.leave("a", 6.5, has_failed=None) is None
    assert breaker.enter("b", 6.5)
    assert not breaker.enter("c", 6.5)


def test_what_went_through_before_it_opened_neither_closes_it_nor_has_it_rest_longer() -> None:
    breaker: Breaker[str] = Breaker(1, 10.0, 5.0)
    assert breaker.enter("slow", 0.0)
    assert breaker.enter("slower", 0.0)
    failing(breaker, 1.0)
    assert breaker.leave("slow", 3.0, has_failed=True) is None
    assert breaker.leave("slower", 3.0, has_failed=False) is None
    assert breaker.refuses_for_s(3.0) == 3.0


class Breakers(RuleBasedStateMachine):
    """Any calls with any ends: none goes through while it rests, one at a time tries, and it always comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.inside: list[int] = []
        self.next = 0
        self.failed: list[float] = []
        self.rests_until = 0.0
        self.trying: int | None = None

    @initialize(failures=st.integers(1, 3))
    def open(self, failures: int) -> None:
        self.failures = failures
        self.breaker: Breaker[int] = Breaker(failures, 4.0, 2.0)

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 3.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def enter(self) -> None:
        self.next += 1
        is_closed = self.breaker.state is BreakerState.CLOSED
        may = is_closed or (self.trying is None and self.now >= self.rests_until)
        assert self.breaker.enter(self.next, self.now) == may
        if may:
            self.inside.append(self.next)
            self.trying = self.trying if is_closed else self.next

    @precondition(lambda self: self.inside)
    @rule(data=st.data(), has_failed=st.sampled_from([True, True, False, None]))
    def leave(self, data: st.DataObject, has_failed: bool | None) -> None:
        item = data.draw(st.sampled_from(self.inside))
        self.inside.remove(item)
        before = self.breaker.state
        news = self.breaker.leave(item, self.now, has_failed=has_failed)
        if item == self.trying:
            self.trying = None
            expected = {True: BreakerState.OPEN, False: BreakerState.CLOSED, None: None}[has_failed]
        else:
            self.failed += [self.now] if has_failed and before is BreakerState.CLOSED else []
            recent = [at for at in self.failed if self.now - at <= 4.0]
            expected = BreakerState.OPEN if has_failed and len(recent) >= self.failures else None
            expected = expected if before is BreakerState.CLOSED else None
        assert news is expected
        if news is BreakerState.OPEN:
            self.failed.clear()
            self.rests_until = self.now + 2.0

    @invariant()
    def it_says_what_it_would_do(self) -> None:
        refused = self.breaker.refuses_for_s(self.now)
        assert refused is None or refused > 0
        assert (self.breaker.state is BreakerState.TRYING) == (self.trying is not None)


TestBreakers = Breakers.TestCase
TestBreakers.settings = settings(max_examples=examples(100), deadline=None)
