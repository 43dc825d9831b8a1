"""Which calls of an agent have their turn, where these have an order."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.examples import examples
from tooldispatchd.calls.order import CallGroups, OrderVerdict, group_size

WAITING = 2
GROUP = 2


def test_an_order_says_how_many_calls_run_at_once() -> None:
    orders = ("sequential", "batched:7", "parallel", None)
    assert [group_size(order) for order in orders] == [1, 7, None, None]


def test_one_at_a_time_the_next_call_has_its_turn_when_the_last_has_ended() -> None:
    order: CallGroups[int] = CallGroups(1, 10)
    verdicts = [order.ask(call) for call in (1, 2, 3)]
    assert verdicts == [OrderVerdict.START, OrderVerdict.WAIT, OrderVerdict.WAIT]
    assert order.leave(2) == []
    assert order.leave(1) == [3]
    assert order.leave(3) == []
    assert order.is_idle


def test_the_next_group_has_its_turn_when_the_whole_group_has_ended() -> None:
    order: CallGroups[int] = CallGroups(2, 10)
    for call in (1, 2, 3, 4, 5):
        order.ask(call)
    assert order.leave(2) == []
    assert order.leave(1) == [3, 4]


def test_a_group_that_is_not_full_takes_the_calls_that_come_next() -> None:
    order: CallGroups[int] = CallGroups(2, 10)
    order.ask(1)
    assert order.ask(2) is OrderVerdict.START
    assert order.leave(1) == []
    # Its two places are spent, though one call of it has ended.
    assert order.ask(3) is OrderVerdict.WAIT


def test_more_calls_than_may_wait_find_no_room() -> None:
    order: CallGroups[int] = CallGroups(1, 1)
    order.ask(1)
    order.ask(2)
    assert order.ask(3) is OrderVerdict.FULL
    assert order.leave(3) == []


class Orders(RuleBasedStateMachine):
    """Against the plainest model: every call in the order it came, and the number of the group that it fell into."""

    def __init__(self) -> None:
        super().__init__()
        self.order: CallGroups[int] = CallGroups(GROUP, WAITING)
        self.begun: list[int] = []
        self.live: set[int] = set()
        self.group: list[int] = []
        self.line: list[int] = []
        self.next = 0

    def begin(self, calls: list[int]) -> None:
        assert self.begun == sorted(self.begun)
        self.begun += calls
        self.live.update(calls)

    @rule()
    def ask(self) -> None:
        self.next += 1
        verdict = self.order.ask(self.next)
        if len(self.group) < GROUP and not self.line:
            assert verdict is OrderVerdict.START
            self.group.append(self.next)
            self.begin([self.next])
        elif len(self.line) < WAITING:
            assert verdict is OrderVerdict.WAIT
            self.line.append(self.next)
        else:
            assert verdict is OrderVerdict.FULL

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(sorted(self.live)))
        self.live.remove(call)
        following = self.order.leave(call)
        if self.live:
            assert following == []
            return
        self.group, self.line = self.line[:GROUP], self.line[GROUP:]
        assert following == self.group
        self.begin(following)

    @precondition(lambda self: self.line)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.line))
        self.line.remove(call)
        assert self.order.leave(call) == []

    @rule()
    def leave_who_never_came(self) -> None:
        assert self.order.leave(-1) == []

    @invariant()
    def counts_agree(self) -> None:
        assert self.order.group == self.live
        assert len(self.live) <= GROUP
        assert list(self.order.waiting) == self.line
        assert self.order.is_idle == (not self.live)
        assert not self.line or self.live


TestOrders = Orders.TestCase
TestOrders.settings = settings(max_examples=examples(100), deadline=None)
