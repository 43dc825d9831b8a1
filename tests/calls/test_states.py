import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.calls.memory import Holding, Memory
from tooldispatchd.calls.states import States

VALUES = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.binary(max_size=40)), max_size=60)


@pytest.fixture
def states() -> States:
    return States(Holding(Memory(1 << 20).share(0)))


def test_what_is_kept_is_there_until_the_end(states: States) -> None:
    assert states.value("a") == b"{}"
    assert states.keep("a", b'{"n":1}')
    assert (states.value("a"), states.value("b")) == (b'{"n":1}', b"{}")
    states.close()
    assert states.value("a") == b"{}"


def test_what_there_is_no_room_for_leaves_what_was_there() -> None:
    holding = Holding(Memory(100_000).share(0))
    states = States(holding)
    assert states.keep("a", b'{"n":1}')
    assert not states.keep("a", b"x" * 60_000)
    assert (states.value("a"), holding.held) == (b'{"n":1}', 7)


@given(VALUES)
def test_as_much_is_held_as_is_kept(values: list[tuple[str, bytes]]) -> None:
    holding = Holding(Memory(1 << 20).share(0))
    states = States(holding)
    for name, value in values:
        assert states.keep(name, value)
    last = dict(values)
    assert {name: states.value(name) for name in last} == last
    assert holding.held == sum(map(len, last.values()))
