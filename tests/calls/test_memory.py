"""The daemon's memory: who may hold more, and that all is given back."""

from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.calls.memory import BURST_BYTES, SMALL_BYTES, Holding, Memory
from tooldispatchd.wire.faults import Code

MIB = 1024 * 1024


def test_one_channel_may_hold_a_third() -> None:
    share = Memory(30 * MIB).share(0)
    assert share.draw(10 * MIB)
    assert not share.draw(1)
    assert share.is_full


def test_one_user_may_hold_half_and_another_still_has_room() -> None:
    memory = Memory(64 * MIB)
    kept = [memory.share(1) for _ in range(1000)]
    while sum(share.draw(64 * 1024) for share in kept):
        assert memory.held <= 32 * MIB
    assert memory.held > 31 * MIB
    assert memory.share(2).draw(10 * MIB)


def test_the_greedy_channel_is_refused_before_the_modest_one() -> None:
    memory = Memory(30 * MIB)
    greedy, modest = memory.share(0), memory.share(0)
    while greedy.draw(64 * 1024):
        pass
    assert modest.draw(3 * MIB)
    assert not greedy.draw(1)


def test_a_channel_that_holds_nothing_always_has_room_for_something_small() -> None:
    memory = Memory(SMALL_BYTES)
    memory.share(0).add(100 * MIB)
    share = memory.share(0)
    assert share.draw(SMALL_BYTES)
    assert not share.draw(1)


def test_the_fault_names_the_setting_and_its_value() -> None:
    fault = Memory(30 * MIB).share(0).fault
    assert (fault.code, fault.extras) == (Code.TOO_MANY, {"what": "buffered_bytes", "limit": 30 * MIB})


def test_a_buffer_that_may_not_grow_keeps_what_it_has() -> None:
    memory = Memory(30 * MIB)
    buffer = Holding(memory.share(0))
    assert buffer.resize(9 * MIB)
    assert not buffer.resize(11 * MIB)
    assert buffer.held == memory.held == 9 * MIB
    assert buffer.resize(0)
    assert memory.held == 0


def test_each_half_of_a_burst_that_is_given_back_is_told() -> None:
    told: list[int] = []
    memory = Memory(1024 * MIB, ebbed=lambda: told.append(memory.held))
    share = memory.share(0)
    for _ in range(8):
        share.add(BURST_BYTES)
    for _ in range(7):
        share.add(-BURST_BYTES)
    assert told == [3 * BURST_BYTES, BURST_BYTES]
    share.add(-BURST_BYTES)
    assert told == [3 * BURST_BYTES, BURST_BYTES]


def test_it_is_told_that_memory_is_short_before_anybody_is_refused() -> None:
    told: list[int] = []
    memory = Memory(1024 * MIB)
    memory.short = lambda: told.append(memory.held)
    first, second = memory.share(0), memory.share(1)
    first.add(400 * MIB)
    assert told == []
    second.add(200 * MIB)
    assert told == [600 * MIB]


def test_what_a_share_holds_moves_to_another_user_with_it() -> None:
    memory = Memory(1024 * MIB)
    spare, agent = memory.share(None), memory.share(7)
    spare.add(3 * MIB)
    spare.move(agent)
    spare.add(MIB)
    assert memory.greediest(2) == [(7, 4 * MIB)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40 * 1024 * 1024)), max_size=60))
def test_all_together_never_hold_more_than_the_limit_and_the_small_rest(draws: list[tuple[int, int]]) -> None:
    memory = Memory(64 * MIB)
    shares = [memory.share(number // 2) for number in range(4)]
    for number, size in draws:
        shares[number].draw(size)
    assert memory.held == sum(share.held for share in shares) <= 64 * MIB + 4 * SMALL_BYTES
    for share in shares:
        share.add(-share.held)
    assert memory.held == 0
