"""Long answers of one session: what they take never passes a bound, and each is one session's own."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.examples import examples
from tooldispatchd.calls import outputs
from tooldispatchd.calls.outputs import OutputQuota, StoredOutput, StoredOutputs, tokens_in


def stored(size: int, handle: str = "out-1") -> StoredOutput:
    return StoredOutput(handle, f"/spool/{handle}", size, 1, tokens_in(size))


def test_the_oldest_are_forgotten_for_a_new_one() -> None:
    mine = StoredOutputs(OutputQuota(100), 10)
    for handle in ("a", "b"):
        assert mine.reserve(5) == []
        mine.keep(stored(5, handle))
    assert mine.reserve(4) == [stored(5, "a")]
    assert (mine.get("a"), mine.get("b"), mine.held) == (None, stored(5, "b"), 9)


def test_one_that_is_larger_than_all_has_no_room_and_nothing_is_forgotten_for_it() -> None:
    mine = StoredOutputs(OutputQuota(100), 10)
    assert mine.reserve(10) == []
    mine.keep(stored(10))
    assert mine.reserve(11) is None
    assert mine.get("out-1") == stored(10)


def test_what_others_have_is_not_forgotten_for_it() -> None:
    whole = OutputQuota(10)
    mine, theirs = StoredOutputs(whole, 10), StoredOutputs(whole, 10)
    assert theirs.reserve(8) == []
    theirs.keep(stored(8))
    assert mine.reserve(3) is None
    assert theirs.close() == [stored(8)]
    assert (mine.reserve(3), whole.held) == ([], 3)


def test_a_session_has_so_many_at_most() -> None:
    mine = StoredOutputs(OutputQuota(10**6), 10**6)
    for number in range(outputs.MAX_STORED + 1):
        forgotten = mine.reserve(1)
        mine.keep(stored(1, str(number)))
    assert forgotten == [stored(1, "0")]


class Storing(RuleBasedStateMachine):
    """Two sessions store, fail to, and end, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.whole = OutputQuota(30)
        self.sessions = [StoredOutputs(self.whole, 20), StoredOutputs(self.whole, 20)]
        self.written = 0
        self.reserved: list[tuple[int, int]] = []
        self.kept: list[set[str]] = [set(), set()]

    @rule(session=st.integers(0, 1), size=st.integers(0, 25))
    def reserve(self, session: int, size: int) -> None:
        forgotten = self.sessions[session].reserve(size)
        if forgotten is not None:
            self.kept[session] -= {each.handle for each in forgotten}
            self.reserved.append((session, size))

    @rule(is_written=st.booleans())
    def write(self, is_written: bool) -> None:
        if self.reserved:
            session, size = self.reserved.pop(0)
            if is_written:
                self.written += 1
                handle = f"out-{self.written}"
                self.sessions[session].keep(stored(size, handle))
                self.kept[session].add(handle)
            else:
                self.sessions[session].give_back(size)

    @rule(session=st.integers(0, 1))
    def end(self, session: int) -> None:
        if all(number != session for number, _ in self.reserved):
            assert {each.handle for each in self.sessions[session].close()} == self.kept[session]
            self.kept[session].clear()

    @invariant()
    def nothing_is_over_its_bound(self) -> None:
        assert all(0 <= session.held <= 20 for session in self.sessions)
        assert self.whole.held == sum(session.held for session in self.sessions) <= 30

    @invariant()
    def each_is_one_session_s_own(self) -> None:
        for session in (0, 1):
            assert all(self.sessions[session].get(handle) is not None for handle in self.kept[session])
            assert all(self.sessions[1 - session].get(handle) is None for handle in self.kept[session])


TestStoring = Storing.TestCase
TestStoring.settings = settings(max_examples=examples(30), deadline=None)
