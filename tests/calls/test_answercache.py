"""Answers that are kept: for their time, within the bound, on the account; and never one for another key."""

from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.examples import examples
from tooldispatchd.calls.answercache import ENTRY_BYTES, AnswerCache, CachedAnswer
from tooldispatchd.calls.memory import Holding, Memory
from tooldispatchd.calls.outcome import Answer

KIB: Final = 1024
BOUND: Final = 64 * KIB


def cache_of(max_bytes: int = BOUND, memory: Memory | None = None) -> AnswerCache:
    return AnswerCache(max_bytes, Holding((memory or Memory(100 * BOUND)).share(None)))


def kept(text: str, *, until: float = 10.0, server: str = "") -> CachedAnswer:
    return CachedAnswer(Answer(text), "t", server, 0.0, until)


def test_an_answer_is_given_until_its_time_is_over() -> None:
    cache = cache_of()
    assert cache.put(b"a", kept("one"), 0.0)
    found = cache.get(b"a", 9.9)
    assert found is not None
    assert found.answer == Answer("one")
    assert cache.get(b"a", 10.0) is None
    assert (len(cache), cache.held) == (0, 0)


def test_what_was_not_asked_for_longest_leaves_first() -> None:
    cache = cache_of()
    size = BOUND // 8 - ENTRY_BYTES
    for key in (b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"):
        assert cache.put(key, kept("x" * size), 0.0)
    assert cache.get(b"a", 1.0) is not None
    assert cache.put(b"i", kept("x" * size), 1.0)
    assert list(cache) == [b"c", b"d", b"e", b"f", b"g", b"h", b"a", b"i"]


def test_an_answer_that_would_drive_out_all_others_is_not_kept() -> None:
    cache = cache_of()
    assert cache.max_answer_bytes == BOUND // 8
    assert not cache.put(b"a", kept("x" * (BOUND // 8 + 1)), 0.0)
    assert cache.held == 0


def test_nothing_is_kept_where_the_daemon_has_no_memory_for_it() -> None:
    memory = Memory(60 * KIB)
    others = memory.share(0)
    cache = cache_of(memory=memory)
    others.add(59 * KIB)
    # So much may always be held.
    while cache.put(b"%d" % len(cache), kept("x" * KIB), 0.0):
        assert cache.held <= 16 * KIB
    others.add(-59 * KIB)
    assert cache.put(b"more", kept("x" * KIB), 0.0)


def test_the_answers_of_a_server_leave_together_and_those_under_way_belong_to_them() -> None:
    cache = cache_of()
    cache.put(b"a", kept("one", server="s"), 0.0)
    cache.put(b"b", kept("two", server="other"), 0.0)
    before = cache.era("s")
    cache.clear("s")
    assert list(cache) == [b"b"]
    assert cache.era("s") != before
    assert cache.era("other") == 0


class Caching(RuleBasedStateMachine):
    """Against a table that keeps everything; a key begins with the credential that it is of."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory(4 * BOUND)
        self.cache = cache_of(memory=self.memory)
        self.now = 0.0
        self.put: dict[bytes, CachedAnswer] = {}

    keys = st.tuples(st.sampled_from([b"alice", b"bob"]), st.integers(0, 20))

    @rule(key=keys, size=st.integers(0, BOUND // 6), lasts=st.floats(0.1, 20.0), server=st.sampled_from(["", "s"]))
    def answer(self, key: tuple[bytes, int], size: int, lasts: float, server: str) -> None:
        who, number = key
        cached = CachedAnswer(Answer(who.decode() + "x" * size), "t", server, self.now, self.now + lasts)
        if self.cache.put(b"%b%d" % (who, number), cached, self.now):
            self.put[b"%b%d" % (who, number)] = cached

    @rule(key=keys)
    def ask(self, key: tuple[bytes, int]) -> None:
        who, number = key
        found = self.cache.get(b"%b%d" % (who, number), self.now)
        if found is not None:
            assert found == self.put[b"%b%d" % (who, number)]
            assert found.until > self.now
            assert str(found.answer.content).startswith(who.decode())

    @rule(seconds=st.floats(0.0, 15.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def clear(self) -> None:
        self.cache.clear("s")
        assert all(self.put[key].server != "s" for key in self.cache)

    @invariant()
    def is_within_its_bound_and_on_the_account(self) -> None:
        assert self.cache.held == sum(self.put[key].size for key in self.cache) <= BOUND
        assert self.memory.held == self.cache.held


TestCaching = Caching.TestCase
TestCaching.settings = settings(max_examples=examples(20), stateful_step_count=30, deadline=None)
